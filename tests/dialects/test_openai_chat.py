"""The Chat Completions dialect."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import mark, raises

from pegboard.core.content import Audio, File, Image, Text, ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Opaque, ResultsMessage, UserMessage
from pegboard.dialects import dialect
from tests.dialects.kit import FakeKit, FakeTool, tool
from tests.ledger import owes
from tests.transcript import assert_valid_transcript

chat = dialect("openai_chat")
PNG = b"\x89PNG\r\n\x1a\n"


@owes("N-03", "N-14", "N-120", "D-06", "K-09")
def test_the_ledger_read_file_serialises_exactly_as_the_document_shows() -> None:
    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "文件路径"}},
        "required": ["path"],
    }

    rendered = chat.render_tools(FakeKit(FakeTool("read_file", "读取文件内容", parameters)))

    assert rendered == [
        {
            "type": "function",
            "function": {"name": "read_file", "description": "读取文件内容", "parameters": parameters},
        }
    ]
    assert rendered[0]["function"]["parameters"] is parameters


def completion(message: dict, reason: str = "stop", **more: object) -> dict:
    return {"choices": [{"message": message, "finish_reason": reason}], "model": "m", **more}


def sent(*calls: tuple[str | None, str, object]) -> dict:
    return {
        "content": None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls
        ],
    }


def test_calls_come_out_with_their_arguments_as_the_very_text_that_was_sent() -> None:
    calls = chat.decode(completion(sent(("c1", "grep", '{"id": 9007199254740993}')), "tool_calls"))

    assert calls == [ToolCall(id="c1", name="grep", arguments='{"id": 9007199254740993}')]


@owes("args-21")
def test_a_missing_or_empty_id_is_none_for_the_executor_to_fill() -> None:
    calls = chat.decode(json.dumps(completion(sent(("", "a", "{}"), (None, "b", None)))))

    assert [(c.id, c.name, c.arguments) for c in calls] == [(None, "a", "{}"), (None, "b", None)]


def test_the_old_function_call_form_is_a_call_too() -> None:
    message = {"content": None, "function_call": {"name": "a", "arguments": "{}"}}

    assert chat.decode(completion(message, "function_call")) == [ToolCall(None, "a", "{}")]


def test_a_sdk_object_is_read_through_model_dump() -> None:
    class Completion:
        def model_dump(self) -> dict:
            return completion({"content": "hi"})

    assert chat.decode_message(Completion()).text == "hi"


@owes("args-14", "args-34")
def test_history_holds_valid_json_whatever_the_model_sent() -> None:
    cut = '{"path": "a.txt", "content": "line 1\\nline 2'
    sent_texts = [
        cut,
        "",
        None,
        "[]",
        '"x"',
        '{"a": NaN}',
        '"{\\"a\\": 1}"',
        '{"c": "ok \\ud83d end"}',
        "\ud800",
    ]
    calls = tuple(ToolCall(str(n), "w", text) for n, text in enumerate(sent_texts))
    results = tuple(ToolResult(call_id=str(n), content=(Text("\ud800"),)) for n in range(len(calls)))

    wire = chat.encode(AssistantMessage(content=calls)) + chat.encode(ResultsMessage(results))

    assert_valid_transcript(wire)
    kept = [json.loads(c["function"]["arguments"]) for c in wire[0]["tool_calls"]]
    assert kept == [
        {"_invalid": cut},
        {},
        {},
        {"_invalid": "[]"},
        {"_invalid": '"x"'},
        {"_invalid": '{"a": NaN}'},
        {"a": 1},
        {"c": "ok \ufffd end"},
        {"_invalid": "\ufffd"},
    ]


def test_valid_argument_text_goes_back_byte_for_byte() -> None:
    text = '{ "b":1,   "a": "\\u00fc" }'

    wire = chat.encode(AssistantMessage(content=(ToolCall("1", "t", text),)))

    assert wire[0]["tool_calls"][0]["function"]["arguments"] == text


def test_arguments_deeper_than_python_can_walk_are_kept_as_invalid() -> None:
    deep: dict = {}
    for _ in range(200_000):
        deep = {"a": deep}
    calls = (ToolCall("1", "t", '{"a":' * 200_000 + "1" + "}" * 200_000), ToolCall("2", "t", deep))

    wire = chat.encode(AssistantMessage(content=calls))

    assert all("_invalid" in json.loads(c["function"]["arguments"]) for c in wire[0]["tool_calls"])


def test_pictures_of_results_follow_the_tool_messages_in_one_user_message() -> None:
    shot = Image(data=PNG, mime_type="image/png")
    results = (
        ToolResult(call_id="1", tool="screen", content=(Text("here"), shot)),
        ToolResult(call_id="2", content=(Image(data=b"x", mime_type="image/tiff"),)),
        ToolResult(call_id="3"),
    )

    wire = chat.encode(ResultsMessage(results))

    assert [m["role"] for m in wire] == ["tool", "tool", "tool", "user"]
    assert [m["content"] for m in wire[:3]] == [
        "here\n[image image/png, 8 bytes]",
        "[image image/tiff, 1 bytes]",
        "(no output)",
    ]
    assert wire[3]["content"] == [
        {"type": "text", "text": "From the result of screen (1):"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]


def test_user_content_keeps_what_the_api_takes_and_names_the_rest() -> None:
    message = UserMessage(
        (
            Text("see"),
            Audio(data=b"a", mime_type="audio/mpeg"),
            Audio(data=b"a", mime_type="audio/ogg"),
            File(name="a.pdf", mime_type="application/pdf", data=b"%"),
            File(name="n.txt", mime_type="text/plain", data=b"hey"),
            File(name="z.zip", mime_type="application/zip", uri="spill:1"),
        )
    )

    parts = chat.encode(message)[0]["content"]

    assert [p["type"] for p in parts] == ["text", "input_audio", "text", "file", "text", "text"]
    assert parts[1]["input_audio"] == {"data": "YQ==", "format": "mp3"}
    assert parts[3]["file"] == {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JQ=="}
    assert [p["text"] for p in parts if p["type"] == "text"][1:] == [
        "[audio audio/ogg, 1 bytes]",
        "n.txt:\nhey",
        "[file z.zip application/zip, spill:1]",
    ]


def test_an_empty_assistant_message_still_has_content() -> None:
    assert chat.encode(AssistantMessage()) == [{"role": "assistant", "content": ""}]


def test_what_a_server_attaches_to_its_turn_goes_back_where_it_stood_and_empty_too() -> None:
    attached = {"reasoning_content": "", "reasoning_details": [{"data": "s"}], "vendor": {"seal": 7}}
    calls = sent(("c1", "grep", "{}"), ("c2", "ls", "{}"))
    calls["tool_calls"][1]["extra_content"] = {"google": {"thought_signature": "sig"}}
    reply = {"role": "assistant", "content": "42", "refusal": None, "annotations": [], **attached, **calls}

    message = chat.decode_message(completion(reply, "tool_calls"))

    assert chat.encode(message) == [{"role": "assistant", "content": "42", **attached, **calls}]


def test_what_another_dialect_attached_is_not_sent() -> None:
    assert chat.encode(AssistantMessage(content=(Opaque("anthropic", {"x": 1}), Text("a")))) == [
        {"role": "assistant", "content": "a"}
    ]


def test_stop_reasons_and_usage() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    message = chat.decode_message(
        completion({"content": [{"type": "text", "text": "a"}]}, "length", usage=usage)
    )

    assert (message.stop, message.text, message.model) == ("length", "a", "m")
    used = message.usage
    assert (used.input_tokens, used.cache_read_tokens, used.output_tokens, used.requests) == (6, 4, 3, 1)
    assert chat.decode_message(completion({"content": None, "refusal": "no"})).stop == "refusal"
    assert chat.decode_message(completion({"refusal": "no"})).text == "no"
    assert chat.decode_message(completion(sent(("1", "a", "{}")), "stop")).stop == "tools"
    assert chat.decode_message(completion({}, "content_filter")).stop == "filtered"
    assert chat.decode_message(completion({}, "new_word")).stop == "end"


def test_a_reply_that_is_none_says_what_it_is_instead() -> None:
    with raises(ModelError, match="quota"):
        chat.decode({"error": {"message": "quota"}})
    for garbage in ({}, "<html>", "[1]", b"\xff", 7, None, "[" * 100_000):
        with raises(ModelError, match="no Chat Completions response"):
            chat.decode(garbage)


def chunk(delta: dict, reason: str | None = None, **more: object) -> dict:
    return {"choices": [{"delta": delta, "finish_reason": reason}], **more}


def piece(text: str, index: int | None = 0, id: str | None = None, name: str | None = None) -> dict:
    call: dict = {"function": {"arguments": text, "name": name}, "id": id}
    if index is not None:
        call["index"] = index
    return {"tool_calls": [call]}


def test_a_streamed_reply_is_the_same_message_as_the_whole_one() -> None:
    stream = chat.stream()
    deltas = []
    for delta in (
        {"role": "assistant", "content": ""},
        {"reasoning_content": "h"},
        {"reasoning_content": "m", "vendor": ["a"]},
        {"reasoning_content": None, "vendor": ["b"]},
        {"content": "Hi \ud83d"},
        {"content": "\ude00"},
        piece("", 0, "c1", "grep"),
        piece('{"a"', 0),
        piece('{"b": 2}', 1, "c2", "ls"),
        piece(": 1}", 0),
    ):
        deltas += stream.feed(chunk(delta))
    stream.feed(chunk({}, "tool_calls", model="m"))
    stream.feed({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})

    whole = chat.decode_message(
        completion(
            {
                "content": "Hi 😀",
                "reasoning_content": "hm",
                "vendor": ["a", "b"],
                **{"tool_calls": sent(("c1", "grep", '{"a": 1}'), ("c2", "ls", '{"b": 2}'))["tool_calls"]},
            },
            "tool_calls",
            usage={"prompt_tokens": 5, "completion_tokens": 2},
        )
    )
    assert stream.flush() == []
    assert stream.finish() == whole
    assert [type(d).__name__ for d in deltas] == [
        *["ThinkingChunk"] * 2,
        *["TextChunk"] * 2,
        *["CallStartChunk", "CallChunk"] * 2,
        "CallChunk",
    ]


def test_pieces_find_their_call_whatever_the_server_leaves_out() -> None:
    def streamed(*deltas: dict) -> list[tuple]:
        stream = chat.stream()
        for delta in deltas:
            stream.feed(chunk(delta))
        return [(c.id, c.name, c.arguments) for c in stream.finish().calls]

    want = [("a", "f", '{"x":1}'), ("b", "g", "{}")]
    # No index: by id, then by the last call.
    assert (
        streamed(
            piece('{"x"', None, "a", "f"),
            piece(":1", None),
            piece("}", None, "a"),
            piece("{}", None, "b", "g"),
        )
        == want
    )
    # Every call under index 0, each with its own id, pieces by id.
    assert streamed(piece('{"x"', 0, "a", "f"), piece("{}", 0, "b", "g"), piece(":1}", 0, "a")) == want
    # The id and the whole name repeated in each piece.
    assert streamed(piece('{"x":', 0, "a", "f"), piece("1}", 0, "a", "f"), piece("{}", 1, "b", "g")) == want
    # A piece without index or id before any call.
    assert streamed(piece("{}", None, None, "f")) == [(None, "f", "{}")]


def test_a_refusal_is_streamed_as_text_and_a_garbled_chunk_refused() -> None:
    stream = chat.stream()
    stream.feed(chunk({"refusal": "no", "tool_calls": "x"}))

    assert (stream.finish().stop, stream.finish().text) == ("refusal", "no")
    with raises(ModelError):
        stream.feed("data: {")


def test_names_that_the_api_refuses_come_back_as_they_were() -> None:
    kit = FakeKit(tool("Calendar.create event"), tool("ok"), tool("查找"), tool("x" * 80))
    names = [t["function"]["name"] for t in chat.render_tools(kit)]

    assert all(len(n) <= 64 for n in names)
    assert names[1] == "ok"
    assert [chat.decode(completion(sent(("1", n, "{}"))), kit)[0].name for n in names] == [
        t.name for t in kit
    ]
    assert (
        chat.encode(AssistantMessage(content=(ToolCall("1", "查找", {}),)))[0]["tool_calls"][0]["function"][
            "name"
        ]
        == names[2]
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@mark.slow
@settings(deadline=None)
@given(json_values)
def test_no_reply_makes_the_decoder_raise_anything_but_a_model_error(value: object) -> None:
    for reply in (
        value,
        {"choices": value},
        {"choices": [value]},
        completion({"tool_calls": value, "content": value}),
    ):
        try:
            message = chat.decode_message(reply)
        except ModelError:
            continue
        json.dumps(chat.encode(message), ensure_ascii=False, allow_nan=False).encode()


@mark.slow
@settings(deadline=None)
@given(st.text() | st.dictionaries(st.text(), json_values))
def test_any_arguments_make_a_valid_transcript(arguments: object) -> None:
    message = AssistantMessage(content=(ToolCall("1", "t", arguments),))  # type: ignore[arg-type]

    wire = chat.encode(message) + chat.encode(ResultsMessage((ToolResult(call_id="1"),)))

    assert_valid_transcript(wire)


def test_arguments_that_are_no_json_values_are_told_as_text() -> None:
    message = AssistantMessage(content=(ToolCall("1", "t", {"p": (1, object, {2: float("nan")})}),))

    (wire,) = chat.encode(message)

    assert wire["tool_calls"][0]["function"]["arguments"] == '{"p":[1,"<class \'object\'>",{"2":null}]}'
