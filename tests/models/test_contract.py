"""The contract of every provider's wire: each bad outcome of the table has one defined end, on all four.

Beside tests/models/test_openai.py and test_providers.py, which look at what one wire alone has.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from pegboard import Agent, tool
from pegboard.core.effects import PURE
from pegboard.core.errors import ModelError
from pegboard.core.events import CallFinished, ModelReplied, Notice
from pegboard.core.transcript import UserMessage
from pegboard.models.anthropic import AnthropicModel
from pegboard.models.conversation import RetryTiming
from pegboard.models.gemini import GeminiModel
from pegboard.models.openai import OpenAIModel
from pegboard.models.openai_responses import OpenAIResponsesModel
from pegboard.models.retry import Retry
from pegboard.net.listening import stop_listening
from tests.ledger import owes
from tests.models import test_openai as chat
from tests.models import test_providers as wires
from tests.models.wire import Reply, Server, answer, failed, serving, sse

Call = tuple[str, str, str]
"""Id, name and arguments as text."""


@dataclass(frozen=True)
class Spoken:
    """One provider: how it says text and calls, and what else stands in its streams.

    Attributes:
        noise: raw lines that a client has to pass over: pings, comments, events of tomorrow.
        too_long: status and body of a request that is longer than the model's window.
        torn: whether arguments travel as text, so that they can be malformed.
        ids: whether calls have ids on the wire.
    """

    name: str
    make: Callable[..., Any]
    text: Callable[..., Reply]
    calls: Callable[[Sequence[Call]], Reply]
    refusal: Reply
    noise: bytes
    too_long: tuple[int, Any]
    error_body: Callable[[str], Any]
    torn: bool = True
    overloaded: int = 529


def chat_calls(calls: Sequence[Call]) -> Reply:
    pieces = [chat.call_piece(n, id=i, name=name, arguments=text) for n, (i, name, text) in enumerate(calls)]
    return answer(*(chat.chunk(p) for p in pieces), chat.chunk({}, "tool_calls"))


def responses_calls(calls: Sequence[Call]) -> Reply:
    items = [
        {
            "type": "function_call",
            "id": f"fc_{n}",
            "call_id": i,
            "name": name,
            "arguments": text,
            "status": "completed",
        }
        for n, (i, name, text) in enumerate(calls)
    ]
    return wires.r_reply(wires.r_last("completed", wires.r_response("completed", items)))


def anthropic_calls(calls: Sequence[Call]) -> Reply:
    blocks: list[dict[str, Any]] = []
    for n, (i, name, text) in enumerate(calls):
        start = {"type": "tool_use", "id": i, "name": name, "input": {}}
        blocks += wires.a_block(n, start, {"type": "input_json_delta", "partial_json": text})
    return wires.a_reply(wires.a_start(), *blocks, *wires.a_end("tool_use"))


def gemini_calls(calls: Sequence[Call]) -> Reply:
    parts = [{"functionCall": {"id": i, "name": name, "args": json.loads(text)}} for i, name, text in calls]
    return wires.g_reply(wires.g_chunk(*parts, finish="STOP"))


PROVIDERS = [
    Spoken(
        "openai",
        lambda model, *, base_url, **more: OpenAIModel(model, base_url=f"{base_url}/v1", **more),
        text=lambda *pieces: answer(*(chat.chunk({"content": p}) for p in pieces), chat.chunk({}, "stop")),
        calls=chat_calls,
        refusal=answer(chat.chunk({"refusal": "I cannot."}), chat.chunk({}, "stop")),
        noise=b": ping\n\n" + b"".join(sse({"object": "tomorrow", "choices": [], "x": 1}, done=False)),
        too_long=(400, {"error": {"message": "This model's maximum context length is 8 tokens", "code": "context_length_exceeded"}}),
        error_body=lambda text: {"error": {"message": text, "type": "some_error", "code": None}},
    ),
    Spoken(
        "openai-responses",
        OpenAIResponsesModel,
        text=lambda *pieces: wires.r_reply(
            *map(wires.r_delta, pieces),
            wires.r_last("completed", wires.r_response("completed", [wires.r_message("".join(pieces))])),
        ),
        calls=responses_calls,
        refusal=wires.PROVIDERS[1].refusal,
        noise=b": ping\n\n" + b"".join(sse({"type": "response.tomorrow", "x": 1, "sequence_number": 3}, done=False, names=True)),
        too_long=(400, {"error": {"message": "Your input exceeds the context window of this model", "code": "context_length_exceeded"}}),
        error_body=wires.PROVIDERS[1].error_body,
    ),
    Spoken(
        "anthropic",
        AnthropicModel,
        text=lambda *pieces: wires.a_reply(wires.a_start(), *wires.a_text(0, *pieces), *wires.a_end()),
        calls=anthropic_calls,
        refusal=wires.PROVIDERS[0].refusal,
        noise=b"".join(sse({"type": "ping"}, {"type": "tomorrow", "x": 1}, done=False, names=True)),
        too_long=(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}}),
        error_body=wires.PROVIDERS[0].error_body,
    ),
    Spoken(
        "gemini",
        GeminiModel,
        text=lambda *pieces: wires.g_reply(
            *(wires.g_chunk({"text": p}) for p in pieces[:-1]), wires.g_chunk({"text": pieces[-1]}, finish="STOP")
        ),
        calls=gemini_calls,
        refusal=wires.PROVIDERS[2].refusal,
        noise=b"".join(sse({"tomorrow": 1, "modelVersion": "m-1"}, done=False)),
        too_long=(400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}),
        error_body=wires.PROVIDERS[2].error_body,
        torn=False,
        overloaded=503,
    ),
]  # fmt: skip
every = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)


@tool(effects=PURE)
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def model_at(
    provider: Spoken, server: Server, *, attempts: int = 3, clock: Any = None
) -> tuple[Any, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    more = {} if clock is None else {"clock": clock}
    waiting = RetryTiming(retry=Retry(attempts=attempts), sleep=sleep, spread=lambda: 1.0, **more)
    model = provider.make("m", base_url=server.url, api_key="own-secret-key", waiting=waiting)
    server.models.append(model)
    return model, slept


async def run(provider: Spoken, *replies: Reply, **more: Any) -> tuple[Any, Server, list[float]]:
    """One run against these answers; its replay and its transcript are checked by every test's fixture."""
    async with serving(*replies) as server:
        model, slept = model_at(provider, server, **more)
        answered = await Agent(tools=[add], model=model).run("go", session="s")
    return answered, server, slept


