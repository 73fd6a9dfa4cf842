from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from pegboard.core.content import Text, ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Opaque, ResultsMessage, Thinking, UserMessage
from pegboard.models.conversation import ProviderConversation, RetryTiming
from pegboard.models.openai import OPENAI_URL, OpenAIModel
from pegboard.models.retry import Retry
from pegboard.ports.model import CallDelta, ModelEvent, TextDelta, TurnEnd
from tests.ledger import owes
from tests.models.kit import SIX, Kit
from tests.models.wire import Reply, Server, answer, failed, serving


class Sleeps:
    """A sleep that takes no time and remembers."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk as https://platform.openai.com/docs/api-reference/chat-streaming has it."""
    choices = [] if delta is None else [{"index": 0, "delta": dict(delta), "finish_reason": finish}]
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": choices,
        **more,
    }


def call_piece(index: int, **more: Any) -> dict[str, Any]:
    id = more.pop("id", None)
    piece: dict[str, Any] = {"index": index, "function": more}
    if id is not None:
        piece |= {"id": id, "type": "function"}
    return {"tool_calls": [piece]}


HELLO = answer(chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop"))


def model_at(server: Server, sleeps: Sleeps | None = None, attempts: int = 3, **more: Any) -> OpenAIModel:
    waiting = RetryTiming(retry=Retry(attempts=attempts), sleep=sleeps or Sleeps(), spread=lambda: 1.0)
    model = OpenAIModel("m", base_url=f"{server.url}/v1", waiting=waiting, **more)
    server.models.append(model)
    return model


def opened(model: OpenAIModel, kit: Any = SIX, **more: Any) -> ProviderConversation:
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


async def test_text_is_forwarded_as_it_arrives_and_the_whole_message_comes_last() -> None:
    hold = asyncio.Event()
    reply = Reply(headers=HELLO.headers, pieces=HELLO.pieces, hold=hold)
    async with serving(reply) as server:
        events = aiter(opened(model_at(server)).reply())

        first = await anext(events)
        hold.set()
        rest = [event async for event in events]

    assert first == TextDelta("Hel")
    assert rest[0] == TextDelta("lo")
    assert isinstance(rest[-1], TurnEnd)
    assert rest[-1].message.text == "Hello"
    assert rest[-1].message.stop == "end"


@owes("K-08")
async def test_the_request_has_instructions_tools_in_order_and_asks_for_usage() -> None:
    async with serving(HELLO) as server:
        await reply_of(opened(model_at(server, options={"temperature": 0}), output_schema={"type": "object"}))

    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read a.txt"},
    ]
    assert [tool["function"]["name"] for tool in asked.body["tools"]] == [tool.name for tool in SIX]
    assert asked.body["stream_options"] == {"include_usage": True}
    assert asked.body["temperature"] == 0
    assert asked.body["response_format"]["json_schema"]["schema"] == {"type": "object"}


@owes("K-49")
async def test_each_turn_repeats_the_request_before_it_byte_for_byte_and_adds_to_it() -> None:
    calls = answer(
        chunk(call_piece(0, id="call_a", name="read_file", arguments='{"path": "a.txt"}')),
        chunk({}, "tool_calls"),
    )
    async with serving(calls, HELLO) as server:
        talk = opened(model_at(server))
        message = await reply_of(talk)
        talk.append(message)
        talk.append(ResultsMessage((ToolResult(content=(Text("hi"),), call_id="call_a", tool="read_file"),)))
        await reply_of(talk)

    first, second = (asked.body for asked in server.asked)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["tools"] == first["tools"]
    assert second["messages"][-2]["tool_calls"][0]["id"] == "call_a"
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "call_a", "content": "hi"}


async def test_calls_are_put_together_from_their_pieces() -> None:
    stream = answer(
        chunk({"role": "assistant", "content": None}),
        chunk(call_piece(0, id="call_a", name="read_file", arguments="")),
        chunk(call_piece(0, arguments='{"path": ')),
        chunk(call_piece(1, id="call_b", name="list_dir", arguments="{}")),
        chunk(call_piece(0, arguments='"a.txt"}')),
        chunk({}, "tool_calls"),
        chunk(
            usage={
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "total_tokens": 107,
                "prompt_tokens_details": {"cached_tokens": 60},
            }
        ),
    )
    async with serving(stream) as server:
        events = await events_of(opened(model_at(server)))

    assert isinstance(events[-1], TurnEnd)
    message = events[-1].message
    assert message.stop == "tools"
    assert message.calls == (
        ToolCall("call_a", "read_file", '{"path": "a.txt"}'),
        ToolCall("call_b", "list_dir", "{}"),
    )
    assert CallDelta(index=0, id="call_a", name="read_file") in events
    assert [e.arguments for e in events if isinstance(e, CallDelta) and e.index == 0] == [
        "",
        '{"path": ',
        '"a.txt"}',
    ]
    # 60 of the 100 prompt tokens came from the cache.
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (40, 60, 7)
    assert usage.requests == 1


