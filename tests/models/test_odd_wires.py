"""Odd answers over all four wires: each has one defined outcome, and none is an exception of its own kind (ledger K-49)."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pegboard.core.errors import ModelError
from pegboard.core.transcript import AssistantMessage
from pegboard.models.conversation import ProviderConversation
from pegboard.models.openai import OpenAIModel
from pegboard.ports.model import TextDelta, TurnEnd
from tests.ledger import owes
from tests.models.test_providers import (
    PROVIDERS,
    Provider,
    Sleeps,
    a_block,
    a_end,
    a_reply,
    a_start,
    g_chunk,
    g_reply,
    model_at,
    opened,
    r_last,
    r_message,
    r_reply,
    r_response,
    reply_of,
)
from tests.models.wire import Reply, answer, failed, serving


def c_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": [choice],
        **more,
    }


CHAT = Provider(
    "openai", OpenAIModel,
    hello=answer(c_chunk({"role": "assistant", "content": "Hel"}), c_chunk({"content": "lo"}), c_chunk({}, "stop")),
    refusal=answer(c_chunk({"refusal": "I cannot."}), c_chunk({}, "stop")),
    cut_off=answer(c_chunk({"content": "Hel"}, "length")), empty=answer(c_chunk({}, "stop")),
    silent_break=answer(c_chunk({"role": "assistant"}), cut=True), midway_break=answer(c_chunk({"content": "Half of"}), cut=True),
    error_event=answer({"error": {"message": "it fell over", "type": "server_error"}}),
    error_body=lambda text: {"error": {"message": text, "type": "some_error", "code": None}},
)  # fmt: skip
ALL = [CHAT, *PROVIDERS]
every = pytest.mark.parametrize("provider", ALL, ids=lambda p: p.name)
STREAM = {"content-type": "text/event-stream"}


def body_of(reply: Reply) -> bytes:
    return b"".join(reply.pieces)


async def outcome(provider: Provider, *replies: Reply) -> AssistantMessage | ModelError:
    """What became of one turn: the message or the ModelError; anything else is a fault."""
    async with serving(*replies) as server:
        try:
            return await reply_of(opened(model_at(provider, server, attempts=1)))
        except ModelError as error:
            return error


def calling(provider: Provider, *calls: tuple[Any, str, str], stop: str | None = None) -> Reply:
    """An answer of some calls (id, name, arguments as text) with a stop reason of the wire's own."""
    if provider.name == "openai":
        deltas = [
            {"index": n, "id": i, "type": "function", "function": {"name": name, "arguments": text}}
            for n, (i, name, text) in enumerate(calls)
        ]
        return answer(c_chunk({"tool_calls": deltas}), c_chunk({}, stop or "tool_calls"))
    if provider.name == "anthropic":
        blocks = [
            event
            for n, (i, name, text) in enumerate(calls)
            for event in a_block(
                n,
                {"type": "tool_use", "id": i, "name": name, "input": {}},
                {"type": "input_json_delta", "partial_json": text},
            )
        ]
        return a_reply(a_start(), *blocks, *a_end(stop or "tool_use"))
    if provider.name == "openai-responses":
        items = [
            {"type": "function_call", "id": f"fc_{n}", "call_id": i, "name": name, "arguments": text, "status": "completed"}
            for n, (i, name, text) in enumerate(calls)
        ]  # fmt: skip
        return r_reply(r_last("completed", r_response(stop or "completed", items)))
    parts = [
        {"functionCall": {**({} if i is None else {"id": i}), "name": name, "args": json.loads(text)}}
        for i, name, text in calls
    ]
    return g_reply(g_chunk(*parts, finish=stop or "STOP"))


@pytest.mark.full
@every
@owes("K-49")
async def test_a_stream_cut_at_any_byte_is_a_whole_answer_or_a_retryable_error(provider: Provider) -> None:
    body = body_of(provider.hello)
    chance = random.Random(7)
    places = sorted({0, 1, len(body) - 1, *chance.sample(range(len(body)), 12)})

    for place in places:
        for cut in (True, False):
            done = await outcome(
                provider, Reply(headers=STREAM, pieces=[body[:place]] if place else [], cut=cut)
            )
            if isinstance(done, AssistantMessage):
                assert done.text == "Hello", (place, cut)
            else:
                assert done.retryable, (place, cut, str(done))


