"""Pegboard: the tool runtime for AI agents.

Every call is known by its effects before it runs, so it can be previewed, permitted, sandboxed,
journalled, undone, replayed and proved. The names below are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pegboard.version import VERSION

if TYPE_CHECKING:
    from pegboard.app import Agent, Answer, Executor, builtin, run_sync
    from pegboard.app.servers import MCPServer
    from pegboard.core.call.call import Invocation, Preview
    from pegboard.core.content import Audio, File, Image, NewArtifact, Text, ToolCall
    from pegboard.core.context import Context, current_context
    from pegboard.core.effects import PURE, Change, ChangeSet, Effect, Plan
    from pegboard.core.errors import (
        BuildError,
        ConfigError,
        ModelError,
        PegboardError,
        ToolError,
        ToolNotFoundError,
    )
    from pegboard.core.limits import Limits
    from pegboard.core.policy.approval import (
        AllowOnce,
        ApprovalRequest,
        Approved,
        CallbackApprover,
        DenyAll,
        Refused,
        SuspendAll,
        Waiting,
    )
    from pegboard.core.policy.policy import Policy
    from pegboard.core.policy.rules import Rule
    from pegboard.core.result import ToolResult
    from pegboard.core.schema.annotations import (
        Alias,
        Command,
        DeletePath,
        Inject,
        ReadPath,
        Recipient,
        Url,
        WritePath,
    )
    from pegboard.core.tool import Tool, ValidCall, tool
    from pegboard.core.toolkit import Registry, Toolkit
    from pegboard.interop.hooks import Hook

__version__ = VERSION

_WHERE = {
    "pegboard.app.agent": ("Agent", "Answer"),
    "pegboard.app.builtins": ("builtin", "run_sync"),
    "pegboard.app.executor": ("Executor",),
    "pegboard.app.servers": ("MCPServer",),
    "pegboard.core.call.call": ("Invocation", "Preview"),
    "pegboard.core.content": ("Audio", "File", "Image", "NewArtifact", "Text", "ToolCall"),
    "pegboard.core.context": ("Context", "current_context"),
    "pegboard.core.effects": ("Change", "ChangeSet", "Effect", "PURE", "Plan"),
    "pegboard.core.errors": (
        "BuildError", "ConfigError", "ModelError", "PegboardError", "ToolError", "ToolNotFoundError",
    ),
    "pegboard.core.limits": ("Limits",),
    "pegboard.core.policy.approval": (
        "AllowOnce", "ApprovalRequest", "Approved", "CallbackApprover", "DenyAll", "Refused", "SuspendAll", "Waiting",
    ),
    "pegboard.core.policy.policy": ("Policy",),
    "pegboard.core.policy.rules": ("Rule",),
    "pegboard.core.result": ("ToolResult",),
    "pegboard.core.schema.annotations": (
        "Alias", "Command", "DeletePath", "Inject", "ReadPath", "Recipient", "Url", "WritePath",
    ),
    "pegboard.core.tool": ("Tool", "ValidCall", "tool"),
    "pegboard.core.toolkit": ("Registry", "Toolkit"),
    "pegboard.interop.hooks": ("Hook",),
}  # fmt: skip
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "PURE",
    "Agent",
    "Alias",
    "AllowOnce",
    "Answer",
    "ApprovalRequest",
    "Approved",
    "Audio",
    "BuildError",
    "CallbackApprover",
    "Change",
    "ChangeSet",
    "Command",
    "ConfigError",
    "Context",
    "DeletePath",
    "DenyAll",
    "Effect",
    "Executor",
    "File",
    "Hook",
    "Image",
    "Inject",
    "Invocation",
    "Limits",
    "MCPServer",
    "ModelError",
    "NewArtifact",
    "PegboardError",
    "Plan",
    "Policy",
    "Preview",
    "ReadPath",
    "Recipient",
    "Refused",
    "Registry",
    "Rule",
    "SuspendAll",
    "Text",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolNotFoundError",
    "ToolResult",
    "Toolkit",
    "Url",
    "ValidCall",
    "Waiting",
    "WritePath",
    "builtin",
    "current_context",
    "run_sync",
    "tool",
]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'pegboard' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE])
