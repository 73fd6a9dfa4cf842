"""The other providers' wires: each bad outcome has one defined end, on every one of them."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pegboard.core.content import Image, Text, ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.result import ToolResult
from pegboard.core.toolkit import import_object
from pegboard.core.transcript import AssistantMessage, Opaque, ResultsMessage, Thinking, UserMessage
from pegboard.models import MODELS
from pegboard.models.anthropic import ANTHROPIC_URL, AnthropicModel, with_cache_markers
from pegboard.models.conversation import ProviderConversation, RetryTiming
from pegboard.models.gemini import GEMINI_URL, GeminiModel
from pegboard.models.openai_responses import OpenAIResponsesModel
from pegboard.models.retry import Retry
from pegboard.ports.model import AskedAgain, CallDelta, ModelEvent, TextDelta, ThinkingDelta, TurnEnd
from tests.ledger import owes
from tests.models.kit import SIX, Kit
from tests.models.wire import Reply, Server, answer, failed, serving
from tests.waiting import soon


class Sleeps:
    """A sleep that takes no time and remembers."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


# --- Anthropic: https://docs.claude.com/en/api/messages-streaming


def a_start(**usage: int) -> dict[str, Any]:
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
    }  # fmt: skip
    return {"type": "message_start", "message": message}


def a_block(index: int, block: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": dict(block)},
        *({"type": "content_block_delta", "index": index, "delta": dict(d)} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def a_text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return a_block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces))


def a_end(reason: str = "end_turn") -> list[dict[str, Any]]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]


def a_reply(*events: dict[str, Any], **more: Any) -> Reply:
    return answer(*events, done=False, names=True, **more)


# --- Responses: https://platform.openai.com/docs/api-reference/responses-streaming


def r_response(status: str, output: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m-1", "output": output,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
        "usage": {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 107,
        },
        **more,
    }  # fmt: skip


def r_message(text: str, kind: str = "output_text") -> dict[str, Any]:
    part = (
        {"type": kind, "text": text, "annotations": []}
        if kind == "output_text"
        else {"type": kind, "refusal": text}
    )
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def r_delta(text: str, kind: str = "output_text") -> dict[str, Any]:
    return {
        "type": f"response.{kind}.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text,
        "sequence_number": 1, "logprobs": [],
    }  # fmt: skip


def r_last(kind: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 9, "response": response}


def r_reply(*events: dict[str, Any], **more: Any) -> Reply:
    return answer(*events, done=False, names=True, **more)


# --- Gemini: https://ai.google.dev/api/generate-content


def g_chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m-1", **more}


def g_reply(*events: dict[str, Any], **more: Any) -> Reply:
    return answer(*events, done=False, **more)


@dataclass(frozen=True)
class Provider:
    """One provider's scripted answers."""

    name: str
    make: Callable[..., Any]
    hello: Reply
    refusal: Reply
    cut_off: Reply
    empty: Reply
    silent_break: Reply
    midway_break: Reply
    error_event: Reply
    error_body: Callable[[str], Any]


