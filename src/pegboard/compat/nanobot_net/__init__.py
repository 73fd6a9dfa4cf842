"""nanobot_net: NanoBot.Net's way: any function is a tool, middleware around calls, services, a run context."""

from __future__ import annotations

from pegboard.compat.nanobot_net.agents import (
    AgentRunContext,
    AIAgent,
    AIAgentBuilder,
    FunctionInvocationContext,
    as_ai_agent,
    current_run_context,
    middleware,
)
from pegboard.compat.nanobot_net.builtin import (
    CronTools,
    FileTools,
    MessageTools,
    ShellTools,
    SpawnTools,
    WebTools,
)
from pegboard.compat.nanobot_net.functions import (
    AIFunctionFactory,
    AIFunctionFactoryOptions,
    BrowserTool,
    create_tool,
)
from pegboard.compat.nanobot_net.mcp import (
    NanoBotMcpClient,
)
from pegboard.compat.nanobot_net.services import (
    DEFAULT_TOOLS,
    MESSAGE_BUS,
    NanoBotTools,
    ServiceCollection,
    ServiceProvider,
    WorkspaceManager,
    add_nanobot_tools,
    workspace_of,
)

__all__ = [
    "DEFAULT_TOOLS",
    "MESSAGE_BUS",
    "AIAgent",
    "AIAgentBuilder",
    "AIFunctionFactory",
    "AIFunctionFactoryOptions",
    "AgentRunContext",
    "BrowserTool",
    "CronTools",
    "FileTools",
    "FunctionInvocationContext",
    "MessageTools",
    "NanoBotMcpClient",
    "NanoBotTools",
    "ServiceCollection",
    "ServiceProvider",
    "ShellTools",
    "SpawnTools",
    "WebTools",
    "WorkspaceManager",
    "add_nanobot_tools",
    "as_ai_agent",
    "create_tool",
    "current_run_context",
    "middleware",
    "workspace_of",
]
