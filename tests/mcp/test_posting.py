"""The client over streamable HTTP against hand-written servers that answer badly, late, elsewhere or not at all."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from pegboard import AllowOnce, Executor
from pegboard.core.errors import Unavailable
from pegboard.mcp.client import MCPServer
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.inbound import MAX_NOTICES
from pegboard.mcp.streamable_http import HttpDispatcher
from tests.ledger import owes
from tests.mcp.conftest import tool
from tests.serving import ending
from tests.waiting import soon


@dataclass
class Asked:
    """One request, and the way back."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body) if self.body else {}

    async def raw(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def answer(
        self, status: int, body: str | bytes = b"", kind: str = "application/json", **more: str
    ) -> None:
        data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}"]
        lines += [f"content-type: {kind}"] if kind else []
        lines += [f"{k.replace('_', '-')}: {v}" for k, v in more.items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    async def result(self, value: Any, **more: str) -> None:
        await self.answer(
            200, json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": value}), **more
        )

    async def events(self, *events: str, end: bool = True) -> None:
        await self.raw("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for event in events:
            await self.raw(event + "\n\n")
        if end:
            self.writer.close()


Behave = Callable[[Asked], Awaitable[None]]


@dataclass
class Server:
    """A handshake server of one tool `t`; `behave` answers its calls, `others` GET and DELETE."""

    behave: Behave
    others: Behave | None = None
    session: str = "s1"
    version: str = "2025-11-25"
    seen: list[Asked] = field(default_factory=list)
    url: str = ""
    port: int = 0
    listening: asyncio.Server | None = None

    def posted(self, method: str) -> list[Asked]:
        alone = [a for a in self.seen if a.method == "POST" and isinstance(a.message, dict)]
        return [a for a in alone if a.message.get("method") == method]

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ", 2)
                headers = {k.lower(): v.strip() for k, _, v in (h.partition(":") for h in head[1:] if h)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = Asked(method, path, headers, body, writer)
                self.seen.append(asked)
                await self.serve(asked)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def serve(self, asked: Asked) -> None:
        if asked.method != "POST":
            await (self.others(asked) if self.others is not None else asked.answer(405))
            return
        if isinstance(asked.message, list):
            await asked.answer(202, kind="")
            return
        match asked.message.get("method"):
            case "initialize":
                more = {"mcp_session_id": self.session} if self.session else {}
                await asked.result(
                    {
                        "protocolVersion": self.version,
                        "capabilities": {"tools": {"listChanged": True}},
                        "serverInfo": {"name": "raw", "version": "1"},
                    },
                    **more,
                )
            case "tools/list":
                await asked.result({"tools": [tool("t"), tool("u")]})
            case "tools/call":
                await self.behave(asked)
            case _:
                await asked.answer(202, kind="")


@asynccontextmanager
async def served(behave: Behave, **options: Any) -> AsyncIterator[Server]:
    server = Server(behave, **options)
    server.listening = await asyncio.start_server(server.visit, "127.0.0.1", 0, limit=1 << 20)
    server.port = server.listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{server.port}/mcp"
    async with ending(server.listening):
        yield server


@asynccontextmanager
async def door_to(server: Server, **options: Any) -> AsyncIterator[Any]:
    config = ServerConfig(
        name="s", transport="streamable_http", url=server.url, protocol="2025-11-25",
        **{"timeout_s": 5, **options},
    )  # fmt: skip
    async with (
        asyncio.timeout(30),
        Executor([MCPServer(config=config)], approver=AllowOnce(), policy=["allow call:s/*"]) as door,
    ):
        yield door


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def event(asked: Asked, value: str, *, id: str = "", own: Any = None) -> str:
    message = {
        "jsonrpc": "2.0",
        "id": asked.message["id"] if own is None else own,
        "result": text(value),
    }
    return (f"id: {id}\n" if id else "") + f"data: {json.dumps(message)}"


BODIES = {
    "html": ("<html>", "text/html", "content type"),
    "no-json": ("not json", "application/json", "not a message"),
    "batch": ("[]", "application/json", "only revision 2025-03-26"),
    "no-version": ('{"id":ID,"result":{}}', "application/json", "not a message"),
    "nan": ('{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}', "application/json", "cannot be read"),
    "deep": ('{"jsonrpc":"2.0","id":ID,"result":' + '{"a":' * 99_999 + "1" + "}" * 99_999 + "}",
             "application/json", "cannot be read|nests deeper"),
    "wrong-id": ('{"jsonrpc":"2.0","id":987,"result":{"content":[]}}', "application/json", "another request"),
    "true-id": ('{"jsonrpc":"2.0","id":true,"result":{"content":[]}}', "application/json", "another request"),
    "null-id": ('{"jsonrpc":"2.0","id":null,"result":{"content":[]}}', "application/json", "another request"),
    "request": ('{"jsonrpc":"2.0","id":ID,"method":"roots/list"}', "application/json", "another request"),
    "list": ('{"jsonrpc":"2.0","id":ID,"result":[1]}', "application/json", "without a result"),
    "neither": ('{"jsonrpc":"2.0","id":ID}', "application/json", "without a result"),
    "error": ('{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":["y"]}}', "application/json", "y"),
    "empty": ("", "application/json", "not a message"),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(BODIES))
@pytest.mark.slow
async def test_a_body_that_is_no_answer_is_one_clear_error_and_the_next_call_works(kind: str) -> None:
    body, media, expected = BODIES[kind]

    async def behave(asked: Asked) -> None:
        if asked.message["params"]["name"] == "u":
            return await asked.result(text("fine"))
        await asked.answer(200, body.replace("ID", str(asked.message["id"])), media)

    async with served(behave) as server, door_to(server) as door:
        broken = await door.call("mcp_s_t", {})
        fine = await door.call("mcp_s_u", {})

    assert re.search(expected, broken.error.message)
    # A message that says that it is an error is a refusal; of anything else only that it came is known.
    assert broken.error.code == ("mcp_error" if kind == "error" else "result_unreadable")
    assert len(str(broken)) < 2_000
    assert fine.text == "fine"
    assert len(server.posted("tools/call")) == 2


@pytest.mark.parametrize(
    ("status", "more", "expected"),
    [
        (202, {}, "gives no answer"),
        (500, {}, "500 Internal Server Error; it is unknown whether it took effect"),
        (
            302,
            {"location": "http://127.0.0.1:1/x"},
            "redirects to http://127.0.0.1:1/x, which is not followed",
        ),
        (307, {"location": "http://169.254.169.254/latest"}, "not followed"),
        (307, {"location": "http://user:pw@127.0.0.1:1/"}, "redirects to http://127.0.0.1:1/"),
        (308, {"location": "file:///etc/passwd"}, "redirects|HTTP 308"),
        (401, {"www_authenticate": "Bearer realm=\x7f"}, "refused t: it answered 401 Unauthorized"),
    ],
)
@pytest.mark.slow
async def test_a_status_without_an_answer_is_named(status: int, more: dict[str, str], expected: str) -> None:
    async def behave(asked: Asked) -> None:
        await asked.answer(status, kind="", **more)

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert re.search(expected, result.error.message), result.error.message
    assert "pw" not in result.error.message


@pytest.mark.slow
async def test_a_redirect_within_the_origin_keeps_message_and_credentials() -> None:
    async def behave(asked: Asked) -> None:
        if asked.path == "/mcp":
            return await asked.answer(308, kind="", location="/mcp/")
        await asked.result(text(asked.headers["authorization"]))

    async with served(behave) as server, door_to(server, headers={"Authorization": "Bearer t"}) as door:
        result = await door.call("mcp_s_t", {})

    assert result.text == "Bearer t"


@pytest.mark.slow
async def test_redirects_in_a_circle_end() -> None:
    async def behave(asked: Asked) -> None:
        await asked.answer(307, kind="", location="/mcp")

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert not result.ok and "redirects" in result.error.message
    assert len(server.posted("tools/call")) <= 21


@owes("mcp-09")
@pytest.mark.parametrize("as_events", [False, True])
@pytest.mark.slow
async def test_an_answer_over_the_limit_is_cut_off_as_it_arrives(as_events: bool) -> None:
    sent = 0

    async def behave(asked: Asked) -> None:
        nonlocal sent
        kind = "text/event-stream" if as_events else "application/json"
        await asked.raw(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\ndata: ")
        for _ in range(400):
            await asked.raw(b"x" * 1_000_000)
            sent += 1

    async with served(behave) as server, door_to(server, timeout_s=20) as door:
        result = await door.call("mcp_s_t", {})

    assert result.error.code == "result_unreadable" and "over 16 MiB" in result.error.message
    assert sent < 60


@owes("mcp-22")
@pytest.mark.slow
async def test_what_is_said_before_the_answer_on_its_stream_does_no_harm() -> None:
    async def behave(asked: Asked) -> None:
        token = asked.message["params"]["_meta"]["progressToken"]

        def note(method: str, **params: Any) -> str:
            return "data: " + json.dumps({"jsonrpc": "2.0", "method": method, "params": params})

        await asked.events(
            ": a comment", "event: unknown\ndata: {}", "data: no json", "data:",
            "retry: -5", "retry: soon", "id: a\0b",
            note("notifications/progress", progressToken=token, progress=1),
            note("notifications/progress", progressToken="of another", progress=2),
            note("notifications/cancelled", requestId=["x"]),
            *[note("notifications/message", level="info", data="x" * 50) for _ in range(2_000)],
            'data: {"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}',
            'data: {"jsonrpc":"2.0","id":"4711","result":{"content":[{"type":"text","text":"not yours"}]}}',
            event(asked, "yours"), event(asked, "again"),
        )  # fmt: skip

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})
        async with asyncio.timeout(60):
            while not any("error" in a.message for a in server.seen if a.method == "POST"):
                await asyncio.sleep(0.01)

    assert result.text == "yours"


@owes("mcp-22")
@pytest.mark.slow
async def test_a_question_is_answered_however_many_notes_are_still_being_looked_at() -> None:
    looking = asyncio.Event()

    async def on_request(said: Any, method: str, params: Any) -> dict[str, Any]:
        return {}

    async def on_notify(said: Any, method: str, params: Any) -> None:
        await looking.wait()

    async def never(asked: Asked) -> None:
        raise AssertionError(asked.message)

    async with served(never) as server, httpx2.AsyncClient(trust_env=False) as client:
        dispatcher = HttpDispatcher(client, server.url)
        running = asyncio.ensure_future(dispatcher.run(on_request, on_notify))
        await asyncio.sleep(0)
        for _ in range(MAX_NOTICES + 50):
            dispatcher._inbound.receive({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        dispatcher._inbound.receive({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await soon(lambda: bool(server.seen), "the question is answered")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert server.seen[0].message == {"jsonrpc": "2.0", "id": "q", "result": {}}


@pytest.mark.slow
async def test_an_answer_on_the_stream_of_nobodys_request_is_no_answer() -> None:
    heard = asyncio.Event()
    called = asyncio.Event()

    async def others(asked: Asked) -> None:
        if asked.method != "GET":
            return await asked.answer(200, kind="")
        await asked.events(end=False)
        await called.wait()
        await asked.raw(
            'data: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"forged"}]}}\n\n'
        )
        heard.set()

    async def behave(asked: Asked) -> None:
        called.set()
        await heard.wait()
        assert asked.message["id"] == 3
        await asked.result(text("honest"))

    async with served(behave, others=others) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.text == "honest"


@owes("mcp-19")
@pytest.mark.slow
async def test_a_change_that_is_told_on_the_open_stream_is_taken_in() -> None:
    go = asyncio.Event()

    async def others(asked: Asked) -> None:
        if asked.method == "DELETE":
            return await asked.answer(200, kind="")
        await asked.events(end=False)
        await go.wait()
        await asked.raw('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')

    async def behave(asked: Asked) -> None:
        await asked.result(text("x"))

    async with served(behave, others=others) as server, door_to(server) as door:
        await door.call("mcp_s_t", {})
        before = len(server.posted("tools/list"))
        go.set()
        async with asyncio.timeout(5):
            while len(server.posted("tools/list")) == before:
                await asyncio.sleep(0.01)


@owes("mcp-03")
@pytest.mark.slow
async def test_a_stream_that_breaks_off_is_taken_up_where_it_ended_and_the_call_is_made_once() -> None:
    call: list[Asked] = []

    async def behave(asked: Asked) -> None:
        call.append(asked)
        await asked.events("id: e1\nretry: 10\ndata:")

    async def others(asked: Asked) -> None:
        if asked.method == "GET" and asked.headers.get("last-event-id") == "e1":
            return await asked.events("id: e2\nretry: 10\ndata:")
        if asked.method == "GET" and asked.headers.get("last-event-id") == "e2":
            return await asked.events(event(call[0], "the rest"))
        await asked.answer(405)

    async with served(behave, others=others) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.text == "the rest"
    assert len(server.posted("tools/call")) == 1


@pytest.mark.parametrize(
    ("events", "gets"), [((), 0), (("id: e1\nretry: 1\ndata:",), 1), ((": only a comment",), 0)]
)
@pytest.mark.slow
async def test_a_stream_that_never_answers_is_unknown_and_is_not_made_again(
    events: tuple[str, ...], gets: int
) -> None:
    async def behave(asked: Asked) -> None:
        await asked.events(*events)

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.error.code == "interrupted" and "it is unknown" in result.error.message
    assert len(server.posted("tools/call")) == 1
    assert len([a for a in server.seen if "last-event-id" in a.headers]) == gets


@pytest.mark.slow
async def test_a_stream_that_ends_at_once_whenever_it_is_taken_up_ends_the_call() -> None:
    async def behave(asked: Asked) -> None:
        await asked.events("id: e1\nretry: 1\ndata:")

    async def others(asked: Asked) -> None:
        if asked.headers.get("last-event-id"):
            return await asked.events()
        await asked.answer(405)

    async with served(behave, others=others) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.error.code == "interrupted"
    assert len([a for a in server.seen if "last-event-id" in a.headers]) == 2


@owes("mcp-03", "K-79")
@pytest.mark.slow
async def test_a_call_for_a_session_that_the_server_has_forgotten_is_made_in_a_new_one() -> None:
    async def behave(asked: Asked) -> None:
        if len(server.posted("initialize")) == 1:
            return await asked.answer(
                404, '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"gone"}}'
            )
        await asked.result(text("done in a new one"))

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.text == "done in a new one"
    assert len(server.posted("initialize")) == 2


@pytest.mark.slow
async def test_a_server_that_forgets_every_session_is_given_up_after_one_more() -> None:
    async def behave(asked: Asked) -> None:
        await asked.answer(404, kind="")

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.error.code == "interrupted" and "has not run" in result.error.message
    assert len(server.posted("tools/call")) == 2


@owes("mcp-03")
@pytest.mark.slow
async def test_a_connection_that_breaks_during_a_call_is_unknown_and_one_that_is_refused_was_not_sent() -> (
    None
):
    async def behave(asked: Asked) -> None:
        asked.writer.transport.abort()

    async with served(behave) as server, door_to(server) as door:
        broken = await door.call("mcp_s_t", {})
        made = len(server.posted("tools/call"))
        server.listening.close()
        for asked in server.seen:
            asked.writer.close()
        refused = await door.call("mcp_s_t", {})

    assert broken.error.code == "interrupted" and "it is unknown" in broken.error.message
    assert made == 1
    assert not refused.ok and "it is unknown" not in refused.error.message


@owes("mcp-20", "N-114")
@pytest.mark.slow
async def test_a_call_that_takes_too_long_is_told_to_stop_and_the_session_goes_on() -> None:
    async def behave(asked: Asked) -> None:
        if asked.message["params"]["name"] == "u":
            return await asked.result(text("fast"))
        await asyncio.sleep(60)

    async with served(behave) as server, door_to(server, timeout_s=0.3) as door:
        slow = await door.call("mcp_s_t", {})
        fast = await door.call("mcp_s_u", {})
        async with asyncio.timeout(5):
            while not server.posted("notifications/cancelled"):
                await asyncio.sleep(0.01)

    assert slow.error.code == "timeout"
    assert fast.text == "fast"
    (told,) = server.posted("notifications/cancelled")
    assert told.message["params"]["requestId"] == server.posted("tools/call")[0].message["id"]


@pytest.mark.parametrize("session", ["", "with space", "ümlaut", "tab\there"])
@pytest.mark.slow
async def test_a_session_that_is_no_plain_word_is_none(session: str) -> None:
    async def behave(asked: Asked) -> None:
        await asked.result(text(repr(asked.headers.get("mcp-session-id"))))

    async with served(behave, session=session) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.text == "None"


@pytest.mark.slow
async def test_every_request_carries_session_and_revision_and_the_session_is_ended() -> None:
    async def behave(asked: Asked) -> None:
        await asked.result(text("x"))

    async with served(behave) as server, door_to(server) as door:
        await door.call("mcp_s_t", {})

    hello, *rest = server.seen
    assert "mcp-protocol-version" not in hello.headers and "mcp-session-id" not in hello.headers
    assert {a.headers["mcp-session-id"] for a in rest} == {"s1"}
    assert {a.headers["mcp-protocol-version"] for a in rest} == {"2025-11-25"}
    assert rest[-1].method == "DELETE"


@pytest.mark.slow
async def test_a_server_that_hangs_at_the_end_of_the_session_is_not_waited_for() -> None:
    async def others(asked: Asked) -> None:
        await (asyncio.sleep(60) if asked.method == "DELETE" else asked.answer(405))

    async def behave(asked: Asked) -> None:
        await asked.result(text("x"))

    async with served(behave, others=others) as server, asyncio.timeout(10):
        async with door_to(server) as door:
            await door.call("mcp_s_t", {})


@pytest.mark.slow
async def test_a_refusal_in_the_protocols_words_is_told_in_them_whatever_the_status() -> None:
    async def behave(asked: Asked) -> None:
        error = {"code": -32602, "message": "no such \x1b[31mthing"}
        await asked.answer(400, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}))

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert "no such thing" in result.error.message and "-32602" in result.error.message
    assert "\x1b" not in result.error.message


@pytest.mark.slow
async def test_a_stateless_revision_that_is_asked_for_is_not_given_up_for_an_older_one() -> None:
    async def behave(asked: Asked) -> None:
        await asked.result(text("x"))

    async with served(behave) as server:
        config = ServerConfig(name="s", transport="streamable_http", url=server.url, protocol="2026-07-28")
        one = MCPServer(config=config)
        with pytest.raises(Unavailable, match="gives no answer"):
            await one.tools()
        await one.aclose()

    assert not server.posted("initialize")


@pytest.mark.slow
async def test_calls_of_one_turn_share_the_connections_and_get_their_own_answers() -> None:
    waiting: list[Asked] = []

    async def behave(asked: Asked) -> None:
        waiting.append(asked)
        if len(waiting) == 5:
            for one in reversed(waiting):
                await one.result(text(one.message["params"]["arguments"]["n"]))

    async with served(behave) as server, door_to(server, parallel=True) as door:
        results = await asyncio.gather(*(door.call("mcp_s_t", {"n": str(n)}) for n in range(5)))

    assert [r.text for r in results] == [str(n) for n in range(5)]


@pytest.mark.parametrize(
    ("status", "said", "passes"),
    [
        (503, "it answered 503 Service Unavailable", True), (500, "it answered 500 Internal Server Error", True),
        (429, "it answered 429 Too Many Requests", True), (404, "it answered 404 Not Found", False),
        (599, "it answered 599", True), (401, "requires a login", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["2026-07-28", "auto", "2025-11-25", "http_sse"])
@pytest.mark.slow
async def test_a_server_that_answers_with_a_status_alone_is_said_to_have_done_so(
    way: str, status: int, said: str, passes: bool
) -> None:
    class Out(Server):
        async def serve(self, asked: Asked) -> None:
            await asked.answer(status, kind="")

    server = Out(text)  # type: ignore[arg-type]
    listening = await asyncio.start_server(server.visit, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    transport = "http_sse" if way == "http_sse" else "streamable_http"
    config = ServerConfig(
        name="s", transport=transport, url=url, protocol="auto" if transport == way else way
    )
    async with ending(listening):
        one = MCPServer(config=config)
        with pytest.raises(Unavailable) as caught:
            await one.tools()
        await one.aclose()

    assert "does not speak" not in caught.value.message
    if way == "http_sse" and status == 404:
        assert "404" in caught.value.message
    else:
        assert said in caught.value.message
        assert caught.value.retryable is passes


@pytest.mark.slow
async def test_an_answer_that_is_packed_wrongly_is_unreadable_and_not_lost() -> None:
    async def behave(asked: Asked) -> None:
        await asked.answer(200, b"\x1f\x8bno gzip at all", content_encoding="gzip")

    async with served(behave) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.error.code == "result_unreadable" and "has run" in result.error.message
    # Another approach would do again what the call has done.
    assert result.text.endswith("Do not repeat it blindly: find out first what it did.")
