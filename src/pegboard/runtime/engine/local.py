"""LocalEngine: the steps of a run in this process, over the events that its session keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar, cast

from pegboard.core.errors import Interrupted
from pegboard.core.events import CallFinished, Event, ModelReplied, Recorder
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.transcript import AssistantMessage
from pegboard.runtime.fold import History

E = TypeVar("E", bound=Event)


class LocalEngine:
    """An Engine of one process. What earlier processes did is in the fold of the session's events.

    Args:
        recorder: keeps the events.
        outcomes: the event of each step that has one.
        begun: ids of steps that had begun and have none.
        answers: what was answered, by the key that a call waits for.
        clock: the time.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        outcomes: Mapping[str, Event] | None = None,
        begun: Collection[str] = (),
        answers: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._recorder = recorder
        self._outcomes = dict(outcomes or {})
        self._begun = frozenset(begun)
        self._answers = answers or {}
        self._clock = clock or SystemClock()

    @classmethod
    def after(
        cls, history: History | None, recorder: Recorder, answers: Mapping[str, Any], clock: Clock
    ) -> LocalEngine:
        """The engine of a run that goes on from a history; None = it starts."""
        if history is None:
            return cls(recorder, answers=answers, clock=clock)
        outcomes: dict[str, Event] = {f"call:{id}": CallFinished(r) for id, r in history.done.items()}
        last = history.messages[-1] if history.messages else None
        if isinstance(last, AssistantMessage):
            outcomes[f"turn:{history.turns}"] = ModelReplied(last)
        # A program begins and then waits: it goes on where it stopped.
        known = history.done.keys() | history.waiting.keys()
        begun = {f"call:{id}" for id in history.started if id not in known}
        return cls(recorder, outcomes=outcomes, begun=begun, answers=answers, clock=clock)

    async def step(self, id: str, act: Callable[[], Awaitable[E]], *, idempotent: bool) -> E:
        """See Engine."""
        if (outcome := self._outcomes.pop(id, None)) is not None:
            return cast(E, outcome)
        if id in self._begun and not idempotent:
            raise Interrupted(f"the process ended while step {id} ran; it is unknown whether it took effect")
        outcome = await act()
        await self._recorder.flush()
        return outcome

    async def wait(self, key: str, *, deadline: float | None = None) -> Any | None:
        """See Engine. Answers come between two processes, so none is waited for here."""
        return self._answers.get(key)

    async def timer(self, id: str, at: float) -> None:
        """See Engine."""
        await asyncio.sleep(max(0.0, at - self._clock.now()))
