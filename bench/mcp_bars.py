"""The MCP bars, each against its floor in the same run: python bench/mcp_bars.py.

Blocks of calls of both sides take turns, and each side's best block counts, so that what else runs on the machine
does not. Server time is all threads' CPU time of the server process, client time that of this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))
PEERS = [sys.executable, str(HERE / "mcp_peers.py")]
LIGHT = [sys.executable, "-I", "-S", str(HERE / "mcp_slow.py")]
OURS = [sys.executable, str(HERE / "mcp_echo.py")]
ROUNDS, CALLS = 10, 60
CLIENT = {"name": "bench", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
Call = Callable[[], Awaitable[Any]]


def cpu_of(pid: int) -> float:
    """CPU seconds of every thread of a process."""
    return sum(int(p.read_text().split()[0]) for p in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def calling(number: int, *, modern: bool) -> dict[str, Any]:
    """A call of the echo tool."""
    params: dict[str, Any] = {
        "name": "echo",
        "arguments": {"text": "hi"},
        **({"_meta": META} if modern else {}),
    }
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def hello(version: str = "2025-11-25") -> dict[str, Any]:
    """The handshake."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


@asynccontextmanager
async def by_pipe(argv: list[str], *, modern: bool) -> AsyncIterator[tuple[int, Call]]:
    """A hand-written client on standard input and output: the server's process id, and one call."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, limit=1 << 26
    )
    assert process.stdin is not None
    assert process.stdout is not None
    count = 0

    async def rpc(message: dict[str, Any]) -> Any:
        process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        while True:
            answer = json.loads(await process.stdout.readline())  # type: ignore[union-attr]
            if answer.get("id") == message["id"]:
                assert "result" in answer, answer
                return answer

    async def call() -> Any:
        nonlocal count
        count += 1
        return await rpc(calling(count, modern=modern))

    if not modern:
        await rpc(hello())
        process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    try:
        yield process.pid, call
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()


async def answering(port: int) -> None:
    """Wait until something listens."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.05)


def started(argv: list[str]) -> subprocess.Popen[bytes]:
    """A process that says nothing."""
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@asynccontextmanager
async def listening(argv: list[str]) -> AsyncIterator[tuple[int, int]]:
    """A server over HTTP: process id and port."""
    port = free_port()
    process = started([*argv, str(port)])
    try:
        await answering(port)
        yield process.pid, port
    finally:
        process.kill()
        process.wait(10)


@asynccontextmanager
async def by_http(argv: list[str], *, modern: bool) -> AsyncIterator[tuple[int, Call]]:
    """A hand-written client on one connection that is kept."""
    async with listening(argv) as (pid, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        session, count = "", 0

        async def post(message: dict[str, Any]) -> bytes:
            nonlocal session
            body = json.dumps(message).encode()
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
                "Accept: application/json, text/event-stream\r\n"
                + (
                    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
                    if modern
                    else ""
                )
                + (f"Mcp-Session-Id: {session}\r\n" if session else "")
                + f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            got = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in got[1:])}
            session = fields.get("mcp-session-id", session)
            if "transfer-encoding" not in fields:
                return await reader.readexactly(int(fields.get("content-length", 0)))
            data = b""
            while size := int(await reader.readline(), 16):
                data += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
            return data

        async def call() -> Any:
            nonlocal count
            count += 1
            assert b'"result"' in await post(calling(count, modern=modern))

        if not modern:
            await post(hello())
            await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        try:
            yield pid, call
        finally:
            writer.close()


async def best(sides: dict[str, tuple[Callable[[], float], Call]]) -> dict[str, float]:
    """The least CPU of a call of each side, µs; blocks take turns."""
    out = dict.fromkeys(sides, float("inf"))
    for round in range(ROUNDS + 1):
        for name, (clock, call) in sides.items():
            before = clock()
            for _ in range(CALLS):
                await call()
            if round:  # the first block warms up
                out[name] = min(out[name], (clock() - before) / CALLS * 1e6)
    return out


async def servers(transport: str, *, modern: bool) -> dict[str, float]:
    """Our server beside the package's high-level one, and on pipes beside one written by hand."""
    face = by_pipe if transport == "stdio" else by_http
    port = ["0"] if transport == "stdio" else []
    argvs = {"ours": [*OURS, transport, *port], "sdk": [*PEERS, "sdk", transport, *port]}
    async with AsyncExitStack() as stack:
        opened = {n: await stack.enter_async_context(face(argv, modern=modern)) for n, argv in argvs.items()}
        return await best({n: ((lambda pid=pid: cpu_of(pid)), call) for n, (pid, call) in opened.items()})


