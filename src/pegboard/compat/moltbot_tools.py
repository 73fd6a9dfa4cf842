"""Moltbot's built-in tools as classes: `BrowserTool()` is what `create_browser_tool()` makes, with the document's execute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.compat.builtin import BuiltinTool
from pegboard.dialects.mcp import call_result


class _Moltbot(BuiltinTool):
    """A tool of ours as Moltbot makes and calls it; see BuiltinTool for its arguments."""

    profile = "moltbot"

    async def execute(  # pyright: ignore[reportIncompatibleMethodOverride]  The document's shape.
        self, tool_call_id: str, params: Mapping[str, Any], signal: Any = None, on_update: Any = None
    ) -> dict[str, Any]:
        """One call through the policy: `{content, isError, details}`, of a failure too.

        Args:
            tool_call_id: the model's id of the call; the record has its own.
            params: the tool's parameters.
            signal, on_update: taken as the document has them, and not used.
        """
        result = await self.call(**params)
        return {**call_result(result), "details": result.data}


class BrowserTool(_Moltbot):
    """`browser`."""

    tool = "browser"


class CanvasTool(_Moltbot):
    """`canvas`."""

    tool = "canvas"


class NodesTool(_Moltbot):
    """`nodes`."""

    tool = "nodes"


class CronTool(_Moltbot):
    """`cron`."""

    tool = "cron"


class MessageTool(_Moltbot):
    """`message`."""

    tool = "message"


class GatewayTool(_Moltbot):
    """`gateway`."""

    tool = "gateway"


class AgentsListTool(_Moltbot):
    """`agents_list`."""

    tool = "agents_list"


class SessionsListTool(_Moltbot):
    """`sessions_list`."""

    tool = "sessions_list"


class SessionsHistoryTool(_Moltbot):
    """`sessions_history`."""

    tool = "sessions_history"


class SessionsSendTool(_Moltbot):
    """`sessions_send`."""

    tool = "sessions_send"


class SessionsSpawnTool(_Moltbot):
    """`sessions_spawn`."""

    tool = "sessions_spawn"


class SessionStatusTool(_Moltbot):
    """`session_status`."""

    tool = "session_status"


class WebSearchTool(_Moltbot):
    """`web_search`."""

    tool = "web_search"


class WebFetchTool(_Moltbot):
    """`web_fetch`."""

    tool = "web_fetch"


class ImageTool(_Moltbot):
    """`image`."""

    tool = "image"


class TtsTool(_Moltbot):
    """`tts`."""

    tool = "tts"


class ExecTool(_Moltbot):
    """`exec`."""

    tool = "exec"


class ProcessTool(_Moltbot):
    """`process`."""

    tool = "process"


class ApplyPatchTool(_Moltbot):
    """`apply_patch`."""

    tool = "apply_patch"
