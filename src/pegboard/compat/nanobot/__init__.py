"""nanobot: tools and registries as the two Nanobots write them, called 000 and 001 here as in the guide.

000's `Tool` (properties and `execute`) and 001's `BaseTool` (class attributes and `run`) register side by
side; each is told about failures in its own document's words.
"""

from __future__ import annotations

from pegboard.compat.messages import OutboundMessage
from pegboard.compat.nanobot import context
from pegboard.compat.nanobot.builtin import (
    AskUserTool,
    CronTool,
    EditFileTool,
    ExecTool,
    GlobTool,
    ListDirTool,
    MCPManager,
    MessageTool,
    ReadFileTool,
    SandboxedExecTool,
    ScheduleTaskTool,
    WebFetchTool,
    WebSearchTool,
    WriteFileTool,
    connect_mcp_servers,
)
from pegboard.compat.nanobot.context import ContextAware, current_origin, set_context, start_turn
from pegboard.compat.nanobot.mcp import MCPToolWrapper
from pegboard.compat.nanobot.registry import ToolCallRequest, ToolRegistry, tool_registry
from pegboard.compat.nanobot.safety import AgentHook, SafetyHook
from pegboard.compat.nanobot.subagents import SpawnTool, SubagentManager
from pegboard.compat.nanobot.tools import BaseTool, Tool
from pegboard.core.errors import ToolExecutionDenied, ToolNotFoundError
from pegboard.core.result import HINT as _HINT

__all__ = [
    "_HINT",
    "AgentHook",
    "AskUserTool",
    "BaseTool",
    "ContextAware",
    "CronTool",
    "EditFileTool",
    "ExecTool",
    "GlobTool",
    "ListDirTool",
    "MCPManager",
    "MCPToolWrapper",
    "MessageTool",
    "OutboundMessage",
    "ReadFileTool",
    "SafetyHook",
    "SandboxedExecTool",
    "ScheduleTaskTool",
    "SpawnTool",
    "SubagentManager",
    "Tool",
    "ToolCallRequest",
    "ToolExecutionDenied",
    "ToolNotFoundError",
    "ToolRegistry",
    "WebFetchTool",
    "WebSearchTool",
    "WriteFileTool",
    "connect_mcp_servers",
    "context",
    "current_origin",
    "set_context",
    "start_turn",
    "tool_registry",
]
