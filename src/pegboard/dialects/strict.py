"""Tools with `strict: true`: those whose schema can be said so without losing anything."""

from __future__ import annotations

from typing import Any

from pegboard.core.strict import strict, strict_problem
from pegboard.dialects.protocol import ToolView
from pegboard.dialects.schemas import sendable


def strict_or_plain(tool: ToolView) -> tuple[dict[str, Any], str]:
    """The strict schema and no note, or the plain schema and why (cases schema-10, schema-19)."""
    plain = sendable(tool.schema)
    problem = strict_problem(plain)
    if problem:
        return plain, f"tool {tool.name!r} is sent without strict: {problem}"
    return strict(plain), ""
