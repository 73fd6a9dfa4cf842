"""sessions_list: the sessions that this one may see, or what was said in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from pegboard.core.effects import PURE
from pegboard.core.result import Notes, ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.sessions import SessionAccess, SessionRow


@tool(effects=PURE, hints=("list conversations", "find an earlier conversation", "会话列表"))
async def sessions_list(
    filter: Literal["active", "all"] = "all",
    search: Annotated[str, Alias("query")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    *,
    sessions: Inject[SessionAccess],
) -> ToolResult:
    """List sessions, the last used first, or find what was said in them.

    Args:
        filter: active leaves out those that have not run within a day and have nothing waiting.
        search: Words; lists the messages of sessions in which all of them stand instead.
        limit: How many at most.
    """
    if search.strip():
        found = await sessions.search(search, limit=limit)
        lines = [f"{e.session}  {e.by or e.role}: {e.text}" for e in found]
        data = [{"sessionKey": e.session, "run": e.run, "role": e.role, "text": e.text} for e in found]
        # What stands there was written in other sessions, by whoever they talk to.
        text = "\n".join(lines) or f"No message has {search!r}."
        result = ToolResult.from_text(text, data={"matches": data})
        return replace(result, notes=Notes(labels=("untrusted",))) if found else result
    rows = await sessions.list(active=filter == "active", limit=limit)
    return ToolResult.from_text(
        "\n".join(line_of(row) for row in rows) or "No sessions.",
        data={"sessions": [data_of(r) for r in rows]},
    )


def data_of(row: SessionRow) -> dict[str, Any]:
    """What the tools tell programs of a session."""
    return {
        "sessionKey": row.key, "label": row.label, "agentId": row.agent, "lastActive": iso(row.last_active),
        "messageCount": row.messages, "status": row.status, "waiting": row.waiting, "parent": row.parent,
    }  # fmt: skip


def line_of(row: SessionRow) -> str:
    """A session in one line."""
    label = f" @{row.label}" if row.label else ""
    waiting = f", {row.waiting} waiting" if row.waiting else ""
    return f"{row.key}{label}  {row.status}{waiting}  {row.messages} messages  {iso(row.last_active)}"


def iso(at: float) -> str:
    """A time in UTC, empty for none."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