PROVIDERS = [
    Provider(
        "anthropic",
        AnthropicModel,
        hello=a_reply(a_start(), *a_text(0, "Hel", "lo"), *a_end()),
        refusal=a_reply(a_start(), *a_text(0, "I cannot."), *a_end("refusal")),
        cut_off=a_reply(
            a_start(),
            *a_block(
                0,
                {"type": "tool_use", "id": "x", "name": "write_file", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"path": "a.txt", "content": "li'},
            ),
            *a_end("max_tokens"),
        ),
        empty=a_reply(a_start(), *a_end()),
        silent_break=a_reply(a_start(), cut=True),
        midway_break=a_reply(a_start(), *a_text(0, "Half of")[:2], cut=True),
        error_event=a_reply(
            a_start(), {"type": "error", "error": {"type": "overloaded_error", "message": "it fell over"}}
        ),
        error_body=lambda text: {"type": "error", "error": {"type": "some_error", "message": text}},
    ),
    Provider(
        "openai-responses",
        OpenAIResponsesModel,
        hello=r_reply(
            r_delta("Hel"), r_delta("lo"), r_last("completed", r_response("completed", [r_message("Hello")]))
        ),
        refusal=r_reply(
            r_delta("I cannot.", "refusal"),
            r_last("completed", r_response("completed", [r_message("I cannot.", "refusal")])),
        ),
        cut_off=r_reply(
            r_last(
                "incomplete",
                r_response(
                    "incomplete",
                    [
                        {
                            "type": "function_call",
                            "id": "fc_1",
                            "call_id": "x",
                            "name": "write_file",
                            "arguments": '{"path": "a.txt", "content": "li',
                            "status": "incomplete",
                        }
                    ],
                    incomplete_details={"reason": "max_output_tokens"},
                ),
            )
        ),
        empty=r_reply(r_last("completed", r_response("completed", []))),
        silent_break=r_reply(
            {"type": "response.created", "sequence_number": 0, "response": r_response("in_progress", [])},
            cut=True,
        ),
        midway_break=r_reply(r_delta("Half of"), cut=True),
        error_event=r_reply(
            r_last(
                "failed",
                r_response("failed", [], error={"code": "server_error", "message": "it fell over"}),
            )
        ),
        error_body=lambda text: {"error": {"message": text, "type": "some_error", "code": None}},
    ),
    Provider(
        "gemini",
        GeminiModel,
        hello=g_reply(g_chunk({"text": "Hel"}), g_chunk({"text": "lo"}, finish="STOP")),
        refusal=g_reply({"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "m-1"}),
        cut_off=g_reply(g_chunk({"text": "Hel"}, finish="MAX_TOKENS")),
        empty=g_reply(g_chunk(finish="STOP")),
        silent_break=g_reply(g_chunk(), cut=True),
        midway_break=g_reply(g_chunk({"text": "Half of"}), cut=True),
        error_event=g_reply({"error": {"code": 503, "message": "it fell over", "status": "UNAVAILABLE"}}),
        error_body=lambda text: {"error": {"code": 0, "message": text, "status": "SOME"}},
    ),
]
every = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)


def model_at(
    provider: Provider, server: Server, sleeps: Sleeps | None = None, attempts: int = 3, **more: Any
) -> Any:
    waiting = RetryTiming(retry=Retry(attempts=attempts), sleep=sleeps or Sleeps(), spread=lambda: 1.0)
    model = provider.make("m", base_url=server.url, api_key="own-secret-key", waiting=waiting, **more)
    server.models.append(model)
    return model


def opened(model: Any, kit: Any = SIX, **more: Any) -> ProviderConversation:
    talk = model.converse(instructions="Be brief.", tools=kit, **more)
    talk.append(UserMessage.of("Read a.txt"))
    return talk


async def events_of(talk: ProviderConversation, **more: Any) -> list[ModelEvent]:
    return [event async for event in talk.reply(**more)]


async def reply_of(talk: ProviderConversation, **more: Any) -> AssistantMessage:
    events = await events_of(talk, **more)
    assert isinstance(events[-1], TurnEnd)
    assert not any(isinstance(event, TurnEnd) for event in events[:-1])
    return events[-1].message


def text_events(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


@every
async def test_text_is_forwarded_as_it_arrives_and_the_whole_message_comes_last(provider: Provider) -> None:
    hold = asyncio.Event()
    async with serving(replace(provider.hello, hold=hold)) as server:
        hold.set()
        events = await events_of(opened(model_at(provider, server)))

    assert text_events(events) == ["Hel", "lo"]
    assert isinstance(events[-1], TurnEnd)
    assert (events[-1].message.text, events[-1].message.stop, events[-1].message.model) == (
        "Hello",
        "end",
        "m-1",
    )


@every
async def test_the_own_key_is_sent_and_the_environments_is_not(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
    ):
        monkeypatch.setenv(name, "of-the-environment")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    async with serving(provider.hello) as server:
        await reply_of(opened(model_at(provider, server)))

    sent = str(server.asked[0].headers) + server.asked[0].path
    assert "own-secret-key" in sent
    assert "of-the-environment" not in sent


@every
async def test_a_refusal_has_its_own_stop_reason(provider: Provider) -> None:
    async with serving(provider.refusal) as server:
        message = await reply_of(opened(model_at(provider, server)))

    assert message.stop in ("refusal", "filtered")


@every
async def test_a_cut_off_answer_says_so_and_keeps_what_came(provider: Provider) -> None:
    async with serving(provider.cut_off) as server:
        message = await reply_of(opened(model_at(provider, server)))

    assert message.stop == "length"
    for call in message.calls:
        assert call.arguments == '{"path": "a.txt", "content": "li'


@every
async def test_an_empty_answer_is_asked_for_once_more_and_then_given_as_it_is(provider: Provider) -> None:
    async with serving(provider.empty, provider.hello) as server:
        assert (await reply_of(opened(model_at(provider, server)))).text == "Hello"
    async with serving(provider.empty, provider.empty, provider.hello) as server:
        message = await reply_of(opened(model_at(provider, server)))

    assert message.text == ""
    assert not message.calls
    assert len(server.asked) == 2


@every
async def test_a_stream_that_breaks_off_before_anything_was_forwarded_is_asked_for_again(
    provider: Provider,
) -> None:
    sleeps = Sleeps()
    async with serving(
        provider.silent_break, replace(provider.silent_break, cut=False), provider.hello
    ) as server:
        message = await reply_of(opened(model_at(provider, server, sleeps)))

    assert message.text == "Hello"
    assert sleeps.taken == [1.0, 2.0]


@every
@pytest.mark.parametrize("cut", [True, False])
async def test_a_stream_that_breaks_off_midway_is_asked_for_again_and_what_came_of_it_is_void(
    provider: Provider, cut: bool
) -> None:
    sleeps = Sleeps()
    async with serving(replace(provider.midway_break, cut=cut), provider.hello) as server:
        got = await events_of(opened(model_at(provider, server, sleeps)))

    assert [e for e in got if isinstance(e, TextDelta | AskedAgain)][:3] == [
        TextDelta("Half of"),
        AskedAgain(next(e.why for e in got if isinstance(e, AskedAgain))),
        TextDelta("Hel"),
    ]
    assert isinstance(got[-1], TurnEnd)
    assert got[-1].message.text == "Hello"
    assert sleeps.taken == [1.0]
    assert server.asked[0].body == server.asked[1].body


@every
async def test_an_error_inside_the_stream_is_told(provider: Provider) -> None:
    async with serving(provider.error_event) as server:
        with pytest.raises(ModelError, match="it fell over") as caught:
            await reply_of(opened(model_at(provider, server, attempts=1)))

    assert caught.value.retryable


@every
async def test_garbage_in_a_stream_is_a_retryable_error(provider: Provider) -> None:
    garbage = Reply(
        headers={"content-type": "text/event-stream"}, pieces=[b"event: message_start\ndata: {not json\n\n"]
    )
    async with serving(garbage, garbage) as server:
        with pytest.raises(ModelError) as caught:
            await reply_of(opened(model_at(provider, server, attempts=2)))

    assert caught.value.retryable
    assert len(server.asked) == 2


@every
async def test_overload_waits_as_long_as_the_server_asks_and_else_doubling(provider: Provider) -> None:
    sleeps = Sleeps()
    busy = failed(429, provider.error_body("slow down"), retry_after="7")
    async with serving(busy, failed(500, provider.error_body("oops")), provider.hello) as server:
        message = await reply_of(opened(model_at(provider, server, sleeps)))

    assert message.text == "Hello"
    assert sleeps.taken == [7.0, 2.0]


@every
@pytest.mark.parametrize(
    ("status", "said"), [(401, "key"), (403, "may not use"), (404, "model's name"), (400, "bad thing")]
)
async def test_an_error_that_will_not_pass_is_told_at_once(
    provider: Provider, status: int, said: str
) -> None:
    async with serving(failed(status, provider.error_body("bad thing own-secret-key"))) as server:
        with pytest.raises(ModelError) as caught:
            await reply_of(opened(model_at(provider, server)))

    assert said in str(caught.value)
    assert "bad thing" in str(caught.value)
    assert "own-secret-key" not in str(caught.value)
    assert caught.value.status == status
    assert not caught.value.retryable


@every
async def test_a_server_that_is_not_there_is_asked_about(provider: Provider) -> None:
    async with serving() as server:
        pass
    model = model_at(provider, server)

    with pytest.raises(ModelError, match="Is the server running") as caught:
        await reply_of(opened(model))
    await model.aclose()
    assert not caught.value.retryable


@every
async def test_a_cancelled_turn_hangs_up(provider: Provider) -> None:
    async with serving(replace(provider.hello, hold=asyncio.Event())) as server:
        talk = opened(model_at(provider, server))
        task = asyncio.ensure_future(events_of(talk))
        await soon(lambda: server.asked, "the provider has been asked")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.hung_up.wait(), 5)


@every
@owes("K-08")
async def test_tools_stay_in_order_and_are_forbidden_not_removed(provider: Provider) -> None:
    async with serving(provider.hello, provider.hello, provider.hello) as server:
        await reply_of(opened(model_at(provider, server)))
        await reply_of(opened(model_at(provider, server)), allow_tools=False)
        await reply_of(opened(model_at(provider, server), Kit()))

    first, second, third = (asked.body for asked in server.asked)
    assert [name for name in names_in(first["tools"])] == [tool.name for tool in SIX]
    assert names_in(second["tools"]) == names_in(first["tools"])
    assert second != first
    assert "tools" not in third


def names_in(tools: Any) -> list[str]:
    out: list[str] = []
    for tool in tools:
        inner = tool.get("functionDeclarations")
        out += names_in(inner) if inner else [tool["name"]]
    return out


@every
async def test_an_answer_can_be_held_to_a_schema(provider: Provider) -> None:
    schema = {"type": "object", "properties": {"port": {"type": "integer"}}}
    async with serving(provider.hello) as server:
        await reply_of(opened(model_at(provider, server), output_schema=schema))

    assert json.dumps(schema)[1:-1] in json.dumps(server.asked[0].body)


@every
def test_the_provider_itself_needs_a_key(provider: Provider) -> None:
    with pytest.raises(ModelError, match=r"Set [A-Z]+_API_KEY"):
        provider.make("m")


async def test_each_goes_to_its_own_provider_by_default() -> None:
    claude, gemini = AnthropicModel("m", api_key="k"), GeminiModel("m", api_key="k")
    responses = OpenAIResponsesModel("m", api_key="k")

    assert str(claude.client.base_url).rstrip("/") == ANTHROPIC_URL
    assert gemini.client._api_client._http_options.base_url.rstrip("/") == GEMINI_URL
    assert [m.destination for m in (claude, gemini, responses)] == [
        "api.anthropic.com", "generativelanguage.googleapis.com", "api.openai.com",
    ]  # fmt: skip
    assert [m.name for m in (claude, gemini, responses)] == ["anthropic:m", "gemini:m", "openai-responses:m"]
    for model in (claude, gemini, responses):
        await model.aclose()


RESULT = ResultsMessage(
    (
        ToolResult(
            content=(Text("seen"), Image(data=b"\x89PNG\xff\xfe", mime_type="image/png")),
            call_id="x",
            tool="read_file",
        ),
    )
)


async def two_turns(provider: Provider, first: Reply) -> tuple[list[ModelEvent], AssistantMessage, Any, Any]:
    """A turn with a call, its result, a second turn: events and message of the first, both request bodies."""
    async with serving(first, provider.hello) as server:
        talk = opened(model_at(provider, server))
        events = await events_of(talk)
        assert isinstance(events[-1], TurnEnd)
        message = events[-1].message
        talk.append(message)
        talk.append(RESULT)
        await reply_of(talk)
    return events, message, server.asked[0].body, server.asked[1].body


@owes("K-49")
async def test_anthropic_thinking_goes_back_with_its_signature_and_usage_counts_the_cache() -> None:
    redacted = {"type": "redacted_thinking", "data": "opaque=="}
    first = a_reply(
        a_start(cache_read_input_tokens=60, cache_creation_input_tokens=30),
        *a_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "let me "},
            {"type": "thinking_delta", "thinking": "see"},
            {"type": "signature_delta", "signature": "sig+/=="},
        ),
        *a_block(1, redacted),
        *a_text(2, "I read it."),
        *a_block(
            3,
            {"type": "tool_use", "id": "x", "name": "read_file", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"path": '},
            {"type": "input_json_delta", "partial_json": '"a.txt"}'},
        ),
        {"type": "ping"},
        *a_end("tool_use"),
    )

    events, message, asked_first, asked_second = await two_turns(PROVIDERS[0], first)

    assert message.content[0] == Thinking("let me see", "sig+/==")
    assert message.content[1] == Opaque("anthropic", redacted)
    assert message.calls[0].name == "read_file"
    assert message.stop == "tools"
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["let me ", "see"]
    assert "".join(e.arguments for e in events if isinstance(e, CallDelta)) == '{"path": "a.txt"}'
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        10,
        7,
        60,
        30,
    )
    sent = asked_second["messages"]
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": "let me see", "signature": "sig+/=="},
        redacted,
        {"type": "text", "text": "I read it."},
        {"type": "tool_use", "id": "x", "name": "read_file", "input": {"path": "a.txt"}},
    ]
    image = sent[2]["content"][0]["content"][1]
    assert base64.b64decode(image["source"]["data"]) == b"\x89PNG\xff\xfe"
    assert asked_first["system"] == asked_second["system"]
    assert asked_first["tools"] == asked_second["tools"]


