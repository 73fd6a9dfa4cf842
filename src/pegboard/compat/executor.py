"""LazyExecutor: opens the executor behind a document's registry when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pegboard.core.call.call import Preview
from pegboard.core.call.pipeline import TurnExecutor
from pegboard.core.content import ToolCall
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Rule
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, import_object

_EXECUTOR: Final = "pegboard.app.executor:Executor"


class LazyExecutor:
    """Opens an executor over some tools when it is first needed, and another when they change.

    Args:
        tools: gives the tools as they are now.
        workspace, mode, policy, approver, provide, hooks, middleware: as `Executor` takes them.
    """

    def __init__(
        self,
        tools: Callable[[], Iterable[Tool]],
        *,
        workspace: str | Path | None = None,
        mode: str | None = None,
        policy: Policy | Iterable[str | Rule] | None = None,
        approver: Any = None,
        provide: Iterable[Any] = (),
        hooks: Sequence[Any] = (),
        middleware: Sequence[Any] = (),
        session: str = "local",
        agent: str = "main",
    ) -> None:
        self._tools = tools
        self._options: dict[str, Any] = {
            "workspace": workspace,
            "mode": mode,
            "policy": policy,
            "approver": approver,
            "provide": tuple(provide),
            "hooks": tuple(hooks),
            "middleware": tuple(middleware),
            "session": session,
            "agent": agent,
        }
        self._executor: Any = None
        self._key: tuple[int, ...] | None = None

    @property
    def executor(self) -> Any:
        """The executor over the tools as they are now."""
        tools = tuple(self._tools())
        key = tuple(id(t) for t in tools)
        if self._executor is None or key != self._key:
            self._executor, self._key = import_object(_EXECUTOR)(Toolkit(tools), **self._options), key
        return self._executor

    async def call(self, name: str, arguments: str | Mapping[str, Any] | None) -> ToolResult:
        """One call, one result."""
        return await self.executor.call(name, arguments)

    async def preview(self, name: str, arguments: str | Mapping[str, Any] | None) -> Preview:
        """What the call would do."""
        return await self.executor.preview(name, arguments)

    async def turn(self, calls: Sequence[ToolCall], *, exclusive: frozenset[str]) -> list[ToolResult]:
        """The calls of one turn side by side, results in call order.

        The documents gather all calls. Opaque Python tools therefore run together, except those of
        `exclusive`; calls with effects that are known and conflict still keep their order.
        """
        executor = self.executor
        turns = TurnExecutor(executor.pipeline, hooks=executor.turn_hooks, exclusive=exclusive)
        return list(await turns.turn(calls, executor.context))

    async def aclose(self) -> None:
        """End what was started."""
        if self._executor is not None:
            await self._executor.aclose()
            self._executor = None
