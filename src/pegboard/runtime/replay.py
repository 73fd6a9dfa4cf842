"""Replay: the loop run again from its record, without model and world, byte for byte (ledger G-03, K-89).

The loop is the real one; its model gives the recorded turns, its executor the recorded results, and
everything that it records is compared with what was recorded then. The first difference ends it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pegboard.core.call import ToolCall
from pegboard.core.codec import event_to_dict
from pegboard.core.context import Context
from pegboard.core.errors import ModelError, PegboardError
from pegboard.core.events import (
    TRANSIENT,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    RunResumed,
    RunStarted,
    UserSaid,
)
from pegboard.core.executor import TurnExecutor
from pegboard.core.limits import Limits
from pegboard.core.result import ToolResult
from pegboard.core.transcript import Message
from pegboard.ports.model import ModelEvent, Replied
from pegboard.runtime.budget import WALL
from pegboard.runtime.compaction import Window
from pegboard.runtime.ending import MISFIT_NOTE
from pegboard.runtime.replanning import Replanner, results_in
from pegboard.runtime.run import Loop, RunState
from pegboard.runtime.transcripts import IMPORTED, fold, heard

_CALL_EVENTS: Final = (CallStarted, CallFinished, PermissionRequested)


class Divergence(PegboardError):
    """The loop did something else than the record says.

    Args:
        place: number of the event in the run, from 0.
        expected, got: both events as JSON text; None where one has ended before the other.
    """

    def __init__(self, place: int, expected: str | None, got: str | None) -> None:
        self.place, self.expected, self.got = place, expected, got
        super().__init__(
            f"the replay differs at event {place}:\n  recorded: {_near(expected, got)}\n  replayed: {_near(got, expected)}"
        )


class _RecordEnds(BaseException):
    """The recorded process was killed here. No Exception: the loop must not turn it into an end of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay found.

    Attributes:
        run: the run.
        events: how many events were the same.
        finished: how it ended, None where the record has no end.
    """

    run: str
    events: int
    finished: RunFinished | None


async def replay(events: Sequence[Event], run: str, *, planner: Replanner | None = None) -> Replayed:
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
    script = _Script([e for e in mine if e.type not in TRANSIENT], planner)
    if planner is not None:
        _remember(planner, before)
    known = list(before)
    finished: RunFinished | None = None
    for segment in script.segments():
        finished = await _segment(script, known, segment)
        known += segment
    return Replayed(run=run, events=script.place, finished=finished)


def split(events: Sequence[Event], run: str) -> tuple[list[Event], list[Event]]:
    """The events before a run, and the run's own.

    Raises:
        PegboardError: it is not there.
    """
    start = next((n for n, e in enumerate(events) if isinstance(e, RunStarted) and e.run == run), None)
    if start is None:
        raise PegboardError(f"the record holds no run called {run!r}")
    end = next((n for n in range(start + 1, len(events)) if isinstance(events[n], RunStarted)), len(events))
    mine = list(events[start:end])
    last = max((n for n, e in enumerate(mine) if isinstance(e, RunFinished)), default=None)
    if last is not None and not any(isinstance(e, RunResumed) for e in mine[last:]):
        # What stands behind the end (a conversation shortened by hand) is the session's, not the run's.
        del mine[last + 1 :]
    return list(events[:start]), mine


class _Script:
    """The recorded events of one run and how far the replay has come; also the replay's recorder."""

    def __init__(self, events: Sequence[Event], planner: Replanner | None = None) -> None:
        self.events = tuple(events)
        self.planner = planner
        self.session = next((e.session for e in events if isinstance(e, RunStarted)), "")
        self.results = {} if planner is None else results_in(events)
        self.texts = [text_of_event(e) for e in events]
        self.place = 0
        self.end = 0
        self.fault: Divergence | None = None
        self.spent_s = 0.0
        self._begun = False
        self.names = _names(events)

    def differs(self, got: str | None) -> Divergence:
        """The first difference, to be raised; whatever follows from it is not told."""
        if self.fault is None:
            expected = self.texts[self.place] if self.place < self.end else None
            self.fault = Divergence(self.place, expected, got)
        return self.fault

    def segments(self) -> list[list[Event]]:
        """The parts between which the process ended: each begins with RunStarted or RunResumed."""
        out: list[list[Event]] = []
        for event in self.events:
            if isinstance(event, RunStarted | RunResumed) or not out:
                out.append([])
            out[-1].append(event)
        return out

    @property
    def next(self) -> Event | None:
        """What was recorded next in this segment, None at its end."""
        return self.events[self.place] if self.place < self.end else None

    def record(self, event: Event) -> None:
        """Compare what the loop records with what was recorded."""
        if event.type in TRANSIENT:
            return
        if self.place >= self.end:
            if self.end < len(self.events) or not isinstance(self.events[-1], RunFinished):
                raise _RecordEnds
            raise self.differs(text_of_event(event))
        recorded = self.events[self.place]
        if (
            isinstance(event, RunStarted | RunResumed)
            and isinstance(recorded, RunStarted | RunResumed)
            and "limits" not in recorded.detail
        ):
            # Written by hand, or before runs told of their limits.
            event = replace(event, detail=recorded.detail)
        elif (
            isinstance(event, RunStarted | RunResumed)
            and isinstance(recorded, RunStarted | RunResumed)
            and IMPORTED in recorded.detail
        ):
            event = replace(event, detail={**event.detail, IMPORTED: recorded.detail[IMPORTED]})
        text = text_of_event(event)
        if self.fault is not None or text != self.texts[self.place]:
            raise self.differs(text)
        self.place += 1
        if self.planner is not None:
            if isinstance(recorded, UserSaid) and recorded.by == "user":
                self.planner.heard(recorded, self.session)
            if not isinstance(recorded, _CALL_EVENTS):
                self.planner.now.append(recorded)

    async def called(self, recorded: Event, context: Context) -> None:
        """An event of a call: as it would be now, or as it was where nobody plans again."""
        planner, now = self.planner, recorded
        if planner is not None:
            if isinstance(recorded, CallStarted):
                now = await planner.started(recorded, context)
            elif isinstance(recorded, CallFinished):
                now = await planner.finished(recorded, context)
            if now.type == recorded.type or isinstance(now, CallStarted):
                # A call that would not start now is told with its result.
                planner.now.append(now)
        self.record(recorded if planner is not None and planner.lenient else now)

    async def flush(self, *, power_loss: bool = False) -> None:
        """Nothing is kept."""

    def monotonic(self) -> float:
        """The time that the record implies: what a wall limit had seen when it gave a notice."""
        event = self.next
        if self._begun and isinstance(event, Notice) and event.detail.get("limit") == WALL:
            return float(event.detail["spent"]) - self.spent_s
        self._begun = True
        return 0.0

    def begin(self, count: int, detail: Mapping[str, Any]) -> None:
        """A part of `count` events begins."""
        self.end = self.place + count
        self.spent_s = float(detail.get("spent_s", 0.0))
        self._begun = False

    def now(self) -> float:
        """Seconds since the epoch; the loop does not look."""
        return 0.0

    def unpaid(self) -> str:
        """Why no further turn was paid for; empty where one was."""
        event = self.next
        if isinstance(event, RunFinished) and event.status == "limit" and event.error.startswith("budget "):
            return event.error
        return ""

    def read_output(self, text: str) -> Any:
        """What the typed answer was, or what was wrong with it."""
        event = self.next
        if isinstance(event, RunFinished) and event.output is not None:
            if text != event.answer:
                raise ValueError("it was not this text that was read")
            return event.output
        if isinstance(event, UserSaid) and event.message.text.startswith(MISFIT_NOTE[0]):
            raise ValueError(event.message.text[len(MISFIT_NOTE[0]) : -len(MISFIT_NOTE[1])])
        if isinstance(event, RunFinished) and "does not fit the wanted output: " in event.error:
            raise ValueError(event.error.split("does not fit the wanted output: ", 1)[1])
        return None


