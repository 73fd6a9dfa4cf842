"""Inbound: what a server says by itself (requests, notifications, progress), whatever transport it comes by."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, cast

import anyio
from mcp.shared.dispatcher import OnNotify, OnNotifyIntercept, OnRequest, ProgressFnT, run_notify_intercept
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from pydantic import ValidationError

from pegboard.mcp.framing import Json
from pegboard.mcp.wire import BATCHING

MAX_INBOUND: Final = 32
"""Requests of the server that are answered at once; more are refused."""

MAX_NOTICES: Final = 256
"""Notifications that wait to be looked at; more are dropped, since a server may send any number."""


class ConnectionClosed(MCPError):
    """The connection is gone, as this side alone can tell: servers answer with the number for it whatever ails them."""

    def __init__(self, message: str = "Connection closed") -> None:
        super().__init__(code=CONNECTION_CLOSED, message=message)


class UnreadableAnswer(MCPError):
    """An answer came, and says nothing that can be read; the message ends the sentence "the answer is …"."""

    def __init__(self, message: str) -> None:
        super().__init__(code=INTERNAL_ERROR, message=message)


@dataclass(slots=True)
class PendingRequest:
    """One request of ours that has no answer yet."""

    answer: asyncio.Future[Json]
    on_progress: ProgressFnT | None


@dataclass(slots=True, kw_only=True)
class _CallbackContext:
    """What package `mcp` hands to callbacks beside a message of the server."""

    request_id: str | int | None
    transport: TransportContext
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


class _Replies:
    """Our answers to a batch, sent together once the last is there; a cancelled request has none."""

    def __init__(self, send: Callable[[Json | list[Json]], None]) -> None:
        self._send = send
        self._said: list[Json] = []
        self._missing = 1

    def say(self, answer: Json) -> None:
        """One of them."""
        self._said.append(answer)

    def wait_for(self, task: asyncio.Future[None]) -> None:
        """Send nothing before this has ended."""
        self._missing += 1
        task.add_done_callback(lambda _: self.close())

    def close(self) -> None:
        """The batch itself, or one of its requests, is done."""
        self._missing -= 1
        if self._missing == 0 and self._said:
            self._send(self._said)


class MessageReceiver:
    """Takes a server's messages: answers to the requests that wait for them, the rest to the session.

    Args:
        kind: the transport's name.
        reply: sends our answer to a request of the server, or our answers to a batch.

    Attributes:
        version: the revision that is spoken, empty while none is agreed on.
        waiting: requests of ours by id.
        closed: nothing will come any more.
    """

    def __init__(self, kind: str, reply: Callable[[Json | list[Json]], None]) -> None:
        self.version = ""
        self.waiting: dict[str | int, PendingRequest] = {}
        self.closed = False
        self._transport = TransportContext(kind=kind, can_send_request=False)
        self._reply = reply
        self._last = 0
        self._tasks: set[asyncio.Future[None]] = set()
        self._running: dict[str | int, asyncio.Future[None]] = {}
        self._on_request: OnRequest | None = None
        self._on_notify: OnNotify | None = None
        self._intercept: OnNotifyIntercept | None = None

    def new_id(self) -> int:
        """An id for a request of ours."""
        self._last += 1
        return self._last

    @property
    def is_full(self) -> bool:
        """Whether as many things are under way as a server may cause."""
        return len(self._tasks) >= MAX_NOTICES

    def begin(self, on_request: OnRequest, on_notify: OnNotify, intercept: OnNotifyIntercept | None) -> None:
        """From now on the session's callbacks get what is not for us."""
        self._on_request, self._on_notify, self._intercept = on_request, on_notify, intercept

    def batch_fault(self) -> str:
        """Why a batch is not read here; empty where it is."""
        if self.version == BATCHING:
            return ""
        spoken = f"this is {self.version}" if self.version else "none is agreed on yet"
        return f"the server sent a JSON-RPC batch, which only revision {BATCHING} has, and {spoken}"

    def take_all(self, entries: Sequence[Any]) -> None:
        """A batch of the server: our answers to it go out together. One that has no place here is refused."""
        messages = [cast("Json", e) for e in entries if isinstance(e, dict)]
        fault = self.batch_fault() or ("" if entries else "the server sent an empty JSON-RPC batch")
        if not fault:
            replies = _Replies(self._reply)
            for entry in entries:
                if isinstance(entry, dict) and cast("Json", entry).get("jsonrpc") == "2.0":
                    self.receive(cast("Json", entry), replies)
                else:
                    replies.say(error_answer(None, INVALID_REQUEST, "not a JSON-RPC 2.0 message"))
            replies.close()
            return
        answers = [m for m in messages if "method" not in m and is_id(m.get("id"))]
        for message in answers:
            # What waits for it must not wait in vain.
            self.receive(
                {"jsonrpc": "2.0", "id": message["id"], "unreadable": f"in a form of its own: {fault}"}
            )
        if len(answers) < len(entries) or not entries:
            self._reply(error_answer(None, INVALID_REQUEST, fault))

    def receive(self, message: Json, replies: _Replies | None = None) -> None:
        """One message of the server; our answer goes to `replies` where it is part of a batch."""
        method: Any = message.get("method")
        id: Any = message.get("id")
        if isinstance(id, float) and id.is_integer():
            # Where every number is a float, 3 comes back as 3.0.
            id = int(id)
        if not isinstance(method, str):
            # An answer to nothing that we asked is ignored.
            waiting = self.waiting.get(id) if is_id(id) else None
            if waiting is None and isinstance(id, str) and id.isdecimal() and len(id) < 10:
                # Some servers echo a number as text.
                waiting = self.waiting.get(int(id))
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_result(message)
            return
        given: Any = message.get("params")
        params = cast("Json", given) if isinstance(given, dict) else None
        if is_id(id):
            self._asked(id, method, params, replies)
        elif run_notify_intercept(self._intercept, method, params):
            return
        elif method == "notifications/progress" and params is not None:
            self._progress(params)
        elif method == "notifications/cancelled" and params is not None:
            named = params.get("requestId")
            running = self._running.get(named) if is_id(named) else None
            if running is not None:
                running.cancel()
        elif self._on_notify is not None and not self.is_full:
            self.spawn(self._on_notify(cast("Any", self._said(None)), method, params))

    def spawn(self, work: Awaitable[None]) -> asyncio.Future[None]:
        """Run something until it ends or the connection does; if it fails, that costs only its own message."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def end(self) -> None:
        """Nothing will come any more: whoever waits is told."""
        self.closed = True
        for waiting in self.waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(ConnectionClosed())
                # Whoever waits may look elsewhere, at a response of its own; then nobody takes this.
                waiting.answer.exception()
        for task in list(self._tasks):
            task.cancel()

    def _said(self, id: str | int | None) -> _CallbackContext:
        return _CallbackContext(request_id=id, transport=self._transport)

    def _asked(self, id: str | int, method: str, params: Json | None, replies: _Replies | None) -> None:
        say = self._reply if replies is None else replies.say
        if len(self._running) >= MAX_INBOUND or id in self._running:
            say(error_answer(id, INTERNAL_ERROR, "too many requests at once"))
            return
        task = self.spawn(self._answer(id, method, params, say))
        self._running[id] = task
        task.add_done_callback(lambda _: self._running.pop(id, None))
        if replies is not None:
            replies.wait_for(task)

    async def _answer(
        self, id: str | int, method: str, params: Json | None, say: Callable[[Json], None]
    ) -> None:
        if self._on_request is None:
            return
        try:
            result = await self._on_request(cast("Any", self._said(id)), method, params)
            answer: Json = {"jsonrpc": "2.0", "id": id, "result": result}
        except MCPError as error:
            answer = error_answer(id, error.code, error.message)
        except ValidationError:
            answer = error_answer(id, INVALID_PARAMS, "Invalid params")
        except Exception as error:  # noqa: BLE001  The boundary of a request: unanswered, the server would wait for ever.
            answer = error_answer(id, INTERNAL_ERROR, f"the request failed with {type(error).__name__}")
        say(answer)

    def _progress(self, params: Json) -> None:
        token, done = params.get("progressToken"), params.get("progress")
        waiting = self.waiting.get(token) if is_id(token) else None
        if waiting is None or waiting.on_progress is None or not _is_number(done):
            return
        total, said = params.get("total"), params.get("message")
        if not self.is_full:
            self.spawn(
                waiting.on_progress(
                    float(cast("float", done)),
                    total if _is_number(total) else None,
                    said if isinstance(said, str) else None,
                )
            )

    def _finished(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()


def is_id(value: Any) -> TypeGuard[str | int]:
    """Whether a value can be a request's id; True would pass for the number 1."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def with_token(params: Mapping[str, Any] | None, id: str | int, on_progress: ProgressFnT | None) -> Json:
    """Parameters of a request that asks for progress where somebody wants to hear of it."""
    sent = dict(params or {})
    if on_progress is not None:
        sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": id}
    return sent


def request_of(id: str | int, method: str, sent: Json) -> Json:
    """A request as JSON-RPC writes it."""
    if sent:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": sent}
    return {"jsonrpc": "2.0", "id": id, "method": method}


def result_of(answer: Json) -> Json:
    """The result in an answer.

    Raises:
        MCPError: it is an error.
        UnreadableAnswer: it is neither.
    """
    error: Any = answer.get("error")
    if isinstance(error, dict):
        told = cast("Json", error)
        code: Any = told.get("code")
        raise MCPError(
            code=code if isinstance(code, int) else INTERNAL_ERROR,
            message=str(told.get("message") or "it gives no reason"),
            data=told.get("data"),
        )
    result: Any = answer.get("result")
    if not isinstance(result, dict):
        if error:
            raise MCPError(code=INTERNAL_ERROR, message=str(error))
        raise UnreadableAnswer(str(answer.get("unreadable") or "without a result"))
    return cast("Json", result)


def error_answer(id: str | int | None, code: int, message: str) -> Json:
    """An answer that refuses a request."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
