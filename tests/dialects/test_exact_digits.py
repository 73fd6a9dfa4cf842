"""Numbers keep their digits on the way through every dialect (2**53 + 1 is the first that a float cannot hold)."""

from __future__ import annotations

import pytest

from pegboard import PURE, Toolkit, tool
from pegboard.dialects import dialect
from tests.ledger import owes


@tool(effects=PURE)
async def take(n: int) -> str:
    """Take a number."""
    return str(n)


KIT = Toolkit([take])
REPLIES = {
    "openai_chat": '{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":'
    '{"name":"take","arguments":"{\\"n\\": 9007199254740993.0}"}}]}}]}',
    "anthropic": '{"content":[{"type":"tool_use","id":"1","name":"take","input":{"n":9007199254740993.0}}]}',
    "gemini": '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"take","args":{"n":9007199254740993.0}}}]}}]}',
    "text": '<tool_call>{"name": "take", "arguments": {"n": 9007199254740993.0}}</tool_call>',
    "xml": "<tool_call><name>take</name><params><n>9007199254740993.0</n></params></tool_call>",
}  # fmt: skip


@owes("args-33")
@pytest.mark.parametrize("name", REPLIES)
def test_a_whole_number_keeps_its_digits_in_every_dialect(name: str) -> None:
    (call,) = dialect(name).decode(REPLIES[name], KIT)
    found = take.signature.decode(call.arguments).arguments

    assert found["n"] == 2**53 + 1