async def _segment(script: _Script, known: Sequence[Event], segment: Sequence[Event]) -> RunFinished | None:
    """Replay one part; None where its process ended without telling."""
    first = segment[0]
    started = next(e for e in (*known, *segment) if isinstance(e, RunStarted) and _is_run(e, segment, known))
    detail: Mapping[str, Any] = first.detail if isinstance(first, RunStarted | RunResumed) else {}
    script.begin(len(segment), detail)
    history = fold(known) if known else None
    model = first.model if isinstance(first, RunStarted | RunResumed) else ""
    loop = Loop(
        model=_RecordedModel(script, model),
        executor=cast(TurnExecutor, _RecordedExecutor(script)),
        instructions="",
        recorder=script,
        limits=Limits(**detail["limits"]) if "limits" in detail else Limits(turns=10**9, soft=0),
        clock=script,
        read_output=script.read_output if detail.get("typed") else None,
        window=Window(**detail["window"]) if "window" in detail else Window(),
        answers=_Answers(script),
        unpaid=script.unpaid,
        policy=detail.get("policy", {}),
    )
    state = RunState(
        id=started.run, session=started.session, spent_s=script.spent_s, mark=str(detail.get("mark", ""))
    )
    state.inbox = _Inbox(script)
    context = Context(agent=started.agent, session=started.session, model=model, workspace=None)
    task = first.task if isinstance(first, RunStarted) else ""
    try:
        finished = await loop.run(task, state=state, context=_At(context, detail), history=history)
        if script.place < script.end:
            raise script.differs(None)
        return finished
    except _RecordEnds:
        return None
    except Divergence:
        raise script.fault or script.differs(None) from None
    except asyncio.CancelledError:
        last = script.events[script.place - 1]
        if isinstance(last, RunFinished) and last.error == "cancelled":
            return last
        raise


def _remember(planner: Replanner, before: Sequence[Event]) -> None:
    """What the session had heard before the run."""
    session = next((e.session for e in before if isinstance(e, RunStarted)), "")
    for event in heard(before):
        planner.heard(event, session)


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


