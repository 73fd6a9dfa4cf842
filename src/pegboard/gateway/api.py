"""The API: each endpoint calls a service and gives what it returns as JSON."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from sse_starlette import ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pegboard.app.app import App
from pegboard.config.reading import KEYS
from pegboard.core.codec import event_to_dict
from pegboard.core.errors import ConfigError, InvalidArguments, NotFound
from pegboard.core.events import Event, RunFinished, TextPiece, ThinkingPiece
from pegboard.core.policy.approval import Approved, Refused
from pegboard.files.undo import UndoReport
from pegboard.gateway.bodies import (
    ApprovalAnswer,
    CallBody,
    ConfigChange,
    NewRun,
    NewSchedule,
    ScheduleChange,
    UndoBody,
    flag,
    number,
    read_body,
)
from pegboard.gateway.errors import STATUS, Json
from pegboard.gateway.live import LiveRuns, Place
from pegboard.gateway.pieces import PieceRedactor
from pegboard.net.asgi.sse import EventResponse, event_text, parse_event_id
from pegboard.ports.artifacts import Version
from pegboard.ports.schedules import JobRequest
from pegboard.services.calls import preview_to_dict
from pegboard.services.settings import SettingsFiles
from pegboard.services.undo import UndoEntry
from pegboard.store.encoding import without_secrets
from pegboard.store.runs import RunRow
from pegboard.version import VERSION

_MAX_ROWS: Final = 1000
_PAGE: Final = 500


class Api:
    """The endpoints under `/api`.

    Args:
        app: whose services they call.
        live: the runs of this process.
    """

    def __init__(self, app: App, live: LiveRuns) -> None:
        self._app = app
        self._live = live
        self._since = time.time()

    async def health(self, request: Request) -> Any:
        """Whether the gateway answers, and its version."""
        return {"status": "ok", "version": VERSION}

    # -- runs ---------------------------------------------------------------------------------------

    async def list_runs(self, request: Request) -> Any:
        """The latest runs of the workspace, newest first."""
        query = request.query_params
        rows = await self._app.runs.list(
            session=query.get("session"), status=query.get("status"), everywhere=flag(request, "all"),
            limit=number(request, "limit", 100, most=_MAX_ROWS, least=1),
        )  # fmt: skip
        return {"runs": [run_to_dict(row) for row in rows]}

    async def start_run(self, request: Request) -> Any:
        """Start a run; it goes on by itself."""
        body = await read_body(request, NewRun)
        run, session = await self._live.start(body.task, session=body.session, model=body.model)
        return Json({"run": run, "session": session}, 202, {"Location": f"/api/runs/{run}"})

    async def show_run(self, request: Request) -> Any:
        """A run, its answer and what it waits for; `last` is the newest."""
        row = await self.find_run(request)
        ends = await self._app.history.events(row.stream, run=row.id, types=(RunFinished.type,))
        last = ends[-1] if ends and row.status not in ("running", "interrupted") else None
        waiting = await self._app.approvals.pending(row.id) if row.status == "suspended" else []
        shown = {**run_to_dict(row), "answer": "", "error": "", "pending": [p.to_dict() for p in waiting]}
        if isinstance(last, RunFinished):
            shown |= {"answer": last.answer, "error": last.error, "usage": last.usage.to_dict()}
        return self._shown(shown)

    async def follow_run(self, request: Request) -> Any:
        """The events of a run as they happen (SSE). `Last-Event-ID` goes on behind that event."""
        row = await self.find_run(request)
        stored, piece = parse_event_id(request.headers.get("last-event-id", ""))
        after = (
            (int(stored), piece) if stored.isascii() and stored.isdecimal() and len(stored) < 12 else (0, 0)
        )
        return EventResponse(self._events(row, after))

    async def _events(self, row: RunRow, after: Place) -> AsyncIterator[ServerSentEvent]:
        # Sent at once, so that a client knows that it is connected before the run does anything.
        yield ServerSentEvent(comment=f"run {row.id}")
        pieces: dict[str, PieceRedactor] = {}
        async for (stored, piece), event in self._live.follow(row, after):
            if isinstance(event, TextPiece | ThinkingPiece):
                one = pieces.setdefault(event.type, PieceRedactor(self._app.redactor.redact))
                if not (text := one.feed(event.text)):
                    continue
                event = replace(event, text=text)
            elif not piece:
                pieces.clear()  # What was held back is in this event.
            data = event_text(self._event(event))
            yield ServerSentEvent(data, id=f"{stored}.{piece}", event=event.type)

    async def find_run(self, request: Request) -> RunRow:
        """The run that a path names.

        Raises:
            NotFound: there is none.
        """
        id = request.path_params["id"]
        try:
            return await self._app.runs.get(id)
        except ConfigError:
            raise NotFound(f"no run {id!r}", hint="See GET /api/runs.") from None

    # -- approvals ----------------------------------------------------------------------------------

    async def list_approvals(self, request: Request) -> Any:
        """What waits for a person: approvals and questions."""
        return {"approvals": [self._shown(call.to_dict()) for call in await self._app.approvals.pending()]}

    async def answer_approval(self, request: Request) -> Any:
        """Answer what waits; its run goes on."""
        body = await read_body(request, ApprovalAnswer)
        key = request.path_params["id"]
        call = next((c for c in await self._app.approvals.pending() if c.key == key), None)
        if call is None:
            raise NotFound(
                f"nothing waits under {key!r}: it was answered or has expired", hint="See GET /api/approvals."
            )
        if call.answer:
            raise HTTPException(409, f"{key} is answered already: {call.answer}")
        answer = _answer_of(body, request.state.owner)
        if (call.kind == "approval") == isinstance(answer, str):
            wanted = "decision" if call.kind == "approval" else "answer"
            raise InvalidArguments(f"{key} is a waiting {call.kind}", hint=f"Send {wanted}.")
        await self._app.approvals.answer(key, answer)
        return {**self._shown(call.to_dict()), "answer": body.decision or "answered"}

    # -- tools --------------------------------------------------------------------------------------

    async def list_tools(self, request: Request) -> Any:
        """The tools, with the schemas of their arguments."""
        tools = self._app.toolkit
        return {
            "tools": [
                {
                    "name": t.name, "description": t.description, "parameters": t.schema,
                    "effects": list(t.kinds()),
                }
                for t in tools
            ]
        }  # fmt: skip

    async def call_tool(self, request: Request) -> Any:
        """Call a tool under the policy, or only preview what the call would do. What asks is denied."""
        body = await read_body(request, CallBody, optional=True)
        name = request.path_params["name"]
        if flag(request, "preview"):
            shown = preview_to_dict(await self._app.calls.preview(name, body.arguments))
        else:
            shown = (await self._app.calls.call(name, body.arguments)).to_dict()
        code = shown["error"]["code"] if shown["error"] else ""
        # A call that ran and failed has been answered; one that never ran is an error of the request.
        return Json(shown, 400 if code == "invalid_arguments" else STATUS.get(code, 200))

    # -- sessions -----------------------------------------------------------------------------------

    async def list_sessions(self, request: Request) -> Any:
        """The sessions of the workspace, those with the newest runs first."""
        rows = await self._app.runs.list(everywhere=flag(request, "all"), limit=_MAX_ROWS)
        sessions: dict[str, dict[str, Any]] = {}
        for row in rows:
            shown = sessions.setdefault(
                row.stream,
                {
                    "session": row.stream,
                    "last": row.started,
                    "status": row.status,
                    "task": row.task,
                    "runs": 0,
                },
            )
            shown["runs"] += 1
        return {"sessions": list(sessions.values())}

    async def show_session(self, request: Request) -> Any:
        """A session: its runs, and its stored events page by page."""
        key = request.path_params["key"]
        rows = await self._app.runs.list(session=key, everywhere=True, limit=_MAX_ROWS)
        if not rows:
            raise NotFound(f"no session {key!r}", hint="See GET /api/sessions.")
        after = number(request, "after", 0, most=10**10)
        limit = number(request, "limit", _PAGE, most=_PAGE, least=1)
        events = await self._app.sessions.history(key)
        page = [{"number": n, **self._event(e)} for n, e in list(enumerate(events, 1))[after : after + limit]]
        return {
            "session": key,
            "runs": [run_to_dict(row) for row in rows],
            "events": page,
            "total": len(events),
        }

    # -- schedules ----------------------------------------------------------------------------------

    async def list_schedules(self, request: Request) -> Any:
        """The jobs of the workspace with their next times."""
        schedules = self._app.schedules
        jobs = await schedules.list(everywhere=flag(request, "all"))
        return {"zone": schedules.zone, "schedules": [schedules.describe(job) for job in jobs]}

    async def add_schedule(self, request: Request) -> Any:
        """Add a job."""
        body = await read_body(request, NewSchedule)
        wanted = JobRequest(
            message=body.message, schedule=body.schedule, zone=body.zone, name=body.name,
            isolated=body.isolated, wake=body.wake,
        )  # fmt: skip
        job = await self._app.schedules.add(wanted, session=body.session)
        return Json(self._app.schedules.describe(job), 201)

    async def change_schedule(self, request: Request) -> Any:
        """Enable or disable a job."""
        body = await read_body(request, ScheduleChange)
        job = await self._app.schedules.update(request.path_params["id"], {"enabled": body.enabled})
        return self._app.schedules.describe(job)

    async def remove_schedule(self, request: Request) -> Any:
        """Remove a job."""
        return self._app.schedules.describe(await self._app.schedules.remove(request.path_params["id"]))

    async def fire_schedule(self, request: Request) -> Any:
        """Run a job now."""
        return self._app.schedules.describe(await self._app.schedules.run(request.path_params["id"]))

    async def schedule_history(self, request: Request) -> Any:
        """What a job did, newest first."""
        limit = number(request, "limit", 20, most=_MAX_ROWS, least=1)
        rows = await self._app.schedules.runs(request.path_params["id"], limit=limit)
        return {"runs": [self._app.schedules.describe(row) for row in rows]}

    # -- artifacts ----------------------------------------------------------------------------------

    async def list_artifacts(self, request: Request) -> Any:
        """The artifacts of a session, without their content."""
        found = await self._app.artifacts.list(_session_of(request))
        return {"artifacts": [self._shown(artifact_to_dict(v)) for v in found]}

    async def show_artifact(self, request: Request) -> Any:
        """One artifact: its newest version, or the one that the query names; `diff` compares it with another."""
        session, id = _session_of(request), request.path_params["id"]
        version = number(request, "version", 0, most=10**6) or None
        found = await self._app.artifacts.read(session, id, version)
        shown = {**artifact_to_dict(found), "content": found.content}
        if other := number(request, "diff", 0, most=10**6):
            shown["diff"] = await self._app.artifacts.diff(session, id, other, found.version)
        return self._shown(shown)

    # -- undo and usage -----------------------------------------------------------------------------

    async def list_undo(self, request: Request) -> Any:
        """The changes that the journal has of the workspace, newest first."""
        entries = await self._app.undo.entries()
        return {"entries": [self._shown(entry_to_dict(e)) for e in entries[:_MAX_ROWS]]}

    async def undo(self, request: Request) -> Any:
        """Take back what a call or run changed, keeping later edits."""
        body = await read_body(request, UndoBody, optional=True)
        done = await self._app.undo.undo(body.target, preview=body.preview, redo=body.redo)
        return self._shown(undo_to_dict(done))

    async def usage(self, request: Request) -> Any:
        """Tokens, money and time of the last days."""
        days = number(request, "days", 7, most=3660, least=1)
        return (await self._app.usage.report(days * 86400.0)).to_dict()

    # -- settings -----------------------------------------------------------------------------------

    @property
    def _files(self) -> SettingsFiles:
        return SettingsFiles(self._app.paths, self._app.workspace)

    async def show_config(self, request: Request) -> Any:
        """The settings as they are written, and the hash that a change is based on."""
        found = await self._files.get()
        values = {key: {"value": value, "file": str(path)} for key, (value, path) in found.items()}
        user, _ = await self._files.paths()
        return {"hash": await self._files.hash(), "file": str(user), "values": self._shown(values)}

    async def config_schema(self, request: Request) -> Any:
        """The keys that there are."""
        properties: dict[str, Any] = {key: {} for key in KEYS}
        return {"type": "object", "additionalProperties": False, "properties": properties}

    async def change_config(self, request: Request) -> Any:
        """Change keys of the user's settings file, all or none, if it still is the file that `base` names."""
        body = await read_body(request, ConfigChange)
        await self._files.patch(body.base, body.set)
        # The gateway has read them at its start.
        return {"hash": await self._files.hash(), "applies": "after a restart"}

    # -- metrics ------------------------------------------------------------------------------------

    async def metrics(self, request: Request) -> Response:
        """Counters in the text format of Prometheus (version 0.0.4)."""
        waiting = await self._app.approvals.pending()
        lines = [
            *_metric("pegboard_uptime_seconds", "gauge", "Seconds since the start.", {"": time.time() - self._since}),
            *_metric("pegboard_runs_active", "gauge", "Runs of this process.", {"": self._live.going_on}),
            *_metric("pegboard_approvals_pending", "gauge", "What waits for a person.", {"": len(waiting)}),
            *_metric("pegboard_event_followers", "gauge", "Clients that follow a run.", {"": self._live.followers}),
        ]  # fmt: skip
        for name, label, help in _COUNTERS:
            values = {
                f'{{{label}="{value}"}}' if label else "": float(count)
                for (counter, value), count in sorted(self._live.counts.items())
                if counter == name
            }
            lines += _metric(f"pegboard_{name}_total", "counter", help, values or ({} if label else {"": 0}))
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    # -- inside -------------------------------------------------------------------------------------

    def _event(self, event: Event) -> dict[str, Any]:
        return self._shown(event_to_dict(event))

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        return without_secrets(row, self._app.redactor.redact)