@owes("args-13", "args-21")
async def test_calls_without_id_or_arguments_are_kept_as_they_came() -> None:
    stream = answer(chunk(call_piece(0, name="list_dir", arguments=None)), chunk({}, "stop"))
    async with serving(stream) as server:
        message = await reply_of(opened(model_at(server)))

    (call,) = message.calls
    assert not call.id
    assert not call.arguments
    # The server said "stop" although it called a tool.
    assert message.stop == "tools"


@owes("args-14")
async def test_a_call_that_the_token_limit_cut_keeps_its_torn_arguments() -> None:
    torn = '{"path": "a.txt", "content": "line 1\\nline 2'
    stream = answer(chunk(call_piece(0, id="x", name="write_file", arguments=torn)), chunk({}, "length"))
    async with serving(stream, HELLO) as server:
        talk = opened(model_at(server))
        message = await reply_of(talk)
        talk.append(message)
        talk.append(ResultsMessage((ToolResult(content=(Text("cut off"),), call_id="x"),)))
        await reply_of(talk)

    assert message.stop == "length"
    assert message.calls[0].arguments == torn
    # What is sent back is valid JSON again, or the server would refuse every later request.
    json.loads(server.asked[1].body["messages"][-2]["tool_calls"][0]["function"]["arguments"])


async def test_a_refusal_is_text_with_its_own_stop_reason() -> None:
    stream = answer(chunk({"refusal": "I cannot "}), chunk({"refusal": "do that."}), chunk({}, "stop"))
    async with serving(stream) as server:
        message = await reply_of(opened(model_at(server)))

    assert message.stop == "refusal"
    assert message.text == "I cannot do that."


async def test_a_filtered_answer_is_said_to_be_filtered() -> None:
    async with serving(answer(chunk({"content": "So"}), chunk({}, "content_filter"))) as server:
        message = await reply_of(opened(model_at(server)))

    assert message.stop == "filtered"


async def test_reasoning_text_is_kept_apart_from_the_answer() -> None:
    stream = answer(chunk({"reasoning_content": "hm"}), chunk({"content": "42"}), chunk({}, "stop"))
    async with serving(stream) as server:
        message = await reply_of(opened(model_at(server)))

    assert message.content == (Thinking("hm"), Opaque("openai-chat", {"reasoning_content": "hm"}), Text("42"))


async def test_an_empty_answer_is_asked_for_once_more_and_then_given_as_it_is() -> None:
    empty = answer(chunk({"role": "assistant"}), chunk({}, "stop"))
    async with serving(empty, HELLO) as server:
        assert (await reply_of(opened(model_at(server)))).text == "Hello"
    async with serving(empty, empty, HELLO) as server:
        message = await reply_of(opened(model_at(server)))

    assert message.content == ()
    assert message.stop == "end"
    assert len(server.asked) == 2


@pytest.mark.parametrize("cut", [True, False])
async def test_a_stream_that_breaks_off_before_anything_was_forwarded_is_asked_for_again(cut: bool) -> None:
    broken = answer(chunk({"role": "assistant"}), done=False, cut=cut)
    sleeps = Sleeps()
    async with serving(broken, HELLO) as server:
        message = await reply_of(opened(model_at(server, sleeps)))

    assert message.text == "Hello"
    assert sleeps.taken == [1.0]


async def test_garbage_in_a_stream_is_a_retryable_error() -> None:
    garbage = Reply(headers={"content-type": "text/event-stream"}, pieces=[b"data: {not json\n\n"])
    async with serving(garbage, garbage) as server:
        with pytest.raises(ModelError) as caught:
            await reply_of(opened(model_at(server, attempts=2)))

    assert caught.value.retryable
    assert len(server.asked) == 2


async def test_an_error_event_inside_the_stream_is_told() -> None:
    event = {"error": {"message": "the GPU fell over", "type": "server_error"}}
    async with serving(answer(event, done=False)) as server:
        with pytest.raises(ModelError, match="the GPU fell over") as caught:
            await reply_of(opened(model_at(server, attempts=1)))

    assert caught.value.retryable


async def test_overload_waits_as_long_as_the_server_asks() -> None:
    busy = failed(429, {"error": {"message": "slow down"}}, retry_after="7")
    precise = failed(503, {"error": {"message": "busy"}}, retry_after_ms="1500")
    sleeps = Sleeps()
    async with serving(busy, precise, HELLO) as server:
        message = await reply_of(opened(model_at(server, sleeps)))

    assert message.text == "Hello"
    assert sleeps.taken == [7.0, 1.5]


async def test_without_a_wish_the_waits_double_until_the_attempts_are_used_up() -> None:
    sleeps = Sleeps()
    async with serving(*[failed(500, {"error": {"message": "oops"}})] * 4) as server:
        with pytest.raises(ModelError, match="oops") as caught:
            await reply_of(opened(model_at(server, sleeps, attempts=4)))

    assert sleeps.taken == [1.0, 2.0, 4.0]
    assert caught.value.status == 500
    assert caught.value.retryable