class _Inbox(list[Any]):
    """The messages that a person sent while the run went on, as they come up in the record."""

    def __init__(self, script: _Script) -> None:
        super().__init__()
        self._script = script

    def __bool__(self) -> bool:
        event = self._script.next
        return isinstance(event, UserSaid) and event.by == "user"

    def pop(self, index: Any = -1) -> Any:
        """The next of them."""
        return cast(UserSaid, self._script.next).message


class _Answers(dict[str, Any]):
    """What was answered to a call that waited: its recorded result's value."""

    def __init__(self, script: _Script) -> None:
        super().__init__()
        self._script = script

    def __contains__(self, key: object) -> bool:
        return isinstance(self._script.next, CallFinished)

    def __getitem__(self, key: str) -> Any:
        event = self._script.next
        return event.result.data if isinstance(event, CallFinished) else None


class _RecordedModel:
    """Gives the recorded turns."""

    destination = "nowhere"

    def __init__(self, script: _Script, name: str) -> None:
        self._script = script
        self.name = name

    def converse(self, **_: Any) -> _RecordedModel:
        """The one conversation."""
        return self

    def append(self, message: Message) -> None:
        """Nothing is sent."""

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next recorded turn, or the failure that came in its place."""
        event = self._script.next
        match event:
            case ModelReplied(message):
                yield Replied(message)
            case None:
                raise _RecordEnds
            case RunFinished(error="cancelled"):
                raise asyncio.CancelledError
            case RunFinished(status="limit") if "; then: " in event.error:
                raise _Failed(event.error.split("; then: ", 1)[1])
            case RunFinished(status="failed"):
                name, colon, rest = event.error.partition(": ")
                if colon and name.isidentifier() and not event.answer:
                    # What was no ModelError: told with its type, and without what had been said before.
                    raise type(name, (Exception,), {})(rest)
                raise _Failed(event.error)
            case _ if event.type == "context.compacted":
                raise _Failed("context length")
            case _:
                raise self._script.differs("a model turn")

    async def aclose(self) -> None:
        """Nothing was started."""


class _Failed(ModelError):
    """A recorded failure, told in the same words."""

    def __str__(self) -> str:
        return self.message


class _RecordedExecutor:
    """Gives the recorded results of each turn's calls, and tells their events as they were."""

    def __init__(self, script: _Script) -> None:
        self._script = script
        self.pipeline = self
        self.toolkit = self

    def advertised(self) -> _RecordedExecutor:
        """See Toolkit; nothing is shown to anybody here."""
        return self

    def resolve(self, name: str) -> _RecordedTool:
        """The tool as the record knows it; one that was not repeated but interrupted was not idempotent."""
        event = self._script.next
        told = isinstance(event, CallFinished) and event.result.tool == name and event.result.error
        known = self._script.names.get(name, name)
        return _RecordedTool(name=known, idempotent=not (told and told.code == "interrupted"))

    async def turn(self, calls: Sequence[ToolCall], context: Context) -> tuple[ToolResult, ...]:
        """See TurnExecutor."""
        wanted = {c.id or "": c for c in calls}
        if self._script.planner is not None:
            self._script.planner.turn(wanted, self._script.results)
        done: dict[str, ToolResult] = {}
        while len(done) < len(wanted):
            event = self._script.next
            if event is None:
                raise _RecordEnds
            if isinstance(event, RunFinished) and event.error == "cancelled":
                raise asyncio.CancelledError
            if not isinstance(event, _CALL_EVENTS):
                missing = ", ".join(c.name for i, c in wanted.items() if i not in done)
                raise self._script.differs(f"the calls {missing}")
            if isinstance(event, CallFinished):
                if event.result.call_id not in wanted:
                    raise self._script.differs(f"the calls {', '.join(wanted)}")
                done[event.result.call_id] = event.result
            await self._script.called(event, context)
        after = self._script.next
        if isinstance(after, RunFinished) and after.error == "cancelled":
            raise asyncio.CancelledError
        return tuple(done[c.id or ""] for c in calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedTool:
    """What the loop asks of a tool."""

    name: str
    idempotent: bool


def _names(events: Sequence[Event]) -> dict[str, str]:
    """The tools' own names by the names that the model used."""
    used: dict[str, str] = {}
    out: dict[str, str] = {}
    for event in events:
        if isinstance(event, ModelReplied):
            used |= {c.id or "": c.name for c in event.message.calls}
        elif isinstance(event, CallStarted) and event.call_id in used:
            out[used[event.call_id]] = event.tool
        elif isinstance(event, CallFinished) and event.result.call_id in used and event.result.ok:
            out[used[event.result.call_id]] = event.result.tool
    return out


def text_of_event(event: Event) -> str:
    """The event as JSON text, as a store keeps it."""
    return json.dumps(event_to_dict(event), ensure_ascii=False, sort_keys=True, default=str)


def _near(text: str | None, other: str | None) -> str:
    """The part of a text around its first difference from another."""
    if text is None:
        return "(nothing more)"
    at = next((n for n, (a, b) in enumerate(zip(text, other or "", strict=False)) if a != b), 0)
    start = max(0, at - 80)
    return ("…" if start else "") + text[start : at + 160] + ("…" if at + 160 < len(text) else "")
