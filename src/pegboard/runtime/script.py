"""Script: the recorded events of one run, against which a replay is compared as it goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pegboard.core.codec import event_to_dict
from pegboard.core.context import Context
from pegboard.core.errors import PegboardError
from pegboard.core.events import (
    BRANCHED,
    IMPORTED,
    TRANSIENT,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Notice,
    PermissionJudged,
    PermissionRequested,
    RunFinished,
    RunResumed,
    RunStarted,
    UserSaid,
)
from pegboard.core.secrets.clip import clip
from pegboard.runtime.budget import WALL
from pegboard.runtime.loop import MISFIT_NOTE, POLICY
from pegboard.runtime.replanning import Replanner, results_in

CALL_EVENTS: Final = (CallStarted, CallFinished, PermissionRequested, PermissionJudged)
"""Events of which a call leaves any number."""


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


class RecordEnds(BaseException):
    """The recorded process was killed here. No Exception: the loop must not turn it into an end of its own."""


class ReplayLog:
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

    def report_difference(self, got: str | None) -> Divergence:
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
        recorded = self.next
        self._same(event)
        if self.planner is not None and recorded is not None:
            # Results that the loop itself gave (refused, interrupted, waited in vain) are told as they were.
            self.planner.now.append(recorded)

    def _same(self, event: Event) -> None:
        if self.place >= self.end:
            if self.end < len(self.events) or not isinstance(self.events[-1], RunFinished):
                raise RecordEnds
            raise self.report_difference(text_of_event(event))
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
            and (whence := {k: v for k, v in recorded.detail.items() if k in (IMPORTED, BRANCHED)})
        ):
            event = replace(event, detail={**event.detail, **whence})
        elif isinstance(event, RunFinished) and event.was_cancelled and isinstance(recorded, RunFinished):
            # Runs of earlier versions that were cancelled say it in another way.
            event = (
                replace(event, status=recorded.status, error=recorded.error)
                if recorded.was_cancelled
                else event
            )
        text = text_of_event(event)
        if self.fault is not None or text != self.texts[self.place]:
            raise self.report_difference(text)
        self.place += 1
        if self.planner is not None and isinstance(recorded, UserSaid) and recorded.by == "user":
            self.planner.on_user_message(recorded, self.session)

    async def on_call(self, recorded: Event, context: Context) -> None:
        """An event of a call: as it would be now, or as it was where nobody plans again."""
        planner, now = self.planner, recorded
        if planner is not None:
            if isinstance(recorded, CallStarted):
                now = await planner.on_call_started(recorded, context)
            elif isinstance(recorded, CallFinished):
                now = await planner.on_call_finished(recorded, context)
            if now.type == recorded.type or isinstance(now, CallStarted):
                # A call that would not start now is told with its result.
                planner.now.append(now)
        self._same(recorded if planner is not None and planner.lenient else now)

    async def flush(self, *, power_loss: bool = False) -> None:
        """Nothing to wait for; a run that was cancelled while it waited here is cancelled again."""
        if isinstance(self.next, RunFinished) and self.next.was_cancelled:
            raise asyncio.CancelledError

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

    async def exhausted_reason(self) -> str:
        """Why no further turn was paid for; empty where one was."""
        event = self.next
        if isinstance(event, RunFinished) and event.status == "limit" and event.error.startswith("budget "):
            return event.error
        return ""

    def policy_change(self) -> Mapping[str, str] | None:
        """The mode that decided from here on, where it was another one."""
        event = self.next
        if not isinstance(event, Notice) or POLICY not in event.detail:
            return None
        if self.planner is not None:
            self.planner.policy = ""  # What was decided from here on was decided by other rules.
        return event.detail[POLICY]

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
    return ("…" if start else "") + clip(text, start, at + 160) + ("…" if at + 160 < len(text) else "")