_COUNTERS: Final = (
    ("runs_started", "", "Runs that began."),
    ("runs_finished", "status", "Runs that ended or were suspended."),
    ("calls", "result", "Tool calls, by ok or the code of their error."),
    ("tokens", "kind", "Tokens of models."),
)


def _metric(name: str, kind: str, help: str, values: dict[str, float]) -> list[str]:
    rows = [f"{name}{label} {value:.10g}" for label, value in values.items()]
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}", *rows]


def _session_of(request: Request) -> str:
    session = request.query_params.get("session", "")
    if not session:
        raise HTTPException(400, "session is missing in the query")
    return session


def _answer_of(body: ApprovalAnswer, owner: str) -> Approved | Refused | str:
    by = owner or "gateway"
    match body.decision:
        case None if body.answer is not None:
            return body.answer
        case "deny":
            return Refused(body.reason, by=by)
        case "allow" | "always" if body.answer is None:
            scope = body.scope or ("always" if body.decision == "always" else "once")
            if body.decision == "always" and scope != "always":
                raise InvalidArguments(f"decision always has no scope {scope}", hint="Leave scope out.")
            return Approved(scope=scope, expires_s=body.expires_s, uses=body.uses, by=by)
        case _:
            raise InvalidArguments(
                "send either decision or answer", hint='For example {"decision": "allow"}.'
            )


