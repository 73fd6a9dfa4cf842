"""list_artifacts: what artifacts this session has."""

from __future__ import annotations

from pegboard.core.effects import PURE
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Inject
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts


@tool(effects=PURE, hints=("list artifacts", "which documents are there"))
async def list_artifacts(*, artifacts: Inject[Artifacts]) -> ToolResult:
    """List the artifacts of this session with title, type and newest version."""
    found = await artifacts.list()
    lines = [f"{a.id} (version {a.version}, {a.content_type}): {a.title}" for a in found]
    return ToolResult.from_text(
        "\n".join(lines) or "No artifacts.",
        data=[
            {
                "id": a.id,
                "version": a.version,
                "title": a.title,
                "content_type": a.content_type,
                "bytes": len(a.raw),
            }
            for a in found
        ],
    )
