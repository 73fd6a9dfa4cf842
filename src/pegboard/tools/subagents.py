"""subagents: follow, steer and stop the subagents of this session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pegboard.core.effects import Effect
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.subagents import Subagents
from pegboard.tools.spawn import data_of


def effects_of_subagents(arguments: Mapping[str, Any]) -> list[Effect]:
    """Looking is free; a message and a stop reach an agent that was started here."""
    action, id = arguments.get("action", "list"), arguments.get("id") or ""
    if action in ("list", "log"):
        return []
    return [Effect("control", f"subagent:{id}:{action}", at_least="allow")]


@tool(
    touches=("control",), effects=effects_of_subagents, hints=("stop a subagent", "what do my subagents do")
)
async def subagents(
    action: Literal["list", "log", "steer", "stop"] = "list",
    id: Annotated[str, Alias("subagent", "task_id")] = "",
    message: Annotated[str, Alias("text")] = "",
    limit: int = 20,
    *,
    runs: Inject[Subagents],
) -> ToolResult:
    """Follow, steer or stop the subagents that this session has started.

    Args:
        action: list all; log what one has said and called; steer it with a message; stop it and all that it started.
        id: Which subagent, as spawn or list named it.
        message: For steer, what to tell it.
        limit: For log, how many lines.
    """
    if action == "list":
        found = await runs.list()
        lines = [f"{c.id}  {c.status}  {c.label or c.task.splitlines()[0][:60]}" for c in found]
        return ToolResult.from_text("\n".join(lines) or "No subagents.", data=[data_of(c) for c in found])
    if not id:
        raise InvalidArguments(f"{action} needs the id of a subagent", hint="The action list shows them.")
    if action == "log":
        lines = await runs.log(id, limit=limit)
        return ToolResult.from_text("\n".join(lines) or "Nothing yet.", data=lines)
    if action == "steer":
        if not message.strip():
            raise InvalidArguments("steer needs a message")
        child = await runs.steer(id, message)
        return ToolResult.from_text(f"Subagent {id} reads it before its next request.", data=data_of(child))
    child = await runs.stop(id)
    return ToolResult.from_text(f"Subagent {id}: {child.status}.", data=data_of(child))
