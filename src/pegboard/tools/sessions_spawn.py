"""sessions_spawn: start a subagent in a session of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.subagents import ChildRequest, Subagents
from pegboard.tools.spawn import data_of, effects_of_spawn


@tool(touches=("spawn",), effects=effects_of_spawn, idempotent=True, hints=("start an agent session",))
async def sessions_spawn(
    prompt: Annotated[str, Field(min_length=1), Alias("task", "message")],
    thinking: Literal["low", "medium", "high"] | None = None,
    agent: Annotated[str, Alias("agentId", "agent_id", "agent_name")] = "",
    label: str = "",
    fork: bool = False,
    *,
    subagents: Inject[Subagents],
) -> ToolResult:
    """Start an agent in a session of its own, in the background. Its report comes as a message.

    Args:
        prompt: What it is to do, complete.
        thinking: How much it should think.
        agent: Which agent, as agents_list names it; empty is a general one.
        label: A short name for it.
        fork: Show it this conversation too.
    """
    task = prompt if thinking is None else f"{prompt}\n\n(Think with {thinking} effort.)"
    child = await subagents.start(ChildRequest(task=task, label=label, agent=agent, fork=fork))
    text = f"Started session {child.session} (id: {child.id}). Its report comes as a message."
    return ToolResult.from_text(text, data={**data_of(child), "sessionKey": child.session})
