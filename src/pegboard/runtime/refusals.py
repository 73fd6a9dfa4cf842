"""Refusals: calls that get their one result without reaching the executor (ledger K-49, M-67, G-09)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pegboard.core.call import ToolCall
from pegboard.core.errors import PermissionDenied, ToolError, UnknownTool
from pegboard.core.problems import short_name
from pegboard.core.result import ToolResult
from pegboard.core.toolkit import Toolkit
from pegboard.runtime.budget import BEYOND, Budget


def refused_calls(
    kit: Toolkit, calls: Sequence[ToolCall], budget: Budget | None, offered: Toolkit | None
) -> Mapping[str, ToolError]:
    """The calls of a turn that are refused, by id: tools that this model may not have, or beyond a limit.

    Args:
        kit: all tools.
        calls: of the turn.
        budget: what the run may still spend; calls that are not refused are counted.
        offered: the tools that the model may have; None = all.
    """
    out: dict[str, ToolError] = {}
    if offered is not None and offered is not kit:
        for call in calls:
            tool = kit.resolve(call.name)
            if tool is not None and tool.name not in offered:
                names = ", ".join(offered.names) or "none"
                out[call.id or ""] = UnknownTool(
                    f"Tool {short_name(call.name)} not found. Available: {names}",
                    hint="Call one of the available tools by its exact name.",
                )
    if budget is not None:

        def named(call: ToolCall) -> str:
            tool = kit.resolve(call.name)
            return call.name if tool is None else tool.name

        out |= budget.refused([c for c in calls if c.id not in out], named)
    return out


def used_up(call: ToolCall, over: str) -> PermissionDenied:
    return PermissionDenied(
        f"{call.name} did not run: the budget is used up ({over})", details={BEYOND: "budget"}
    )


def failed_call(call: ToolCall, error: ToolError) -> ToolResult:
    return replace(ToolResult.failed(error), call_id=call.id or "", tool=call.name)