def run_to_dict(row: RunRow) -> dict[str, Any]:
    """A row of the list of runs."""
    return {
        "run": row.id, "session": row.stream, "status": row.status, "task": row.task, "model": row.model,
        "agent": row.agent, "workspace": row.workspace, "started": row.started, "ended": row.ended,
    }  # fmt: skip


def artifact_to_dict(version: Version) -> dict[str, Any]:
    """A version without its content."""
    return {
        "id": version.id, "version": version.version, "title": version.title, "content_type": version.content_type,
        "update_type": version.update_type, "created_at": version.created_at, "bytes": len(version.raw),
    }  # fmt: skip


def undo_to_dict(report: UndoReport) -> dict[str, Any]:
    """What an undo did or would do."""
    return {
        "applied": report.applied, "entry": report.entry,
        "changes": [c.to_dict() for c in report.changes.changes], "kept": list(report.kept),
        "conflicts": [{"path": c.path, "reason": c.reason} for c in report.conflicts],
        "missed": list(report.missed),
    }  # fmt: skip


def entry_to_dict(one: UndoEntry) -> dict[str, Any]:
    """One change of the journal."""
    entry = one.entry
    return {
        "entry": entry.id, "type": entry.type, "time": entry.time, "tool": entry.origin.tool,
        "call": entry.origin.call_id, "run": entry.origin.run, "holds": one.holds,
        "files": [{"path": f.path, "kind": f.kind} for f in entry.files],
    }  # fmt: skip
