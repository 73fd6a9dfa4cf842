"""Runs over HTTP: listed, started, followed, stopped, replayed and compared."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Any, Final

from sse_starlette import ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from pegboard.app.app import App
from pegboard.core.errors import BuildError
from pegboard.core.events import RunFinished, TextPiece, ThinkingPiece
from pegboard.gateway.access import caller
from pegboard.gateway.attachments import MAX_MESSAGE_BYTES, with_files
from pegboard.gateway.bodies import NewRun, flag, number, read_body
from pegboard.gateway.errors import Json
from pegboard.gateway.live import LiveRuns, Place
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.pieces import PieceRedactor
from pegboard.gateway.views import MAX_ROWS, find_run, run_to_dict, shown, shown_event
from pegboard.net.asgi.sse import EventResponse, event_text, parse_event_id
from pegboard.runtime.replay import Divergence
from pegboard.services.agents import AgentNode
from pegboard.store.runs import RunRow

_STOP_S: Final = 5.0
"""Seconds that an answer waits for a run to have stopped."""


class RunEndpoints:
    """The endpoints under `/api/runs`.

    Args:
        app: whose services they call.
        live: the runs of this process.
    """

    def __init__(self, app: App, live: LiveRuns) -> None:
        self._app = app
        self._live = live

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E, one = Endpoint, "/api/runs/{id}"
        whole, text, yes = "integer", "string", "boolean"
        return [
            E(method="GET", path="/api/runs", handler=self.list_runs,
              query={"session": text, "status": text, "limit": whole, "all": yes}),
            E(method="POST", path="/api/runs", handler=self.start_run, body=NewRun),
            E(method="GET", path=one, handler=self.show_run),
            E(method="GET", path=f"{one}/events", handler=self.follow_run, media="text/event-stream"),
            E(method="GET", path=f"{one}/times", handler=self.list_times),
            E(method="POST", path=f"{one}/stop", handler=self.stop_run),
            E(method="GET", path=f"{one}/agents", handler=self.list_agents),
            E(method="POST", path=f"{one}/replay", handler=self.replay_run, query={"now": yes}),
            E(method="GET", path=f"{one}/compare", handler=self.compare_runs, query={"with": text}),
            E(method="GET", path=f"{one}/export", handler=self.export_run, media="application/x-ndjson",
              query={"format": text}),
        ]  # fmt: skip

    async def list_runs(self, request: Request) -> Any:
        """The latest runs of the workspace, newest first."""
        query = request.query_params
        rows = await self._app.runs.list(
            session=query.get("session"), status=query.get("status"), everywhere=flag(request, "all"),
            limit=number(request, "limit", 100, most=MAX_ROWS, least=1), prefix=caller(request).sees,
        )  # fmt: skip
        return {"runs": [run_to_dict(row) for row in rows]}

    async def start_run(self, request: Request) -> Any:
        """Start a run; it goes on by itself."""
        body = await read_body(request, NewRun, most=MAX_MESSAGE_BYTES)
        by = caller(request)
        key = by.session(body.session)
        task = await with_files(self._app, body.task, body.files)
        run, session = await self._live.start(task, session=key, model=body.model, by=by)
        return Json({"run": run, "session": session}, 202, {"Location": f"/api/runs/{run}"})

    async def show_run(self, request: Request) -> Any:
        """A run, its answer and what it waits for; `last` is the newest."""
        return await self._run(await self._find(request))

    async def _run(self, row: RunRow) -> dict[str, Any]:
        ends = await self._app.history.events(row.stream, run=row.id, types=(RunFinished.type,))
        last = ends[-1] if ends and row.status not in ("running", "interrupted") else None
        waiting = await self._app.approvals.pending(row.id) if row.status == "suspended" else []
        row_dict = {**run_to_dict(row), "answer": "", "error": "", "pending": [p.to_dict() for p in waiting]}
        if isinstance(last, RunFinished):
            row_dict |= {"answer": last.answer, "error": last.error, "usage": last.usage.to_dict()}
        return shown(self._app, row_dict)

    async def follow_run(self, request: Request) -> Any:
        """The events of a run as they happen (SSE). `Last-Event-ID` goes on behind that event."""
        row = await self._find(request)
        after = place_of(request.headers.get("last-event-id", ""))
        return EventResponse(self._events(row, after))

    async def _events(self, row: RunRow, after: Place) -> AsyncIterator[ServerSentEvent]:
        # Sent at once, so that a client knows that it is connected before the run does anything.
        yield ServerSentEvent(comment=f"run {row.id}")
        async for id, event in events_of(self._app, self._live, row, after):
            yield ServerSentEvent(event_text(event), id=id, event=event["type"])

    async def list_times(self, request: Request) -> Any:
        """When each of the run's stored events was recorded, in seconds since the epoch."""
        return {"times": await self._app.history.times(await self._find(request))}

    async def stop_run(self, request: Request) -> Any:
        """Stop a run, with the subagents that it has started; it ends as `cancelled`."""
        row = await self._app.runs.stop(await self._find(request), wait_s=_STOP_S)
        return Json(await self._run(row), 202 if row.status == "running" else 200)

    async def list_agents(self, request: Request) -> Any:
        """The subagents that a run has started, each with those that it has started itself."""
        row = await self._find(request)
        nodes = await self._app.agents.tree(row)
        return shown(self._app, {"run": row.id, "agents": [agent_to_dict(node) for node in nodes]})

    async def replay_run(self, request: Request) -> Any:
        """Do a run again without model and world, and say where it comes out different.

        With `now=1` by the tools and rules of now.
        """
        row = await self._find(request)
        if flag(request, "now"):
            told = asdict(await self._app.runs.compare_now(row))
            return shown(self._app, {"same": not told["diff"], **told})
        try:
            done = await self._app.runs.replay(row)
        except Divergence as difference:
            return shown(
                self._app,
                {"run": row.id, "same": False, "event": difference.place, "recorded": difference.expected,
                 "replayed": difference.got},
            )  # fmt: skip
        return shown(self._app, {"same": True, **asdict(done)})

    async def compare_runs(self, request: Request) -> Any:
        """What two runs did differently, as a unified diff."""
        other = request.query_params.get("with", "")
        if not other:
            raise HTTPException(400, "with is missing in the query: the id of the other run")
        done = await self._app.runs.compare(await self._find(request), await find_run(self._app, other))
        return {"run": done.run, "with": done.against, "same": not done.diff, "diff": list(done.diff)}

    async def export_run(self, request: Request) -> Any:
        """The events of a run as JSON lines; with `format=pytest` a test that replays it, as JSON."""
        row = await self._find(request)
        match request.query_params.get("format", "jsonl"):
            case "pytest":
                done = await self._app.runs.export_pytest(row)
                return {"run": row.id, "source": done.source, "includes": list(done.includes)}
            case "jsonl":
                if self._app.runs.is_purged(row):
                    raise BuildError(f"the content of run {row.id} was purged")
                name = f"{row.id}.jsonl".encode("ascii", "replace").decode()
                headers = {"Content-Disposition": f'attachment; filename="{name}"'}
                return StreamingResponse(self._lines(row), media_type="application/x-ndjson", headers=headers)
            case other:
                raise HTTPException(400, f"format must be jsonl or pytest, not {other[:40]!r}")

    async def _lines(self, row: RunRow) -> AsyncIterator[bytes]:
        async for event in self._app.runs.events(row):
            text = json.dumps(shown_event(self._app, event), ensure_ascii=False, default=str)
            yield f"{text}\n".encode("utf-8", "replace")

    async def _find(self, request: Request) -> RunRow:
        return await find_run(self._app, request.path_params["id"])


