"""The client over the SSE transport of 2024-11-05, and from streamable HTTP back to it; a real server of package `mcp`."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pegboard import AllowOnce, Executor
from pegboard.core.errors import Unavailable
from pegboard.mcp.client import MCPServer
from pegboard.mcp.config import ServerConfig, Transport
from pegboard.net.listening import stop_listening
from tests.ledger import owes
from tests.serving import ending
from tests.waiting import listens, soon

LEGACY = str(Path(__file__).with_name("legacy.py"))


@pytest.fixture
async def legacy() -> AsyncIterator[str]:
    """The address of the stream."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, LEGACY, str(port)], env={"PATH": os.environ["PATH"]})
    try:
        await soon(lambda: listens(port), "the server listens")
        yield f"http://127.0.0.1:{port}/sse"
    finally:
        process.kill()
        process.wait(10)


def client(url: str, transport: Transport, **more: object) -> MCPServer:
    return MCPServer(config=ServerConfig(name="old", url=url, transport=transport, **more))  # type: ignore[arg-type]


@owes("D-42", "D-37", "N-117")
@pytest.mark.parametrize("transport", ["sse", "http_sse"])
@pytest.mark.slow
async def test_a_server_of_the_old_transport_is_used_like_any_other(
    legacy: str, transport: Transport
) -> None:
    server = client(legacy, transport)
    async with Executor([server], approver=AllowOnce()) as door:
        text = await door.call("mcp_old_echo", {"text": "grüße 🧵"})
        slow = await door.call("mcp_old_slow", {"seconds": 0.05})
        wrong = await door.call("mcp_old_echo", {"text": ["no", "text"]})

    assert "grüße 🧵" in str(text) and text.data == {"result": "grüße 🧵"}
    assert slow.ok
    assert wrong.error is not None
    assert server.protocol == ""  # closed with the executor


@owes("D-36", "D-37")
@pytest.mark.parametrize("transport", ["stdio", "sse"])
@pytest.mark.slow
async def test_tools_are_listed_and_called_in_a_process_of_their_own_over_either_transport(
    legacy: str, transport: Transport
) -> None:
    config = (
        ServerConfig(name="old", transport="stdio", command=sys.executable, args=(LEGACY, "stdio"))
        if transport == "stdio"
        else ServerConfig(name="old", transport="sse", url=legacy)
    )
    async with Executor([MCPServer(config=config, environment=os.environ)], approver=AllowOnce()) as door:
        await door.refresh_tools()
        names = set(door.toolkit.names)
        said = await door.call("mcp_old_echo", {"text": "hi"})
        theirs = int((await door.call("mcp_old_pid", {})).data["result"])
        os.kill(theirs, 0)

    assert names == {"mcp_old_echo", "mcp_old_slow", "mcp_old_pid", "mcp_old_die"}
    assert said.data == {"result": "hi"}
    assert theirs != os.getpid()
    if transport == "stdio":
        # What we started ends with us; what was there before stays.
        await soon(lambda: not _lives(theirs), f"process {theirs} has ended")
    else:
        assert _lives(theirs)


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.slow
async def test_streamable_http_alone_does_not_find_the_old_transport_and_says_so(legacy: str) -> None:
    server = client(legacy, "streamable_http")

    with pytest.raises(Unavailable, match="'old'"):
        await server.tools()

    await server.aclose()


@pytest.mark.slow
async def test_a_call_on_the_old_transport_ends_at_its_limit_and_the_next_one_works(legacy: str) -> None:
    server = client(legacy, "http_sse", timeout_s=0.3)
    async with Executor([server], approver=AllowOnce()) as door:
        late = await door.call("mcp_old_slow", {"seconds": 30})
        after = await door.call("mcp_old_echo", {"text": "still here"})

    assert late.error is not None and late.error.code == "timeout"
    assert "still here" in str(after)


@pytest.mark.slow
async def test_a_server_that_ends_during_a_call_is_named_and_nothing_hangs(legacy: str) -> None:
    server = client(legacy, "sse", timeout_s=20)
    async with Executor([server], approver=AllowOnce()) as door, asyncio.timeout(10):
        lost = await door.call("mcp_old_die", {})

    assert lost.error is not None
    assert "'old'" in lost.error.message


@pytest.mark.slow
async def test_where_neither_transport_is_spoken_both_reasons_are_told() -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(page, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server = client(f"http://127.0.0.1:{port}/mcp", "http_sse")

    async with ending(listening):
        with pytest.raises(Unavailable, match=r"streamable HTTP .*SSE .*404"):
            await server.tools()
    await server.aclose()


class SilentOnProbes:
    """The old transport by hand: a server that answers what it knows, and nothing at all to the rest."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._stream: asyncio.StreamWriter | None = None

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if head.startswith("GET"):
            self._stream = writer
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /post\n\n")
            await writer.drain()
            await reader.read()
            writer.close()
            return
        length = next(
            int(h.split(":")[1]) for h in head.split("\r\n") if h.lower().startswith("content-length")
        )
        asked = json.loads(await reader.readexactly(length))
        self.heard.append(asked["method"])
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        result = {
            "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        }.get(asked["method"])  # fmt: skip
        if result is not None and self._stream is not None:
            answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            self._stream.write(f"event: message\ndata: {answer}\n\n".encode())
            await self._stream.drain()


@owes("D-37", "X-41")
@pytest.mark.slow
async def test_the_old_transport_is_not_probed_for_the_stateless_era_which_it_never_had() -> None:
    silent = SilentOnProbes()
    listening = await asyncio.start_server(silent.visit, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server = client(f"http://127.0.0.1:{port}/sse", "sse")

    tools = await server.tools()
    await server.aclose()
    await stop_listening(listening)

    assert [t.name for t in tools] == ["mcp_old_t"]
    assert silent.heard == ["initialize", "notifications/initialized", "tools/list"]
