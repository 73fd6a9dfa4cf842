"""agents_list: the agents that can be started by name."""

from __future__ import annotations

from pegboard.core.effects import PURE
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Inject
from pegboard.core.tool import tool
from pegboard.ports.sessions import SessionAccess


@tool(effects=PURE, hints=("which agents are there", "可用 Agent"))
async def agents_list(*, sessions: Inject[SessionAccess]) -> ToolResult:
    """List the agents: this one, and those that sessions_spawn and call_subagent can start by name."""
    specs = sessions.agents()
    mine = specs[0].model
    lines = [f"{s.name}  {s.description}".rstrip() for s in specs]
    data = [
        {"id": s.name, "name": s.name, "model": s.model or mine, "description": s.description} for s in specs
    ]
    return ToolResult.from_text("\n".join(lines), data={"agents": data})
