"""A loopback HTTP server that plays scripted provider answers and records what it was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pegboard.net.listening import stop_listening
from pegboard.ports.model import Model


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer.

    Attributes:
        status, headers: of the response.
        pieces: written one after the other, each in a chunk of its own.
        cut: the connection is closed before the body's end.
        hold: set by a test; between the pieces the server waits for it.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] = ()
    cut: bool = False
    hold: asyncio.Event | None = None


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    """The server: its address, what it was asked, and whether clients hung up."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    models: list[Model] = field(default_factory=list)
    """Closed when the server ends."""


def sse(*events: Any, done: bool = True, names: bool = False) -> list[bytes]:
    """Server-sent events, one piece each; `[DONE]` at the end as OpenAI has it, event names as Anthropic has them."""
    out: list[bytes] = []
    for event in events:
        head = f"event: {event['type']}\n" if names else ""
        out.append(f"{head}data: {json.dumps(event)}\n\n".encode())
    return [*out, b"data: [DONE]\n\n"] if done else out


def answer(*events: Any, done: bool = True, names: bool = False, cut: bool = False) -> Reply:
    """A streamed answer."""
    return Reply(
        headers={"content-type": "text/event-stream"}, pieces=sse(*events, done=done, names=names), cut=cut
    )


def failed(status: int, body: Any, **headers: str) -> Reply:
    """A failed request with a JSON body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(
        status=status,
        headers={"content-type": "application/json", **named},
        pieces=[json.dumps(body).encode()],
    )


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Server]:
    """Play these answers, one a request; asked once more, the server answers 599."""
    left = list(replies)
    server = Server("")

    handlers: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            while await _one(reader, writer, server, left):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            server.hung_up.set()
        finally:
            handlers.discard(task)
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        for model in server.models:
            await model.aclose()
        if handlers:
            await asyncio.wait(set(handlers), timeout=5)
        await stop_listening(listener)
        await listener.wait_closed()


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Server, left: list[Reply]
) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    server.asked.append(Asked(method, path, headers, json.loads(body) if body else None))
    reply = left.pop(0) if left else Reply(status=599)
    given = {"transfer-encoding": "chunked", **reply.headers}
    lines_out = [f"HTTP/1.1 {reply.status} x", *(f"{k}: {v}" for k, v in given.items())]
    writer.write(("\r\n".join(lines_out) + "\r\n\r\n").encode())
    for number, piece in enumerate(reply.pieces):
        if number and reply.hold is not None:
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait(
                {gone, held := asyncio.ensure_future(reply.hold.wait())}, return_when="FIRST_COMPLETED"
            )
            if gone.done():
                held.cancel()
                server.hung_up.set()
                return False
            gone.cancel()
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
    if reply.cut:
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return headers.get("connection", "").lower() != "close"
