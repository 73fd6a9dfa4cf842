"""spawn: start a subagent in the background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from pegboard.core.effects import Effect
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.subagents import Child, ChildRequest, Subagents

Task = Annotated[str, Field(min_length=1)]


def effects_of_spawn(arguments: Mapping[str, Any]) -> list[Effect]:
    """An agent starts; what it does is judged call by call, as if its parent did it."""
    agent = arguments.get("agent") or arguments.get("agent_name") or "general"
    return [Effect("spawn", str(agent), at_least="allow", unordered=True)]


def started(child: Child) -> ToolResult:
    """What the model reads when a subagent has been started."""
    name = f"Subagent [{child.label or child.id}] started (id: {child.id})."
    return ToolResult.from_text(f"{name} I'll notify you when it completes.", data=data_of(child))


def data_of(child: Child) -> dict[str, Any]:
    """A subagent as a result's data."""
    return {
        "id": child.id, "session": child.session, "agent": child.agent, "label": child.label,
        "status": child.status, "answer": child.answer, "error": child.error,
    }  # fmt: skip


@tool(
    touches=("spawn",),
    effects=effects_of_spawn,
    idempotent=True,
    hints=("start a subagent", "do this in the background", "work on it in parallel"),
    example={"task": "List the open questions in notes/", "label": "questions"},
)
async def spawn(
    task: Annotated[Task, Alias("prompt", "instruction")],
    label: str = "",
    agent: Annotated[str, Alias("agent_name", "agentId", "agent_id")] = "",
    fork: bool = False,
    follow: str = "",
    *,
    subagents: Inject[Subagents],
) -> ToolResult:
    """Start a subagent that works on a task in the background, and go on with your own work.

    Its report comes as a message. Use it for work that can be done alone and takes long; for an answer
    that you need now, use call_subagent.

    Args:
        task: What it is to do, complete: it sees nothing of this conversation.
        label: A short name for it.
        agent: Which agent; empty is a general one.
        fork: Show it this conversation too.
        follow: Id of a subagent that has ended, to go on with its conversation.
    """
    request = ChildRequest(task=task, label=label, agent=agent, fork=fork, follow=follow)
    return started(await subagents.start(request))