async def clients(transport: str) -> dict[str, float]:
    """Our client with the whole pipeline around each call beside the package's, against a server written by hand."""
    from mcp import Client, StdioServerParameters
    from pegboard import Executor
    from pegboard.mcp.client import MCPServer

    async with AsyncExitStack() as stack:
        raw = [*PEERS, "raw", transport]
        if transport == "stdio":
            server = MCPServer("peer", command=raw[0], args=raw[1:], environment=os.environ)
            where: Any = StdioServerParameters(command=raw[0], args=raw[1:])
        else:
            url = f"http://127.0.0.1:{(await stack.enter_async_context(listening(raw)))[1]}/mcp"
            server, where = MCPServer("peer", url=url), url
        client = await stack.enter_async_context(Client(where))
        stack.push_async_callback(server.aclose)
        door = await stack.enter_async_context(Executor(await server.tools(), policy=["allow call:peer/*"]))
        return await best(
            {
                "ours": (time.process_time, lambda: door.call("mcp_peer_echo", {"text": "hi"})),
                "sdk": (time.process_time, lambda: client.call_tool("echo", {"text": "hi"})),
            }
        )


async def starting(count: int, slowest_s: float, program: list[str]) -> tuple[float, float]:
    """Seconds until `count` servers are listed, the slowest of which sleeps `slowest_s`; and that one alone."""
    from pegboard.mcp.client import MCPServer, start_all

    def server(name: str, sleep_s: float) -> MCPServer:
        return MCPServer(name, command=program[0], args=[*program[1:], str(sleep_s)], environment=os.environ)

    async def timed(some: list[MCPServer]) -> float:
        before = time.perf_counter()
        found = await start_all(some)
        taken = time.perf_counter() - before
        assert all(isinstance(tools, list) for tools in found.values()), found
        await asyncio.gather(*(s.aclose() for s in some))
        return taken

    await timed([server("warm", 0)])
    alone = await timed([server("alone", slowest_s)])
    return await timed([server(f"s{n}", slowest_s * (n + 1) / count) for n in range(count)]), alone


async def bare(count: int, slowest_s: float, program: list[str]) -> float:
    """Seconds until the same programs have answered the same two requests, with nothing of ours or of the package.

    The floor of `starting`: so many interpreters that start at once on the processors of this machine.
    """
    asks = b"".join(
        json.dumps(m).encode() + b"\n"
        for m in (hello(), {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})
    )

    async def one(sleep_s: float) -> None:
        process = await asyncio.create_subprocess_exec(
            *program, str(sleep_s), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await process.communicate(asks)

    before = time.perf_counter()
    await asyncio.gather(*(one(slowest_s * (n + 1) / count) for n in range(count)))
    return time.perf_counter() - before


async def registering(count: int) -> tuple[float, float]:
    """Seconds from a connected server's list of so many tools to a kit that takes calls, and the growth in MB."""
    from pegboard import Executor
    from pegboard.mcp.client import MCPServer

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    server = MCPServer(
        "many", command=PEERS[0], args=[*PEERS[1:], "many", str(count)], environment=os.environ
    )
    async with Executor([server]) as door:
        before, base = time.perf_counter(), resident()
        await door.refresh_tools()
        taken, grown = time.perf_counter() - before, (resident() - base) / 1e6
        assert len(list(door.toolkit)) >= count
    return taken, grown


async def main() -> None:
    """Measure and print."""
    rows: list[tuple[str, str, str, bool]] = []
    for transport in ("stdio", "http"):
        for modern in (False, True):
            found = await servers(transport, modern=modern)
            ratio = found["ours"] / found["sdk"]
            era = "2026-07-28" if modern else "2025-11-25"
            what = f"our server, {transport}, {era}: CPU a call over the package's"
            rows.append(
                (what, f"{ratio:.2f} x ({found['ours']:.0f} / {found['sdk']:.0f} us)", "0.6 x", ratio <= 0.6)
            )
    for transport in ("stdio", "http"):
        found = await clients(transport)
        ratio = found["sdk"] / found["ours"]
        what = f"our client, {transport}: the package's CPU a call over ours"
        rows.append(
            (
                what,
                f"{ratio:.2f} x ({found['ours']:.0f} / {found['sdk']:.0f} us)",
                "at least 0.9 x",
                ratio >= 0.9,
            )
        )
    # The bar is for servers that wait for something; what many interpreters cost few processors is told beside it.
    for what, program, bar in (
        ("50 servers over the slowest alone", LIGHT, 1.2),
        ("50 servers that are plain interpreters", [*PEERS, "slow"], None),
    ):
        together, alone = await starting(50, 4.0, program)
        floor, floor_alone = await bare(50, 4.0, program), await bare(1, 4.0, program)
        told = f"{together / alone:.2f} x ({together:.2f} s; the programs by themselves {floor / floor_alone:.2f} x)"
        met = together <= (bar or floor / floor_alone + 0.2) * alone
        rows.append((what, told, "1.2 x" if bar else "0.2 more than by themselves", met))
    taken, grown = await registering(5000)
    rows.append(("5,000 foreign tools, started and listed", f"{taken:.2f} s, {grown:.0f} MB", "2 s, 200 MB",
                 taken <= 2 and grown <= 200))  # fmt: skip
    print("| bar | measured | most | met |\n|---|---|---|---|")
    for what, measured, most, met in rows:
        print(f"| {what} | {measured} | {most} | {'yes' if met else 'NO'} |")


if __name__ == "__main__":
    asyncio.run(main())