def results(answered: Any) -> list[Any]:
    return [e.result for e in answered.events if isinstance(e, CallFinished)]


@every
async def test_a_call_is_carried_out_and_its_result_goes_back(provider: Spoken) -> None:
    answered, server, _ = await run(
        provider, provider.calls([("c1", "add", '{"a": 1, "b": 2}')]), provider.text("it is", " 3")
    )

    assert (answered.status, answered.answer) == ("done", "it is 3")
    assert [r.data for r in results(answered)] == [3]
    assert json.dumps(server.asked[1].body).count("c1") >= 2


@every
@owes("args-20", "args-21")
async def test_repeated_ids_and_equal_calls_have_one_result_each(provider: Spoken) -> None:
    same = ("c1", "add", '{"a": 1, "b": 2}')
    answered, server, _ = await run(
        provider, provider.calls([same, same, ("c1", "add", '{"a": 5, "b": 5}')]), provider.calls([same]),
        provider.text("end"),
    )  # fmt: skip

    assert answered.answer == "end"
    made = [c.id for e in answered.events if isinstance(e, ModelReplied) for c in e.message.calls]
    assert len(set(made)) == len(made)
    assert sorted(r.call_id for r in results(answered)) == sorted(made)
    assert {r.data for r in results(answered)} == {3, 10}
    assert len(server.asked) == 3


