"""create_artifact: keep a new versioned text."""

from __future__ import annotations

from typing import Annotated

from pegboard.core.effects import PURE
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts

ArtifactId = Annotated[str, Alias("artifact_id", "name")]


@tool(effects=PURE, hints=("create an artifact", "start a document"))
async def create_artifact(
    id: ArtifactId,
    title: str,
    content: Annotated[str, Verbatim()],
    content_type: Annotated[str, Alias("type")] = "markdown",
    *,
    artifacts: Inject[Artifacts],
) -> ToolResult:
    """Create an artifact: a text of this session whose every version is kept.

    Use it for documents that grow over several turns. It is not a file; export_artifact makes one.

    Args:
        id: A new id of letters, digits, '.', '_' and '-'.
        title: What the artifact is called.
        content: The whole text.
        content_type: What the text is, for example markdown, python or text/html.

    Raises:
        Conflict: the id is taken.
    """
    made = await artifacts.create(id, title=title, content=content, content_type=content_type)
    return ToolResult.from_text(
        f"Created artifact '{id}' (version 1)", data={"id": id, "version": made.version}
    )
