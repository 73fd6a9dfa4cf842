"""Refusals: calls that get their one result without reaching the executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pegboard.core.content import ToolCall
from pegboard.core.errors import InvalidArguments, PermissionDenied, ToolError, UnknownTool
from pegboard.core.result import ToolResult
from pegboard.core.schema.problems import short_name
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, StopReason
from pegboard.runtime.budget import BEYOND, RunBudget

_STOPPED: Final[Mapping[StopReason, str]] = {
    "refusal": "refusal", "filtered": "content filter", "error": "error",
}  # fmt: skip


def truncated_calls(message: AssistantMessage) -> Mapping[str, ToolError]:
    """The calls of an answer that its provider did not let finish, by id: what is not whole does not run.

    Arguments that are cut inside are seen where they are decoded. A call that was cut before its first argument
    looks like one without any, and those of an answer that was stopped for what it says are not the model's word.
    """
    if message.stop in _STOPPED:
        return {
            call.id or "": PermissionDenied(
                f"{call.name} did not run: the model's provider stopped this answer ({_STOPPED[message.stop]})",
                hint="Answer without it, or call again with what is needed alone.",
            )
            for call in message.calls
        }
    last = message.content[-1] if message.content else None
    if message.stop == "length" and isinstance(last, ToolCall) and not _given(last):
        return {
            last.id or "": InvalidArguments(
                f"{last.name} did not run: the answer was cut off by the output limit before its arguments",
                hint="Send the call again whole; write long content in smaller pieces.",
            )
        }
    return {}


def _given(call: ToolCall) -> bool:
    # `{}` as text is a whole object; as a value it is what readers put where nothing came.
    return bool(call.arguments.strip()) if isinstance(call.arguments, str) else bool(call.arguments)


def refused_calls(
    toolkit: Toolkit,
    calls: Sequence[ToolCall],
    budget: RunBudget | None,
    offered: Toolkit | None,
    broken: Mapping[str, ToolError],
) -> Mapping[str, ToolError]:
    """The calls of a turn that are refused, by id: tools that this model may not have, beyond a limit, or
    not whole.

    Args:
        kit: all tools.
        calls: of the turn.
        budget: what the run may still spend; calls that are not refused are counted.
        offered: the tools that the model may have; None = all.
        broken: those that are not whole; they are not counted.
    """
    out: dict[str, ToolError] = {c.id or "": broken[c.id or ""] for c in calls if c.id in broken}
    if offered is not None and offered is not toolkit:
        for call in calls:
            tool = toolkit.resolve(call.name)
            if tool is not None and tool.name not in offered and call.id not in out:
                names = ", ".join(offered.names) or "none"
                out[call.id or ""] = UnknownTool(
                    f"Tool {short_name(call.name)} not found. Available: {names}",
                    hint="Call one of the available tools by its exact name.",
                )
    if budget is not None:

        def named(call: ToolCall) -> str:
            tool = toolkit.resolve(call.name)
            return call.name if tool is None else tool.name

        out |= budget.over_limit([c for c in calls if c.id not in out], named)
    return out


def over_limit_error(call: ToolCall, over: str) -> PermissionDenied:
    return PermissionDenied(
        f"{call.name} did not run: the budget is used up ({over})", details={BEYOND: "budget"}
    )


def failed_call(call: ToolCall, error: ToolError) -> ToolResult:
    return replace(ToolResult.failed(error), call_id=call.id or "", tool=call.name)