@every
@owes("args-14", "args-16", "args-18")
@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": 2,}', '{"a": 1, "b"', "[1, 2]", "five", '{"a": 1, "b": 2} trailing', "\\ud800"]
)
async def test_malformed_arguments_are_an_error_of_that_call_and_the_history_stays_sendable(
    provider: Spoken, text: str
) -> None:
    if not provider.torn:
        text = '{"a": "one", "b": null}'

    answered, server, _ = await run(provider, provider.calls([("c1", "add", text)]), provider.text("sorry"))

    assert (answered.status, answered.answer) == ("done", "sorry")
    assert [r.ok for r in results(answered)] in ([False], [True])
    json.dumps(server.asked[1].body, allow_nan=False).encode("utf-8")


@every
async def test_an_unknown_tool_is_an_error_of_that_call(provider: Spoken) -> None:
    answered, _, _ = await run(provider, provider.calls([("c1", "nope", "{}")]), provider.text("I see"))

    assert answered.answer == "I see"
    assert [r.error.code for r in results(answered)] == ["unknown_tool"]


@every
async def test_pings_comments_and_events_of_tomorrow_are_passed_over(provider: Spoken) -> None:
    said = provider.text("Hel", "lo")
    noisy = [piece for one in said.pieces[:-1] for piece in (one, provider.noise)] + list(said.pieces[-1:])

    answered, server, _ = await run(provider, replace(said, pieces=[provider.noise, *noisy]))

    assert (answered.status, answered.answer) == ("done", "Hello")
    assert len(server.asked) == 1


@every
async def test_a_stream_in_odd_pieces_is_the_same_stream(provider: Spoken) -> None:
    said = provider.text("Hé", "llo \U0001f9ed")
    raw = b"".join(said.pieces)

    answered, _, _ = await run(
        provider, replace(said, pieces=[raw[n : n + 7] for n in range(0, len(raw), 7)])
    )

    assert answered.answer == "Héllo \U0001f9ed"


@every
async def test_a_line_that_is_no_json_is_asked_for_again_and_then_told(provider: Spoken) -> None:
    said = provider.text("Hello")
    # Under the name of an event that is read, where the wire names its events.
    line = said.pieces[0].replace(b"data: {", b'data: {"half": , ', 1)
    broken = replace(said, pieces=[line, *said.pieces])

    well, server, _ = await run(provider, broken, said)
    ill, again, _ = await run(provider, broken, broken, attempts=2)

    assert (well.answer, len(server.asked)) == ("Hello", 2)
    assert (ill.status, len(again.asked)) == ("failed", 2)
    assert ill.error


@every
async def test_a_wish_to_wait_is_kept_in_seconds_milliseconds_and_as_a_date(provider: Spoken) -> None:
    class Noon:
        """A clock that stands."""

        def now(self) -> float:
            return datetime(2031, 5, 6, 12, 0, tzinfo=UTC).timestamp()

        def monotonic(self) -> float:
            return 0.0

    date = format_datetime(datetime(2031, 5, 6, 12, 0, 21, tzinfo=UTC), usegmt=True)
    body = provider.error_body("slow down")

    answered, _, slept = await run(
        provider, failed(429, body, retry_after="3"), failed(429, body, retry_after_ms="1500"),
        failed(429, body, retry_after=date), failed(429, body, retry_after="soon"), provider.text("Hello"),
        attempts=9, clock=Noon(),
    )  # fmt: skip

    assert answered.answer == "Hello"
    assert slept == [3.0, 1.5, 21.0, 8.0]


@every
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
async def test_what_will_pass_is_tried_again_and_in_the_end_told(provider: Spoken, status: int) -> None:
    busy = failed(status, provider.error_body("overloaded"))

    well, server, slept = await run(provider, busy, provider.text("Hello"))
    ill, _, waits = await run(provider, busy, busy, busy)

    assert (well.answer, len(server.asked), slept) == ("Hello", 2, [1.0])
    assert (ill.status, ill.answer) == ("failed", "")
    assert str(status) in ill.error
    assert "overloaded" in ill.error
    assert waits == [1.0, 2.0]


