"""Serving over streamable HTTP, both eras: token, Host and Origin checks, one session a client (decisions 9)."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast
from urllib.parse import parse_qsl

from pegboard.mcp.exchange import Exchange, Json, Peer
from pegboard.mcp.server import Service, is_modern
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

Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
SendEvent: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY: Final = 4 * 1024 * 1024
MAX_SESSIONS: Final = 256
IDLE_S: Final = 1800.0
_BODY_S: Final = 30.0
_PING_S: Final = 15.0
_WATCH_S: Final = 0.1
_KEPT: Final = 256
_FAILURES: Final = 30
_WINDOW_S: Final = 60.0
_JSON: Final = (b"content-type", b"application/json")
_EVENTS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_STATUS: Final = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400, METHOD_NOT_FOUND: 404,
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Stream:
    """Messages for one response of the server, kept so that a client can take it up again.

    Attributes:
        name: part of its event ids.
        events: `(number, message)`, the last ones.
        done: no more will come.
        wake: set when something came.
    """

    name: str
    events: deque[tuple[int, Json]] = field(default_factory=lambda: deque[tuple[int, Json]](maxlen=_KEPT))
    count: int = 0
    done: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closed_by_us: bool = False
    first: asyncio.Future[None] | None = None

    def put(self, message: Json) -> None:
        self.count += 1
        self.events.append((self.count, message))
        self.wake.set()
        if self.first is not None and not self.first.done():
            self.first.set_result(None)

    def end(self) -> None:
        self.done = True
        self.wake.set()


@dataclass(slots=True, kw_only=True)
class _Session:
    """One client of the handshake era."""

    id: str
    peer: Peer
    standalone: _Stream
    streams: dict[str, _Stream] = field(default_factory=dict[str, _Stream])
    listening: bool = False
    used: float = 0.0


class HttpFace:
    """The ASGI application.

    Args:
        service: what is served.
        token: every request must carry it as `Authorization: Bearer`; None = no token (loopback and tests).
        hosts: accepted values of the Host header, in lower case, with port.
        origins: accepted values of the Origin header; a request without one passes.
        path: where the protocol is served.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        service: Service,
        *,
        token: str | None,
        hosts: Sequence[str],
        origins: Sequence[str] | None = None,
        path: str = "/mcp",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(h.lower() for h in hosts)
        given = [f"http://{h}" for h in hosts] if origins is None else origins
        self._origins = frozenset(o.lower() for o in given)
        self._path = path
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._failed: deque[float] = deque(maxlen=_FAILURES)

    async def __call__(self, scope: Scope, receive: Receive, send: SendEvent) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            # There are no web sockets here, whatever Origin or cookie they come with.
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await _plain(send, *refused)
            return
        method = scope["method"]
        if method == "POST":
            await self._post(headers, receive, send)
        elif headers.get("mcp-protocol-version", HANDSHAKE[-1]) not in HANDSHAKE:
            await _plain(send, 405, "only POST", [(b"allow", b"POST")])
        elif method == "GET":
            await self._get(headers, receive, send)
        elif method == "DELETE":
            await self._delete(headers, send)
        else:
            # OPTIONS too: there is no cross-origin access to allow.
            await _plain(send, 405, "only GET, POST and DELETE", [(b"allow", b"GET, POST, DELETE")])

    async def aclose(self) -> None:
        """End every session."""
        for session in list(self._sessions.values()):
            self._drop(session)

    # -- who may speak ------------------------------------------------------------------------

    def _refused(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Status and text of a refusal, None where the request may go on."""
        if headers.get("host", "").lower() not in self._hosts:
            return 403, "this Host is not served here"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return 403, "this Origin may not speak here"
        if scope["path"] != self._path:
            return 404, "not found"
        query = scope.get("query_string", b"").decode("latin-1")
        if any(
            k.lower() in ("token", "access_token", "key") for k, _ in parse_qsl(query, keep_blank_values=True)
        ):
            return 400, "a token never stands in an address; send it as Authorization: Bearer"
        return self._unauthorised(headers)

    def _unauthorised(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        if self._token is None:
            return None
        now = self._clock()
        given = headers.get("authorization", "")
        scheme, _, value = given.partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(value.strip().encode(), self._token):
            return None
        recent = [t for t in self._failed if now - t < _WINDOW_S]
        if len(recent) >= _FAILURES:
            return 429, "too many wrong tokens; wait a minute"
        self._failed.append(now)
        return 401, "a token is needed: Authorization: Bearer"

    # -- POST ---------------------------------------------------------------------------------

    async def _post(self, headers: Mapping[str, str], receive: Receive, send: SendEvent) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            await _plain(send, 415, "Content-Type must be application/json")
            return
        accept = headers.get("accept", "")
        events = _accepts(accept, "text/event-stream")
        if not _accepts(accept, "application/json") or not events:
            await _plain(send, 406, "Accept must name application/json and text/event-stream")
            return
        body = await self._body(headers, receive, send)
        if body is None:
            return
        try:
            message: Any = json.loads(body)
        except (ValueError, RecursionError):
            await _json(send, 400, error_reply(None, PARSE_ERROR, "the body is no JSON"))
            return
        if not isinstance(message, dict):
            await _json(
                send, 400, error_reply(None, INVALID_REQUEST, "the body must be one JSON-RPC message")
            )
            return
        one = cast("Json", message)
        version = headers.get("mcp-protocol-version")
        params: Any = one.get("params")
        modern = version is not None and version not in HANDSHAKE
        if modern or (isinstance(params, dict) and is_modern(cast("Json", params))):
            await self._modern(one, headers, receive, send)
        else:
            await self._handshake(one, headers, receive, send)

    async def _body(self, headers: Mapping[str, str], receive: Receive, send: SendEvent) -> bytes | None:
        """The whole body; None where it was too long or too slow and has been answered."""
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > MAX_BODY:
            await _plain(send, 413, f"a message may have {MAX_BODY} bytes", [(b"connection", b"close")])
            return None
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_S):
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        return None
                    part = event.get("body", b"")
                    size += len(part)
                    if size > MAX_BODY:
                        await _plain(
                            send, 413, f"a message may have {MAX_BODY} bytes", [(b"connection", b"close")]
                        )
                        return None
                    parts.append(part)
                    if not event.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            await _plain(send, 408, "the body came too slowly", [(b"connection", b"close")])
            return None

    # -- the stateless era --------------------------------------------------------------------

    async def _modern(
        self, message: Json, headers: Mapping[str, str], receive: Receive, send: SendEvent
    ) -> None:
        if "method" not in message:
            await _json(
                send, 400, error_reply(None, INVALID_REQUEST, "the body must be a request or notification")
            )
            return
        if "id" not in message:
            version = headers.get("mcp-protocol-version", "")
            fault = _version_fault(version)
            await (_plain(send, 202, "") if fault is None else _json(send, 400, {**fault, "id": None}))
            return
        fault = self._header_fault(message, headers)
        if fault is not None:
            await _json(send, 400, fault)
            return
        stream = _Stream(name="")
        peer = Peer(send=lambda m, _: stream.put(m), session="mcp:http")
        try:
            await self._answer(message, peer, stream, receive, send, modern=True)
        finally:
            self._service.leave(peer)

    def _header_fault(self, message: Json, headers: Mapping[str, str]) -> Json | None:
        """Headers that disagree with the body (2026-07-28, standard and custom headers)."""
        from mcp.shared.inbound import (
            InboundLadderRejection,
            classify_inbound_request,
            decode_header_value,
            validate_mcp_param_headers,
        )

        id = message.get("id")
        double = [n for n in ("mcp-protocol-version", "mcp-method", "mcp-name") if "\0" in headers.get(n, "")]
        if double:
            return error_reply(id, HEADER_MISMATCH, f"{double[0]} header appears more than once")
        verdict: Any = classify_inbound_request(message, headers=headers)
        if isinstance(verdict, InboundLadderRejection):
            return error_reply(id, verdict.code, verdict.message, verdict.data)
        params = cast("Json", message["params"])
        named = message.get("method") in ("tasks/get", "tasks/update", "tasks/cancel") and "taskId" in params
        if named and decode_header_value(headers.get("mcp-name")) != params["taskId"]:
            return error_reply(
                id, HEADER_MISMATCH, "mcp-name header does not match the request body's taskId"
            )
        if message["method"] == "tools/call" and isinstance(params.get("arguments") or {}, dict):
            tool = self._service.toolkit.get(str(params.get("name")))
            arguments = cast("Json", params.get("arguments") or {})
            if tool is not None and (arguments or any(h.startswith("mcp-param-") for h in headers)):
                folded = {k: v.partition("\0")[0] for k, v in headers.items()}
                fault = validate_mcp_param_headers(tool.schema, arguments, folded)
                if fault is not None:
                    return error_reply(id, fault.code, fault.message, fault.data)
        return None

    # -- the handshake era --------------------------------------------------------------------

    async def _handshake(
        self, message: Json, headers: Mapping[str, str], receive: Receive, send: SendEvent
    ) -> None:
        version = headers.get("mcp-protocol-version")
        if version is not None and version not in HANDSHAKE:
            await _json(
                send,
                400,
                error_reply(message.get("id"), INVALID_REQUEST, f"unknown revision {version[:40]!r}"),
            )
            return
        if message.get("method") == "initialize" and "id" in message:
            await self._initialize(message, receive, send)
            return
        session = await self._session(headers, send)
        if session is None:
            return
        if "method" not in message or "id" not in message:
            reply = await self._service.handle(message, session.peer)
            await (_plain(send, 202, "") if reply is None else _json(send, 400, reply))
            return
        stream = _Stream(name=secrets.token_hex(6))
        await self._answer(message, session.peer, stream, receive, send, modern=False, session=session)

    async def _initialize(self, message: Json, receive: Receive, send: SendEvent) -> None:
        self._drop_idle()
        if len(self._sessions) >= MAX_SESSIONS:
            await _plain(send, 503, "too many sessions", [(b"retry-after", b"60")])
            return
        standalone = _Stream(name="all")
        peer = Peer(send=lambda m, e: _to_stream(m, e, standalone), session="")
        reply = await self._service.handle(message, peer)
        if reply is None or "error" in reply:
            await _json(send, 400, reply or {})
            return
        id = secrets.token_urlsafe(24)
        peer.session = f"mcp:{id[:12]}"
        self._sessions[id] = _Session(id=id, peer=peer, standalone=standalone, used=self._clock())
        self._service.join(peer)
        await _json(send, 200, reply, [(b"mcp-session-id", id.encode())])

    async def _session(self, headers: Mapping[str, str], send: SendEvent) -> _Session | None:
        """The client's session; None where there is none and that has been answered."""
        id = headers.get("mcp-session-id")
        if id is None:
            await _json(
                send,
                400,
                error_reply(None, INVALID_REQUEST, "Mcp-Session-Id is missing; send initialize first"),
            )
            return None
        session = self._sessions.get(id)
        if session is None:
            await _json(send, 404, error_reply(None, INVALID_REQUEST, "this session has ended or never was"))
            return None
        session.used = self._clock()
        return session

    async def _delete(self, headers: Mapping[str, str], send: SendEvent) -> None:
        session = await self._session(headers, send)
        if session is not None:
            self._drop(session)
            await _plain(send, 200, "")

    def _drop(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        self._service.leave(session.peer)
        session.standalone.end()

    def _drop_idle(self) -> None:
        now = self._clock()
        for session in list(self._sessions.values()):
            if now - session.used > IDLE_S and not session.peer.inflight and not session.listening:
                self._drop(session)

    async def _get(self, headers: Mapping[str, str], receive: Receive, send: SendEvent) -> None:
        """The stream of what belongs to no request, or the rest of an interrupted one."""
        if not _accepts(headers.get("accept", ""), "text/event-stream"):
            await _plain(send, 406, "Accept must name text/event-stream")
            return
        session = await self._session(headers, send)
        if session is None:
            return
        name, _, number = headers.get("last-event-id", "").rpartition(".")
        stream = session.streams.get(name)
        if stream is not None and number.isdecimal():
            await _stream_out(send, receive, stream, int(number), ids=True)
            return
        if session.listening:
            await _plain(send, 409, "this session has its stream already")
            return
        session.listening = True
        try:
            after = int(number) if name == "all" and number.isdecimal() else 0
            await _stream_out(send, receive, session.standalone, after, ids=True)
        finally:
            session.listening = False

    # -- answering ----------------------------------------------------------------------------

    async def _answer(
        self, message: Json, peer: Peer, stream: _Stream, receive: Receive, send: SendEvent, *,
        modern: bool, session: _Session | None = None,
    ) -> None:  # fmt: skip
        """Run a request; plain JSON where it says nothing in between, else a stream of events."""
        id: Any = message["id"]
        if isinstance(id, bool):
            # True would pass for the number 1; the service refuses it by itself.
            id = None
        if isinstance(id, str | int) and id in peer.inflight:
            await _json(send, 400, error_reply(id, INVALID_REQUEST, f"request {id!r} is already running"))
            return

        def made(exchange: Exchange) -> None:
            exchange.sink = stream

        loop = asyncio.get_running_loop()
        work = asyncio.ensure_future(_guarded(self._service, message, peer, made))
        if isinstance(id, str | int):
            peer.inflight[id] = work
        # One future for whatever comes first, and no task that most calls would not need: this is every call's way.
        first = stream.first = loop.create_future()
        watchers: list[asyncio.Future[None]] = []

        def settle(_: Any = None) -> None:
            if not first.done():
                first.set_result(None)

        def watch() -> None:
            watchers.append(asyncio.ensure_future(_disconnected(receive)))
            watchers[0].add_done_callback(settle)

        work.add_done_callback(settle)
        timers = [loop.call_later(_WATCH_S, watch), loop.call_later(_PING_S, settle)]
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
            finishing = asyncio.ensure_future(_finish(work, id, stream))
            await _stream_out(send, receive, stream, 0, ids=session is not None, gone=watched)
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
            await _json(send, 200, error_reply(id, INTERNAL_ERROR, "the request was cancelled"))
            return
        reply = work.result() or {}
        status = 200
        if "error" in reply and modern:
            status = _STATUS.get(reply["error"]["code"], 200)
        await _json(send, status, reply)


def _to_stream(message: Json, exchange: Exchange | None, standalone: _Stream) -> None:
    stream = standalone if exchange is None or exchange.sink is None else cast(_Stream, exchange.sink)
    stream.put(message)


async def _guarded(
    service: Service, message: Json, peer: Peer, made: Callable[[Exchange], None]
) -> Json | None:
    try:
        return await service.handle(message, peer, exchange_made=made)
    except Exception as error:  # noqa: BLE001  The boundary of a request: its client gets an answer, no detail.
        return error_reply(
            message.get("id"), INTERNAL_ERROR, f"the server failed with {type(error).__name__}"
        )


async def _finish(work: asyncio.Future[Json | None], id: Any, stream: _Stream) -> None:
    """Put the answer behind what was said in between."""
    try:
        reply = await work
        if reply is not None:
            stream.put(reply)
    except asyncio.CancelledError:
        if not work.cancelled():
            raise
    finally:
        stream.end()


def _forget_old(session: _Session) -> None:
    """Keep finished streams for a client that lost their end, the last few of them."""
    while len(session.streams) > 32:
        session.streams.pop(next(iter(session.streams)))


async def _stream_out(
    send: SendEvent, receive: Receive, stream: _Stream, after: int, *, ids: bool,
    gone: asyncio.Future[None] | None = None,
) -> None:  # fmt: skip
    """Events of a stream from number `after` on, until it ends or the client goes."""
    own = gone is None
    gone = gone or asyncio.ensure_future(_disconnected(receive))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        # Something at once: the client knows that it is connected, and from which event to go on.
        opening = f"id: {stream.name}.{after}\r\nretry: 500\r\ndata: \r\n\r\n" if ids else ": open\r\n\r\n"
        await send({"type": "http.response.body", "body": opening.encode(), "more_body": True})
        while not gone.done():
            stream.wake.clear()
            for number, message in [e for e in stream.events if e[0] > after]:
                data = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
                mark = f"id: {stream.name}.{number}\r\n" if ids else ""
                event = f"event: message\r\n{mark}data: {data}\r\n\r\n".encode("utf-8", "replace")
                await send({"type": "http.response.body", "body": event, "more_body": True})
                after = number
            if (stream.done and after >= stream.count) or stream.closed_by_us:
                break
            if stream.wake.is_set():
                continue
            waiting = asyncio.ensure_future(stream.wake.wait())
            await asyncio.wait({waiting, gone}, timeout=_PING_S, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                if not gone.done():
                    await send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
        stream.closed_by_us = False
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        if own:
            gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lifespan(receive: Receive, send: SendEvent) -> None:
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


def _version_fault(version: str) -> Json | None:
    from mcp.shared.inbound import unsupported_protocol_version_rejection

    fault = unsupported_protocol_version_rejection(version)
    return None if fault is None else error_reply(None, fault.code, fault.message, fault.data)


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; one that came twice holds both values with a NUL between, which no header has."""
    out: dict[str, str] = {}
    for key, value in cast("list[tuple[bytes, bytes]]", scope["headers"]):
        name, text = key.decode("latin-1").lower(), value.decode("latin-1")
        out[name] = f"{out[name]}\0{text}" if name in out else text
    return out


def _accepts(header: str, wanted: str) -> bool:
    kinds = [part.partition(";")[0].strip().lower() for part in header.replace("\0", ",").split(",")]
    return any(k in (wanted, "*/*", wanted.partition("/")[0] + "/*") for k in kinds)


async def _json(send: SendEvent, status: int, value: Json, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _plain(send: SendEvent, status: int, text: str, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *extra,
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
