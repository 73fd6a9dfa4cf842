"""PipeDispatcher: JSON-RPC with a server program, as package `mcp` wants its dispatchers, and little else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT
from pydantic import ValidationError

from pegboard.mcp.lines import Json, LineSplitter, parse
from pegboard.mcp.process import CHUNK, ServerProcess

MAX_GARBAGE: Final = 20
"""Lines in a row that are no messages, after which the server is given up (corpus mcp-045)."""
MAX_INBOUND: Final = 32
"""Requests of the server that are answered at once; more are refused (corpus mcp-066)."""

_HIGH_WATER: Final = 1 << 18


@dataclass(slots=True)
class _Waiting:
    answer: asyncio.Future[Json]
    on_progress: ProgressFnT | None


@dataclass(slots=True, kw_only=True)
class _Inbound:
    """What package `mcp` hands to callbacks beside a message of the server."""

    request_id: str | int | None
    transport: TransportContext = field(
        default_factory=lambda: TransportContext(kind="stdio", can_send_request=False)
    )
    can_send_request: bool = False
    message_metadata: None = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> Json:
        """Not from inside a callback."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Not from inside a callback."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Not from inside a callback."""


class PipeDispatcher:
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
        self._waiting: dict[str | int, _Waiting] = {}
        self._last = 0
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbound: dict[str | int, asyncio.Task[None]] = {}

    # -- outward ------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Json:
        """Send a request; its raw result.

        Raises:
            MCPError: an error answer, the timeout of `opts`, or CONNECTION_CLOSED.
        """
        options: CallOptions = opts or {}
        if self._closed:
            raise MCPError(code=CONNECTION_CLOSED, message="Connection closed")
        id = options.get("request_id")
        if id is None:
            self._last += 1
            id = self._last
        on_progress = options.get("on_progress")
        sent = dict(params or {})
        if on_progress is not None:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": id}
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[id] = _Waiting(answer, on_progress)
        try:
            await self._write({"jsonrpc": "2.0", "id": id, "method": method, "params": sent} if sent else
                              {"jsonrpc": "2.0", "id": id, "method": method})  # fmt: skip
            timeout = options.get("timeout")
            if timeout is None:
                reply = await answer
            else:
                reply = await asyncio.wait_for(answer, timeout)
        except TimeoutError:
            self._tell_abandoned(id, options, "timed out")
            raise MCPError(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out") from None
        except asyncio.CancelledError:
            self._tell_abandoned(id, options, "the caller gave up")
            raise
        finally:
            self._waiting.pop(id, None)
        return _result_of(reply)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification; nothing where the server is gone."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        with contextlib.suppress(MCPError):
            await self._write(message)

    def _tell_abandoned(self, id: str | int, options: CallOptions, why: str) -> None:
        if options.get("cancel_on_abandon", True) and not self._closed:
            params = {"requestId": id, "reason": why}
            self._put({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def _write(self, message: Json) -> None:
        try:
            self._put(message)
            if self._writer.transport.get_write_buffer_size() > _HIGH_WATER:
                await self._writer.drain()
        except (ConnectionError, RuntimeError):
            raise MCPError(code=CONNECTION_CLOSED, message="Connection closed") from None

    def _put(self, message: Json) -> None:
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
        task_status.started()
        splitter, garbage = LineSplitter(), 0
        try:
            while chunk := await self._reader.read(CHUNK):
                for line in splitter.feed(chunk):
                    message = parse(line) if isinstance(line, bytes) else line.answer()
                    if message is not None:
                        garbage = 0
                        self._take(message, on_request, on_notify, on_notify_intercept)
                        continue
                    garbage += 1
                    if garbage > MAX_GARBAGE:
                        self._process.fault = f"it wrote {garbage} lines that are no messages"
                        return
        except ConnectionError:
            return
        finally:
            self._end()

    def _take(
        self, message: Json, on_request: OnRequest, on_notify: OnNotify, intercept: OnNotifyIntercept | None
    ) -> None:
        method: Any = message.get("method")
        id: Any = message.get("id")
        if not isinstance(method, str):
            # An answer to nothing that we asked is ignored (corpus mcp-047, mcp-049).
            waiting = self._waiting.get(id) if isinstance(id, str | int) else None
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_result(message)
            return
        given: Any = message.get("params")
        params = cast("Json", given) if isinstance(given, dict) else None
        if isinstance(id, str | int):
            if len(self._inbound) >= MAX_INBOUND or id in self._inbound:
                self._put(_error(id, INTERNAL_ERROR, "too many requests at once"))
                return
            task = self._spawn(self._answer(id, method, params, on_request))
            self._inbound[id] = task
            task.add_done_callback(lambda _: self._inbound.pop(id, None))
            return
        if run_notify_intercept(intercept, method, params):
            return
        if method == "notifications/progress" and params is not None:
            self._progress(params)
        elif method == "notifications/cancelled" and params is not None:
            running = self._inbound.get(params.get("requestId", ""))
            if running is not None:
                running.cancel()
        else:
            self._spawn(on_notify(cast("Any", _Inbound(request_id=None)), method, params))

    def _progress(self, params: Json) -> None:
        token, done = params.get("progressToken"), params.get("progress")
        waiting = self._waiting.get(token) if isinstance(token, str | int) else None
        if waiting is None or waiting.on_progress is None or not isinstance(done, int | float):
            return
        total, said = params.get("total"), params.get("message")
        self._spawn(
            waiting.on_progress(
                float(done),
                total if isinstance(total, int | float) else None,
                said if isinstance(said, str) else None,
            )
        )

    async def _answer(self, id: str | int, method: str, params: Json | None, on_request: OnRequest) -> None:
        try:
            result = await on_request(cast("Any", _Inbound(request_id=id)), method, params)
            reply: Json = {"jsonrpc": "2.0", "id": id, "result": result}
        except MCPError as error:
            reply = _error(id, error.code, error.message)
        except ValidationError:
            reply = _error(id, -32602, "Invalid params")
        self._put(reply)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # A callback that fails costs only its own message.
            task.exception()

    def _end(self) -> None:
        self._closed = True
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_result(_error(0, CONNECTION_CLOSED, "Connection closed"))
        for task in list(self._tasks):
            task.cancel()


@asynccontextmanager
async def piped(process: ServerProcess) -> AsyncGenerator[PipeDispatcher]:
    """Start the program; it is ended with the block, cancelled or not."""
    out, err, stdin = await process.start()
    tasks: list[asyncio.Future[None]] = [
        asyncio.ensure_future(_keep(err, process)),
        asyncio.ensure_future(process.watch()),
    ]
    try:
        yield PipeDispatcher(process, out, stdin)
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


def _result_of(reply: Json) -> Json:
    error: Any = reply.get("error")
    if isinstance(error, dict):
        told = cast("Json", error)
        code: Any = told.get("code")
        raise MCPError(
            code=code if isinstance(code, int) else INTERNAL_ERROR,
            message=str(told.get("message", "")),
            data=told.get("data"),
        )
    result: Any = reply.get("result")
    if not isinstance(result, dict):
        raise MCPError(code=INTERNAL_ERROR, message="the server's answer has no result")
    return cast("Json", result)


def _error(id: str | int, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
