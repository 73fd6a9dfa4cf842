"""Kinds of hostile servers beside the corpus: noise, floods, drips, broken answers, redirects to inner hosts."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable
from typing import Any

import pytest

from pegboard import AllowOnce, Executor
from pegboard.core.errors import Unavailable
from pegboard.mcp.client import MCPServer
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.elicitation import MAX_QUESTIONS
from tests.ledger import owes
from tests.mcp.conftest import tool
from tests.serving import ending

Make = Callable[..., MCPServer]


async def call(server: MCPServer, **options: Any) -> Any:
    async with asyncio.timeout(20), Executor([server], approver=AllowOnce(), **options) as door:
        return await door.call("mcp_s_t", {})


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@owes("mcp-09")
@pytest.mark.slow
async def test_endless_words_on_standard_error_cost_neither_the_answer_nor_memory(peer: Make) -> None:
    server = peer(tools=[tool("t")], behave={"t": "stderr-forever"})
    before = peak_mb()

    result = await call(server)

    assert "in spite of the noise" in str(result)
    assert peak_mb() - before < 50


@pytest.mark.parametrize(
    ("word", "ok", "expected"),
    [
        ("not-utf8", True, "a\ufffd"),
        ("twice", True, "first"),
        ("flood 5000", True, "after the flood"),
        ("backwards", True, "done"),
        ("odd-result", False, "has run, but its answer cannot be read: it is without a result"),
        ("both", False, "and not"),
    ],
)
@pytest.mark.slow
async def test_broken_and_superfluous_messages_end_in_one_clear_result(
    word: str, ok: bool, expected: str, peer: Make
) -> None:
    server = peer(tools=[tool("t"), tool("u")], behave={"t": word})
    async with asyncio.timeout(20), Executor([server], approver=AllowOnce()) as door:
        result = await door.call("mcp_s_t", {})
        after = await door.call("mcp_s_u", {})

    assert result.ok is ok
    assert expected in str(result)
    assert after.ok


@owes("mcp-20")
@pytest.mark.slow
async def test_an_answer_that_drips_ends_at_the_limit(peer: Make) -> None:
    server = peer(tools=[tool("t")], behave={"t": "drip"}, _timeout_s=0.5)

    result = await call(server)

    assert result.error is not None and result.error.code == "timeout"


@owes("mcp-22")
@pytest.mark.slow
async def test_our_folders_are_not_told_to_a_server_that_asks_for_roots(peer: Make) -> None:
    reply = json.loads(str(await call(peer(tools=[tool("t")], behave={"t": "roots"}))))

    assert "result" not in reply
    assert reply["error"]["code"] in (-32601, -32600)


class Yes:
    """Says yes to everything, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, questions: Any) -> list[str]:
        self.asked += len(questions)
        return ["yes" for _ in questions]


@pytest.mark.slow
async def test_a_flood_of_questions_reaches_a_person_only_so_often(peer: Make) -> None:
    person = Yes()
    server = peer(
        tools=[tool("t")],
        behave={"t": "ask-flood"},
        elicit={"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
    )

    result = await call(server, provide=[person])

    assert person.asked <= MAX_QUESTIONS
    assert int(str(result)) <= MAX_QUESTIONS


# -- over HTTP --------------------------------------------------------------------------------


async def answering(head: bytes, body: bytes = b"") -> tuple[asyncio.Server, int]:
    """A server that gives every request the same answer."""

    async def visitor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(visitor, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@owes("mcp-078")
@pytest.mark.parametrize("status", [b"302 Found", b"307 Temporary Redirect", b"308 Permanent Redirect"])
@pytest.mark.parametrize("transport", ["streamable_http", "sse", "http_sse"])
async def test_a_redirect_to_another_host_is_not_followed(status: bytes, transport: Any) -> None:
    visited: list[bytes] = []

    async def inner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visited.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    secret = await asyncio.start_server(inner, "127.0.0.1", 0)
    target = b"http://127.0.0.1:%d/" % secret.sockets[0].getsockname()[1]
    outer, port = await answering(b"HTTP/1.1 " + status + b"\r\nlocation: " + target + b"\r\n")
    url = f"http://127.0.0.1:{port}/mcp"
    server = MCPServer(config=ServerConfig(name="s", url=url, transport=transport, start_s=10))

    async with ending(secret), ending(outer):
        with pytest.raises(Unavailable):
            await server.tools()
        await server.aclose()

    assert visited == []


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n", b"<html>welcome</html>"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", b"{broken"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", b"[" * 100_000),
        (b"HTTP/1.1 500 Oops\r\n", b"x" * 1_000_000),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n",
            b"data: " + b"y" * 17 * 1024 * 1024 + b"\n\n",
        ),
    ],
)
@pytest.mark.slow
async def test_what_is_no_mcp_server_is_told_and_never_hangs(head: bytes, body: bytes) -> None:
    outer, port = await answering(head, body)
    url = f"http://127.0.0.1:{port}/mcp"
    server = MCPServer(config=ServerConfig(name="s", url=url, transport="streamable_http", start_s=8))

    async with ending(outer), asyncio.timeout(20):
        with pytest.raises(Unavailable, match="'s'"):
            try:
                await server.tools()
            finally:
                await server.aclose()
