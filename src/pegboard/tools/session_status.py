"""session_status: what a session is doing."""

from __future__ import annotations

from typing import Annotated

from pegboard.core.effects import PURE
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.sessions import SessionAccess
from pegboard.tools.sessions_list import data_of, line_of


@tool(effects=PURE, hints=("is a session running", "会话状态"))
async def session_status(
    session: Annotated[str, Alias("sessionKey", "session_key", "key", "label")] = "",
    *,
    sessions: Inject[SessionAccess],
) -> ToolResult:
    """Show what a session is doing: running, suspended (it waits for a person), interrupted or idle.

    Args:
        session: Key or label, as sessions_list shows it; this session by default.

    Raises:
        NotFound: there is no such session.
    """
    row = await sessions.find(session)
    return ToolResult.from_text(line_of(row), data=data_of(row))
