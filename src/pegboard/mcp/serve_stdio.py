"""Serving on standard input and output: one client, one process."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final, cast

from pegboard.mcp.framing import LineSplitter, Oversized, size_text
from pegboard.mcp.request_context import Json, Peer, RequestContext
from pegboard.mcp.server import ToolServer
from pegboard.mcp.wire import INVALID_REQUEST, PARSE_ERROR, error_reply
from pegboard.process.stdio import CHUNK, open_streams

MAX_LINE: Final = 16 * 1024 * 1024
_LEAVE_S: Final = 2.0


async def serve_stdio(service: ToolServer, *, source: int = 0, sink: int = 1) -> None:
    """Serve until the client closes its end, then end what still runs.

    Args:
        source, sink: descriptors, of pipes as hosts give them, or of files (`< calls.jsonl > answers.jsonl`,
            `/dev/null`); both are closed at the end.
    """
    async with open_streams(source, sink) as (reader, writer):
        line = _Line(service, writer)
        service.join(line.peer)
        try:
            splitter = LineSplitter(MAX_LINE)
            while chunk := await reader.read(CHUNK):
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
