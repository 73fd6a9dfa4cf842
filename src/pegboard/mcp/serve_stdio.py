"""Serving on standard input and output: one client, one process."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import threading
from contextlib import suppress
from typing import Any, Final, cast

from pegboard.mcp.framing import LineSplitter, Oversized, size_text
from pegboard.mcp.request_context import Json, Peer, RequestContext
from pegboard.mcp.server import ToolServer
from pegboard.mcp.wire import INVALID_REQUEST, PARSE_ERROR, error_reply

MAX_LINE: Final = 16 * 1024 * 1024
_CHUNK: Final = 1 << 16
_LEAVE_S: Final = 2.0


def claim_stdout() -> int:
    """A descriptor of the real standard output; whatever prints from now on goes to standard error instead."""
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    return real


async def serve_stdio(service: ToolServer, *, source: int = 0, sink: int = 1) -> None:
    """Serve until the client closes its end, then end what still runs.

    Args:
        source, sink: descriptors, of pipes as hosts give them, or of files (`< calls.jsonl > answers.jsonl`,
            `/dev/null`); both are closed at the end.
    """
    loop = asyncio.get_running_loop()
    source, _ = _piped(source, reads=True)
    sink, written = _piped(sink, reads=False)
    reader = asyncio.StreamReader(limit=_CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(sink, "wb", 0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    line = _Line(service, writer)
    service.join(line.peer)
    try:
        splitter = LineSplitter(MAX_LINE)
        while chunk := await reader.read(_CHUNK):
            for one in splitter.feed(chunk):
                if isinstance(one, Oversized):
                    why = f"a message may have {size_text(MAX_LINE)}; this one was dropped"
                    line.write(error_reply(one.id, INVALID_REQUEST, why))
                else:
                    line.take(one)
            # Wait where the client does not read, so that its pipe and not our memory holds the answers.
            with suppress(ConnectionError):
                await writer.drain()
        await line.finish()
    finally:
        service.leave(line.peer)
        writer.close()
        with suppress(ConnectionError, OSError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await writer.wait_closed()
        if written is not None:
            await asyncio.to_thread(written.join, _LEAVE_S)


def _piped(fd: int, *, reads: bool) -> tuple[int, threading.Thread | None]:
    """A descriptor that an event loop can wait for: a file's bytes go through a pipe and a thread."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd):
        return fd, None
    out, into = os.pipe()
    ends = (fd, into) if reads else (out, fd)
    thread = threading.Thread(target=_copy, args=ends, name="pegboard-stdio", daemon=True)
    thread.start()
    return (out if reads else into), thread


def _copy(source: int, sink: int) -> None:
    with suppress(OSError), os.fdopen(source, "rb", 0) as read, os.fdopen(sink, "wb", 0) as write:
        while chunk := read.read(_CHUNK):
            write.write(chunk)


class _Line:
    """The one client of a pipe."""

    def __init__(self, service: ToolServer, writer: asyncio.StreamWriter) -> None:
        self._service = service
        self._writer = writer
        self._running: set[asyncio.Task[None]] = set()
        self.peer = Peer(send=self.send, session="mcp:stdio")

    def send(self, message: Json, ctx: RequestContext | None) -> None:
        """See Peer."""
        self.write(message)

    def write(self, message: Json | list[Json]) -> None:
        """One line; nothing where the client is gone."""
        if not self._writer.is_closing():
            self._writer.write(
                json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
                + b"\n"
            )

    def take(self, text: bytes) -> None:
        """Begin to answer one message."""
        try:
            message: Any = json.loads(text)
        except (ValueError, RecursionError):
            self.write(error_reply(None, PARSE_ERROR, "the message is not JSON"))
            return
        task = asyncio.create_task(self._answer(message))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        id: Any = cast("Json", message).get("id") if isinstance(message, dict) else None
        if isinstance(id, str | int) and not isinstance(id, bool) and "method" in cast("Json", message):
            if id in self.peer.inflight:
                # Two running requests under one id: neither answer could be told apart.
                task.cancel()
                self.write(error_reply(id, INVALID_REQUEST, f"request {id!r} is already running"))
                return
            self.peer.inflight[id] = task
            task.add_done_callback(lambda done: self._ended(id, done))

    def _ended(self, id: str | int, task: asyncio.Task[None]) -> None:
        if self.peer.inflight.get(id) is task:
            del self.peer.inflight[id]

    async def _answer(self, message: Any) -> None:
        try:
            if isinstance(message, list):
                reply = await self._service.handle_batch(cast("list[Any]", message), self.peer)
            else:
                reply = await self._service.handle(message, self.peer)
        except asyncio.CancelledError:
            # The client asked for it and expects no answer (2025-11-25, cancellation).
            return
        if reply is not None:
            self.write(reply)

    async def finish(self) -> None:
        """Give the last answers a moment, where the client only closed its sending side."""
        if self._running:
            await asyncio.wait(self._running, timeout=_LEAVE_S)
