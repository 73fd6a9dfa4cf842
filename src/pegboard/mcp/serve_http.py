"""Serving over streamable HTTP, in both eras of the protocol: an endpoint, and a server that has it at `/mcp`."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pegboard.core.toolkit import Toolkit
from pegboard.mcp.request_context import Json, Peer, RequestContext
from pegboard.mcp.server import ToolServer, is_modern
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
from pegboard.net.asgi.server import REQUEST_S, serve
from pegboard.net.asgi.sse import PING_S, EventResponse, EventStream, parse_event_id

MAX_SESSIONS: Final = 256
IDLE_S: Final = 1800.0
MAX_STREAMS: Final = 32
"""Streams of a session that can be resumed."""
_WATCH_S: Final = 0.1
"""Seconds after which it is worth a task to notice that a client has gone."""
_STATUS: Final = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400, METHOD_NOT_FOUND: 404,
}  # fmt: skip


async def serve_http(
    service: ToolServer,
    *,
    host: str,
    port: int,
    token: str | None = None,
    tokens: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] | None = None,
    on_start: Callable[[int], None] | None = None,
    request_s: float = REQUEST_S,
) -> None:
    """Serve at `/mcp` until cancelled.

    Args:
        token, tokens: one for all clients, or one by client; a session, a task and a record belong to one of them.
        hosts, origins, on_start, request_s: see `pegboard.net.asgi.server.serve`.

    Raises:
        ValueError: there is no token, and other machines reach the address.
        OSError: the address cannot be used.
    """
    if token is not None:
        tokens = {**(tokens or {}), "": token}
    endpoint = StreamableHttpEndpoint(service)
    route = Route("/mcp", endpoint, methods=["GET", "POST", "DELETE"])
    try:
        await serve(
            [route], host=host, port=port, tokens=tokens, hosts=hosts, origins=origins, on_start=on_start,
            on_stop=endpoint.end_streams, request_s=request_s,
        )  # fmt: skip
    finally:
        endpoint.close()


@dataclass(slots=True, kw_only=True)
class _Session:
    """One client of the handshake era.

    Attributes:
        standalone: what belongs to no request.
        streams: responses to its requests that can be resumed, by name.
        used: when it last sent a request.
    """

    id: str
    peer: Peer
    standalone: EventStream
    streams: dict[str, EventStream] = field(default_factory=dict[str, EventStream])
    used: float = 0.0


class StreamableHttpEndpoint:
    """The protocol's one address, behind a RequestGuard.

    Args:
        service: what is served.
        clock: monotonic seconds.
    """

    def __init__(self, service: ToolServer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with suppress(ClientDisconnect):
            # Closed when the response has been sent, or its client has gone.
            async with AsyncExitStack() as until_sent:
                response = await self._respond(request, until_sent)
                await response(scope, receive, send)

    async def _respond(self, request: Request, until_sent: AsyncExitStack) -> Response:
        if request.method == "POST":
            return await self._post(request, until_sent)
        if request.headers.get("mcp-protocol-version", HANDSHAKE[-1]) not in HANDSHAKE:
            raise HTTPException(405, "this revision of the protocol has only POST", {"Allow": "POST"})
        session = self._session(request)
        if request.method == "DELETE":
            self._drop(session)
            return Response()
        return self._listen(session, request.headers, until_sent)

    def end_streams(self) -> None:
        """End what clients listen to; running calls go on."""
        for session in self._sessions.values():
            session.standalone.end()
        self._service.end_listening()

    def close(self) -> None:
        """End every session, and what it runs."""
        for session in list(self._sessions.values()):
            self._drop(session)

    # -- POST ---------------------------------------------------------------------------------

    async def _post(self, request: Request, until_sent: AsyncExitStack) -> Response:
        headers = request.headers
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "Content-Type must be application/json")
        if not _accepts(headers, "application/json") or not _accepts(headers, "text/event-stream"):
            raise HTTPException(406, "Accept must name application/json and text/event-stream")
        try:
            message: Any = json.loads(await request.body())
        except (ValueError, RecursionError):
            return _bad_request(error_reply(None, PARSE_ERROR, "the body is not JSON"))
        if isinstance(message, list):
            return await self._batch(cast("list[Any]", message), request)
        if not isinstance(message, dict):
            return _bad_request(
                error_reply(None, INVALID_REQUEST, "the body must be a JSON-RPC message, an object")
            )
        one = cast("Json", message)
        params: Any = one.get("params")
        if headers.get("mcp-protocol-version", HANDSHAKE[-1]) not in HANDSHAKE or (
            isinstance(params, dict) and is_modern(cast("Json", params))
        ):
            return await self._modern(one, request, until_sent)
        return await self._handshake(one, request)

    async def _batch(self, entries: list[Any], request: Request) -> Response:
        peer = self._session(request).peer if "mcp-session-id" in request.headers else None
        reply = await self._service.handle_batch(entries, peer)
        if reply is None:
            return Response(status_code=202)
        return _Reply(reply, 200 if isinstance(reply, list) else 400)

    async def _modern(self, message: Json, request: Request, until_sent: AsyncExitStack) -> Response:
        """The stateless era: closing the response cancels the call."""
        if "method" not in message:
            return _bad_request(
                error_reply(None, INVALID_REQUEST, "the body must be a request or notification")
            )
        if "id" not in message:
            fault = _version_fault(request.headers.get("mcp-protocol-version", ""))
            return Response(status_code=202) if fault is None else _bad_request({**fault, "id": None})
        fault = _header_fault(message, request.headers, self._service.toolkit)
        if fault is not None:
            return _bad_request(fault)
        stream = EventStream()
        owner: str = request.state.owner
        # Known by its token alone: a name that clients choose themselves would let one pass for another.
        session = f"mcp:http:{owner}" if owner else "mcp:http"
        peer = Peer(send=lambda m, _: stream.put(m), session=session, owner=owner)
        until_sent.callback(self._service.leave, peer)
        work = self._start(message, peer, stream)

        async def cancel() -> None:
            work.cancel()
            await asyncio.wait([work])

        until_sent.push_async_callback(cancel)
        reply = await _plain_reply(work, stream, request.receive)
        if reply is None:
            return EventResponse(stream)
        return _Reply(reply, _STATUS.get(reply["error"]["code"], 200) if "error" in reply else 200)

    async def _handshake(self, message: Json, request: Request) -> Response:
        """The era with sessions: a call outlives its response, which the client may resume."""
        if message.get("method") == "initialize" and "id" in message:
            return await self._initialize(message, request)
        session = self._session(request)
        peer = session.peer
        if "method" not in message or "id" not in message:
            reply = await self._service.handle(message, peer)
            return Response(status_code=202) if reply is None else _bad_request(reply)
        id: Any = message["id"]
        if isinstance(id, str | int) and id in peer.inflight:
            return _bad_request(error_reply(id, INVALID_REQUEST, f"request {id!r} is already running"))
        stream = EventStream(secrets.token_hex(6))
        work = self._start(message, peer, stream)
        if isinstance(id, str | int):
            peer.inflight[id] = work
            work.add_done_callback(partial(_forget, peer, id))
        reply = await _plain_reply(work, stream, request.receive)
        if reply is not None:
            return _Reply(reply)
        session.streams[stream.name] = stream
        if len(session.streams) > MAX_STREAMS:
            del session.streams[next(iter(session.streams))]
        return EventResponse(stream)

    async def _initialize(self, message: Json, request: Request) -> Response:
        self._drop_idle()
        if len(self._sessions) >= MAX_SESSIONS:
            raise HTTPException(503, f"all {MAX_SESSIONS} sessions are in use", {"Retry-After": "60"})
        standalone = EventStream("all")

        def send(message: Json, ctx: RequestContext | None) -> None:
            (standalone if ctx is None or ctx.stream is None else ctx.stream).put(message)

        peer = Peer(send=send, session="", owner=request.state.owner, listening=False)
        reply = await self._service.handle(message, peer)
        if reply is None or "error" in reply:
            return _bad_request(reply or {})
        id = secrets.token_urlsafe(24)
        peer.session = f"mcp:{id[:12]}"
        self._sessions[id] = _Session(id=id, peer=peer, standalone=standalone, used=self._clock())
        self._service.join(peer)
        return _Reply(reply, headers={"Mcp-Session-Id": id})

    def _start(self, message: Json, peer: Peer, stream: EventStream) -> asyncio.Task[Json | None]:
        work = asyncio.create_task(self._service.handle(message, peer, stream=stream))
        work.add_done_callback(lambda _: stream.wake())
        return work

    # -- sessions -----------------------------------------------------------------------------

    def _session(self, request: Request) -> _Session:
        id = request.headers.get("mcp-session-id")
        if id is None:
            raise HTTPException(400, "Mcp-Session-Id is missing; send initialize first")
        session = self._sessions.get(id)
        # Another client's session is refused like none at all, however its id became known.
        if session is None or session.peer.owner != request.state.owner:
            raise HTTPException(404, "there is no such session; send initialize first")
        session.used = self._clock()
        return session

    def _listen(self, session: _Session, headers: Headers, until_sent: AsyncExitStack) -> Response:
        """GET: the rest of an interrupted response, or what belongs to no request."""
        if not _accepts(headers, "text/event-stream"):
            raise HTTPException(406, "Accept must name text/event-stream")
        name, number = parse_event_id(headers.get("last-event-id", ""))
        stream = session.streams.get(name)
        if stream is not None:
            return EventResponse(stream, number)
        peer = session.peer
        if peer.listening:
            raise HTTPException(409, "this session is listening already")
        peer.listening = True
        until_sent.callback(setattr, peer, "listening", False)
        # Changes since it last listened are sent now.
        self._service.join(peer)
        return EventResponse(session.standalone, number if name == session.standalone.name else 0)

    def _drop(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        self._service.leave(session.peer)
        session.standalone.end()

    def _drop_idle(self) -> None:
        now = self._clock()
        for session in list(self._sessions.values()):
            if now - session.used > IDLE_S and not session.peer.inflight and not session.peer.listening:
                self._drop(session)


async def _plain_reply(work: asyncio.Task[Json | None], stream: EventStream, receive: Receive) -> Json | None:
    """The reply to a request that says nothing else; None if it does, or takes so long that the client needs a ping."""
    await _within(_WATCH_S, stream.changed())
    if not work.done() and not stream.count:
        watcher = asyncio.create_task(_disconnected(receive))
        watcher.add_done_callback(lambda _: stream.wake())
        await _within(PING_S, stream.changed())
        watcher.cancel()
    if not work.done() or stream.count:
        work.add_done_callback(partial(_put_reply, stream))
        return None
    if work.cancelled():
        return error_reply(None, INTERNAL_ERROR, "the request was cancelled")
    return work.result() or {}


async def _within(seconds: float, waiting: Awaitable[None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _put_reply(stream: EventStream, work: asyncio.Task[Json | None]) -> None:
    # A client that cancelled a request expects no answer to it (2025-11-25, cancellation).
    reply = None if work.cancelled() else work.result()
    if reply is not None:
        stream.put(reply)
    stream.end()


def _forget(peer: Peer, id: str | int, work: asyncio.Task[Any]) -> None:
    if peer.inflight.get(id) is work:
        del peer.inflight[id]


def _header_fault(message: Json, headers: Headers, toolkit: Toolkit) -> Json | None:
    """Headers that disagree with the body (2026-07-28, standard and custom headers)."""
    from mcp.shared.inbound import (
        InboundLadderRejection,
        classify_inbound_request,
        decode_header_value,
        validate_mcp_param_headers,
    )

    id = message.get("id")
    for name in ("mcp-protocol-version", "mcp-method", "mcp-name"):
        if len(headers.getlist(name)) > 1:
            return error_reply(id, HEADER_MISMATCH, f"{name} header appears more than once")
    verdict: Any = classify_inbound_request(message, headers=headers)
    if isinstance(verdict, InboundLadderRejection):
        return error_reply(id, verdict.code, verdict.message, verdict.data)
    params = cast("Json", message["params"])
    named = message.get("method") in ("tasks/get", "tasks/update", "tasks/cancel") and "taskId" in params
    if named and decode_header_value(headers.get("mcp-name")) != params["taskId"]:
        return error_reply(id, HEADER_MISMATCH, "mcp-name header does not match the request body's taskId")
    if message["method"] == "tools/call" and isinstance(params.get("arguments") or {}, dict):
        tool = toolkit.get(str(params.get("name")))
        arguments = cast("Json", params.get("arguments") or {})
        if tool is not None and (arguments or any(h.startswith("mcp-param-") for h in headers)):
            fault = validate_mcp_param_headers(tool.schema, arguments, headers)
            if fault is not None:
                return error_reply(id, fault.code, fault.message, fault.data)
    return None


def _version_fault(version: str) -> Json | None:
    """Why a revision is not spoken here, None where it is."""
    from mcp.shared.inbound import unsupported_protocol_version_rejection

    fault = unsupported_protocol_version_rejection(version)
    return None if fault is None else error_reply(None, fault.code, fault.message, fault.data)


def _accepts(headers: Headers, wanted: str) -> bool:
    sent = ",".join(headers.getlist("accept"))
    kinds = {kind.partition(";")[0].strip().lower() for kind in sent.split(",")}
    return not kinds.isdisjoint({wanted, "*/*", f"{wanted.partition('/')[0]}/*"})


class _Reply(JSONResponse):
    def render(self, content: Any) -> bytes:
        # Lone surrogates, which JSON may hold and UTF-8 may not, become question marks.
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _bad_request(reply: Json) -> Response:
    return _Reply(reply, 400)
