"""taking_up: what becomes of each call that an ended process left open, or that waited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pegboard.core.content import ToolCall
from pegboard.core.policy.approval import Refused
from pegboard.core.result import ToolResult
from pegboard.core.toolkit import Toolkit
from pegboard.runtime.answers import answered_result, lost_secret
from pegboard.runtime.refusals import failed_call, over_limit_error
from pegboard.runtime.transcripts import History, interrupted


@dataclass(slots=True)
class OpenCalls:
    """The open calls of a history, parted.

    Attributes:
        results: those that have their result now, in call order.
        again: those that run now.
        pending: what the others go on waiting for.
    """

    results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list[tuple[ToolCall, ToolResult]])
    rerun: list[ToolCall] = field(default_factory=list[ToolCall])
    pending: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def split_calls(history: History, toolkit: Toolkit, answers: Mapping[str, Any]) -> OpenCalls:
    """Part the open calls; nothing is run or recorded.

    Args:
        history: as the stream tells it.
        kit: says which tools may run twice.
        answers: what was answered to calls that waited, by the key that they wait for.
    """
    out = OpenCalls()
    for call in history.open_calls:
        waiting = history.waiting.get(call.id or "")
        if history.over:
            # A call in spite of the last word's being without tools.
            out.results.append((call, failed_call(call, over_limit_error(call, history.over))))
        elif waiting is not None and waiting.error is not None:
            details = waiting.error.details
            if details.get("kind") == "approval":
                asked = history.requests.get(call.id or "")
                said_no = asked is not None and isinstance(answers.get(asked.approval), Refused)
                _run(call, out, refused=said_no)
            elif details.get("pending") in answers:
                out.results.append(
                    (call, answered_result(call.id or "", waiting.tool, answers[details["pending"]]))
                )
            else:
                out.pending.append({**details, "call_id": call.id, "tool": waiting.tool})
        elif call.id in history.started and not _repeatable(call, toolkit):
            out.results.append((call, interrupted(call, history.started)))
        else:
            _run(call, out)
    return out


def _run(call: ToolCall, out: OpenCalls, *, refused: bool = False) -> None:
    """Let it run, unless a secret that it was sent with is not in the record; a refused one needs none."""
    lost = None if refused else lost_secret(call)
    if lost is None:
        out.rerun.append(call)
    else:
        out.results.append((call, failed_call(call, lost)))


def _repeatable(call: ToolCall, toolkit: Toolkit) -> bool:
    found = toolkit.resolve(call.name)
    return found is not None and found.idempotent