@every
@pytest.mark.parametrize(
    ("status", "said"), [(401, "key was refused"), (404, "model's name"), (403, "may not use")]
)
async def test_what_will_not_pass_is_told_at_once_without_the_key(
    provider: Spoken, status: int, said: str
) -> None:
    answered, server, slept = await run(provider, failed(status, provider.error_body("no: own-secret-key")))

    assert (answered.status, len(server.asked), slept) == ("failed", 1, [])
    assert said in answered.error
    assert "own-secret-key" not in repr(answered.events)


@every
async def test_a_conversation_that_is_too_long_is_shortened_once_and_sent_again(provider: Spoken) -> None:
    long = [provider.calls([(f"c{n}", "add", json.dumps({"a": 10**3000, "b": n}))]) for n in range(4)]
    too_long = failed(*provider.too_long)

    well, server, _ = await run(provider, *long, too_long, provider.text("short now"))
    ill, _, _ = await run(provider, *long, too_long, too_long)

    assert (well.status, well.answer) == ("done", "short now")
    assert [e.type for e in well.events].count("context.compacted") == 1
    assert len(server.asked) == 6
    assert len(json.dumps(server.asked[5].body)) < len(json.dumps(server.asked[4].body))
    assert ill.status == "failed"
    assert "too long" in ill.error or "exceeds" in ill.error or "context" in ill.error


FILTERED = {
    "openai": ("tool_calls", "content_filter"),
    "openai-responses": ('"status": "completed", "model"', '"status": "incomplete", "model"'),
    "anthropic": ('"stop_reason": "tool_use"', '"stop_reason": "refusal"'),
    "gemini": ('"finishReason": "STOP"', '"finishReason": "SAFETY"'),
}
"""What stands in an answer with calls, and what stands there where the provider stopped it."""
FILTERED_DETAIL = ('"incomplete_details": null', '"incomplete_details": {"reason": "content_filter"}')
CUT = {
    "openai": ('"tool_calls"}', '"length"}'),
    "openai-responses": FILTERED["openai-responses"],
    "anthropic": ('"stop_reason": "tool_use"', '"stop_reason": "max_tokens"'),
    "gemini": ('"finishReason": "STOP"', '"finishReason": "MAX_TOKENS"'),
}
CUT_DETAIL = ('"incomplete_details": null', '"incomplete_details": {"reason": "max_output_tokens"}')


def changed(reply: Reply, *pairs: tuple[str, str]) -> Reply:
    """The reply with words of its last piece of weight changed."""
    pieces = [piece.decode() for piece in reply.pieces]
    for old, new in pairs:
        place = max((n for n, piece in enumerate(pieces) if old in piece), default=None)
        if place is not None:
            pieces[place] = pieces[place].replace(old, new)
    return replace(reply, pieces=[piece.encode() for piece in pieces])


@tool(effects=PURE)
async def everything(limit: int = 0) -> str:
    """Do it all, or so much of it."""
    return f"did {limit or 'all'}"


@every
@owes("K-49", "args-14")
async def test_calls_of_an_answer_that_its_provider_stopped_do_not_run(provider: Spoken) -> None:
    calls = provider.calls([("c1", "everything", "{}"), ("c2", "everything", '{"limit": 2}')])
    stopped = changed(calls, FILTERED[provider.name], FILTERED_DETAIL)
    assert stopped != calls

    async with serving(stopped, provider.text("I leave it")) as server:
        model, _ = model_at(provider, server)
        answered = await Agent(tools=[everything], model=model).run("go", session="s")

    assert (answered.status, answered.answer) == ("done", "I leave it")
    assert [r.error and r.error.code for r in results(answered)] == ["permission_denied"] * 2
    assert "provider stopped this answer" in results(answered)[0].text