def place_of(id: str) -> Place:
    """The place of an event's id; the beginning if it is none."""
    stored, piece = parse_event_id(id)
    return (int(stored), piece) if stored.isascii() and stored.isdecimal() and len(stored) < 12 else (0, 0)


async def events_of(
    app: App, live: LiveRuns, row: RunRow, after: Place
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a run behind a place as they happen, each with its id, as JSON without secrets."""
    pieces: dict[str, PieceRedactor] = {}
    async for (stored, piece), event in live.follow(row, after):
        if isinstance(event, TextPiece | ThinkingPiece):
            one = pieces.setdefault(event.type, PieceRedactor(app.redactor.redact))
            if not (text := one.feed(event.text)):
                continue
            event = replace(event, text=text)
        elif not piece:
            pieces.clear()  # What was held back is in this event.
        yield f"{stored}.{piece}", shown_event(app, event)


def agent_to_dict(node: AgentNode) -> dict[str, Any]:
    """A subagent and those below it."""
    child = node.child
    return {
        "id": child.id, "session": child.session, "run": node.run, "agent": child.agent or "general",
        "label": child.label, "task": child.task, "status": child.status, "depth": child.depth,
        "started": child.started, "ended": child.ended, "answer": child.answer, "error": child.error,
        "usage": child.usage.to_dict(), "agents": [agent_to_dict(one) for one in node.agents],
    }  # fmt: skip
