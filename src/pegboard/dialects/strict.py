"""Tools with `strict: true`: those whose schema can be said so without losing anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.core.schema.json_schema import pointer, rewrite, strict, strict_problem
from pegboard.dialects.protocol import ToolView
from pegboard.dialects.schemas import sendable


def strict_or_plain(tool: ToolView) -> tuple[dict[str, Any], str]:
    """The strict schema and no note, or the plain schema and why."""
    plain = sendable(tool.schema)
    problem = strict_problem(plain)
    made = plain if problem else strict(plain)
    problem = problem or _lost_reference(made)
    return (plain, f"tool {tool.name!r} is sent without strict: {problem}") if problem else (made, "")


def _lost_reference(schema: Mapping[str, Any]) -> str:
    """What is said of a reference to a place that the strict form has not; empty without one."""
    lost: list[str] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node and pointer({"$ref": node["$ref"]}, schema) is True:
            lost.append(f"it refers to {node['$ref']!r}, for which strict has no place")
        return node

    rewrite(schema, look)
    return lost[0] if lost else ""
