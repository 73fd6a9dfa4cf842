"""read_artifact: any version of an artifact, by pages; a picture as a picture."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from pegboard.core.content import Image, Text
from pegboard.core.effects import PURE
from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.text import page, slice_text
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts, Version
from pegboard.ports.documents import Documents

_PAGE_CHARS: Final = 9_500


@tool(effects=PURE, hints=("read an artifact", "show an older version"))
async def read_artifact(
    id: Annotated[str, Alias("artifact_id", "name")],
    version: Annotated[int, Field(ge=1)] | None = None,
    offset: Annotated[int | None, Alias("start_line")] = None,
    limit: Annotated[int, Field(ge=1)] = 2000,
    compare_with: Annotated[int, Field(ge=1)] | None = None,
    *,
    artifacts: Inject[Artifacts],
    documents: Inject[Documents | None] = None,
) -> ToolResult:
    """Read an artifact, its newest version by default.

    A long text comes in pages of whole lines; the last line of the answer says how to go on. A picture is
    shown as one.

    Args:
        id: The artifact.
        version: Which version.
        offset: First line, counted from 1; -N starts at the N-th last line.
        limit: How many lines at most.
        compare_with: Show the diff from this version instead of the text.

    Raises:
        NotFound: no such artifact or version.
    """
    found = await artifacts.read(id, version)
    data: dict[str, Any] = {
        "id": id,
        "version": found.version,
        "title": found.title,
        "content_type": found.content_type,
    }
    if compare_with is not None:
        diff = await artifacts.diff(id, compare_with, found.version)
        return ToolResult.from_text(diff or "(no difference)", data={**data, "diff": diff})
    if found.data is not None:
        return await _bytes(found, found.data, data, documents)
    if offset == 0:
        raise InvalidArguments("offset is 0, but lines count from 1", hint="Use offset=1 for the first line.")
    lines = slice_text(found.content, offset or 1, limit)
    shown = page(lines, numbered=False, most=_PAGE_CHARS)
    data |= {"content": found.content, "lines": lines.total, "first": shown.first, "last": shown.last}
    if not shown.last:
        text = f"(the artifact has {lines.total} lines)" if lines.total else "(the artifact is empty)"
        return ToolResult.from_text(text, data=data)
    return ToolResult.from_text(shown.view, data=data)


async def _bytes(
    found: Version, content: bytes, facts: dict[str, Any], documents: Documents | None
) -> ToolResult:
    """A picture as a block, downscaled where a reader is there; other bytes by what they are."""
    facts |= {"bytes": len(content)}
    if not found.content_type.startswith("image/"):
        text = f"[{found.content_type}, {len(content)} bytes; export_artifact writes it to a file]"
        return ToolResult.from_text(text, data=facts)
    picture, text = Image(data=content, mime_type=found.content_type, label=found.title), ""
    if documents is not None:
        try:
            read = await documents.read("image", content)
        except Unsupported as refusal:
            text = f"[{found.content_type}, {len(content)} bytes] {refusal.message}"
            return ToolResult.from_text(text, data=facts)
        picture, text = read.image or picture, read.text
    return ToolResult(content=(Text(f"[{text or found.title}]"), picture), data=facts)
