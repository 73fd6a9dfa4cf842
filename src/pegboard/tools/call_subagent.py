"""call_subagent: have a subagent do a task, and wait for its answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pegboard.core.errors import Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.subagents import ChildRequest, Subagents
from pegboard.tools.spawn import data_of, effects_of_spawn


@tool(
    touches=("spawn",),
    effects=effects_of_spawn,
    idempotent=True,
    timeout_s=0,
    hints=("ask a subagent", "delegate a task"),
)
async def call_subagent(
    agent_name: Annotated[str, Alias("agent", "agentId", "agent_id")],
    instruction: Annotated[str, Field(min_length=1, pattern=r"\S"), Alias("task", "prompt")],
    fresh_start: bool = True,
    *,
    subagents: Inject[Subagents],
) -> ToolResult:
    """Have a subagent do a task and wait for its answer.

    Args:
        agent_name: Which agent; general does any task that can be done alone.
        instruction: What it is to do, complete: it sees nothing of this conversation.
        fresh_start: False goes on with the last conversation of that agent.
    """
    follow = ""
    if not fresh_start:
        earlier = [c for c in await subagents.list() if c.agent == agent_name and c.status == "done"]
        follow = earlier[-1].id if earlier else ""
    child = await subagents.start(
        ChildRequest(task=instruction, agent=agent_name, follow=follow, inline=True)
    )
    child = await subagents.wait(child.id)
    if child.status == "suspended":
        text = f"Subagent {child.id} waits for a person's approval; its report comes as a message."
        return ToolResult.from_text(text, data=data_of(child))
    if child.status != "done":
        raise Unavailable(
            f"the subagent {agent_name} has ended without an answer: {child.status}"
            f"{f' ({child.error})' if child.error else ''}{f'. It said: {child.answer}' if child.answer else ''}",
            hint="Do the task yourself, or give it in smaller parts.",
        )
    return ToolResult.from_text(child.answer, data=data_of(child))
