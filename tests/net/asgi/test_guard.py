"""Who may send a request: heads as a browser, a proxy or a guesser sends them, against the guard alone."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from pegboard.net.asgi.guard import RequestGuard
from tests.ledger import owes

HOST = ("host", "127.0.0.1:8000")
TOKEN = ("authorization", "Bearer right")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def ask(guard: RequestGuard, *headers: tuple[str, str], kind: str = "http", query: str = "") -> Any:
    """The status that a request is answered with (or the code that a web socket is closed with), and its text."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        raise AssertionError("nothing is read of a request that is refused")

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope = {
        "type": kind, "method": "POST", "path": "/", "headers": raw, "query_string": query.encode(),
    }  # fmt: skip
    await guard(scope, receive, send)
    if kind == "websocket":
        return sent[0]["type"], sent[0]["code"]
    return sent[0]["status"], b"".join(m["body"] for m in sent[1:]).decode()


def guard(clock: Clock | None = None, **tokens: str) -> RequestGuard:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse(f"owner {Request(scope).state.owner}")(scope, receive, send)

    return RequestGuard(
        app, tokens=tokens or {"ada": "right"}, hosts=["127.0.0.1:8000"], clock=clock or Clock()
    )


async def test_the_owner_of_the_token_reaches_the_application() -> None:
    both = guard(ada="right", bob="other")

    assert await ask(both, HOST, TOKEN) == (200, "owner ada")
    assert await ask(both, HOST, ("authorization", "bearer other")) == (200, "owner bob")
    assert await ask(both, HOST, TOKEN, ("origin", "HTTP://127.0.0.1:8000")) == (200, "owner ada")


@owes("mcp-091", "mcp-095")
@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ([TOKEN], "", 403),
        ([("host", "evil.example"), TOKEN], "", 403),
        ([("host", "127.0.0.1:8000@evil.example"), TOKEN], "", 403),
        ([HOST, TOKEN, ("origin", "http://localhost:9999")], "", 403),
        ([HOST, TOKEN, ("origin", "null")], "", 403),
        ([HOST, TOKEN], "Access_Token=right", 400),
        ([HOST], "", 401),
        ([HOST, ("authorization", "Basic right")], "", 401),
        ([HOST, ("authorization", "Bearer righ")], "", 401),
    ],
)
async def test_other_hosts_sites_and_tokens_are_refused(headers: Any, query: str, status: int) -> None:
    assert (await ask(guard(), *headers, query=query))[0] == status


@pytest.mark.parametrize("twice", [HOST, TOKEN, ("origin", "http://127.0.0.1:8000"), ("content-type", "a/b")])
@pytest.mark.parametrize("first", [True, False])
async def test_a_doubled_header_is_refused_whichever_of_the_two_is_right(
    twice: tuple[str, str], first: bool
) -> None:
    pair = [twice, (twice[0], "other")] if first else [(twice[0], "other"), twice]
    rest = [header for header in (HOST, TOKEN) if header != twice]

    status, text = await ask(guard(), *rest, *pair)

    assert (status, text) == (400, f"the header {twice[0]} appears more than once")


@owes("mcp-096")
async def test_thirty_wrong_tokens_a_minute_are_the_limit_and_the_right_one_still_passes() -> None:
    clock = Clock()
    door = guard(clock)

    tried = [(await ask(door, HOST, ("authorization", f"Bearer {n}")))[0] for n in range(1000)]

    assert tried == [401] * 30 + [429] * 970
    assert (await ask(door, HOST, TOKEN))[0] == 200
    clock.now += 61
    assert (await ask(door, HOST))[0] == 401


@owes("mcp-089", "mcp-101")
async def test_a_web_socket_of_another_site_is_closed_although_its_token_is_right() -> None:
    evil = ("origin", "https://evil.example")

    assert await ask(guard(), HOST, TOKEN, evil, kind="websocket") == ("websocket.close", 1008)


async def test_a_star_opens_one_part_and_nothing_below_it() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("in")(scope, receive, send)

    one = RequestGuard(
        app, tokens={"ada": "right"}, hosts=["127.0.0.1:8000"], public=["/", "/hooks/*"], clock=Clock()
    )

    async def status(path: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError

        scope = {
            "type": "http", "method": "POST", "path": path, "headers": [(b"host", b"127.0.0.1:8000")], "query_string": b"",
        }  # fmt: skip
        await one(scope, receive, send)
        return sent[0]["status"]

    found = {
        path: await status(path)
        for path in ("/", "/hooks/a", "/hooks/", "/hooks", "/hooks/a/b", "/a", "/x/*", "//")
    }

    assert [path for path, code in found.items() if code == 200] == ["/", "/hooks/a", "/hooks/"]
