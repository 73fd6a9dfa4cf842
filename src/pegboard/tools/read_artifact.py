"""read_artifact: any version of an artifact, whole or in part."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pegboard.core.effects import PURE
from pegboard.core.params import Alias, Inject
from pegboard.core.result import ToolResult
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts


@tool(effects=PURE, hints=("read an artifact", "show an older version"))
async def read_artifact(
    id: Annotated[str, Alias("artifact_id", "artifactId", "name")],
    version: Annotated[int, Field(ge=1)] | None = None,
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1)] = 2000,
    compare_with: Annotated[int, Field(ge=1)] | None = None,
    *,
    artifacts: Inject[Artifacts],
) -> ToolResult:
    """Read an artifact, its newest version by default.

    Args:
        id: The artifact.
        version: Which version.
        offset: First line, counted from 1.
        limit: How many lines at most.
        compare_with: Show the diff from this version instead of the text.

    Raises:
        NotFound: no such artifact or version.
    """
    found = await artifacts.read(id, version)
    data = {"id": id, "version": found.version, "title": found.title, "content_type": found.content_type}
    if compare_with is not None:
        diff = await artifacts.diff(id, compare_with, found.version)
        return ToolResult.from_text(diff or "(no difference)", data={**data, "diff": diff})
    lines = found.content.split("\n")
    text = "\n".join(lines[offset - 1 : offset - 1 + limit])
    if offset > len(lines):
        text = f"(the artifact has {len(lines)} lines)"
    elif offset - 1 + limit < len(lines):
        text += (
            f"\n\n[lines {offset}-{offset - 1 + limit} of {len(lines)}; go on with offset={offset + limit}]"
        )
    return ToolResult.from_text(text, data={**data, "content": found.content, "lines": len(lines)})
