"""Sessions over HTTP: listed, shown, spoken to, renamed, branched and deleted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.errors import ConfigError, NotFound
from pegboard.gateway.access import caller
from pegboard.gateway.attachments import MAX_MESSAGE_BYTES, with_files
from pegboard.gateway.bodies import Branch, NewMessage, SessionChange, flag, number, read_body
from pegboard.gateway.errors import Json
from pegboard.gateway.live import LiveRuns
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.views import MAX_ROWS, run_to_dict, shown, shown_event
from pegboard.ports.sessions import SessionRow
from pegboard.store.outbox import OutboxItem

_PAGE: Final = 500


class SessionEndpoints:
    """The endpoints under `/api/sessions`.

    Args:
        app: whose services they call.
        live: starts runs.
    """

    def __init__(self, app: App, live: LiveRuns) -> None:
        self._app = app
        self._live = live

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E, one = Endpoint, "/api/sessions/{key:path}"
        whole, text, yes = "integer", "string", "boolean"
        return [
            E(method="GET", path="/api/sessions", handler=self.list_sessions, query={"all": yes}),
            E(method="GET", path="/api/search", handler=self.search_sessions, query={"q": text, "limit": whole}),
            E(method="POST", path=f"{one}/messages", handler=self.send_message, body=NewMessage),
            E(method="POST", path=f"{one}/branch", handler=self.branch_session, body=Branch),
            E(method="POST", path=f"{one}/compact", handler=self.compact_session),
            E(method="GET", path=f"{one}/notices", handler=self.list_notices),
            E(method="GET", path=one, handler=self.show_session, query={"after": whole, "limit": whole}),
            E(method="PATCH", path=one, handler=self.rename_session, body=SessionChange),
            E(method="DELETE", path=one, handler=self.delete_session),
        ]  # fmt: skip

    async def list_sessions(self, request: Request) -> Any:
        """The sessions of the workspace, those with the newest runs first."""
        rows = await self._app.runs.list(
            everywhere=flag(request, "all"), limit=MAX_ROWS, prefix=caller(request).sees
        )
        known = {row.key: row for row in await self._app.sessions.rows()}
        sessions: dict[str, dict[str, Any]] = {}
        for row in rows:
            one = sessions.setdefault(
                row.stream,
                {
                    "session": row.stream, "last": row.started, "status": row.status, "task": row.task, "runs": 0,
                    **_named(known.get(row.stream)),
                },
            )  # fmt: skip
            one["runs"] += 1
        return {"sessions": list(sessions.values())}

    async def search_sessions(self, request: Request) -> Any:
        """The messages in which all words of `q` stand, of the sessions last used first."""
        limit = number(request, "limit", 20, most=200, least=1)
        found = await self._app.sessions.search(request.query_params.get("q", ""), limit=limit)
        return {"entries": [asdict(entry) for entry in found]}

    async def show_session(self, request: Request) -> Any:
        """A session: its runs, and its stored events page by page."""
        key = await self._key(request)
        rows = await self._app.runs.list(session=key, everywhere=True, limit=MAX_ROWS)
        if not rows:
            raise _missing(key)
        after = number(request, "after", 0, most=10**10)
        limit = number(request, "limit", _PAGE, most=_PAGE, least=1)
        events = await self._app.sessions.history(key)
        page = list(enumerate(events, 1))[after : after + limit]
        return {
            "session": key,
            "runs": [run_to_dict(row) for row in rows],
            "events": [{"number": n, **shown_event(self._app, e)} for n, e in page],
            "total": len(events),
        }

    async def list_notices(self, request: Request) -> Any:
        """What was sent to the channel `console` for this session, oldest first."""
        key = await self._key(request)
        items = await self._app.messages.shown_in(key)
        if not items and not await self._app.runs.list(session=key, everywhere=True, limit=1):
            raise _missing(key)
        return {"notices": [shown(self._app, notice_of(item)) for item in items]}

    async def send_message(self, request: Request) -> Any:
        """Say something in a session: the run that goes on reads it before its next request, else one starts."""
        body = await read_body(request, NewMessage, most=MAX_MESSAGE_BYTES)
        key = await self._key(request)
        content = await with_files(self._app, body.content, body.files)
        running = await self._app.sessions.send(key, content, by=caller(request).name)
        if running is not None:
            told = {"session": key, "run": running.id, "status": "queued"}
            return Json(told, 202, {"Location": f"/api/runs/{running.id}"})
        run, _ = await self._live.start(content, session=key, model=body.model, by=caller(request))
        return Json({"session": key, "run": run, "status": "started"}, 202, {"Location": f"/api/runs/{run}"})

    async def rename_session(self, request: Request) -> Any:
        """Give a session a label; an empty one takes it away."""
        body = await read_body(request, SessionChange)
        row = await self._find(request)
        await self._app.sessions.rename(row.key, body.label)
        return shown(self._app, {"session": row.key, "label": body.label})

    async def branch_session(self, request: Request) -> Any:
        """Begin a new session with what happened in this one, up to the end of a run."""
        body = await read_body(request, Branch)
        row = await self._find(request)
        runs = await self._app.sessions.branch(row.key, body.to, at=body.at)
        return Json({"session": body.to, "runs": runs, "branched_from": row.key}, 201)

    async def compact_session(self, request: Request) -> Any:
        """Shorten what the model is sent of a session from here on; the record keeps everything."""
        row = await self._find(request)
        done = await self._app.sessions.compact(row.key)
        return {"session": row.key, "compacted": None if done is None else shown_event(self._app, done)}

    async def delete_session(self, request: Request) -> Any:
        """Delete what was said in a session; that there were records stays provable."""
        row = await self._find(request)
        await self._app.sessions.delete(row.key)
        return {"session": row.key, "deleted": True}

    async def _key(self, request: Request) -> str:
        """The key of the session that the path means, by a label or short form too; as it is where there is none yet.

        Labels and short forms are the owner's: what a principal may reach is decided by the key as it is.
        """
        key = request.path_params["key"]
        if caller(request).prefix or await self._app.runs.list(session=key, everywhere=True, limit=1):
            return key
        with suppress(ConfigError):
            return (await self._app.sessions.find(key)).key
        return key

    async def _find(self, request: Request) -> SessionRow:
        key = request.path_params["key"]
        try:
            return await self._app.sessions.find(key)
        except ConfigError:
            raise _missing(key) from None


def notice_of(item: OutboxItem) -> dict[str, Any]:
    """A message of the channel `console` as JSON values."""
    return {"id": item.id, "at": item.created_at, "text": item.message.content, "from": item.session}


def _missing(key: str) -> NotFound:
    return NotFound(f"no session {key!r}", hint="See GET /api/sessions.")


def _named(row: SessionRow | None) -> dict[str, Any]:
    """What the list of sessions knows beside its runs."""
    if row is None:
        return {"label": "", "messages": 0, "waiting": 0, "parent": "", "branched_from": ""}
    return {
        "label": row.label, "messages": row.messages, "waiting": row.waiting, "parent": row.parent,
        "branched_from": row.branched_from,
    }  # fmt: skip
