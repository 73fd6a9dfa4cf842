"""ToolRegistry: both documents' method families over one executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pegboard.compat.executor import LazyExecutor
from pegboard.compat.nanobot.tools import BaseTool
from pegboard.core.content import ToolCall
from pegboard.core.errors import ToolError, ToolExecutionDenied, ToolNotFoundError
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Rule
from pegboard.core.result import HINT, ToolResult
from pegboard.core.tool import Tool as CoreTool
from pegboard.core.toolkit import Toolkit, as_tool


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """One call of a reply."""

    name: str
    input: Mapping[str, Any] | str | None = field(default_factory=dict[str, Any])
    id: str = ""

    @property
    def arguments(self) -> Mapping[str, Any] | str | None:
        """The same as `input` (N-119)."""
        return self.input


class ToolRegistry:
    """Tools by name; every call goes through the executor and comes back as text.

    Args:
        tools: registered at once.
        workspace, mode, policy, approver, provide: as `Executor` takes them.
        hooks: AgentHook objects; each sees all calls of a turn before any runs.
        strict_get: `get` raises ToolNotFoundError for a missing name, as 001's does; else it gives
            None, as 000's does. `registry[name]` always raises.
    """

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        workspace: str | Path | None = None,
        mode: str | None = None,
        policy: Policy | Iterable[str | Rule] | None = None,
        approver: Any = None,
        provide: Iterable[Any] = (),
        hooks: Sequence[Any] = (),
        strict_get: bool = False,
    ) -> None:
        # Of this instance alone: 001's class attribute would be shared by all registries.
        self._tools: dict[str, Any] = {}
        self._made: dict[str, CoreTool] = {}
        self._strict = strict_get
        self._hooks = tuple(hooks)
        self._door = LazyExecutor(
            self._made.values,
            workspace=workspace,
            mode=mode,
            policy=policy,
            approver=approver,
            provide=provide,
            hooks=[getattr(h, "before_turn", h) for h in hooks],
        )
        for one in tools:
            self.register(one)

    # -- both -----------------------------------------------------------------------------------

    def register(self, tool: Any) -> None:
        """Add a tool of any style; one of the same name is replaced.

        Raises:
            BuildError: it is no tool.
        """
        made = as_tool(tool)
        self._made.pop(made.name, None)
        self._made[made.name] = made
        self._tools[made.name] = made if isinstance(tool, type) else tool

    def unregister(self, name: str) -> None:
        """Take a tool out; a missing one is ignored."""
        self._tools.pop(name, None)
        self._made.pop(name, None)

    def get(self, name: str) -> Any:
        """The tool as it was registered; a missing one is None, or raises with `strict_get`."""
        if name not in self._tools and self._strict:
            raise ToolNotFoundError(f"Tool '{name}' not registered")
        return self._tools.get(name)

    def require(self, name: str) -> Any:
        """The tool.

        Raises:
            ToolNotFoundError: `Tool '{name}' not registered`.
        """
        if name not in self._tools:
            raise ToolNotFoundError(f"Tool '{name}' not registered")
        return self._tools[name]

    __getitem__ = require

    def has(self, name: str) -> bool:
        """Whether there is one of that name."""
        return name in self._tools

    @property
    def tool_names(self) -> list[str]:
        """The names in order of registration."""
        return list(self._made)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tools.values())

    def toolkit(self) -> Toolkit:
        """The same as a Toolkit, for an Agent or an Executor."""
        return Toolkit(self._made.values())

    def get_definitions(self) -> list[dict[str, Any]]:
        """All tools in OpenAI form."""
        return self.toolkit().schemas("openai-chat")

    def list_schemas(self) -> list[dict[str, Any]]:
        """Each tool's own `to_schema()`."""
        return [
            self._tools[name].to_schema() if hasattr(self._tools[name], "to_schema") else made.to_schema()
            for name, made in self._made.items()
        ]

    # -- calls ----------------------------------------------------------------------------------

    async def call(self, name: str, params: Mapping[str, Any] | str | None = None) -> ToolResult:
        """The call's whole result."""
        result = (await self._run([ToolCallRequest(name, params)]))[0] if self._hooks else None
        return result or await self._door.call(name, params)

    async def execute(self, name: str, params: Mapping[str, Any] | str | None = None) -> str:
        """The call's text; failures are text too, with the hint that lets a model correct itself."""
        return self._text(name, await self.call(name, params))

    async def execute_parallel(self, tool_calls: Sequence[Any], *, raise_errors: bool = False) -> list[str]:
        """The texts of several calls that run side by side, in call order, one each.

        Args:
            tool_calls: objects with `name` and `input` (or `arguments`).
            raise_errors: raise ToolExecutionDenied where any was denied, after all have ended.
        """
        results = await self._run(tool_calls)
        if raise_errors:
            for result in results:
                if result.error is not None and result.error.code == "permission_denied":
                    raise ToolExecutionDenied(result.error.message) from result.error
        return [self._text(c.name, r) for c, r in zip(tool_calls, results, strict=True)]

    async def aclose(self) -> None:
        """End what was started."""
        await self._door.aclose()

    async def _run(self, calls: Sequence[Any]) -> list[ToolResult]:
        # Ids by position: two requests with one id are still two calls here, and each gets its result.
        wanted = [ToolCall(f"call_{i}", c.name, _arguments(c)) for i, c in enumerate(calls)]
        exclusive = frozenset(n for n, t in self._tools.items() if getattr(t, "exclusive", False))
        return await self._door.turn(wanted, exclusive=exclusive)

    def _text(self, name: str, result: ToolResult) -> str:
        error = result.error
        if error is None:
            return str(result)
        match error.code:
            case "unknown_tool":
                return f"Error: Tool '{name}' not found. Available: {', '.join(self.tool_names)}{HINT}"
            case "invalid_arguments":
                return f"Error: Invalid parameters for tool '{name}': {_problems(error)}{HINT}"
            case "permission_denied" if isinstance(self._tools.get(name), BaseTool):
                return f"Error: {error.message}"
            case _:
                return str(result)


def _arguments(call: Any) -> Any:
    given = getattr(call, "input", None)
    return getattr(call, "arguments", None) if given is None else given


def _problems(error: ToolError) -> str:
    found = error.details.get("errors") or ()
    return (
        "; ".join(f"{e['path']}: {e['message']}" if e["path"] else e["message"] for e in found)
        or error.message
    )


tool_registry = ToolRegistry(strict_get=True)
"""001's registry of the module. Nothing registers itself here; it is empty until you register."""
