"""People: asking whoever sits at the other end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pegboard.core.policy.approval import Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question.

    Attributes:
        text: the question.
        options: 0 or 2..4 suggested answers; free text is always accepted.
        multi_select: whether several options may be chosen.
        timeout_s: how long to wait.
    """

    text: str
    options: tuple[str, ...] = ()
    multi_select: bool = False
    timeout_s: float = 900.0


class People(Protocol):
    """Whoever can answer a question now or later."""

    async def ask(self, questions: Sequence[Question]) -> Sequence[str] | Waiting:
        """The answers in order, or Waiting when nobody can answer now."""
        ...
