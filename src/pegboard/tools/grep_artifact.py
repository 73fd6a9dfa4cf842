"""grep_artifact: find a text in artifacts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pegboard.core.effects import PURE
from pegboard.core.params import Alias, Inject
from pegboard.core.result import ToolResult
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts


@tool(effects=PURE, hints=("search artifacts", "find text in an artifact"))
async def grep_artifact(
    pattern: Annotated[str, Field(min_length=1), Alias("query", "text")],
    id: Annotated[str | None, Alias("artifact_id", "artifactId", "name")] = None,
    ignore_case: Annotated[bool, Alias("ignoreCase")] = False,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    *,
    artifacts: Inject[Artifacts],
) -> ToolResult:
    """Find the lines of artifacts that contain a text, in their newest versions.

    Args:
        pattern: The text to look for, letter by letter.
        id: Only in this artifact.
        ignore_case: Whether upper and lower case are the same.
        limit: How many lines at most.

    Raises:
        NotFound: no such artifact.
    """
    hits = await artifacts.grep(pattern, id=id, ignore_case=ignore_case, limit=limit)
    lines = [f"{hit.id}:{hit.line}: {hit.text}" for hit in hits]
    return ToolResult.from_text(
        "\n".join(lines) or f"No line contains {pattern!r}.",
        data=[{"id": hit.id, "line": hit.line, "text": hit.text} for hit in hits],
    )
