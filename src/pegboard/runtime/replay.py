"""Replay: the loop run again from its record, without model and world, byte for byte.

The loop is the real one; its model gives the recorded turns, its executor the recorded results, and
everything that it records is compared with what was recorded then. The first difference ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pegboard.core.call.pipeline import Executor
from pegboard.core.content import Image
from pegboard.core.context import Context
from pegboard.core.errors import PegboardError
from pegboard.core.events import (
    TRANSIENT,
    Event,
    RunFinished,
    RunResumed,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.limits import Limits
from pegboard.runtime.compaction import Window
from pegboard.runtime.fold import fold, user_messages
from pegboard.runtime.loop import Loop, RunState
from pegboard.runtime.recorded import RecordedAnswers, RecordedExecutor, RecordedInbox, RecordedModel
from pegboard.runtime.replanning import Replanner
from pegboard.runtime.script import Divergence, RecordEnds, ReplayLog, text_of_event
from pegboard.runtime.until import UntilCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay found.

    Attributes:
        run: the run.
        events: how many events were the same.
        finished: how it ended, None where the record has no end.
    """

    run: str
    events: int
    finished: RunFinished | None


async def replay(events: Sequence[Event], run: str, *, planner: Replanner | None = None) -> ReplayResult:
    """Run the loop again from the events of a session.

    Args:
        events: of the session, up to the run's last one; earlier runs are its history.
        run: which run.
        planner: decodes, plans and decides the calls again by the tools and rules of now; None = calls are
            told as they were.

    Raises:
        Divergence: the loop, or a call's arguments, effects or decision, are others now; the message shows where.
        PegboardError: the record holds no such run.
    """
    before, mine = split(events, run)
    kept = [e for e in mine if e.type not in TRANSIENT]
    # When a person typed is no step of the loop; that it read it is one.
    script = ReplayLog([e for e in kept if not isinstance(e, UserTold)], planner)
    typed = len(kept) - len(script.events)
    if planner is not None:
        _remember(planner, before)
    known = list(before)
    finished: RunFinished | None = None
    for segment in script.segments():
        finished = await _segment(script, known, segment)
        known += segment
    return ReplayResult(run=run, events=script.place + typed, finished=finished)


def split(events: Sequence[Event], run: str) -> tuple[list[Event], list[Event]]:
    """The events before a run, and the run's own.

    Raises:
        PegboardError: it is not there.
    """
    start = next((n for n, e in enumerate(events) if isinstance(e, RunStarted) and e.run == run), None)
    if start is None:
        raise PegboardError(f"no record of run {run!r}: it was purged, or never kept here")
    end = next((n for n in range(start + 1, len(events)) if isinstance(events[n], RunStarted)), len(events))
    mine = list(events[start:end])
    last = max((n for n, e in enumerate(mine) if isinstance(e, RunFinished)), default=None)
    if last is not None and not any(isinstance(e, RunResumed) for e in mine[last:]):
        # What stands behind the end (a conversation shortened by hand) is the session's, not the run's.
        del mine[last + 1 :]
    return list(events[:start]), mine


def _images(segment: Sequence[Event]) -> tuple[Image, ...]:
    """The pictures that a run's task brought along."""
    said = next((e for e in segment if isinstance(e, UserSaid)), None)
    return () if said is None else tuple(b for b in said.message.content if isinstance(b, Image))


async def _segment(script: ReplayLog, known: Sequence[Event], segment: Sequence[Event]) -> RunFinished | None:
    """Replay one part; None where its process ended without telling."""
    first = segment[0]
    started = next(e for e in (*known, *segment) if isinstance(e, RunStarted) and _is_run(e, segment, known))
    detail: Mapping[str, Any] = first.detail if isinstance(first, RunStarted | RunResumed) else {}
    script.begin(len(segment), detail)
    history = fold(known) if known else None
    model = first.model if isinstance(first, RunStarted | RunResumed) else ""
    executor = cast("Executor", RecordedExecutor(script))
    until = str(detail.get("until", ""))
    loop = Loop(
        model=RecordedModel(script, model),
        executor=executor,
        instructions="",
        recorder=script,
        limits=Limits(**detail["limits"]) if "limits" in detail else Limits(turns=10**9, soft=0),
        clock=script,
        output_schema=detail.get("output"),
        read_output=script.read_output if detail.get("typed") else None,
        window=Window(**detail["window"]) if "window" in detail else Window(),
        answers=RecordedAnswers(script),
        unpaid=script.exhausted_reason,
        policy=detail.get("policy", {}),
        code=detail.get("code", ()),
        tools_from=detail.get("tools_from", {}),
        latest_policy=script.policy_change,
        until=UntilCommand(command=until, executor=executor) if until else None,
        task_by=started.detail.get("by", "user"),
        task_labels=tuple(started.detail.get("labels", ())),
        task_source=started.detail.get("source", ""),
        task_images=_images(segment),
    )
    state = RunState(
        id=started.run, session=started.session, spent_s=script.spent_s, mark=str(detail.get("mark", ""))
    )
    state.inbox = RecordedInbox(script)
    context = Context(
        agent=started.agent, session=started.session, model=model, workspace=None, origin=detail.get("origin", {})
    )  # fmt: skip
    task = first.task if isinstance(first, RunStarted) else ""
    try:
        finished = await loop.run(task, state=state, context=_At(context, detail), history=history)
        if script.place < script.end:
            raise script.report_difference(None)
        return finished
    except RecordEnds:
        return None
    except Divergence:
        raise script.fault or script.report_difference(None) from None
    except asyncio.CancelledError:
        last = script.events[script.place - 1]
        if isinstance(last, RunFinished) and last.was_cancelled:
            return last
        raise


def _remember(planner: Replanner, before: Sequence[Event]) -> None:
    """What the session had heard before the run."""
    session = next((e.session for e in before if isinstance(e, RunStarted)), "")
    for event in user_messages(before):
        planner.on_user_message(event, session)


def _is_run(started: RunStarted, segment: Sequence[Event], known: Sequence[Event]) -> bool:
    run = next((e.run for e in segment if isinstance(e, RunStarted | RunResumed | RunFinished)), None)
    return run is None or started.run == run


def _At(context: Context, detail: Mapping[str, Any]) -> Context:
    """The context with the recorded workspace, which is told and not touched."""
    where = detail.get("workspace")
    if not where:
        return context
    from pathlib import PurePosixPath

    return replace(context, workspace=cast(Any, PurePosixPath(where)))


__all__ = ["Divergence", "ReplayResult", "replay", "split", "text_of_event"]