async def test_a_wish_longer_than_the_longest_wait_is_told_and_not_waited_for() -> None:
    sleeps = Sleeps()
    async with serving(failed(429, {"error": {"message": "later"}}, retry_after="3600")) as server:
        with pytest.raises(ModelError, match="wait 3600 s") as caught:
            await reply_of(opened(model_at(server, sleeps)))

    assert sleeps.taken == []
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"error": {"message": "Incorrect API key provided: sk-secret-key-1."}}, "own key"),
        (403, {"error": {"message": "not allowed"}}, "may not use 'm'"),
        (404, {"error": {"message": "model 'm' not found"}}, "Check the model's name"),
        (400, {"error": {"message": "bad tool", "code": "invalid_value"}}, "bad tool (invalid_value)"),
        (400, {"error": {"message": "exceeds the context length"}}, "compact"),
        (413, {"detail": "big"}, "compact"),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, "no credit"),
        (422, {"detail": [{"msg": "odd"}]}, "odd"),
    ],
)
async def test_an_error_that_will_not_pass_is_told_at_once_with_what_to_do(
    status: int, body: Any, said: str
) -> None:
    async with serving(failed(status, body)) as server:
        with pytest.raises(ModelError) as caught:
            await reply_of(opened(model_at(server, api_key="sk-secret-key-1")))

    assert said in str(caught.value)
    assert not caught.value.retryable
    assert caught.value.status == status
    assert "sk-secret-key-1" not in str(caught.value)


async def test_a_server_that_is_not_there_is_asked_about_and_not_waited_for() -> None:
    async with serving() as server:
        pass
    sleeps = Sleeps()
    model = model_at(server, sleeps)

    with pytest.raises(ModelError, match="Is the server running") as caught:
        await reply_of(opened(model))
    await model.aclose()

    assert sleeps.taken == []
    assert not caught.value.retryable


async def test_a_server_that_says_nothing_is_given_up_and_asked_again() -> None:
    silent = Reply(headers=HELLO.headers, pieces=[b": ping\n\n", *HELLO.pieces], hold=asyncio.Event())
    async with serving(silent, HELLO) as server:
        message = await reply_of(opened(model_at(server, timeout_s=0.05)))

    assert message.text == "Hello"


async def test_a_cancelled_turn_hangs_up() -> None:
    endless = Reply(headers=HELLO.headers, pieces=HELLO.pieces, hold=asyncio.Event())
    async with serving(endless) as server:
        talk = opened(model_at(server))
        began = asyncio.Event()

        async def read() -> None:
            async for _ in talk.reply():
                began.set()

        task = asyncio.ensure_future(read())
        await asyncio.wait_for(began.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.hung_up.wait(), 5)


async def test_a_redirect_is_not_followed() -> None:
    moved = Reply(status=307, headers={"location": "http://127.0.0.1:1/v1/chat/completions"})
    async with serving(moved) as server:
        with pytest.raises(ModelError):
            await reply_of(opened(model_at(server, attempts=1)))

    assert len(server.asked) == 1


@owes("K-08", "K-51")
async def test_without_leave_to_call_tools_they_stay_in_the_request_and_are_forbidden() -> None:
    async with serving(HELLO, HELLO) as server:
        await reply_of(opened(model_at(server)), allow_tools=False)
        await reply_of(opened(model_at(server), Kit()), allow_tools=False)

    assert server.asked[0].body["tool_choice"] == "none"
    assert len(server.asked[0].body["tools"]) == 6
    assert "tools" not in server.asked[1].body


async def test_another_server_gets_its_own_key_or_a_placeholder_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "sk-of-openai")
    async with serving(HELLO, HELLO) as server:
        await reply_of(opened(model_at(server)))
        await reply_of(opened(model_at(server, api_key="own")))

    assert server.asked[0].headers["authorization"] == "Bearer none"
    assert server.asked[1].headers["authorization"] == "Bearer own"
    assert not any("sk-of-openai" in str(asked.headers) for asked in server.asked)


async def test_openai_itself_needs_a_key_and_is_reached_at_its_own_address_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://evil.example/v1")
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt")

    model = OpenAIModel("gpt", api_key="k")

    assert str(model.client.base_url).rstrip("/") == OPENAI_URL
    assert (model.name, model.destination) == ("openai:gpt", "api.openai.com")
    await model.aclose()


def test_a_server_on_this_machine_is_called_so() -> None:
    model = OpenAIModel("m", base_url="http://localhost:11434/v1")

    assert (model.name, model.destination) == ("openai:m@http://localhost:11434/v1", "this machine")


def test_a_model_serves_one_loop_after_the_other() -> None:
    model: OpenAIModel | None = None

    async def once() -> str:
        nonlocal model
        async with serving(HELLO) as server:
            if model is None:
                model = OpenAIModel("m", base_url=f"{server.url}/v1")
            first = model.client
            assert model.client is first
            await model.aclose()
        return str(id(first))

    asyncio.run(once())
    asyncio.run(once())
