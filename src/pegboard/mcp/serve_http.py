"""Serving over streamable HTTP, both eras: token, Host and Origin checks, one session a client (decisions 9)."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pegboard.mcp.asgi import (
    Receive,
    Scope,
    SendEvent,
    accepts,
    body_of,
    headers_of,
    json_answer,
    lifespan,
    plain_answer,
)
from pegboard.mcp.doorkeeper import HttpRejection, RequestGuard
from pegboard.mcp.jsonrpc import handle_batch, handle_message
from pegboard.mcp.request_context import Json, Peer, RequestContext
from pegboard.mcp.request_headers import header_fault, version_fault
from pegboard.mcp.server import ToolServer, is_modern
from pegboard.mcp.streams import PING_S, EventStream, disconnected, finish, stream_out, to_stream
from pegboard.mcp.wire import (
    HANDSHAKE,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    error_reply,
)

MAX_SESSIONS: Final = 256
IDLE_S: Final = 1800.0
_WATCH_S: Final = 0.1
_STATUS: Final = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400, METHOD_NOT_FOUND: 404,
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Session:
    """One client of the handshake era."""

    id: str
    peer: Peer
    standalone: EventStream
    streams: dict[str, EventStream] = field(default_factory=dict[str, EventStream])
    used: float = 0.0


class HttpApp:
    """The ASGI application.

    Args:
        service: what is served.
        tokens: by client, the token that each request must carry as `Authorization: Bearer`; a session, a task and
            a record belong to one of them. None = no token (loopback and tests).
        hosts: accepted values of the Host header, in lower case, with port.
        origins: accepted values of the Origin header; a request without one passes.
        path: where the protocol is served.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        service: ToolServer,
        *,
        tokens: Mapping[str, str] | None,
        hosts: Sequence[str],
        origins: Sequence[str] | None = None,
        path: str = "/mcp",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._door = RequestGuard(tokens, hosts=hosts, origins=origins, path=path, clock=clock)
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: SendEvent) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        if scope["type"] != "http":
            # There are no web sockets here, whatever Origin or cookie they come with.
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = headers_of(scope)
        owner = self._door.authenticate(scope, headers)
        if isinstance(owner, HttpRejection):
            await plain_answer(send, owner.status, owner.text)
            return
        method = scope["method"]
        if method == "POST":
            await self._post(owner, headers, receive, send)
        elif headers.get("mcp-protocol-version", HANDSHAKE[-1]) not in HANDSHAKE:
            await plain_answer(send, 405, "only POST", [(b"allow", b"POST")])
        elif method == "GET":
            await self._get(owner, headers, receive, send)
        elif method == "DELETE":
            await self._delete(owner, headers, send)
        else:
            # OPTIONS too: there is no cross-origin access to allow.
            await plain_answer(send, 405, "only GET, POST and DELETE", [(b"allow", b"GET, POST, DELETE")])

    async def aclose(self) -> None:
        """End every session."""
        for session in list(self._sessions.values()):
            self._drop(session)

    # -- POST ---------------------------------------------------------------------------------

    async def _post(self, owner: str, headers: Mapping[str, str], receive: Receive, send: SendEvent) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            await plain_answer(send, 415, "Content-Type must be application/json")
            return
        accept = headers.get("accept", "")
        events = accepts(accept, "text/event-stream")
        if not accepts(accept, "application/json") or not events:
            await plain_answer(send, 406, "Accept must name application/json and text/event-stream")
            return
        body = await body_of(headers, receive, send)
        if body is None:
            return
        try:
            message: Any = json.loads(body)
        except (ValueError, RecursionError):
            await json_answer(send, 400, error_reply(None, PARSE_ERROR, "the body is no JSON"))
            return
        if isinstance(message, list):
            await self._batch(cast("list[Any]", message), owner, headers, send)
            return
        if not isinstance(message, dict):
            await json_answer(
                send, 400, error_reply(None, INVALID_REQUEST, "the body must be one JSON-RPC message")
            )
            return
        one = cast("Json", message)
        version = headers.get("mcp-protocol-version")
        params: Any = one.get("params")
        modern = version is not None and version not in HANDSHAKE
        if modern or (isinstance(params, dict) and is_modern(cast("Json", params))):
            await self._modern(one, owner, headers, receive, send)
        else:
            await self._handshake(one, owner, headers, receive, send)

    async def _batch(
        self, entries: list[Any], owner: str, headers: Mapping[str, str], send: SendEvent
    ) -> None:
        session = None
        if "mcp-session-id" in headers:
            session = await self._session(owner, headers, send)
            if session is None:
                return
        reply = await handle_batch(self._service, entries, None if session is None else session.peer)
        if reply is None:
            await plain_answer(send, 202, "")
        else:
            await json_answer(send, 200 if isinstance(reply, list) else 400, reply)

    # -- the stateless era --------------------------------------------------------------------

    async def _modern(
        self, message: Json, owner: str, headers: Mapping[str, str], receive: Receive, send: SendEvent
    ) -> None:
        if "method" not in message:
            await json_answer(
                send, 400, error_reply(None, INVALID_REQUEST, "the body must be a request or notification")
            )
            return
        if "id" not in message:
            version = headers.get("mcp-protocol-version", "")
            fault = version_fault(version)
            await (
                plain_answer(send, 202, "")
                if fault is None
                else json_answer(send, 400, {**fault, "id": None})
            )
            return
        fault = header_fault(message, headers, self._service.toolkit)
        if fault is not None:
            await json_answer(send, 400, fault)
            return
        stream = EventStream(name="")
        # By its token alone: a session that went by what a client calls itself would be anybody's who says the same.
        peer = Peer(
            send=lambda m, _: stream.put(m),
            session=":".join(["mcp:http", *([owner] if owner else [])]),
            owner=owner,
        )
        try:
            await self._answer(message, peer, stream, receive, send, modern=True)
        finally:
            self._service.leave(peer)

    # -- the handshake era --------------------------------------------------------------------

    async def _handshake(
        self, message: Json, owner: str, headers: Mapping[str, str], receive: Receive, send: SendEvent
    ) -> None:
        version = headers.get("mcp-protocol-version")
        if version is not None and version not in HANDSHAKE:
            await json_answer(
                send,
                400,
                error_reply(message.get("id"), INVALID_REQUEST, f"unknown revision {version[:40]!r}"),
            )
            return
        if message.get("method") == "initialize" and "id" in message:
            await self._initialize(message, owner, receive, send)
            return
        session = await self._session(owner, headers, send)
        if session is None:
            return
        if "method" not in message or "id" not in message:
            reply = await self._service.handle(message, session.peer)
            await (plain_answer(send, 202, "") if reply is None else json_answer(send, 400, reply))
            return
        stream = EventStream(name=secrets.token_hex(6))
        await self._answer(message, session.peer, stream, receive, send, modern=False, session=session)

    async def _initialize(self, message: Json, owner: str, receive: Receive, send: SendEvent) -> None:
        self._drop_idle()
        if len(self._sessions) >= MAX_SESSIONS:
            await plain_answer(send, 503, "too many sessions", [(b"retry-after", b"60")])
            return
        standalone = EventStream(name="all")
        peer = Peer(send=lambda m, e: to_stream(m, e, standalone), session="", owner=owner, listening=False)
        reply = await self._service.handle(message, peer)
        if reply is None or "error" in reply:
            await json_answer(send, 400, reply or {})
            return
        id = secrets.token_urlsafe(24)
        peer.session = f"mcp:{id[:12]}"
        self._sessions[id] = _Session(id=id, peer=peer, standalone=standalone, used=self._clock())
        self._service.join(peer)
        await json_answer(send, 200, reply, [(b"mcp-session-id", id.encode())])

    async def _session(self, owner: str, headers: Mapping[str, str], send: SendEvent) -> _Session | None:
        """The client's session; None where there is none and that has been answered."""
        id = headers.get("mcp-session-id")
        if id is None:
            await json_answer(
                send,
                400,
                error_reply(None, INVALID_REQUEST, "Mcp-Session-Id is missing; send initialize first"),
            )
            return None
        session = self._sessions.get(id)
        # Another client's session is none, whoever has come to know its id.
        if session is None or session.peer.owner != owner:
            await json_answer(
                send, 404, error_reply(None, INVALID_REQUEST, "this session has ended or never was")
            )
            return None
        session.used = self._clock()
        return session

    async def _delete(self, owner: str, headers: Mapping[str, str], send: SendEvent) -> None:
        session = await self._session(owner, headers, send)
        if session is not None:
            self._drop(session)
            await plain_answer(send, 200, "")

    def _drop(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        self._service.leave(session.peer)
        session.standalone.end()

    def _drop_idle(self) -> None:
        now = self._clock()
        for session in list(self._sessions.values()):
            if now - session.used > IDLE_S and not session.peer.inflight and not session.peer.listening:
                self._drop(session)

    async def _get(self, owner: str, headers: Mapping[str, str], receive: Receive, send: SendEvent) -> None:
        """The stream of what belongs to no request, or the rest of an interrupted one."""
        if not accepts(headers.get("accept", ""), "text/event-stream"):
            await plain_answer(send, 406, "Accept must name text/event-stream")
            return
        session = await self._session(owner, headers, send)
        if session is None:
            return
        name, _, number = headers.get("last-event-id", "").rpartition(".")
        stream = session.streams.get(name)
        if stream is not None and number.isdecimal():
            await stream_out(send, receive, stream, int(number), ids=True)
            return
        if session.peer.listening:
            await plain_answer(send, 409, "this session has its stream already")
            return
        session.peer.listening = True
        # What has changed since it last listened is told to it now.
        self._service.join(session.peer)
        try:
            after = int(number) if name == "all" and number.isdecimal() else 0
            await stream_out(send, receive, session.standalone, after, ids=True)
        finally:
            session.peer.listening = False

    # -- answering ----------------------------------------------------------------------------

    async def _answer(
        self, message: Json, peer: Peer, stream: EventStream, receive: Receive, send: SendEvent, *,
        modern: bool, session: _Session | None = None,
    ) -> None:  # fmt: skip
        """Run a request; plain JSON where it says nothing in between, else a stream of events."""
        id: Any = message["id"]
        if isinstance(id, bool):
            # True would pass for the number 1; the service refuses it by itself.
            id = None
        if isinstance(id, str | int) and id in peer.inflight:
            await json_answer(
                send, 400, error_reply(id, INVALID_REQUEST, f"request {id!r} is already running")
            )
            return

        def made(ctx: RequestContext) -> None:
            ctx.sink = stream

        loop = asyncio.get_running_loop()
        work = asyncio.ensure_future(handle_message(self._service, message, peer, made))
        if isinstance(id, str | int):
            peer.inflight[id] = work
        # One future for whatever comes first, and no task that most calls would not need: this is every call's way.
        first = stream.first = loop.create_future()
        watchers: list[asyncio.Future[None]] = []

        def settle(_: Any = None) -> None:
            if not first.done():
                first.set_result(None)

        def watch() -> None:
            watchers.append(asyncio.ensure_future(disconnected(receive)))
            watchers[0].add_done_callback(settle)

        work.add_done_callback(settle)
        timers = [loop.call_later(_WATCH_S, watch), loop.call_later(PING_S, settle)]
        finishing: asyncio.Future[None] | None = None
        try:
            await first
            if work.done() and not stream.events:
                await self._plain_answer(work, id, send, modern=modern)
                return
            if not watchers:
                watch()
            watched = watchers[0]
            if session is not None:
                session.streams[stream.name] = stream
            elif watched.done() and not work.done():
                # Closing the response is how a stateless client cancels.
                return
            # In a session a lost connection does not end the call: the client may take the stream up again.
            finishing = asyncio.ensure_future(finish(work, id, stream))
            await stream_out(send, receive, stream, 0, ids=session is not None, gone=watched)
            if session is not None:
                await asyncio.shield(finishing)
                _forget_old(session)
        finally:
            for timer in timers:
                timer.cancel()
            if session is None or finishing is None:
                work.cancel()
            ending = [*watchers, *([finishing] if finishing is not None else [])]
            for task in ending:
                if task is not finishing or session is None:
                    task.cancel()
            if not work.done() or ending:
                await asyncio.gather(work, *ending, return_exceptions=True)
            if isinstance(id, str | int) and peer.inflight.get(id) is work:
                del peer.inflight[id]

    async def _plain_answer(
        self, work: asyncio.Future[Json | None], id: Any, send: SendEvent, *, modern: bool
    ) -> None:
        if work.cancelled():
            await json_answer(send, 200, error_reply(id, INTERNAL_ERROR, "the request was cancelled"))
            return
        reply = work.result() or {}
        status = 200
        if "error" in reply and modern:
            status = _STATUS.get(reply["error"]["code"], 200)
        await json_answer(send, status, reply)


def _forget_old(session: _Session) -> None:
    """Keep finished streams for a client that lost their end, the last few of them."""
    while len(session.streams) > 32:
        session.streams.pop(next(iter(session.streams)))
