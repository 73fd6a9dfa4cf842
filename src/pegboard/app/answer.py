"""Answer: what became of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pegboard.core.events import Event, RunFinished
from pegboard.core.transcript import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a run.

    Attributes:
        answer: the final text.
        output: the typed output where the agent has an `output` type, else None.
        status: done, suspended, limit or failed.
        pending: what a suspended run waits for.
        run_id: the run's id.
        usage: tokens and money.
        events: what happened, in order.
        error: why it failed, or which limit ended it; empty where it is done.
    """

    answer: str
    output: Any
    status: str
    pending: tuple[Mapping[str, Any], ...]
    run_id: str
    usage: Usage
    events: tuple[Event, ...] = field(repr=False)
    error: str = ""

    def __str__(self) -> str:
        return self.answer


def answer_of(finished: RunFinished, events: list[Event]) -> Answer:
    return Answer(
        answer=finished.answer,
        output=finished.output,
        status=finished.status,
        pending=finished.pending,
        run_id=finished.run,
        usage=finished.usage,
        events=tuple(events),
        error=finished.error,
    )