@owes("K-08")
async def test_anthropic_cache_markers_stand_at_the_end_of_the_prefix_and_of_the_last_two_user_messages() -> (
    None
):
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "2"}]},
        {"role": "user", "content": [{"type": "text", "text": "3"}, {"type": "text", "text": "4"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "5"}]},
        {"role": "user", "content": [{"type": "text", "text": "6"}]},
    ]
    before = json.dumps(messages)
    out = with_cache_markers(messages)
    async with serving(PROVIDERS[0].hello, PROVIDERS[0].hello) as server:
        await reply_of(opened(model_at(PROVIDERS[0], server)))
        talk = model_at(PROVIDERS[0], server).converse(instructions="", tools=SIX)
        talk.append(UserMessage.of("hi"))
        await reply_of(talk)

    places = [(n, k) for n, m in enumerate(out) for k, b in enumerate(m["content"]) if "cache_control" in b]
    assert places == [(2, 1), (4, 0)]
    assert json.dumps(messages) == before
    assert "cache_control" in server.asked[0].body["system"][0]
    assert "cache_control" not in json.dumps(server.asked[0].body["tools"])
    assert "cache_control" in server.asked[1].body["tools"][-1]
    assert "cache_control" not in json.dumps(list(SIX.tools[-1].schema))


async def test_responses_reasoning_items_go_back_verbatim_and_nothing_is_stored() -> None:
    reasoning = {
        "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA+/==",
    }  # fmt: skip
    call = {
        "type": "function_call", "id": "fc_1", "call_id": "x", "name": "read_file", "arguments": '{"path": "a.txt"}',
        "status": "completed",
    }  # fmt: skip
    first = r_reply(
        {"type": "response.output_item.added", "output_index": 1, "sequence_number": 1, "item": {**call, "arguments": ""}},
        {
            "type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_1", "sequence_number": 2,
            "delta": '{"path": "a.txt"}',
        },
        r_last("completed", r_response("completed", [reasoning, call])),
    )  # fmt: skip

    events, message, asked_first, asked_second = await two_turns(PROVIDERS[1], first)

    assert message.stop == "tools"
    assert message.calls == (ToolCall("x", "read_file", '{"path": "a.txt"}'),)
    assert CallDelta(index=0, arguments='{"path": "a.txt"}') in events
    assert (message.usage.input_tokens, message.usage.cache_read_tokens, message.usage.output_tokens) == (
        40,
        60,
        7,
    )
    assert asked_first["store"] is False
    assert asked_first["include"] == ["reasoning.encrypted_content"]
    assert asked_first["instructions"] == "Be brief."
    assert asked_second["input"][: len(asked_first["input"])] == asked_first["input"]
    assert asked_second["input"][1] == reasoning
    assert asked_second["input"][-1]["call_id"] == "x"
    assert asked_second["input"][-1]["output"][1]["image_url"].startswith("data:image/png;base64,")


