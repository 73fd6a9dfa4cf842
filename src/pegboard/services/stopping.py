"""Stopping: ends a run that goes on, waits for somebody, or was interrupted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from pegboard.core.errors import Conflict
from pegboard.core.events import RunFinished, RunResumed
from pegboard.ports.subagents import ACTIVE
from pegboard.runtime.fold import fold
from pegboard.services.history import History
from pegboard.store.answers import Answers
from pegboard.store.children import Children
from pegboard.store.leases import SessionBusy
from pegboard.store.runs import RunRow
from pegboard.store.stops import Stops

_LOOK_S: Final = 0.05


async def stop_run(history: History, row: RunRow, *, wait_s: float) -> RunRow:
    """See `Runs.stop`."""
    row = await _now(history, row)
    if row.status not in ("running", "suspended", "interrupted"):
        raise Conflict(f"run {row.id} has ended: {row.status}", hint="There is nothing to stop.")
    await _stop_subagents(history, row, wait_s=wait_s)
    if row.status != "running":
        try:
            return await _finish(history, row)
        except SessionBusy:
            pass  # It was taken up in this moment.
    stops = Stops(history.store)
    await stops.add(row.id)
    try:
        async with asyncio.timeout(wait_s):
            row = await _until_ended(history, row)
    except TimeoutError:
        return row
    await stops.drop(row.id)
    # Its process ended, or it began to wait for somebody, before it saw the request.
    return await _finish(history, row) if row.status in ("suspended", "interrupted") else row


async def _until_ended(history: History, row: RunRow) -> RunRow:
    while True:
        if (row := await _now(history, row)).status != "running":
            return row
        await asyncio.sleep(_LOOK_S)


async def _finish(history: History, row: RunRow) -> RunRow:
    """Write the end of a run that nobody works on."""
    async with history.open_session(row.stream, run=row.id, wait_s=0.0) as session:
        row = await _now(history, row)
        last = next((e for e in reversed(session.events) if isinstance(e, RunFinished)), None)
        if row.status == "suspended":
            session.log.record(RunResumed(run=row.id, model=row.model))
        usage = fold(session.events).usage
        session.log.record(RunFinished(run=row.id, status="cancelled", answer="", usage=usage))
    if last is not None and last.run == row.id:
        await Answers(history.store).used([str(one.get("pending")) for one in last.pending])
    return await _now(history, row)


async def _stop_subagents(history: History, row: RunRow, *, wait_s: float) -> None:
    children = Children(history.store)
    for child in await children.of(row.stream):
        if child.status not in ACTIVE or child.parent_run not in ("", row.id):
            continue
        await children.change(
            child.id, lambda now: replace(now, status="stopped") if now.status in ACTIVE else now
        )
        for below in await history.mark_interrupted(await history.runs(session=child.session, limit=1)):
            if below.status in ("running", "suspended", "interrupted"):
                await stop_run(history, below, wait_s=wait_s)


async def _now(history: History, row: RunRow) -> RunRow:
    own = await history.run(row.id)
    # A session's lease is held for its newest run alone.
    newest = [r for r in await history.runs(session=row.stream, limit=1) if r.id != row.id]
    return (await history.mark_interrupted([*newest, own]))[-1]