@every
@owes("K-49", "args-14")
async def test_a_call_that_is_cut_before_its_arguments_does_not_run_without_them(provider: Spoken) -> None:
    empty = "" if provider.torn else "{}"
    calls = provider.calls([("c1", "everything", '{"limit": 2}'), ("c2", "everything", empty)])
    cut = changed(calls, CUT[provider.name], CUT_DETAIL)
    assert cut != calls

    async with serving(cut, provider.text("again")) as server:
        model, _ = model_at(provider, server)
        answered = await Agent(tools=[everything], model=model).run("go", session="s")

    assert answered.answer == "again"
    done = {r.call_id: r for r in results(answered)}
    assert done["c1"].text == "did 2"
    assert done["c2"].error.code == "invalid_arguments"
    assert "cut off" in done["c2"].text


ERRORS: dict[str, Callable[[str, str], Any]] = {
    "openai": lambda kind, text: {"error": {"message": text, "code": kind}},
    "openai-responses": lambda kind, text: {
        "type": "error", "code": kind, "message": text, "param": None, "sequence_number": 3,
    },
    "anthropic": lambda kind, text: {"type": "error", "error": {"type": kind, "message": text}},
    "gemini": lambda kind, text: {"error": {"code": 503 if kind == "server_error" else 400, "message": text, "status": kind}},
}  # fmt: skip


def broken_off(provider: Spoken, kind: str, text: str, before: Sequence[bytes] = ()) -> Reply:
    event = ERRORS[provider.name](kind, text)
    return Reply(
        headers={"content-type": "text/event-stream"},
        pieces=[*before, *sse(event, done=False, names=provider.name in ("anthropic", "openai-responses"))],
    )


@every
@owes("K-49")
async def test_an_error_event_that_may_pass_is_tried_again_also_when_something_was_said(
    provider: Spoken,
) -> None:
    said = provider.text("Half of", " it")
    half = said.pieces[: 1 + next(n for n, p in enumerate(said.pieces) if b"Half of" in p)]

    well, server, _ = await run(
        provider, broken_off(provider, "server_error", "busy"), provider.text("Hello")
    )
    again, twice, _ = await run(
        provider, broken_off(provider, "server_error", "busy", half), provider.text("Hello")
    )

    assert (well.answer, len(server.asked)) == ("Hello", 2)
    assert (again.answer, len(twice.asked)) == ("Hello", 2)
    assert ["busy" in e.text for e in again.events if isinstance(e, Notice)] == [True]


@every
@owes("K-73")
async def test_a_full_window_that_is_told_inside_the_stream_is_shortened_too(provider: Spoken) -> None:
    long = [provider.calls([(f"c{n}", "add", json.dumps({"a": 10**3000, "b": n}))]) for n in range(4)]
    full = broken_off(provider, "invalid_request", "prompt is too long: 9 tokens > 8 maximum")

    answered, server, slept = await run(provider, *long, full, provider.text("short now"))

    assert (answered.status, answered.answer, len(server.asked), slept) == ("done", "short now", 6, [])


@every
@owes("K-15")
async def test_a_stream_that_falls_silent_is_given_up_by_the_idle_time(provider: Spoken) -> None:
    said = provider.text("Half of", " it")
    never = asyncio.Event()
    at = 1 + next(n for n, p in enumerate(said.pieces) if b"Half of" in p)
    silent = replace(said, hold=never, pieces=[b"".join(said.pieces[:at]), b"".join(said.pieces[at:])])
    async with serving(silent) as server:
        waiting = RetryTiming(retry=Retry(attempts=1), sleep=asyncio.sleep, spread=lambda: 1.0)
        model = provider.make("m", base_url=server.url, api_key="k", waiting=waiting, timeout_s=0.05)
        server.models.append(model)
        answered = await Agent(tools=[add], model=model).run("go", session="s")

    assert (answered.status, len(server.asked)) == ("failed", 1)
    assert "did not answer in time" in answered.error