async def test_a_responses_failure_that_will_not_pass_is_not_repeated() -> None:
    bad = r_last("failed", r_response("failed", [], error={"code": "invalid_prompt", "message": "no"}))
    async with serving(r_reply(bad)) as server:
        with pytest.raises(ModelError, match="invalid_prompt") as caught:
            await reply_of(opened(model_at(PROVIDERS[1], server)))

    assert not caught.value.retryable


async def test_gemini_thought_signatures_go_back_on_their_part_and_usage_counts_the_cache() -> None:
    signature = base64.b64encode(bytes(range(240, 256))).decode()
    usage = {
        "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
        "totalTokenCount": 107,
    }  # fmt: skip
    first = g_reply(
        g_chunk({"text": "hm", "thought": True}),
        g_chunk(
            {
                "functionCall": {"id": "x", "name": "read_file", "args": {"path": "a.txt"}},
                "thoughtSignature": signature,
            }
        ),
        g_chunk(finish="STOP", usageMetadata=usage),
    )

    events, message, asked_first, asked_second = await two_turns(PROVIDERS[2], first)

    assert message.stop == "tools"
    assert message.calls[0].params == {"path": "a.txt"}
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["hm"]
    assert (message.usage.input_tokens, message.usage.cache_read_tokens, message.usage.output_tokens) == (
        40,
        60,
        7,
    )
    json.dumps([b.value for b in message.content if isinstance(b, Opaque)])
    sent = asked_second["contents"]
    assert sent[0] == asked_first["contents"][0]
    (part,) = [p for p in sent[1]["parts"] if "functionCall" in p]
    # The API takes both alphabets of base64; the bytes are what must be the same.
    assert base64.urlsafe_b64decode(part["thoughtSignature"].replace("+", "-").replace("/", "_")) == bytes(
        range(240, 256)
    )
    assert part["functionCall"]["args"] == {"path": "a.txt"}
    picture = next(p["inlineData"] for p in sent[2]["parts"] if "inlineData" in p)
    assert base64.urlsafe_b64decode(picture["data"].replace("+", "-").replace("/", "_")) == b"\x89PNG\xff\xfe"
    assert asked_first["systemInstruction"]["parts"][0]["text"] == "Be brief."


