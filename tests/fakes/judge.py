"""A second model of mode `auto` that says what it is told to say, and keeps what it was shown."""

from __future__ import annotations

from collections.abc import Callable

from pegboard.core.policy.auto import Case, Judgement


class FakeJudge:
    """The worst case by default: a model that is fooled by everything and always says yes.

    Args:
        answer: gives its answer to a case; may raise.
    """

    def __init__(self, answer: Callable[[Case], Judgement] | None = None) -> None:
        self._answer = answer or (lambda _: Judgement(allow=True, reason="looks fine", model="fake"))
        self.cases: list[Case] = []

    async def judge(self, case: Case) -> Judgement:
        """See Judge."""
        self.cases.append(case)
        return self._answer(case)


def doubt(_: Case) -> Judgement:
    """An answer that is no yes."""
    return Judgement(allow=False, reason="not sure", model="fake")