@every
@owes("K-49")
@pytest.mark.parametrize("bytewise", [False, True], ids=["at once", "one byte at a time"])
@pytest.mark.parametrize(
    "how", ["plain", "comments and pings", "fields without data", "CRLF", "no end of the last event"]
)
async def test_how_a_stream_is_framed_makes_no_difference(
    provider: Provider, how: str, bytewise: bool
) -> None:
    """WHATWG HTML §9.2.6: comments are ignored, and an event without data is none."""
    body = body_of(provider.hello).replace(b'"lo"', '"lö 🙂"'.encode())
    if how == "comments and pings":
        body = b": keep-alive\n\n" + body.replace(b"\n\n", b"\n\n: ping\n\n")
    elif how == "fields without data":
        body = b"retry: 3000\n\n" + body.replace(b"\n\n", b"\n\nid: 7\nretry: 10\n\n")
    elif how == "CRLF":
        body = body.replace(b"\n", b"\r\n")
    elif how == "no end of the last event":
        body = body.removesuffix(b"data: [DONE]\n\n").rstrip(b"\n")

    done = await outcome(
        provider,
        Reply(headers=STREAM, pieces=[body[n : n + 1] for n in range(len(body))] if bytewise else [body]),
    )

    assert isinstance(done, AssistantMessage), str(done)
    assert done.text == ("Hello" if provider.name == "openai-responses" else "Hellö 🙂")


@every
@owes("K-49")
@pytest.mark.parametrize("junk", [b"data: {broken\n\n", b"data: {}}\n\n", b""], ids=["torn", "two", "cut"])
async def test_what_breaks_behind_the_end_of_an_answer_does_not_take_it_back(
    provider: Provider, junk: bytes
) -> None:
    done = await outcome(provider, Reply(headers=STREAM, pieces=[body_of(provider.hello), junk], cut=True))

    assert isinstance(done, AssistantMessage), str(done)
    assert done.text == "Hello"


async def test_an_error_that_is_told_behind_the_end_is_one() -> None:
    body = body_of(CHAT.hello).removesuffix(b"data: [DONE]\n\n")
    told = b'data: {"error": {"message": "the moderator said no"}}\n\n'

    done = await outcome(CHAT, Reply(headers=STREAM, pieces=[body, told]))

    assert isinstance(done, ModelError)
    assert "the moderator said no" in str(done)


@every
async def test_an_error_event_by_name_is_told_by_its_words(provider: Provider) -> None:
    told = b'event: error\ndata: {"error": {"message": "it fell over", "code": 503}}\n\n'

    done = await outcome(provider, Reply(headers=STREAM, pieces=[told]))

    assert isinstance(done, ModelError)
    assert "it fell over" in str(done)


@every
@pytest.mark.parametrize("split", [0, 1, 2, 3, 5])
async def test_a_byte_order_mark_before_the_stream_loses_nothing(provider: Provider, split: int) -> None:
    """WHATWG HTML §9.2.6: one leading U+FEFF is ignored."""
    body = b"\xef\xbb\xbf" + body_of(provider.hello)
    pieces = [body[:split], body[split:]] if split else [body]

    done = await outcome(provider, Reply(headers=STREAM, pieces=pieces))

    assert isinstance(done, AssistantMessage), str(done)
    assert done.text == "Hello"


@every
async def test_a_compressed_stream_is_read_and_a_torn_one_is_no_other_answer(provider: Provider) -> None:
    body = gzip.compress(body_of(provider.hello))
    headers = {**STREAM, "content-encoding": "gzip"}

    whole = await outcome(provider, Reply(headers=headers, pieces=[body[:30], body[30:]]))
    torn = [await outcome(provider, Reply(headers=headers, pieces=[body[:n]])) for n in (1, 15, 60, 100)]
    lied = await outcome(provider, Reply(headers=headers, pieces=[body_of(provider.hello)]))

    assert isinstance(whole, AssistantMessage), str(whole)
    assert whole.text == "Hello"
    assert [type(one).__name__ for one in (*torn, lied)] == ["ModelError"] * 5
    assert all(one.retryable for one in (*torn, lied) if isinstance(one, ModelError))


PAGE = (
    b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>p {color: red}</style></head><body>"
    b"<h1>502 Bad Gateway</h1><hr><center>nginx &amp; friends</center><script>var a = 1;</script>"
    + b"<p></p>" * 2_000
    + b"</body></html>"
)


@every
@owes("K-49")
async def test_of_a_page_in_the_place_of_an_answer_its_words_are_told(provider: Provider) -> None:
    kind = {"content-type": "text/html"}
    refused = await outcome(provider, Reply(status=502, headers=kind, pieces=[PAGE]))
    instead = await outcome(provider, Reply(headers=kind, pieces=[PAGE[:40], PAGE[40:]]))
    silent = await outcome(provider, Reply(status=401))

    for error in (refused, instead):
        assert isinstance(error, ModelError)
        assert error.retryable
        assert "502 Bad Gateway nginx & friends" in error.message
        assert "<" not in error.message
        assert "color" not in error.message
        assert "var a" not in error.message
    assert "without a stream" in str(instead)
    assert "no reason given" in str(silent)


