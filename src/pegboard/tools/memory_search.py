"""memory_search: find notes that earlier sessions have kept."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import tool
from pegboard.ports.memory import Memory
from pegboard.tools.memory_read import effects_of_read, labelled

_SHOWN: Final = 200
"""Characters of an entry's text in the list."""


@tool(effects=effects_of_read, touches=("read",), idempotent=True, hints=("search memory", "find a note"))
async def memory_search(
    query: Annotated[str, Field(max_length=500), Alias("text", "words")] = "",
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    *,
    memory: Inject[Memory],
) -> ToolResult:
    """Find notes that earlier sessions in this workspace have kept, by words; without words it lists the newest.

    Args:
        query: Words that the note holds.
        limit: Maximum number of notes.
    """
    found = list(memory.search(query, limit=limit))
    lines = [f"{e.name}: {' '.join(clip(e.text, 0, _SHOWN).split())}" for e in found]
    data = {"entries": [{"name": e.name, "labels": sorted(e.labels)} for e in found]}
    return labelled("\n".join(lines) or "No notes found.", found, data)
