"""PipeDispatcher: JSON-RPC with a server program, as package `mcp` wants its dispatchers, and little else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError

from pegboard.mcp.framing import Json, LineSplitter, MessageBatch, parse
from pegboard.mcp.inbound import (
    ConnectionClosed,
    MessageReceiver,
    PendingRequest,
    request_of,
    result_of,
    with_token,
)
from pegboard.mcp.process import CHUNK, ServerProcess

MAX_GARBAGE: Final = 20
"""Lines in a row that are no messages, after which the server is given up."""

VERSION: Final = "mcp-protocol-version"
"""Under this header every transport is told the revision that is spoken."""

_NOTED: Final = 200
_HIGH_WATER: Final = 1 << 18
MAX_UNREAD: Final = 1 << 22
"""Bytes that a server leaves unread, over which its own questions get no answer."""


class StdioDispatcher:
    """Requests, answers and notifications over a program's standard streams.

    Args:
        process: whose faults are noted.
        reader, writer: its output and input.
    """

    def __init__(
        self, process: ServerProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._inbound = MessageReceiver("stdio", self._reply)

    # -- outward ------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Json:
        """Send a request; its raw result. Time limits are the caller's: one in `opts` would run on during a login.

        Raises:
            MCPError: an error answer.
            ConnectionClosed: the server is gone.
        """
        options: CallOptions = opts or {}
        inbound = self._inbound
        if inbound.closed:
            raise ConnectionClosed
        inbound.version = (options.get("headers") or {}).get(VERSION, inbound.version)
        id = options.get("request_id") or inbound.new_id()
        on_progress = options.get("on_progress")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        inbound.waiting[id] = PendingRequest(answer, on_progress)
        try:
            await self._write(request_of(id, method, with_token(params, id, on_progress)))
            reply = await answer
        except asyncio.CancelledError:
            if options.get("cancel_on_abandon", True) and not inbound.closed:
                what = {"requestId": id, "reason": "the caller gave up"}
                self._put({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": what})
            raise
        finally:
            inbound.waiting.pop(id, None)
        return result_of(reply)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification; nothing where the server is gone."""
        self._inbound.version = ((opts or {}).get("headers") or {}).get(VERSION, self._inbound.version)
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        with contextlib.suppress(MCPError):
            await self._write(message)

    async def _write(self, message: Json) -> None:
        try:
            self._put(message)
            if self._writer.transport.get_write_buffer_size() > _HIGH_WATER:
                await self._writer.drain()
        except (ConnectionError, RuntimeError):
            raise ConnectionClosed from None

    def _reply(self, message: Json | list[Json]) -> None:
        # A server that asks and asks and reads nothing would have us keep every answer.
        if self._writer.transport.get_write_buffer_size() < MAX_UNREAD:
            self._put(message)

    def _put(self, message: Json | list[Json]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    # -- inward -------------------------------------------------------------------------------

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Read until the server ends or says nothing sensible."""
        self._inbound.begin(on_request, on_notify, on_notify_intercept)
        task_status.started()
        splitter, garbage = LineSplitter(), 0
        try:
            while chunk := await self._reader.read(CHUNK):
                for line in splitter.feed(chunk):
                    message = parse(line) if isinstance(line, bytes) else line.answer()
                    if message is not None:
                        garbage = 0
                        self._take(message)
                        continue
                    garbage += 1
                    text = line[-_NOTED:].decode("utf-8", "replace") if isinstance(line, bytes) else "…"
                    self._process.stray = self._process.stray or text.strip()
                    self._process.unread = f"{self._process.unread} {text}"[-_NOTED:]
                    if garbage > MAX_GARBAGE:
                        self._process.fault = f"it wrote {garbage} lines that are no messages"
                        return
        except ConnectionError:
            return
        finally:
            self._inbound.end()

    def _take(self, message: Json | MessageBatch) -> None:
        if isinstance(message, MessageBatch):
            self._inbound.take_all(message.entries)
            return
        self._inbound.receive(message)
        # To what an answer without an id belongs, nobody can tell; whoever waits in vain will want to know of it.
        lost = "method" not in message and message.get("id") is None
        self._process.unread = json.dumps(message.get("error", message))[:_NOTED] if lost else ""


@asynccontextmanager
async def stdio_dispatcher(process: ServerProcess) -> AsyncGenerator[StdioDispatcher]:
    """Start the program; it is ended with the block, cancelled or not."""
    out, err, stdin = await process.start()
    tasks: list[asyncio.Future[None]] = [
        asyncio.ensure_future(_keep(err, process)),
        asyncio.ensure_future(process.watch()),
    ]
    try:
        yield StdioDispatcher(process, out, stdin)
    finally:
        ending = asyncio.ensure_future(_shut_down(process, stdin, tasks))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise


async def _shut_down(
    process: ServerProcess, stdin: asyncio.StreamWriter, tasks: list[asyncio.Future[None]]
) -> None:
    stdin.close()
    await process.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    process.close()
    with contextlib.suppress(OSError):
        await stdin.wait_closed()


async def _keep(err: asyncio.StreamReader, process: ServerProcess) -> None:
    while chunk := await err.read(CHUNK):
        process.stderr.feed(chunk)