@every
@owes("K-49")
async def test_an_error_as_json_in_the_place_of_the_stream_is_told_by_its_own_words(
    provider: Provider,
) -> None:
    def said(code: Any) -> Reply:
        body = {"error": {"message": "it is own-secret-key that fails", "code": code}}
        return Reply(headers={"content-type": "application/json"}, pieces=[json.dumps(body).encode()])

    unpaid, busy, named = [await outcome(provider, said(code)) for code in (402, 503, "insufficient")]

    assert isinstance(unpaid, ModelError)
    assert isinstance(busy, ModelError)
    assert isinstance(named, ModelError)
    assert ("402" in str(unpaid), unpaid.retryable) == (True, False)
    assert ("503" in str(busy), busy.retryable) == (True, True)
    for error in (unpaid, busy, named):
        assert "that fails" in error.message
        assert "own-secret-key" not in str(error)


@every
async def test_a_redirect_is_told_and_neither_followed_nor_tried_again(provider: Provider) -> None:
    moved = Reply(status=302, headers={"location": "http://127.0.0.1:1/"})
    async with serving(moved, provider.hello) as server:
        with pytest.raises(ModelError, match="answered 302: it redirects to another address") as caught:
            await reply_of(opened(model_at(provider, server)))

    assert not caught.value.retryable
    assert len(server.asked) == 1


