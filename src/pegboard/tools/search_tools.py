"""search_tools: find a tool among those whose schemas are not shown."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from pegboard.core.content import Text
from pegboard.core.effects import PURE
from pegboard.core.errors import NotFound
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.tool_search import FoundTool, ToolSearch

_SELECT = "select:"


@tool(
    effects=PURE,
    idempotent=True,
    hints=("find a tool", "which tool can", "查找工具"),
    example={"query": "current weather of a city"},
)
async def search_tools(
    query: Annotated[str, Field(min_length=1), Alias("q", "search", "text")],
    limit: Annotated[int, Field(ge=1, le=20), Alias("count", "max_results")] = 5,
    *,
    catalogue: Inject[ToolSearch],
) -> ToolResult:
    """Find tools by what you want to do, in any language. There are more tools than your list shows.

    The answer has each tool's name, description and parameters; call it with call_tool.

    Args:
        query: What the tool should do, in a few words; or `select:NAME,NAME` for tools that you know.
        limit: How many tools at most.
    """
    if query.startswith(_SELECT):
        names = [n.strip() for n in query.removeprefix(_SELECT).split(",") if n.strip()]
        found = list(catalogue.select(names))
        if not found:
            near = [n for name in names for n in catalogue.nearest(name)]
            raise NotFound(
                f"no tool is named {', '.join(names) or 'that'}",
                hint=f"Did you mean {', '.join(near)}?" if near else "Search by what the tool should do.",
            )
    else:
        found = list(catalogue.search(query, limit=limit))
        if not found:
            raise NotFound(
                f"no tool matches {query!r}", hint="Rephrase the query, or continue without the tool."
            )
    text = "\n\n".join(_shown(t) for t in found)
    data = [
        {"name": t.name, "description": t.description, "parameters": dict(t.parameters), "score": t.score}
        for t in found
    ]
    return ToolResult(content=(Text(text),), data={"tools": data})


def _shown(found: FoundTool) -> str:
    parameters = json.dumps(found.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"{found.name}: {found.description}\nparameters: {parameters}"
