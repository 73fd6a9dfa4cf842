"""People: asking whoever sits at the other end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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


def question_text(questions: Sequence[Question]) -> str:
    """Questions as one text for a person who answers later: each with its options, numbered where there are several."""
    shown = [
        f"{q.text} ({' / '.join(q.options)}{'; several may be chosen' if q.multi_select else ''})"
        if q.options
        else q.text
        for q in questions
    ]
    return shown[0] if len(shown) == 1 else "\n".join(f"{n}. {text}" for n, text in enumerate(shown, 1))


def waiting_for(questions: Sequence[Question], key: str) -> Waiting:
    """What is kept where nobody answers now.

    Args:
        questions: those that are still open.
        key: id under which the answer comes.
    """
    one = len(questions) == 1
    detail: dict[str, Any] = {
        "question": questions[0].text if one else question_text(questions),
        "options": list(questions[0].options) if one else [],
    }
    return Waiting("question", key, None, detail)