async def test_gemini_asks_to_wait_in_the_body() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "23s"}
    busy = failed(
        429, {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    )
    sleeps = Sleeps()
    async with serving(busy, PROVIDERS[2].hello) as server:
        assert (await reply_of(opened(model_at(PROVIDERS[2], server, sleeps)))).text == "Hello"

    assert sleeps.taken == [23.0]


@every
async def test_an_sdk_that_is_not_installed_names_its_extra(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("openai", "anthropic", "google.genai"):
        monkeypatch.setitem(sys.modules, name, None)
    model = provider.make("m", api_key="k")

    with pytest.raises(ModelError, match=r"pip install 'pegboard\["):
        await reply_of(opened(model))


@every
async def test_options_are_fields_of_every_request(provider: Provider) -> None:
    options = {"topP": 0.5} if provider.name == "gemini" else {"top_p": 0.5, "own_field": {"a": 1}}
    async with serving(provider.hello) as server:
        await reply_of(opened(model_at(provider, server, options=options)))

    body = server.asked[0].body
    sent = body["generationConfig"] if provider.name == "gemini" else body
    assert {key: sent[key] for key in options} == options


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
def test_every_provider_says_which_key_it_lacks_and_how_to_name_another_server(
    provider: str, variable: str
) -> None:
    made = import_object(MODELS[provider])

    with pytest.raises(ModelError, match=f"no key for {provider}:m") as caught:
        made("m")

    assert f"Set {variable}" in caught.value.hint
    assert f"{provider}:NAME@http" in caught.value.hint
    assert variable in made("m", api_key="k").endpoint.key_hint
    elsewhere = made("m", base_url="http://127.0.0.1:9").endpoint
    assert variable not in elsewhere.key_hint and "PEGBOARD_MODEL_KEY" in elsewhere.key_hint
