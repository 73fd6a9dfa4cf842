"""Mode `auto`: what a second model is shown of a call that asks, and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pegboard.core.transcript import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call that asks, as the second model is shown it. It holds no result of a tool.

    Attributes:
        session, run: where the call runs.
        user_text: what the user typed in the session, and nothing else.
        call: the thing that is judged, JSON-able: tool, arguments, effects, the rule that asks, file changes.
    """

    session: str
    run: str
    user_text: str
    call: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the second model says.

    Attributes:
        allow: False = a person decides.
        reason: one sentence; if there was no answer, why not.
        model: which model it is.
        usage: what the answer took.
    """

    allow: bool
    reason: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)


class Judge(Protocol):
    """The second model."""

    async def judge(self, case: Case) -> Judgement:
        """Its answer. If it fails, the answer does not allow the call."""
        ...
