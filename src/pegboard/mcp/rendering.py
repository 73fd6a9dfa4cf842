"""Shapes: tools, results and pages as the protocol writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pegboard.core.result import ToolResult, to_jsonable
from pegboard.core.schema.json_schema import modern
from pegboard.core.tool import Tool
from pegboard.dialects.mcp import call_result
from pegboard.mcp.request_context import Json, RequestContext
from pegboard.mcp.wire import INVALID_PARAMS, RpcError

PAGE: Final = 200
_CACHE_MS: Final = 60_000
_CHANGING: Final = frozenset(
    {"write", "delete", "exec", "send", "spawn", "schedule", "spend", "control", "call"}
)


def render_tool(tool: Tool) -> Json:
    """A tool as `tools/list` shows it: schemas, and annotations derived from its kinds of effect."""
    out: Json = {
        "name": tool.name,
        "description": tool.description or tool.name,
        "inputSchema": dict(modern(tool.schema)),
    }
    output = tool.output_schema
    if output is not None and output.get("type") == "object":
        out["outputSchema"] = dict(modern(output))
    out["annotations"] = hints_of(tool)
    return out


def hints_of(tool: Tool) -> Json:
    """What a tool's kinds of effect say, as the protocol's hints."""
    kinds = set(tool.kinds())
    unknown = tool.effects is not None and callable(tool.effects) and not kinds
    changes = bool(kinds & _CHANGING) or unknown
    out: Json = {
        "readOnlyHint": not changes,
        "openWorldHint": bool(kinds & {"connect", "send", "call", "exec"}) or unknown,
    }
    if changes:
        out["destructiveHint"] = (
            bool(kinds & {"delete", "exec", "write", "control", "call", "spend"}) or unknown
        )
        # Of these, only a call that comes again under its id has no further effect.
        out["idempotentHint"] = tool.idempotent and not kinds & {"send", "spawn"}
    return out


def render_result(tool: Tool, result: ToolResult) -> Json:
    """A CallToolResult with structured content where the tool declares it."""
    out = call_result(result)
    output = tool.output_schema
    if result.ok and output is not None and output.get("type") == "object" and result.data is not None:
        out["structuredContent"] = to_jsonable(result.data)
    return out


def cached(scope: str) -> Json:
    """How long and by whom an answer of the stateless era may be kept: public lists a minute, private ones not."""
    return {"ttlMs": _CACHE_MS if scope == "public" else 0, "cacheScope": scope}


def paged(key: str, rows: Sequence[Any], following: str | None, ctx: RequestContext, scope: str) -> Json:
    """A page of a list; the stateless era's with its cache hints."""
    out: Json = {key: [dict(r) for r in rows]}
    if following is not None:
        out["nextCursor"] = following
    return {**out, **cached(scope)} if ctx.modern else out


def page_of(rows: Sequence[Any], cursor: Any) -> tuple[Sequence[Any], str | None]:
    """The rows behind a cursor, and the cursor of the next page.

    Raises:
        RpcError: the cursor is none of ours.
    """
    if cursor is None:
        start = 0
    elif isinstance(cursor, str) and cursor.isdecimal() and int(cursor) <= len(rows):
        start = int(cursor)
    else:
        raise RpcError(INVALID_PARAMS, "the cursor is not one of this server's")
    end = start + PAGE
    return rows[start:end], str(end) if end < len(rows) else None
