"""Connection: JSON-RPC 2.0 with an editor, a message a line, requests in both directions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

from pegboard.core.errors import PegboardError
from pegboard.mcp.framing import LineSplitter, Oversized, parse, size_text
from pegboard.mcp.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
    error_reply,
)
from pegboard.process.stdio import CHUNK, open_streams

Json: TypeAlias = dict[str, Any]

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of one message: a prompt carries its pictures."""

_LEAVE_S: Final = 5.0


Handler: TypeAlias = Callable[[Json], Awaitable[Any]]


class Connection:
    """One editor.

    Args:
        on_fault: is given one sentence for each message that cannot be read or answered.

    Attributes:
        requests: what answers each method; the answer is JSON-able, or the handler raises RpcError or PegboardError.
        notifications: what takes each notification.
    """

    def __init__(self, on_fault: Callable[[str], None]) -> None:
        self.requests: Mapping[str, Handler] = {}
        self.notifications: Mapping[str, Callable[[Json], None]] = {}
        self._on_fault = on_fault
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0

    async def serve(self, source: int = 0, sink: int = 1) -> None:
        """Serve until the editor closes its end or the caller cancels; then cancel what still runs.

        Args:
            source, sink: descriptors; both are closed at the end.
        """
        async with open_streams(source, sink) as (reader, self._writer):
            try:
                splitter = LineSplitter(MAX_LINE)
                while chunk := await reader.read(CHUNK):
                    for line in splitter.feed(chunk):
                        self._take(line)
            finally:
                await self._end()

    async def notify(self, method: str, params: Json) -> None:
        """Tell the editor something; nothing where it is gone."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params})
        await self._drain()

    async def request(self, method: str, params: Json) -> Json:
        """Ask the editor; its answer.

        Raises:
            RpcError: it answered with an error, or is gone.
        """
        self._last_id += 1
        id, answer = self._last_id, asyncio.get_running_loop().create_future()
        if self._writer is None or self._writer.is_closing():
            raise RpcError(INTERNAL_ERROR, "the editor is gone")
        self._waiting[id] = answer
        try:
            self._write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            result = await answer
        finally:
            self._waiting.pop(id, None)
        return cast("Json", result) if isinstance(result, dict) else {}

    def _write(self, message: Json) -> None:
        if self._writer is not None and not self._writer.is_closing():
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
            self._writer.write(text.encode("utf-8", "replace") + b"\n")

    async def _drain(self) -> None:
        if self._writer is not None:
            # Wait where the editor does not read, so that its pipe and not our memory holds what is told.
            with suppress(ConnectionError):
                await self._writer.drain()

    def _take(self, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            why = f"a message may have {size_text(MAX_LINE)}; this one was dropped"
            self._write(error_reply(line.id, INVALID_REQUEST, why))
            return
        message = parse(line)
        if not isinstance(message, dict):
            self._write(error_reply(None, PARSE_ERROR, "the message is not a JSON-RPC 2.0 object"))
        elif "unreadable" in message:
            self._write(error_reply(message["id"], PARSE_ERROR, str(message["unreadable"])))
        elif not isinstance(message.get("method"), str):
            self._answered(message)
        elif "id" in message:
            task = asyncio.create_task(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif (take := self.notifications.get(message["method"])) is not None:
            try:
                take(_params(message))
            except RpcError as error:
                self._on_fault(f"{message['method']}: {error.message}")

    def _answered(self, message: Json) -> None:
        answer = self._waiting.get(message["id"]) if isinstance(message.get("id"), int) else None
        if answer is None or answer.done():
            return
        if "error" not in message:
            answer.set_result(message.get("result"))
            return
        fault: Any = message["error"]
        said = cast("Json", fault) if isinstance(fault, dict) else {}
        code = said.get("code")
        answer.set_exception(
            RpcError(
                code if isinstance(code, int) else INTERNAL_ERROR, str(said.get("message", "no reason given"))
            )
        )

    async def _answer(self, message: Json) -> None:
        id, method = message["id"], message["method"]
        try:
            handler = self.requests.get(method)
            if handler is None:
                raise RpcError(METHOD_NOT_FOUND, f"Pegboard has no method {method!r}")
            reply = {"jsonrpc": "2.0", "id": id, "result": await handler(_params(message))}
        except RpcError as error:
            reply = error_reply(id, error.code, error.message)
        except PegboardError as error:
            reply = error_reply(id, INTERNAL_ERROR, str(error))
        except Exception as error:  # noqa: BLE001  The protocol's boundary: whatever broke, the request is answered.
            self._on_fault(f"{method} failed: {type(error).__name__}: {error}")
            reply = error_reply(id, INTERNAL_ERROR, f"{method} failed with {type(error).__name__}")
        self._write(reply)
        await self._drain()

    async def _end(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(RpcError(INTERNAL_ERROR, "the editor is gone"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LEAVE_S)


def _params(message: Json) -> Json:
    params: Any = message.get("params")
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, f"{message['method']}: params must be an object")
    return cast("Json", params or {})


def text_param(params: Json, name: str) -> str:
    """A parameter that must be a text.

    Raises:
        RpcError: it is missing, or something else.
    """
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise RpcError(INVALID_PARAMS, f"{name} must be a text")
    return value


def list_param(params: Json, name: str) -> list[Json]:
    """A parameter that must be a list of objects; empty where it is missing.

    Raises:
        RpcError: it is something else.
    """
    value = params.get(name)
    items = cast("list[Any]", value) if isinstance(value, list) else ([] if value is None else [None])
    if not all(isinstance(item, dict) for item in items):
        raise RpcError(INVALID_PARAMS, f"{name} must be a list of objects")
    return cast("list[Json]", items)
