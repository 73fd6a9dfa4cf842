"""The WebSocket `/api/ws`: runs, sessions and approvals as they happen, and what a client does, over one connection.

Messages are JSON objects with a `type`. A client that cannot send headers begins with `auth {token}`. An `id` of the
client's own comes back with the answer.

    client: auth {token}, ping {}
            start {task, session, model}, message {session, content}, answer {approval, decision | answer, …}, stop {run}
            follow {run | session | "approvals": true, after}, unfollow {follow}
            canvas {}, result {id, values}, error {id, code, message}
    server: ready {name, role}, pong {id}, result {id, …}, error {id, error: {code, message, hint}}
            event {follow, run, at, event}, end {follow}, approvals {follow, approvals}
            notice {follow, notice}: what was sent to the channel console for a session that is followed
            call {id, action, values}, cancel {id}

`follow` in what the server sends is the `id` of the request to follow. `after` goes on behind an `at` that was read.
`canvas` offers the owner's console as the node `console`: from then on tools may `call` it to present, hide, snapshot and
eval, as nodes are called; the newest that offers itself is the one that is called.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias, cast

from starlette.exceptions import HTTPException
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from pegboard.app.app import App
from pegboard.core.errors import InvalidArguments, NotFound, PegboardError, PermissionDenied
from pegboard.gateway.access import SCOPES
from pegboard.gateway.approvals import ApprovalEndpoints
from pegboard.gateway.attachments import with_files
from pegboard.gateway.bodies import ApprovalAnswer, NewMessage, NewRun, check_body
from pegboard.gateway.errors import describe_error
from pegboard.gateway.live import LiveRuns
from pegboard.gateway.runs import events_of, place_of
from pegboard.gateway.sessions import notice_of
from pegboard.gateway.views import find_run, run_to_dict, shown
from pegboard.net.asgi.guard import Authenticate
from pegboard.net.asgi.sse import event_text
from pegboard.services.node_link import NodeLink, not_connected
from pegboard.services.nodes import CONSOLE_NODE
from pegboard.services.principals import Principal, may_see
from pegboard.store.runs import RunRow

Id: TypeAlias = str | int | None
"""What a client calls a request of its own."""
PATH: Final = "/api/ws"
MAX_SOCKETS: Final = 500
MAX_UNKNOWN: Final = 64
"""Connections at once that have not shown a token yet."""
MAX_FOLLOWS: Final = 32
"""Things that one connection follows at once."""
AUTH_S: Final = 10.0
"""Seconds in which the token has to come."""
CHECK_S: Final = 10.0
"""Seconds after which a revoked token ends its connections."""
_LOOK_S: Final = 0.5
_NOTICES_S: Final = 2.0
_UNAUTHORIZED: Final = 1008
_TOO_MANY: Final = 1013


class SocketEndpoint:
    """The WebSocket.

    Args:
        app: whose services it calls.
        live: starts and follows the runs.
        find: gives the principal of a token.
        count: counts a message of somebody, and raises HTTPException where there were too many.
    """

    def __init__(self, app: App, live: LiveRuns, find: Authenticate, count: Callable[[str], None]) -> None:
        self._app = app
        self._live = live
        self._find = find
        self._count = count
        self._open = 0
        self._unknown = 0

    @property
    def route(self) -> WebSocketRoute:
        """Host and Origin are checked before; the token here, since browsers cannot send it in the head."""
        return WebSocketRoute(PATH, self.connect)

    async def connect(self, socket: WebSocket) -> None:
        """Serve one client until it is gone."""
        await socket.accept()
        # Those that have shown no token yet cannot take the places of the others.
        if self._open >= MAX_SOCKETS or self._unknown >= MAX_UNKNOWN:
            await socket.close(_TOO_MANY, "too many clients are connected")
            return
        self._unknown += 1
        try:
            token = await self._token(socket)
            who = cast("Principal | None", await self._find(token)) if token else None
            if who is None:
                await socket.close(_UNAUTHORIZED, "a token is required")
                return
        except WebSocketDisconnect:
            return
        except HTTPException as error:
            await socket.close(_TOO_MANY, error.detail)
            return
        finally:
            self._unknown -= 1
        self._open += 1
        try:
            await _Connection(self._app, self._live, socket, who, self._count).serve(
                lambda: self._find(token)
            )
        except WebSocketDisconnect:
            pass
        finally:
            self._open -= 1

    async def _token(self, socket: WebSocket) -> str:
        scheme, _, value = socket.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return value.strip()
        try:
            self._count("")
            async with asyncio.timeout(AUTH_S):
                first = _read(await socket.receive_text())
        except (TimeoutError, KeyError, HTTPException, InvalidArguments):
            return ""
        return str(first.get("token", "")) if first["type"] == "auth" else ""


class _Connection:
    """A client that is let in."""

    def __init__(
        self, app: App, live: LiveRuns, socket: WebSocket, who: Principal, count: Callable[[str], None]
    ) -> None:
        self._app = app
        self._live = live
        self._socket = socket
        self._who = who
        self._count = count
        self._sending = asyncio.Lock()
        self._follows: dict[Id, asyncio.Task[None]] = {}
        self._canvas: NodeLink | None = None

    async def serve(self, find: Callable[[], Awaitable[Any]]) -> None:
        """Answer until the client is gone or its token is revoked."""
        await self._send("ready", name=self._who.name, role=self._who.role)
        checking = asyncio.create_task(self._check(find))
        try:
            while True:
                await self._handle(await self._socket.receive_text())
        except KeyError:
            await self._socket.close(1003, "messages are text")
        finally:
            tasks = [checking, *self._follows.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._canvas is not None:
                await self._app.nodes.disconnect(self._canvas)

    async def _check(self, find: Callable[[], Awaitable[Any]]) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            with suppress(HTTPException):  # The store is away for a while.
                if await find() != self._who:
                    break
        await self._socket.close(_UNAUTHORIZED, "the token was revoked")

    async def _handle(self, text: str) -> None:
        id: Any = None
        try:
            self._count(self._who.name)
            message = _read(text)
            id = message.pop("id", None)
            if isinstance(id, str | int | None):
                await self._act(message.pop("type"), id, message)
            else:
                id = None
                raise InvalidArguments("id must be a text or a number")
        except (PegboardError, HTTPException) as error:
            _, code, said, hint = describe_error(error)
            await self._send("error", id=id, error={"code": code, "message": said, "hint": hint})

    async def _act(self, type: str, id: Id, fields: dict[str, Any]) -> None:
        match type:
            case "ping":
                await self._send("pong", id=id)
            case "start":
                self._check_scope("POST", "/api/runs")
                body = check_body(NewRun, fields)
                key = self._who.session(body.session)
                task = await with_files(self._app, body.task, body.files)
                run, key = await self._live.start(task, session=key, model=body.model, by=self._who)
                await self._send("result", id=id, run=run, session=key)
            case "message":
                self._check_scope("POST", "/api/sessions/{key:path}/messages")
                key = self._who.session(_text(fields, "session"))
                body = check_body(NewMessage, fields)
                content = await with_files(self._app, body.content, body.files)
                running = await self._app.sessions.send(key, content, by=self._who.name)
                run = running.id if running is not None else None
                if run is None:
                    run, _ = await self._live.start(content, session=key, model=body.model, by=self._who)
                await self._send("result", id=id, run=run, session=key)
            case "answer":
                self._check_scope("POST", "/api/approvals/{id}")
                key = _text(fields, "approval")
                waiting = await self._app.approvals.pending()
                session = next((c.session for c in waiting if c.key == key), "")
                await self._check_session(session, f"approval {key!r}")
                body = check_body(ApprovalAnswer, fields)
                done = await ApprovalEndpoints(self._app).answer(self._who, key, body)
                self._app.look_now()
                await self._send("result", id=id, **done)
            case "stop":
                self._check_scope("POST", "/api/runs/{id}/stop")
                row = await self._app.runs.stop(await self._run(_text(fields, "run")), wait_s=0.0)
                await self._send("result", id=id, **shown(self._app, run_to_dict(row)))
            case "follow":
                await self._follow(id, fields)
            case "canvas":
                await self._offer_canvas()
                await self._send("result", id=id)
            case "result" | "error":
                if self._canvas is not None:
                    self._canvas.on_answer({**fields, "type": type, "id": id})
            case "unfollow":
                if not isinstance(follow := fields.get("follow"), str | int):
                    raise InvalidArguments("follow is missing: the id of the request to follow")
                task = self._follows.pop(follow, None)
                if task is not None:
                    task.cancel()
                await self._send("result", id=id, unfollowed=task is not None)
            case _:
                raise InvalidArguments(
                    f"no message of the type {type[:40]!r}", hint="See docs/guides/gateway.md."
                )

    async def _offer_canvas(self) -> None:
        if not self._who.may("administer"):
            raise PermissionDenied(f"the role {self._who.role} may not offer a canvas")

        async def send(text: str) -> None:
            async with self._sending:
                if self._socket.application_state is not WebSocketState.CONNECTED:
                    raise not_connected(CONSOLE_NODE.name)
                await self._socket.send_text(text)

        if self._canvas not in self._app.nodes.links:
            self._canvas = NodeLink(CONSOLE_NODE, send)
            await self._app.nodes.connect(self._canvas)

    # -- following ----------------------------------------------------------------------------------

    async def _follow(self, name: Id, fields: dict[str, Any]) -> None:
        if name in self._follows:
            raise InvalidArguments(f"{name} is followed already", hint="Send another id.")
        if len(self._follows) >= MAX_FOLLOWS:
            raise InvalidArguments(f"{MAX_FOLLOWS} things are followed already", hint="Send unfollow first.")
        after = str(fields.get("after") or "")
        match fields:
            case {"run": str(run)}:
                self._check_scope("GET", "/api/runs/{id}/events")
                row = await self._run(run)
                work = self._run_events(name, row, after)
            case {"session": str(session)}:
                self._check_scope("GET", "/api/sessions/{key:path}")
                await self._check_session(session, f"session {session!r}")
                work = self._session(name, session, after)
            case {"approvals": True}:
                self._check_scope("GET", "/api/approvals")
                work = self._approvals(name)
            case _:
                raise InvalidArguments("follow needs run, session or approvals", hint="Name one of them.")
        self._follows[name] = asyncio.create_task(self._ending(name, work))

    async def _ending(self, name: Id, work: Awaitable[None]) -> None:
        try:
            await work
        except PegboardError as error:
            _, code, said, hint = describe_error(error)
            await self._send("error", id=name, error={"code": code, "message": said, "hint": hint})
        except (WebSocketDisconnect, RuntimeError):
            return  # The client is gone.
        self._follows.pop(name, None)
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._send("end", follow=name)

    async def _run_events(self, name: Id, row: RunRow, after: str) -> None:
        async with aclosing(cast(Any, events_of(self._app, self._live, row, place_of(after)))) as events:
            async for at, event in events:
                await self._send("event", follow=name, run=row.id, at=at, event=event)

    async def _session(self, name: Id, session: str, after: str) -> None:
        notices = asyncio.create_task(self._notices(name, session))
        try:
            await self._session_events(name, session, after)
        finally:
            notices.cancel()
            await asyncio.gather(notices, return_exceptions=True)

    async def _session_events(self, name: Id, session: str, after: str) -> None:
        """The runs of a session one after the other, also those that begin later; `after` is `RUN AT`."""
        known, _, at = after.partition(" ")
        seen: set[str] = set()
        while True:
            rows = (await self._app.runs.list(session=session, everywhere=True, limit=None))[::-1]
            if known:
                seen |= {r.id for r in rows[: next((n for n, r in enumerate(rows) if r.id == known), 0)]}
            for row in [r for r in rows if r.id not in seen]:
                seen.add(row.id)
                await self._run_events(name, row, at if row.id == known else "")
            known = ""
            await asyncio.sleep(_LOOK_S)

    async def _notices(self, name: Id, session: str) -> None:
        """What was sent to the channel console for a session, and what is; a client knows by the id what it has."""
        sent: set[str] = set()
        while True:
            for item in await self._app.messages.shown_in(session):
                if item.id not in sent:
                    sent.add(item.id)
                    await self._send("notice", follow=name, notice=shown(self._app, notice_of(item)))
            await asyncio.sleep(_NOTICES_S)

    async def _approvals(self, name: Id) -> None:
        told: list[dict[str, Any]] | None = None
        while True:
            rows = [
                shown(self._app, call.to_dict())
                for call in await self._app.approvals.pending()
                if await may_see(self._who, call.session, self._app.store)
            ]
            if rows != told:
                await self._send("approvals", follow=name, approvals=rows)
                told = rows
            await asyncio.sleep(_LOOK_S)

    # -- inside -------------------------------------------------------------------------------------

    def _check_scope(self, method: str, path: str) -> None:
        scope = SCOPES[method, path]
        if not self._who.may(scope):
            raise PermissionDenied(f"the role {self._who.role} may not {scope}")

    async def _check_session(self, session: str, what: str) -> None:
        if not await may_see(self._who, session, self._app.store):
            raise NotFound(f"no {what}", hint="It may belong to somebody else.")

    async def _run(self, id: str) -> RunRow:
        row = await find_run(self._app, id)
        if not self._who.sees_all and (
            row.id != id or not await may_see(self._who, row.stream, self._app.store)
        ):
            raise NotFound(f"no run {id!r}", hint="See GET /api/runs.")
        return row

    async def _send(self, type: str, **fields: Any) -> None:
        async with self._sending:
            await self._socket.send_text(event_text({"type": type, **fields}))


def _read(text: str) -> dict[str, Any]:
    try:
        value: object = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # Half of a surrogate pair is no text, and no key.
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(cast("dict[str, Any]", value).get("type"), str):
        raise InvalidArguments("a message is a JSON object with a type")
    return cast("dict[str, Any]", value)


def _text(fields: dict[str, Any], name: str) -> str:
    """A text of a message, taken out of it.

    Raises:
        InvalidArguments: it is missing or something else.
    """
    value = fields.pop(name, None)
    if not isinstance(value, str) or not value:
        raise InvalidArguments(f"{name} is missing or no text")
    return value
