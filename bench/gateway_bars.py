"""The gateway beside bare starlette, its event streams with 500 listeners, its first event, and what it takes when idle.

    python bench/gateway_bars.py

Rates are by CPU time of the server, so that a busy machine does not change them: the median of five alternating rounds.
Delays lie between a token's leaving the model's server and its arrival, by one clock; a busy machine makes them longer.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

TOKEN = "a-token-for-the-benchmark"
LISTENERS = 500
TOKENS = 20
REQUESTS = 1600
EVERY_S = 0.2
HEAD = f"Host: HOST\r\nAuthorization: Bearer {TOKEN}\r\n"
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def answer(request):
    return JSONResponse({"status": "ok", "version": "0.1.0"})
uvicorn.run(Starlette(routes=[Route("/", answer)]), port=int(sys.argv[1]), log_level="error", access_log=False)
"""


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def process(*words: str, **variables: str) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *words], env={**os.environ, **variables}, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    ) as one:  # fmt: skip
        try:
            yield one
        finally:
            one.terminate()
            one.communicate()


async def until_open(port: int) -> None:
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.close()
        return
    raise TimeoutError(f"nothing listens at {port}")


async def ask(port: int, method: str, path: str, body: bytes = b"") -> bytes:
    """One request on a connection of its own; the body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = HEAD.replace("HOST", f"127.0.0.1:{port}")
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}{kind}Connection: close\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def rate(port: int, path: str, *, requests: int, connections: int = 8) -> None:
    """Send requests over kept connections."""
    request = f"GET {path} HTTP/1.1\r\n{HEAD.replace('HOST', f'127.0.0.1:{port}')}\r\n".encode()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // connections):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head[:20], head
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))


async def model_server(go: asyncio.Event) -> tuple[asyncio.Server, int]:
    """A model that says the time, again and again, as OpenAI's API streams it; it begins when all listen."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")

        def say(delta: dict[str, str], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            row = {
                "id": "x",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [choice],
            }
            writer.write(f"data: {json.dumps(row)}\n\n".encode())

        await go.wait()
        for _ in range(TOKENS):
            say({"role": "assistant", "content": f"{time.monotonic():.6f} "})
            await writer.drain()
            await asyncio.sleep(EVERY_S)
        say({}, "stop")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def listen(port: int, run: str, connected: asyncio.Semaphore) -> list[float]:
    """The delay of each token at one listener, in seconds; `connected` is released once it is connected."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = HEAD.replace("HOST", f"127.0.0.1:{port}")
    writer.write(f"GET /api/runs/{run}/events HTTP/1.1\r\n{head}\r\n".encode())
    delays: list[float] = []
    async for line in reader:
        if line.startswith(b": run "):
            connected.release()
        elif line.startswith(b'data: {"type":"model.text"'):
            now = time.monotonic()
            delays += [now - float(t) for t in json.loads(line[6:])["text"].split()]
        elif line.startswith(b'data: {"type":"run.finished"'):
            break
    writer.close()
    return delays


async def streams(port: int, pid: int, listeners: int, go: asyncio.Event) -> tuple[float, float, float]:
    """Median and worst delay of the tokens, and the server's CPU time for one token to all listeners, in seconds."""
    go.clear()
    told = await ask(port, "POST", "/api/runs", json.dumps({"task": "tell the time"}).encode())
    run = json.loads(told)["run"]
    connected = asyncio.Semaphore(0)
    listening = asyncio.gather(*(listen(port, run, connected) for _ in range(listeners)))
    for _ in range(listeners):
        await connected.acquire()
    await asyncio.sleep(2)  # What has happened before the first token is sent.
    begun = used(pid)[0]
    go.set()
    delays = await listening
    cpu = (used(pid)[0] - begun) / TOKENS
    assert all(len(one) == TOKENS for one in delays), sorted({len(one) for one in delays})
    every = [delay for one in delays for delay in one]
    return statistics.median(every), max(every), cpu


def used(pid: int) -> tuple[float, float]:
    """CPU seconds and resident MiB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return ticks / os.sysconf("SC_CLK_TCK"), resident * os.sysconf("SC_PAGE_SIZE") / 1048576


async def main() -> None:
    """Measure and print."""
    go = asyncio.Event()
    server, model_port = await model_server(go)
    bare_port, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "w"
        folder.mkdir()
        served = process(
            "-m", "pegboard.cli.main", "serve", "--port", str(port), "--workspace", str(folder), "--model",
            f"openai:m@http://127.0.0.1:{model_port}/v1", HOME=home, PEGBOARD_TOKEN=TOKEN, OPENAI_API_KEY="none",
        )  # fmt: skip
        with process("-c", BARE, str(bare_port)) as bare, served as gateway:
            await until_open(bare_port)
            await until_open(port)
            await asyncio.sleep(2)
            before, resident = used(gateway.pid)
            await asyncio.sleep(10)
            cpu = used(gateway.pid)[0] - before
            print(f"idle: {resident:.0f} MiB, {cpu * 10:.2f} % of a core (bars: 130 MiB, 1 %)")

            pids = {"bare": bare.pid, "/api/config/schema": gateway.pid, "/api/runs": gateway.pid}
            rounds: dict[str, list[float]] = {name: [] for name in pids}
            await rate(bare_port, "/", requests=200)
            await rate(port, "/api/runs", requests=200)
            for _ in range(5):
                for name, pid in pids.items():
                    begun = used(pid)[0]
                    await rate(*((bare_port, "/") if name == "bare" else (port, name)), requests=REQUESTS)
                    rounds[name].append(REQUESTS / (used(pid)[0] - begun))
            middle = {name: statistics.median(values) for name, values in rounds.items()}
            for name, value in middle.items():
                ratio = value / middle["bare"]
                print(f"{name}: {value:.0f} requests a CPU second, {ratio:.2f} of bare starlette (bar: 0.5)")

            ones = [(await streams(port, gateway.pid, 1, go))[0] for _ in range(5)]
            print(
                f"one listener: {statistics.median(ones) * 1000:.1f} ms behind the model (bar: 20 ms)",
                flush=True,
            )
            many = [await streams(port, gateway.pid, LISTENERS, go) for _ in range(5)]
            half, last, cpu = (statistics.median(values) * 1000 for values in zip(*many, strict=True))
            print(
                f"{LISTENERS} listeners: {half:.0f} ms behind, at worst {last:.0f} ms (bar: 250 ms); "
                f"a token to all takes {cpu:.0f} ms of CPU time"
            )
            print(f"afterwards: {used(gateway.pid)[1]:.0f} MiB")
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
