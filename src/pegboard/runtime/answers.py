"""Answers: what people said to questions of a run that had been put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pegboard.core.content import Text, ToolCall
from pegboard.core.errors import Conflict
from pegboard.core.events import PermissionRequested
from pegboard.core.policy.approval import (
    Answer,
    ApprovalRequest,
    Approver,
    AskAll,
    Refused,
    Waiting,
    answer_of,
    ask_all,
    decide_all_of,
)
from pegboard.core.result import ToolResult
from pegboard.core.secrets.redact import has_redaction_mark


class AnsweredApprover:
    """Gives the kept answers; whoever else is there answers the rest.

    A yes holds for what was shown: where the call would now do something else it is void.

    Args:
        requests: what was asked, by call id.
        answers: what was answered, by approval id.
        other: answers what nobody has answered yet; None = such a call goes on waiting.
    """

    def __init__(
        self,
        requests: Mapping[str, PermissionRequested],
        answers: Mapping[str, Any],
        other: Approver | None = None,
    ) -> None:
        self._requests = dict(requests)
        self._answers = answers
        self._other = other

    async def decide(self, request: ApprovalRequest) -> Answer | str:
        """The kept answer, void where the call's digest is another one now."""
        if (kept := self._kept(request)) is not None:
            return kept
        if self._other is not None:
            return await self._other.decide(request)
        asked = self._requests.get(request.call.id or "")
        return Waiting("approval", request.id if asked is None else asked.approval)

    @property
    def decide_all(self) -> AskAll | None:
        """The answers to a list; None if whoever answers the rest takes none."""
        other = self._other
        if other is None or decide_all_of(other) is None:
            return None

        async def ask(requests: Sequence[ApprovalRequest]) -> list[Answer]:
            kept = [self._kept(r) for r in requests]
            rest = iter(await ask_all(other, [r for r, k in zip(requests, kept, strict=True) if k is None]))
            return [next(rest) if k is None else k for k in kept]

        return ask

    def _kept(self, request: ApprovalRequest) -> Answer | None:
        asked = self._requests.get(request.call.id or "")
        if asked is None or asked.approval not in self._answers:
            return None
        answer = answer_of(self._answers[asked.approval])
        if not isinstance(answer, Refused) and asked.digest != request.digest:
            return Refused(
                "what it would do has changed since it was approved, so that approval is void", by="pegboard"
            )
        return answer


def answered_result(call_id: str, tool: str, answer: Any) -> ToolResult:
    """The result of a call that waited for an answer: the answer itself; its function is not run again."""
    text = answer if isinstance(answer, str) else str(answer)
    return ToolResult(content=(Text(text),), data=answer, call_id=call_id, tool=tool)


VOID: Final = "void"
"""Key in the details of an error: what made an approval of the call void before anybody looked at the answer."""


def lost_secret(call: ToolCall) -> Conflict | None:
    """Why a call cannot be done from its record: that keeps no secrets, and a mark is not what was shown."""
    if not has_redaction_mark(call.arguments):
        return None
    return Conflict(
        f"{call.name} did not run: its arguments held a secret, which the record of this run does not keep, so an "
        "approval of it is void",
        hint="Make the call again with the secret itself, or better with secret://NAME.",
        details={VOID: "secret"},
    )
