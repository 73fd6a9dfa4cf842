"""Streams as servers send them and no document shows: nothing that was said is lost, no call is mixed with another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegboard.core.transcript import AssistantMessage, ResultsMessage
from pegboard.dialects import dialect
from pegboard.dialects.protocol import TextChunk
from tests.ledger import owes

Call = tuple[str | None, str, Any]
Row = tuple[list[dict[str, Any]], str, list[Call]]


def collected(name: str, chunks: list[dict[str, Any]]) -> tuple[AssistantMessage, str]:
    """The message, and the text as it was forwarded."""
    reader = dialect(name).stream(None)
    said = [d.text for chunk in chunks for d in reader.feed(chunk) if isinstance(d, TextChunk)]
    return reader.finish(), "".join(said)


def calls_of(message: AssistantMessage) -> list[Call]:
    return [(c.id, c.name, value(c.arguments)) for c in message.calls]


def value(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def delta(more: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": more, **choice}]}


def piece(text: Any, *, name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"arguments": text} if name is None else {"name": name, "arguments": text}
    return delta({"tool_calls": [{**more, "function": function}]})


A, B = {"path": "a"}, {"path": "b"}
CHAT: dict[str, Row] = {
    "two choices, one a chunk": (
        [delta({"content": "He"}), delta({"content": "No"}, index=1), delta({"content": "y"}), delta({"content": "!"}, index=1)],
        "Hey", [],
    ),
    "two choices in one chunk, the other first": (
        [{"choices": [{"index": 1, "delta": {"content": "a"}}, {"index": 0, "delta": {"content": "b"}}]}, delta({"content": "c"}, index=1)],
        "ac", [],
    ),
    "content in parts": (
        [delta({"content": [{"type": "text", "text": "He"}]}), delta({"content": [{"type": "text", "text": "y"}, {"type": "x"}, 3]})],
        "Hey", [],
    ),
    "one index for two whole calls, no ids": (
        [piece('{"path": "a"}', name="read", index=0), piece('{"path": "b"}', name="read", index=0)],
        "", [(None, "read", A), (None, "read", B)],
    ),
    "one index for two calls by other names, in pieces": (
        [piece('{"pa', name="read", index=0), piece('th": "a"}', index=0), piece('{"path": "b"}', name="look", index=0)],
        "", [(None, "read", A), (None, "look", B)],
    ),
    "no index and no ids": (
        [piece('{"path": "a"}', name="read"), piece('{"path": ', name="read"), piece('"b"}')],
        "", [(None, "read", A), (None, "read", B)],
    ),
    "a new id for each piece": (
        [piece('{"pa', name="read", index=0, id="x1"), piece('th": ', index=0, id="x2"), piece('"a"}', index=0, id="x3")],
        "", [("x1", "read", A)],
    ),
    "a new id for each piece, the name with each": (
        [piece('{"pa', name="read", index=0, id="x1"), piece('th": "a"}', name="read", index=0, id="x2")],
        "", [("x1", "read", A)],
    ),
    "a new id for each piece, no index": (
        [piece('{"pa', name="read", id="x1"), piece('th": "a"}', id="x2")],
        "", [("x1", "read", A)],
    ),
    "a second call by its id alone": (
        [piece('{"path": "a"}', name="read", id="x1"), piece('{"path": "b"}', name="read", id="x2"), piece(" ", id="x1")],
        "", [("x1", "read", A), ("x2", "read", B)],
    ),
    "the id comes late": (
        [piece("", name="read", index=0), piece('{"path": "a"}', index=0, id="x1")],
        "", [("x1", "read", A)],
    ),
    "the id comes late and there is no index": (
        [piece("", name="read"), piece('{"path": "a"}', name="look", id="x1")],
        "", [(None, "read", ""), ("x1", "look", A)],
    ),
    "whole calls under one index and their own ids": (
        [piece('{"path": "a"}', name="read", index=0, id="x1"), piece('{"path": "b"}', name="read", index=0, id="x2"),
         piece(" ", index=0, id="x1")],
        "", [("x1", "read", A), ("x2", "read", B)],
    ),
    "one id for several calls": (
        [piece('{"path": "a"}', name="read", index=0, id="x"), piece('{"path": ', name="read", index=1, id="x"), piece('"b"}', index=1)],
        "", [("x", "read", A), ("x", "read", B)],
    ),
    "the name with each piece": (
        [piece('{"pa', name="read", index=0, id="x"), piece('th": {}', name="read", index=0), piece("}", name="read", index=0), piece("\n", name="read", index=0)],
        "", [("x", "read", {"path": {}})],
    ),
    "the name in pieces": (
        [piece("", name="re", index=0, id="x"), piece("", name="ad", index=0), piece('{"path": "a"}', index=0)],
        "", [("x", "read", A)],
    ),
    "gaps and another order of the index": (
        [piece('{"path": ', name="read", index=7, id="x"), piece('{"path": "b"}', name="look", index=2, id="y"), piece('"a"}', index=7)],
        "", [("x", "read", A), ("y", "look", B)],
    ),
    "arguments as an object": ([piece({"path": "a"}, name="read", index=0, id="x")], "", [("x", "read", A)]),
    "the form of before there were several calls": (
        [delta({"function_call": {"name": "read", "arguments": ""}}), delta({"function_call": {"arguments": '{"path":'}}),
         delta({"function_call": {"arguments": ' "a"}'}})],
        "", [(None, "read", A)],
    ),
    "text and a refusal": ([delta({"content": "Well, "}), delta({"refusal": "no."})], "Well, no.", []),
    "a brace at the end of what is not whole yet": (
        [piece('{"a": {}', name="read", index=0), piece('x": 1}', name="read", index=0)],
        "", [(None, "read", '{"a": {}x": 1}')],
    ),
}  # fmt: skip


@owes("K-49", "args-21")
@pytest.mark.parametrize("row", CHAT.values(), ids=list(CHAT))
def test_chat_completions_in_pieces(row: Row) -> None:
    chunks, text, calls = row
    message, said = collected("openai-chat", chunks)

    assert (message.text, said) == (text, text)
    assert calls_of(message) == calls


def begun(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def went_on(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def ended(reason: str | None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}


def use(id: str, name: str = "read", sent: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": sent or {}}


TEXT = {"type": "text", "text": ""}
MESSAGES: dict[str, Row] = {
    "one index for everything": (
        [begun(0, TEXT), went_on(0, "text_delta", text="Hey"), begun(0, use("x")), went_on(0, "input_json_delta", partial_json='{"path": '),
         went_on(0, "input_json_delta", partial_json='"a"}'), begun(0, use("y")), went_on(0, "input_json_delta", partial_json='{"path": "b"}'),
         ended("tool_use")],
        "Hey", [("x", "read", A), ("y", "read", B)],
    ),
    "text that nobody began": (
        [went_on(0, "text_delta", text="He"), went_on(0, "text_delta", text="y"), went_on(1, "input_json_delta", partial_json="{}"), ended("end_turn")],
        "Hey", [],
    ),
    "the reason, and then none": ([begun(0, use("x", sent=A)), ended("tool_use"), ended(None)], "", [("x", "read", A)]),
    "gaps, and pieces in turns": (
        [begun(5, use("y")), begun(2, use("x")), went_on(5, "input_json_delta", partial_json='{"path": '),
         went_on(2, "input_json_delta", partial_json='{"path": "a"}'), went_on(5, "input_json_delta", partial_json='"b"}'), ended("tool_use")],
        "", [("x", "read", A), ("y", "read", B)],
    ),
}  # fmt: skip


@owes("K-49")
@pytest.mark.parametrize("row", MESSAGES.values(), ids=list(MESSAGES))
def test_messages_in_pieces(row: Row) -> None:
    chunks, text, calls = row
    message, said = collected("anthropic", chunks)

    assert (message.text, said) == (text, text)
    assert calls_of(message) == calls
    assert message.stop == ("tools" if calls else "end")


@owes("K-49", "args-18", "args-33")
@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('{"path": "a", "path": "b"}', None),
        ('{"path": "a", "path": "a"}', A),
        ('{"n": {"path": 1, "path": 2}}', None),
        ('{"n": 1e999}', None),
        ('{"n": -1e999}', None),
        ('{"n": NaN}', None),
        ('{"n": 1.5}', {"n": 1.5}),
        ('""', None),
        ('"a.txt"', None),
        ("[]", None),
        ("5", None),
        ("{" * 3, None),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, None),
    ],
    ids=lambda v: str(v)[:30],
)
def test_arguments_that_reading_would_change_stay_the_text_that_was_sent(sent: str, kept: Any) -> None:
    message, _ = collected(
        "anthropic", [begun(0, use("x")), went_on(0, "input_json_delta", partial_json=sent), ended("tool_use")]
    )  # fmt: skip

    assert message.calls[0].arguments == (sent if kept is None else kept)


def test_thinking_that_nobody_began_is_kept_as_such() -> None:
    message, said = collected(
        "anthropic", [went_on(0, "thinking_delta", thinking="hm"), begun(1, TEXT), went_on(1, "text_delta", text="Hey")]
    )  # fmt: skip

    assert (message.text, said) == ("Hey", "Hey")
    assert len(message.content) == 2


def r_said(text: str, kind: str = "output_text", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text, **more}


def r_item(kind: str, item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "item": item, **more}


def r_call(id: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "read", "arguments": arguments}


EMPTY = {"type": "response.completed", "response": {"status": "completed", "output": [], "model": "m"}}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "Hey"}]}
RESPONSES: dict[str, Row] = {
    "the last event has no output": ([r_said("He"), r_said("y"), EMPTY], "Hey", []),
    "its items were told": (
        [r_said("Hey", output_index=0), r_item("done", SAID, output_index=0), r_item("added", r_call("x", ""), output_index=1),
         {"type": "response.function_call_arguments.delta", "delta": '{"path": "a"}', "output_index": 1},
         r_item("done", r_call("x", '{"path": "a"}'), output_index=1), EMPTY],
        "Hey", [("x", "read", A)],
    ),
    "a call without pieces": ([r_item("done", r_call("x", '{"path": "a"}'), output_index=0), EMPTY], "", [("x", "read", A)]),
    "text under the number of something else": (
        [r_item("done", {"type": "reasoning", "id": "rs", "summary": []}, output_index=0), r_said("Hey"), EMPTY], "Hey", [],
    ),
    "an item that says nothing yet": ([r_item("added", {"type": "message", "content": []}), r_said("Hey"), EMPTY], "Hey", []),
    "an empty one": ([r_item("added", {"type": "message", "content": []}), EMPTY], "", []),
}  # fmt: skip


@owes("K-49")
@pytest.mark.parametrize("row", RESPONSES.values(), ids=list(RESPONSES))
def test_responses_in_pieces(row: Row) -> None:
    chunks, text, calls = row
    message, said = collected("openai-responses", chunks)

    assert (message.text, said) == (text, text)
    assert calls_of(message) == calls
    assert message.stop == ("tools" if calls else "end")


def test_a_refusal_whose_last_event_has_no_output_is_one() -> None:
    message, said = collected("openai-responses", [r_said("I cannot.", "refusal"), EMPTY])

    assert (message.text, said, message.stop) == ("I cannot.", "I cannot.", "refusal")


@owes("K-49")
def test_of_several_gemini_candidates_the_first_is_read() -> None:
    def candidate(text: str, index: int, **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"text": text}]}, "index": index, **more}]}

    message, said = collected(
        "gemini", [candidate("He", 0), candidate("No", 1, finishReason="MAX_TOKENS"), candidate("y", 0, finishReason="STOP")]
    )  # fmt: skip

    assert (message.text, said, message.stop) == ("Hey", "Hey", "end")


def test_nothing_of_it_is_lost_on_the_way_back() -> None:
    message, _ = collected("openai-chat", CHAT["no index and no ids"][0])

    assert isinstance(message, AssistantMessage) and not isinstance(message, ResultsMessage)
    wire = dialect("openai-chat").encode(message)
    assert [c["function"]["arguments"] for c in wire[0]["tool_calls"]] == ['{"path": "a"}', '{"path": "b"}']
