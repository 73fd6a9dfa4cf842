"""A number's digits go from a model's text to a function, whatever the dialect."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pegboard.compat.artifactflow import parse_tool_calls
from pegboard.core.content import ToolCall
from pegboard.core.effects import PURE
from pegboard.core.schema.numerals import Numeral
from pegboard.core.tool import tool
from pegboard.core.tool_search import CALL, with_tool_search
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import dialect
from pegboard.dialects.wire import call_of, to_json
from pegboard.runtime.shorten import shorten_call

DIGITS = "12345678901234567890.123456789"


@tool(effects=PURE)
async def pay(amount: Decimal, note: str = "") -> str:
    """Pay an amount."""
    return f"{amount} {note}"


KIT = Toolkit([pay])


def amount_of(call: ToolCall) -> Decimal:
    return pay.signature.decode(call.arguments).arguments["amount"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", '<tool_call>{"name": "pay", "arguments": {"amount": %s}}</tool_call>'),
        ("text", "<tool_call>{'name': 'pay', 'arguments': {'amount': %s,}}</tool_call>"),
        ("text", "<tool_call>pay(amount=%s)</tool_call>"),
        ("xml", "<pay><amount>%s</amount></pay>"),
    ],
)
def test_in_a_models_text(name: str, text: str) -> None:
    told: Any = dialect(name)

    (call,) = told.decode(text % DIGITS, KIT)

    assert amount_of(call) == Decimal(DIGITS)
    # What goes back as history says the same.
    again = told.encode(AssistantMessage(content=(ToolCall("1", call.name, call.arguments),)))
    assert DIGITS in json.dumps(again)


def test_in_a_stream_of_pieces_of_json() -> None:
    stream = dialect("anthropic").stream(KIT)
    block: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "pay", "input": {}}
    pieces: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"amount": 123456'}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": f"{DIGITS[6:]}}}"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]  # fmt: skip
    for piece in pieces:
        stream.feed(piece)

    (call,) = stream.finish().content

    assert isinstance(call, ToolCall)
    assert amount_of(call) == Decimal(DIGITS)


def test_inside_a_call_of_a_deferred_tool() -> None:
    kit = with_tool_search(KIT, beyond=0, keep=("search_*",))

    call = kit.unwrap_call(ToolCall("1", CALL, f'{{"name": "pay", "arguments": {{"amount": {DIGITS}}}}}'))  # type: ignore[attr-defined]

    assert amount_of(call) == Decimal(DIGITS)


def test_in_a_call_that_was_shortened() -> None:
    call = ToolCall("1", "pay", f'{{"amount": {DIGITS}, "note": "{"n" * 500}"}}')

    assert amount_of(shorten_call(call, 100)) == Decimal(DIGITS)


def test_in_json_that_is_written_again() -> None:
    value = {"é": [Numeral(DIGITS), 1.5, float("nan")], "a": "\ud800"}

    assert to_json(value) == f'{{"é":[{DIGITS},1.5,null],"a":"\ufffd"}}'
    assert call_of("1", "pay", {"amount": Numeral(DIGITS)}).arguments == f'{{"amount":{DIGITS}}}'
    assert parse_tool_calls(
        "<tool_call><name>pay</name><params><amount>0.1234567890123456789</amount></params></tool_call>"
    )[0].params == {"amount": 0.1234567890123456789}
