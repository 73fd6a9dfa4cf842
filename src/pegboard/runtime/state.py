"""RunState: one run while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pegboard.core.call.call import Turn
from pegboard.core.result import new_seed
from pegboard.core.transcript import Usage, UserMessage
from pegboard.runtime.budget import RunBudget


@dataclass(slots=True)
class RunState:
    """One run while it goes on.

    Attributes:
        id, session: its names.
        labels: taint labels gathered so far.
        usage, turns: spent so far.
        inbox: user messages that arrived while the run was busy.
        pending: what the run waits for when it is suspended.
        budget: what it may still spend, once its turns have begun.
        call_ids: ids that calls of this session have used.
        asked: what a person refused in it, until the person speaks again.
        spent_s: seconds that it took before it was taken up again.
        mark: what the ids around untrusted text come from; a run that is taken up again keeps its own.
    """

    id: str
    session: str
    labels: set[str] = field(default_factory=set[str])
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    inbox: list[UserMessage] = field(default_factory=list[UserMessage])
    pending: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    budget: RunBudget | None = None
    call_ids: set[str] = field(default_factory=set[str])
    asked: Turn = field(default_factory=Turn)
    spent_s: float = 0.0
    mark: str = field(default_factory=new_seed, repr=False)