ODD_USAGE: list[Any] = [None, {}, "many", 5, [], {"input_tokens": None, "output_tokens": None}, {"input_tokens": "7"},
                        {"prompt_tokens": -1, "completion_tokens": 1.5}, {"promptTokenCount": None},
                        {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 2, "output_tokens_details": None},
                        {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": None}},
                        {"input_tokens": 5, "cache_read_input_tokens": None, "cache_creation_input_tokens": "x"},
                        {"prompt_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}}]  # fmt: skip


def with_usage(provider: Provider, usage: Any) -> Reply:
    if provider.name == "openai":
        return answer(c_chunk({"content": "Hello"}), c_chunk({}, "stop", usage=usage))
    if provider.name == "anthropic":
        start = a_start()
        start["message"]["usage"] = usage
        end = a_end()
        end[0]["usage"] = usage
        return a_reply(
            start, *a_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello"}), *end
        )
    if provider.name == "openai-responses":
        return r_reply(r_last("completed", r_response("completed", [r_message("Hello")], usage=usage)))
    return g_reply(g_chunk({"text": "Hello"}, finish="STOP", usageMetadata=usage))


@every
@owes("K-49", "G-21")
@pytest.mark.parametrize("usage", ODD_USAGE, ids=lambda u: json.dumps(u)[:40])
async def test_odd_usage_costs_no_answer_and_counts_no_negative_or_foreign_figures(
    provider: Provider, usage: Any
) -> None:
    done = await outcome(provider, with_usage(provider, usage))

    if provider.name == "gemini" and isinstance(done, ModelError):
        # Its SDK refuses a figure that is none; then the turn may be tried again, and nothing is made up.
        assert done.retryable and "usage_metadata" in str(done)
        return
    assert isinstance(done, AssistantMessage), str(done)
    assert done.text == "Hello"
    told = done.usage
    for figure in (told.input_tokens, told.output_tokens, told.cache_read_tokens, told.cache_write_tokens):
        assert type(figure) is int and figure >= 0, told


@every
@pytest.mark.filterwarnings("ignore:.*is not a valid FinishReason:UserWarning")
@pytest.mark.parametrize("stop", ["", "whatever_is_new", "STOP_9", "pause"])
async def test_an_unknown_stop_reason_is_an_end_and_with_calls_they_run(
    provider: Provider, stop: str
) -> None:
    if provider.name == "openai-responses":
        stop = "completed"
    done = await outcome(
        provider, calling(provider, ("x", "read_file", '{"path": "a.txt"}'), stop=stop or "unknown")
    )

    assert isinstance(done, AssistantMessage), str(done)
    assert [c.name for c in done.calls] == ["read_file"]
    assert done.stop in ("tools", "end")


@every
@owes("args-20", "args-21", "K-49")
@pytest.mark.parametrize("ids", [("x", "x"), ("", ""), ("x", ""), (None, None)], ids=str)
async def test_repeated_and_missing_ids_keep_every_call(provider: Provider, ids: tuple[Any, Any]) -> None:
    reply = calling(
        provider, (ids[0], "read_file", '{"path": "a.txt"}'), (ids[1], "read_file", '{"path": "b.txt"}')
    )

    done = await outcome(provider, reply)

    assert isinstance(done, AssistantMessage), str(done)
    paths = [a if isinstance(a, str) else json.dumps(a) for a in (c.arguments for c in done.calls)]
    assert ["a.txt" in paths[0], "b.txt" in paths[1]] == [True, True]


@every
@pytest.mark.parametrize(
    "body",
    [b"<html><body>Log in to the network</body></html>", b"", b"{}", b"null", b'{"ok": true}'],
    ids=repr,
)
async def test_what_is_no_stream_at_all_is_an_error_and_no_empty_answer(
    provider: Provider, body: bytes
) -> None:
    for kind in ("text/html", "application/json", "text/event-stream"):
        done = await outcome(provider, Reply(headers={"content-type": kind}, pieces=[body] if body else []))

        assert isinstance(done, ModelError), (kind, done)


# RFC 9110 §10.2.3: seconds without sign or point, or a date; `retry-after-ms` is a habit of providers.
WAITS: list[tuple[dict[str, str], float | None]] = [
    ({"retry_after": "0"}, 0.0),
    ({"retry_after": "7"}, 7.0),
    ({"retry_after": " 7 "}, 7.0),
    ({"retry_after": "1.5"}, 1.5),
    ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ({"retry_after_ms": "250"}, 0.25),
    ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
    ({"retry_after": "-1"}, None),
    ({"retry_after": "soon"}, None),
    ({"retry_after": "nan"}, None),
    ({"retry_after": "inf"}, None),
    ({"retry_after": ""}, None),
    ({"retry_after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
    ({"retry_after": "1_0"}, None),
]


@every
@pytest.mark.parametrize(("headers", "seconds"), WAITS, ids=lambda v: str(v)[:40])
async def test_every_form_of_retry_after_is_waited_for_and_nonsense_falls_back_to_doubling(
    provider: Provider, headers: dict[str, str], seconds: float | None
) -> None:
    sleeps = Sleeps()
    busy = failed(429, provider.error_body("slow down"), **headers)
    async with serving(busy, provider.hello) as server:
        message = await reply_of(opened(model_at(provider, server, sleeps)))

    assert message.text == "Hello"
    assert sleeps.taken == [1.0 if seconds is None else seconds]


@every
async def test_a_wait_that_is_too_long_is_not_waited_for_and_told(provider: Provider) -> None:
    sleeps = Sleeps()
    async with serving(
        failed(429, provider.error_body("slow"), retry_after="3600"), provider.hello
    ) as server:
        with pytest.raises(ModelError, match="3600 s"):
            await reply_of(opened(model_at(provider, server, sleeps)))

    assert sleeps.taken == []


@every
@owes("K-15")
async def test_cancelled_behind_any_piece_the_talk_can_be_asked_again(provider: Provider) -> None:
    for pieces in range(1, len(provider.hello.pieces)):
        hold = asyncio.Event()
        held = replace(
            provider.hello,
            pieces=[b"".join(provider.hello.pieces[:pieces]), b"".join(provider.hello.pieces[pieces:])],
            hold=hold,
        )
        async with serving(held, provider.hello) as server:
            talk: ProviderConversation = opened(model_at(provider, server))
            got: list[Any] = []

            async def listen(talk: ProviderConversation = talk, got: list[Any] = got) -> None:
                async for event in talk.reply():
                    got.append(event)

            task = asyncio.ensure_future(listen())
            async with asyncio.timeout(5):
                while not server.asked:
                    await asyncio.sleep(0.001)
            for _ in range(20):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            again = await reply_of(talk)

        assert not any(isinstance(e, TurnEnd) for e in got)
        assert all(isinstance(e, TextDelta) for e in got)
        assert again.text == "Hello"
        assert server.asked[0].body == server.asked[-1].body


REASONING: dict[str, Callable[[], Reply]] = {
    "anthropic": lambda: a_reply(
        a_start(), *a_block(0, {"type": "thinking", "thinking": "", "signature": ""}), *a_end()
    ),
    "openai-responses": lambda: r_reply(
        r_last("completed", r_response("completed", [{"type": "reasoning", "id": "rs", "summary": []}]))
    ),
    "gemini": lambda: g_reply(g_chunk({"text": "", "thought": True}, finish="STOP")),
}


@every
async def test_reasoning_and_nothing_else_is_asked_for_once_more_or_given_without_text(
    provider: Provider,
) -> None:
    if provider.name not in REASONING:
        return
    reply = REASONING[provider.name]()
    async with serving(reply, reply, reply) as server:
        message = await reply_of(opened(model_at(provider, server)))

    assert message.text == ""
    assert not message.calls
    assert len(server.asked) <= 2
