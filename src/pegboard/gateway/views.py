"""Views: what services return, as JSON without secrets."""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.codec import event_to_dict
from pegboard.core.errors import ConfigError, NotFound
from pegboard.core.events import Event
from pegboard.store.encoding import without_secrets
from pegboard.store.runs import RunRow

MAX_ROWS: Final = 1000
"""Rows of one answer, unless an endpoint says otherwise."""


def shown(app: App, row: dict[str, Any]) -> dict[str, Any]:
    """The row without secrets."""
    return without_secrets(row, app.redactor.redact)


def shown_event(app: App, event: Event) -> dict[str, Any]:
    """An event as JSON, without secrets."""
    return shown(app, event_to_dict(event))


def run_to_dict(row: RunRow) -> dict[str, Any]:
    """A row of the list of runs."""
    return {
        "run": row.id, "session": row.stream, "status": row.status, "task": row.task, "model": row.model,
        "agent": row.agent, "workspace": row.workspace, "started": row.started, "ended": row.ended,
    }  # fmt: skip


async def find_run(app: App, id: str) -> RunRow:
    """A run by its id, the unique start of one, or `last`.

    Raises:
        NotFound: there is none.
    """
    try:
        return await app.runs.get(id)
    except ConfigError:
        raise NotFound(f"no run {id!r}", hint="See GET /api/runs.") from None


def session_of(request: Request) -> str:
    """The session that the query names.

    Raises:
        HTTPException: it names none (400).
    """
    session = request.query_params.get("session", "")
    if not session:
        raise HTTPException(400, "session is missing in the query")
    return session
