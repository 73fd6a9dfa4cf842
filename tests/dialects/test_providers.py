"""openai-responses, anthropic, gemini and mcp: calls in, results back, streams like the whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import mark, raises

from pegboard.core.content import Audio, File, Image, Text, ToolCall
from pegboard.core.errors import ModelError, NotFound
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Opaque, ResultsMessage, Thinking, UserMessage
from pegboard.dialects import dialect
from pegboard.dialects.protocol import CallChunk, CallStartChunk, TextChunk, ThinkingChunk
from tests.dialects.kit import FakeKit, tool
from tests.ledger import owes
from tests.transcript import assert_valid_transcript

responses, anthropic, gemini, mcp = (dialect(n) for n in ("openai-responses", "anthropic", "gemini", "mcp"))
PNG = Image(data=b"\x89PNG\r\n\x1a\n", mime_type="image/png")
TIFF = Image(data=b"II*", mime_type="image/tiff")
PDF = File(name="a.pdf", mime_type="application/pdf", data=b"%PDF")
WAV = Audio(data=b"RIFF", mime_type="audio/wav")
KIT = FakeKit(tool("Calendar.create event"), tool("ok"))
MIXED = AssistantMessage(
    content=(
        Thinking("hm", "sig"),
        Opaque("anthropic", {"type": "redacted_thinking", "data": "x"}),
        Opaque("openai-responses", {"type": "reasoning", "id": "r", "encrypted_content": "e"}),
        Opaque("gemini", {"thoughtSignature": "g"}),
        Text("On it."),
        ToolCall("functions.a:0", "ok", '{"a": 1}'),
        ToolCall("2", "Calendar.create event", '{"cut'),
    )
)
RESULTS = ResultsMessage(
    (
        ToolResult(call_id="functions.a:0", tool="ok", content=(Text("see"), PNG, TIFF, PDF)),
        ToolResult(call_id="2", tool="Calendar.create event", error=NotFound("none"), content=()),
    )
)


@mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_a_turn_of_everything_is_a_valid_transcript(name: str) -> None:
    spoken = dialect(name)
    asked = UserMessage((Text("see"), PNG, TIFF, PDF, WAV, Text("")))
    messages = [asked, MIXED, RESULTS, UserMessage(()), AssistantMessage(content=(Text("Done."),))]

    wire = [m for message in messages for m in spoken.encode(message)]

    assert_valid_transcript(wire, name)


# Responses


def test_responses_sends_tools_flat_and_says_strict_or_not() -> None:
    kit = FakeKit(tool("f", (), n={"type": "integer", "default": 5}), tool("g", m={"type": "object"}))

    plain = responses.render_tools(kit)
    strict = dialect("openai-responses-strict")
    closed = strict.render_tools(kit)

    assert [(t["type"], t["name"], t["strict"]) for t in plain] == [
        ("function", "f", False),
        ("function", "g", False),
    ]
    assert [t["strict"] for t in closed] == [True, False]
    assert closed[0]["parameters"] == {
        "type": "object",
        "properties": {"n": {"type": ["integer", "null"]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert "'g'" in strict.notes(kit)[0]
    assert responses.notes(kit) == ()


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"output": list(output), "status": "completed", "model": "m", **more}


REASONING = {
    "type": "reasoning",
    "id": "r1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "e",
}
CALL = {"type": "function_call", "id": "i", "call_id": "c1", "name": "ok", "arguments": '{"a": 1}'}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}


def test_responses_keeps_reasoning_verbatim_and_in_order() -> None:
    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 5}}
    message = responses.decode_message(response(REASONING, SAID, CALL, usage=usage))

    assert message.content == (
        Thinking("hm"), Opaque("openai-responses", REASONING), Text("Hi"), ToolCall("c1", "ok", '{"a": 1}'),
    )  # fmt: skip
    assert (message.stop, message.model) == ("tools", "m")
    assert (message.usage.input_tokens, message.usage.cache_read_tokens, message.usage.output_tokens) == (
        4,
        5,
        4,
    )
    sent = responses.encode(message)
    assert sent[0] == REASONING
    assert [i["type"] for i in sent] == ["reasoning", "message", "function_call"]
    assert sent[2]["call_id"] == "c1"


def test_responses_puts_pictures_into_the_result() -> None:
    out = responses.encode(RESULTS)

    assert [p["type"] for p in out[0]["output"]] == ["input_text", "input_image", "input_text", "input_file"]
    assert out[1] == {"type": "function_call_output", "call_id": "2", "output": "(no output)"}


def test_responses_stop_reasons_and_refusals() -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}
    for reason, stop in (
        ("max_output_tokens", "length"),
        ("content_filter", "filtered"),
        ("other", "length"),
    ):
        cut = response(SAID, status="incomplete", incomplete_details={"reason": reason})
        assert responses.decode_message(cut).stop == stop
    refused = responses.decode_message(response(refusal))
    assert (refused.stop, refused.text) == ("refusal", "no")
    assert responses.decode_message(response({"type": "web_search_call"})).stop == "end"
    assert (
        responses.decode_message(response({"type": "message", "content": [{"type": "audio"}]})).content == ()
    )
    with raises(ModelError, match="over quota"):
        responses.decode({"error": {"message": "over quota"}, "output": []})
    with raises(ModelError, match="no output"):
        responses.decode({})


def test_responses_streamed_is_the_same_message() -> None:
    whole = response(REASONING, SAID, CALL)
    stream = responses.stream(KIT)
    events = [
        {"type": "response.created"},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Hi"},
        {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a"'},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ": 1}"},
        {"type": "response.function_call_arguments.delta", "output_index": 7, "delta": "x"},
        {"type": "response.other.delta", "delta": "x"},
        {"type": "response.output_item.done", "output_index": 2, "item": CALL},
        {"type": "response.output_item.done", "output_index": 3, "item": {"type": "message", "content": []}},
    ]
    deltas = [d for event in events for d in stream.feed(event)]

    assert deltas == [
        ThinkingChunk("hm"), TextChunk("Hi"), CallStartChunk(0, "c1", "ok"), CallChunk(0, '{"a"'), CallChunk(0, ": 1}"),
    ]  # fmt: skip
    cut = stream.finish()
    assert (cut.stop, cut.text, cut.calls) == ("length", "Hi", (ToolCall("c1", "ok", '{"a": 1}'),))
    stream.feed({"type": "response.completed", "response": whole})
    assert stream.flush() == []
    assert stream.finish() == responses.decode_message(whole, KIT)
    with raises(ModelError, match="busy"):
        stream.feed({"type": "error", "message": "busy"})


# Anthropic


@owes("D-11")
def test_anthropic_sends_name_description_and_input_schema() -> None:
    (first, _) = anthropic.render_tools(FakeKit(tool("f", q="string"), tool("g")))

    assert first == {
        "name": "f",
        "description": "The tool f.",
        "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    }
    assert anthropic.notes(KIT) == ()


def test_anthropic_sends_ids_that_it_takes_and_drops_what_is_anothers() -> None:
    (turn,) = anthropic.encode(MIXED)
    (back,) = anthropic.encode(RESULTS)

    assert [b["type"] for b in turn["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    ids = [b["id"] for b in turn["content"][3:]]
    assert ids == [b["tool_use_id"] for b in back["content"]]
    assert ":" not in ids[0]
    assert turn["content"][4]["input"] == {"_invalid": '{"cut'}
    assert [b["type"] for b in back["content"][0]["content"]] == ["text", "image", "text", "document"]
    assert back["content"][1]["is_error"] is True
    assert anthropic.encode(AssistantMessage(content=(Thinking("unsigned"), Text(" ")))) == []
    assert anthropic.encode(ResultsMessage(())) == []
    assert anthropic.encode(UserMessage(())) == [
        {"role": "user", "content": [{"type": "text", "text": "(empty)"}]}
    ]
    assert anthropic.encode(AssistantMessage(content=(ToolCall(None, "a", {}),)))[0]["content"][0]["id"] == ""


def claude(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": list(content), "model": "c", "stop_reason": "end_turn", **more}


def test_anthropic_blocks_are_read_in_order_and_go_back_verbatim() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Hi"},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "t1", "name": "ok", "input": {"a": 1}},
    ]
    usage = {
        "input_tokens": 3,
        "output_tokens": 2,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 1,
    }
    message = anthropic.decode_message(claude(*blocks, stop_reason="tool_use", usage=usage))

    assert message.calls == (ToolCall("t1", "ok", {"a": 1}),)
    assert message.stop == "tools"
    assert (message.usage.cache_read_tokens, message.usage.cache_write_tokens) == (7, 1)
    assert anthropic.encode(message)[0]["content"] == [b for b in blocks if b.get("text") != ""]
    assert anthropic.decode_message(claude(stop_reason="max_tokens")).stop == "length"
    assert anthropic.decode_message(claude(stop_reason="refusal")).stop == "refusal"
    with raises(ModelError, match="overloaded"):
        anthropic.decode({"type": "error", "error": {"message": "overloaded"}})
    with raises(ModelError, match="no content"):
        anthropic.decode({})


def test_anthropic_streamed_is_the_same_message() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "c", "usage": {"input_tokens": 5}}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "H"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "i"}},
        {"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "t", "name": "ok", "input": {}}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": '{"a"'}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "!"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "x"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    ]  # fmt: skip
    stream = anthropic.stream()
    deltas = [d for event in events for d in stream.feed(event)]

    message = stream.finish()
    assert deltas == [
        ThinkingChunk("hm"), TextChunk("H"), TextChunk("i"), CallStartChunk(0, "t", "ok"), CallChunk(0, '{"a"'),
        CallChunk(0, ": 1}"), TextChunk("!"),
    ]  # fmt: skip
    assert message.content == (Thinking("hm", "s"), Text("Hi"), ToolCall("t", "ok", {"a": 1}), Text("!"))
    assert (message.stop, message.usage.input_tokens, message.usage.output_tokens) == ("tools", 5, 4)
    assert stream.flush() == []
    with raises(ModelError, match="overloaded"):
        stream.feed({"type": "error", "error": {"message": "overloaded"}})


def test_anthropic_arguments_that_were_cut_off_stay_text() -> None:
    stream = anthropic.stream()
    stream.feed(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "w"},
        }
    )
    stream.feed(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"a'},
        }
    )

    assert stream.finish().calls == (ToolCall("t", "w", '{"a'),)


# Gemini


def candidate(*parts: dict[str, Any], reason: str | None = "STOP", **more: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}],
        **more,
    }


def test_gemini_signatures_go_back_on_the_parts_that_they_came_with() -> None:
    parts = [
        {"text": "hm", "thought": True, "thoughtSignature": "s0"},
        {"text": "Hi"},
        {"functionCall": {"id": "c1", "name": "ok", "args": {"a": 1}}, "thoughtSignature": "s1"},
        {"executableCode": {"code": "1"}},
        {"text": "", "thoughtSignature": "s2"},
    ]
    usage = {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 3,
    }
    message = gemini.decode_message(candidate(*parts, usageMetadata=usage, modelVersion="g"))

    assert message.calls == (ToolCall("c1", "ok", {"a": 1}),)
    assert (message.stop, message.model) == ("tools", "g")
    assert (message.usage.input_tokens, message.usage.output_tokens, message.usage.cache_read_tokens) == (
        5,
        5,
        4,
    )
    assert gemini.encode(message) == [{"role": "model", "parts": parts}]
    assert gemini.encode(AssistantMessage(content=(Thinking("x"),))) == []


def test_gemini_reads_the_sdks_spelling_too() -> None:
    reply = {
        "candidates": [
            {
                "content": {"parts": [{"text": None, "function_call": {"name": "ok", "args": None}, "thought_signature": b"\x00"}]},
                "finish_reason": type("Reason", (), {"value": "STOP"})(),
            }
        ],
        "usage_metadata": {"prompt_token_count": 2},
    }  # fmt: skip
    message = gemini.decode_message(reply)

    assert message.content == (Opaque("gemini", {"thoughtSignature": "AA=="}), ToolCall(None, "ok", {}))
    assert message.usage.input_tokens == 2


def test_gemini_results_hold_outputs_errors_and_pictures_behind_them() -> None:
    (back,) = gemini.encode(RESULTS)

    assert [next(iter(p)) for p in back["parts"]] == ["functionResponse"] * 2 + ["inlineData"] * 3
    assert back["parts"][0]["functionResponse"]["response"]["output"].startswith("see")
    assert "error" in back["parts"][1]["functionResponse"]["response"]
    assert gemini.encode(ResultsMessage(())) == []
    assert "inlineData" in gemini.encode(UserMessage((WAV,)))[0]["parts"][0]


def test_gemini_stop_reasons_and_blocked_prompts() -> None:
    assert gemini.decode_message(candidate(reason="MAX_TOKENS")).stop == "length"
    assert gemini.decode_message(candidate(reason="SAFETY")).stop == "filtered"
    assert gemini.decode_message(candidate(reason="MALFORMED_FUNCTION_CALL")).stop == "malformed"
    assert gemini.decode_message(candidate(reason="UNEXPECTED_TOOL_CALL")).stop == "malformed"
    assert gemini.decode_message(candidate(reason="MODEL_ARMOR")).stop == "filtered"
    assert gemini.decode_message(candidate(reason="MISSING_THOUGHT_SIGNATURE")).stop == "error"
    assert gemini.decode_message(candidate(reason=None)).stop == "end"
    assert gemini.decode_message(candidate({}, {"text": ""})).content == ()
    assert gemini.decode_message({"promptFeedback": {"blockReason": "SAFETY"}}).stop == "filtered"
    with raises(ModelError, match="bad key"):
        gemini.decode({"error": {"message": "bad key"}})
    with raises(ModelError, match="no candidates"):
        gemini.decode({})


def test_gemini_streamed_is_the_same_message() -> None:
    stream = gemini.stream()
    chunks = [
        candidate({"text": "h", "thought": True}, reason=None),
        candidate({"text": "m", "thought": True}, reason=None, usageMetadata={"promptTokenCount": 1}),
        candidate({"text": "H"}, reason=None),
        candidate(
            {"text": "i"},
            {"functionCall": {"name": "ok", "args": {"a": 1}}},
            {"executableCode": {}},
            reason=None,
        ),
        candidate({"text": "!"}, usageMetadata={"promptTokenCount": 2}),
        {"candidates": []},
    ]
    deltas = [d for chunk in chunks for d in stream.feed(chunk)]

    assert deltas == [
        ThinkingChunk("h"), ThinkingChunk("m"), TextChunk("H"), TextChunk("i"), CallStartChunk(0, "", "ok"),
        CallChunk(0, '{"a":1}'), TextChunk("!"),
    ]  # fmt: skip
    whole = candidate(
        {"text": "hm", "thought": True}, {"text": "Hi"}, {"functionCall": {"name": "ok", "args": {"a": 1}}},
        {"executableCode": {}}, {"text": "!"}, usageMetadata={"promptTokenCount": 2},
    )  # fmt: skip
    assert stream.flush() == []
    assert stream.finish() == gemini.decode_message(whole)
    with raises(ModelError):
        gemini.stream().finish()


# MCP


def test_mcp_lists_tools_with_their_output_schemas() -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}}
    first, second = tool("f"), tool("g")
    object.__setattr__(first, "output_schema", output)
    object.__setattr__(second, "output_schema", {"type": "string"})

    rendered = mcp.render_tools(FakeKit(first, second))

    assert [t.get("outputSchema") for t in rendered] == [output, None]
    assert [t["inputSchema"] for t in rendered] == [first.schema, second.schema]
    assert mcp.notes(KIT) == ()


def test_mcp_calls_and_results() -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "ok", "arguments": {"a": 1}},
    }

    assert mcp.decode(request) == [ToolCall("7", "ok", {"a": 1})]
    assert mcp.decode({"name": "ok"}) == [ToolCall(None, "ok", None)]
    assert mcp.decode_message([request, request]).calls == (ToolCall("7", "ok", {"a": 1}),) * 2
    for wrong in ({"method": "tools/list", "params": {"name": "x"}}, {"params": {}}):
        with raises(ModelError, match="not a tools/call"):
            mcp.decode(wrong)
    link = File(name="l", mime_type="text/plain", uri="spill:1")
    bare = File(name="b", mime_type="text/plain")
    blocks = (Text("t"), PNG, WAV, PDF, link, bare)
    (shown, failed) = mcp.encode(
        ResultsMessage((ToolResult(content=blocks), ToolResult(error=NotFound("n"))))
    )
    assert [b["type"] for b in shown["content"]] == [
        "text",
        "image",
        "audio",
        "resource",
        "resource_link",
        "text",
    ]
    assert (shown["isError"], failed["isError"]) == (False, True)
    assert mcp.encode(UserMessage.of("hi")) == [{"role": "user", "content": {"type": "text", "text": "hi"}}]


def test_mcp_requests_that_arrive_one_by_one() -> None:
    stream = mcp.stream()

    assert stream.finish().stop == "end"
    assert stream.feed({"name": "ok"}) == [CallStartChunk(0, "", "ok"), CallChunk(0, "{}")]
    assert stream.flush() == []
    assert stream.finish() == AssistantMessage(content=(ToolCall(None, "ok", None),), stop="tools")


# All


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@mark.slow
@mark.parametrize("name", ["openai-responses", "anthropic", "gemini", "mcp"])
@settings(deadline=None)
@given(value=json_values)
def test_no_reply_makes_a_decoder_raise_anything_but_a_model_error(name: str, value: Any) -> None:
    spoken = dialect(name)
    shapes = [
        value, {"output": value}, {"output": [value]}, {"content": value}, {"content": [value]},
        {"candidates": [{"content": {"parts": value}}]}, {"output": [{"type": "function_call", "arguments": value}]},
        {"content": [{"type": "tool_use", "input": value}]}, {"params": value}, {"name": "x", "arguments": value},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": value}}]}}]},
        {"output": [{"type": "message", "content": value}, {"type": "reasoning", "summary": value}]},
    ]  # fmt: skip
    for reply in shapes:
        for read in (spoken.decode_message, lambda r: spoken.stream().feed(r)):
            try:
                got = read(reply)
            except ModelError:
                continue
            if isinstance(got, AssistantMessage):
                json.dumps(spoken.encode(got), ensure_ascii=False, allow_nan=False).encode()
