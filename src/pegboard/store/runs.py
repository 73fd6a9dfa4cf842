"""RunList: what `pegboard runs` shows, one row a run, with indexes by time, by session and of the unfinished ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pegboard.core.events import IMPORTED, Event, RunFinished, RunResumed, RunStarted
from pegboard.ports.store import Put, Store
from pegboard.store.table import Table, after_prefix

OPEN: Final = frozenset({"running", "suspended"})
"""The status of a run that may go on."""

ONE_CALLS: Final = frozenset({"cli", "mcp"})
"""Agents of runs that are single calls: no model's turn follows, so none is resumed."""

RUN_EVENTS: Final = frozenset({RunStarted.type, RunResumed.type, RunFinished.type})
"""Types of the events that rows are made from."""

_RUNS: Final = "runs"
_BY_TIME: Final = "runs_by_time"
_BY_SESSION: Final = "runs_by_session"
_OPEN: Final = "runs_open"

_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What the list of runs shows.

    Attributes:
        id, stream: the run, and the session whose stream it is in.
        status: running (or its process ended before it did), done, suspended, limit, failed,
            denied (a single call that was refused).
        task, model, agent: what was asked of whom.
        started, ended: seconds since the epoch; ended is 0 while it goes on.
        workspace: the folder that it works in; empty where none is known, or where it was imported from elsewhere.
    """

    id: str
    stream: str
    status: str
    task: str
    model: str
    agent: str
    started: float
    ended: float = 0.0
    workspace: str = ""


class RunList:
    """The runs of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = Table[RunRow](store, _RUNS, asdict, _row, _damaged)

    async def get(self, run: str) -> RunRow | None:
        """The row of a run, None if there is none."""
        return await self._table.get(run)

    async def find(self, prefix: str) -> list[RunRow]:
        """The runs whose ids begin so; only the one if a whole id is given."""
        rows = list((await self._table.scan(prefix=prefix)).values()) if prefix else []
        return [r for r in rows if r.id == prefix] or rows

    async def list(
        self,
        *,
        session: str | None = None,
        status: str | None = None,
        workspace: str | None = None,
        limit: int | None = 50,
        prefix: str = "",
    ) -> list[RunRow]:
        """The latest runs, newest first; `limit` None = all.

        Args:
            prefix: only runs of sessions whose keys begin so.
            workspace: only runs of this folder, and those of which none is known; None = all.
        """

        def wanted(row: RunRow) -> bool:
            return (
                session in (None, row.stream)
                and status in (None, row.status)
                and (workspace is None or row.workspace in ("", workspace))
            )

        if prefix or (limit is None and session is None and status not in OPEN):
            if prefix:
                keys = await self._store.scan(_BY_SESSION, start=prefix, end=after_prefix(prefix))
                found = await self._table.get_all([key.value.decode() for key in keys])
            else:
                found = list((await self._table.scan()).values())
            return sorted(filter(wanted, found), key=lambda r: (r.started, r.id), reverse=True)[:limit]
        start = ""
        if status in OPEN:
            table = _OPEN
        elif session is not None:
            table, start = _BY_SESSION, f"{session}\x1f"
        else:
            table = _BY_TIME
        # What the index does not know by itself is looked for page by page.
        sure = status is None and workspace is None
        page = limit if sure or limit is None else max(limit, _PAGE)
        end = after_prefix(start)
        rows: list[RunRow] = []
        while True:
            keys = await self._store.scan(table, start=start, end=end, reverse=True, limit=page)
            rows += filter(wanted, await self._table.get_all([key.value.decode() for key in keys]))
            if page is None or len(rows) >= (limit or 0) or len(keys) < page:
                return rows[:limit]
            end = keys[-1].key

    async def save(self, row: RunRow) -> None:
        """Add or replace a row."""
        await self._store.put(*row_puts(row))

    async def puts(
        self, session: str, events: Iterable[tuple[float, Event]], known: dict[str, RunRow]
    ) -> list[Put]:
        """What some events of a session change, for the append that keeps them: a run must not be in its stream and
        missing from the list, or the reverse.

        Args:
            session: the stream.
            events: each with its time.
            known: rows of runs that were seen before; takes in the new ones.
        """
        changed: dict[str, RunRow] = {}
        for at, event in events:
            match event:
                case RunStarted():
                    row = RunRow(
                        id=event.run, stream=session, status="running", task=event.task, model=event.model,
                        agent=event.agent, started=at,
                        workspace="" if IMPORTED in event.detail else str(event.detail.get("workspace", "")),
                    )  # fmt: skip
                case RunResumed() | RunFinished():
                    before = known.get(event.run) or await self.get(event.run)
                    if before is None:
                        continue
                    if isinstance(event, RunFinished):
                        row = replace(before, status=event.status, ended=at)
                    else:
                        row = replace(before, status="running", ended=0.0)
                case _:
                    continue
            known[row.id] = changed[row.id] = row
        return [put for row in changed.values() for put in row_puts(row)]


def row_puts(row: RunRow) -> Sequence[Put]:
    """The Puts that keep a row and its places in the indexes."""
    at, id = f"{row.started:017.6f} {row.id}", row.id.encode("utf-8", "replace")
    body = json.dumps(asdict(row), ensure_ascii=False).encode("utf-8", "replace")
    return (
        Put(_RUNS, row.id, body),
        Put(_BY_TIME, at, id),
        Put(_BY_SESSION, f"{row.stream}\x1f{at}", id),
        Put(_OPEN, at, id if row.status in OPEN else None),
    )


def _damaged(run: str) -> RunRow:
    """Stands for a row that a bad disk changed; the run's events are in their stream all the same."""
    task = "(this row is damaged; see: pegboard audit verify)"
    return RunRow(id=run, stream="", status="failed", task=task, model="", agent="", started=0.0)


def _row(value: dict[str, Any]) -> RunRow:
    return RunRow(**value)
