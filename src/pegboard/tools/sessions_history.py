"""sessions_history: what was said in a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from pegboard.core.effects import PURE
from pegboard.core.result import Notes, ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.sessions import SessionAccess, SessionEntry


@tool(effects=PURE, hints=("read another conversation", "会话历史"))
async def sessions_history(
    session: Annotated[str, Alias("sessionKey", "session_key", "key", "label")] = "",
    limit: Annotated[int, Field(ge=1, le=500)] = 50,
    *,
    sessions: Inject[SessionAccess],
) -> ToolResult:
    """Read the last messages of a session. Secrets are left out, and long texts are cut.

    Args:
        session: Key or label, as sessions_list shows it; this session by default.
        limit: How many messages.

    Raises:
        NotFound: there is no such session.
    """
    row = await sessions.find(session)
    history = await sessions.history(row.key, limit=limit)
    lines = [_line(entry) for entry in history.entries]
    if (before := history.total - len(lines)) > 0:
        lines.insert(0, f"[{before} earlier messages]")
    data = {
        "sessionKey": row.key,
        "messages": [_data(entry) for entry in history.entries],
        "total": history.total,
        "dropped": list(history.dropped),
    }
    result = ToolResult.from_text("\n".join(lines) or "No messages yet.", data=data)
    return replace(result, notes=Notes(labels=history.labels))


def _line(entry: SessionEntry) -> str:
    who = entry.role if entry.role == entry.by or not entry.by else f"{entry.role} ({entry.by})"
    return f"{who}: {entry.text}{f' [whole text: {entry.spill}]' if entry.spill else ''}"


def _data(entry: SessionEntry) -> dict[str, Any]:
    given = {"role": entry.role, "by": entry.by, "text": entry.text, "run": entry.run, "spill": entry.spill}
    return {k: v for k, v in given.items() if v}