TOO_LONG = [
    "Please reduce the length of the messages or completion.",
    "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    "prompt token count of 130000 exceeds the limit of 128000",
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "the request exceeds the available context size, try increasing it",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "exceeded model token limit: 8192 (requested: 9000)",
    "Range of input length should be [1, 98304]",
    "too many total text bytes: 9000000 bytes, limit 8000000",
    "Input is too large for this model",
]
"""As xAI, Groq, Bedrock, Copilot, vLLM, llama.cpp, Mistral, Moonshot and DashScope word it."""


@every
@owes("K-73")
async def test_a_window_that_is_full_is_understood_in_every_servers_words(provider: Spoken) -> None:
    long = [provider.calls([(f"c{n}", "add", json.dumps({"a": 10**3000, "b": n}))]) for n in range(4)]
    full = [failed(400, provider.error_body(words)) for words in TOO_LONG]
    page = b"<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>"
    full.append(Reply(status=413, headers={"content-type": "text/html"}, pieces=[page]))

    for said in full:
        well, server, _ = await run(provider, *long, said, provider.text("short now"))
        assert (well.status, well.answer) == ("done", "short now"), said
        assert len(json.dumps(server.asked[5].body)) < len(json.dumps(server.asked[4].body))


@every
@owes("K-73")
async def test_what_cannot_be_shortened_fails_with_the_words_of_the_server(provider: Spoken) -> None:
    short = [provider.calls([(f"c{n}", "add", json.dumps({"a": 1, "b": n}))]) for n in range(2)]

    ill, _, _ = await run(provider, *short, *[failed(*provider.too_long)] * 2)

    assert ill.status == "failed"
    assert str(provider.too_long[0]) in ill.error
    assert "too long for this model" in ill.error


@every
async def test_a_refusal_is_the_answer_and_named_so(provider: Spoken) -> None:
    answered, server, _ = await run(provider, provider.refusal)

    assert answered.status == "done"
    assert answered.answer
    assert answered.error in ("stop: refusal", "stop: filtered")
    assert len(server.asked) == 1


@every
async def test_a_connection_that_is_reset_midway_is_tried_again_and_told_in_the_end(provider: Spoken) -> None:
    """RST, not FIN: what a balancer does that is restarted."""
    said = provider.text("Half of", " it")
    asked = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        head = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        # Up to the first piece of text.
        body = b"".join(said.pieces[: 1 + next(n for n, p in enumerate(said.pieces) if b"Half of" in p)])
        writer.write(head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n")
        await writer.drain()
        await heard.wait()
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.transport.abort()

    heard = asyncio.Event()
    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    server = Server(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    model, _ = model_at(provider, server, attempts=2)
    try:
        agent = Agent(tools=[add], model=model)
        events: list[Any] = []
        async for event in agent.stream("go", session="s"):
            events.append(event)
            if event.type == "model.text":
                heard.set()
    finally:
        await model.aclose()
        await stop_listening(listener)

    assert [e.text for e in events if e.type == "model.text"] == ["Half of"] * 2
    assert ["asked for once more" in e.text for e in events if e.type == "notice"] == [True]
    assert events[-1].status == "failed"
    assert "broke off" in events[-1].error
    assert asked == 2


@every
async def test_a_failure_is_a_model_error_that_says_whether_it_passes(provider: Spoken) -> None:
    async with serving(failed(provider.overloaded, provider.error_body("busy"))) as server:
        model, _ = model_at(provider, server, attempts=1)
        talk = model.converse(instructions="", tools=Agent(tools=[add], model=model).executor.toolkit)
        talk.append(UserMessage.of("go"))
        with pytest.raises(ModelError) as caught:
            _ = [e async for e in talk.reply()]

    assert caught.value.retryable
    assert caught.value.status == provider.overloaded
