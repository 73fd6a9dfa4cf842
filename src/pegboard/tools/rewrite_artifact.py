"""rewrite_artifact: a new version with other content."""

from __future__ import annotations

from typing import Annotated

from pegboard.core.effects import PURE
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts


@tool(effects=PURE, hints=("rewrite an artifact", "replace an artifact"))
async def rewrite_artifact(
    id: Annotated[str, Alias("artifact_id", "name")],
    content: Annotated[str, Verbatim()],
    title: str | None = None,
    expected_version: int | None = None,
    *,
    artifacts: Inject[Artifacts],
) -> ToolResult:
    """Replace the whole content of an artifact; older versions are kept.

    Args:
        id: The artifact.
        content: The whole new text.
        title: A new title; by default it stays.
        expected_version: Refuse if the newest version is another one.

    Raises:
        NotFound: no such artifact.
        Conflict: the newest version is not the expected one; what changed is shown.
    """
    made = await artifacts.rewrite(id, content=content, title=title, expected_version=expected_version)
    return ToolResult.from_text(
        f"Rewrote artifact '{id}' (version {made.version})", data={"id": id, "version": made.version}
    )
