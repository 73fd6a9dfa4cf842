"""Until: a run that is done only when a command passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from pegboard.core.call.pipeline import Executor
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.events import CallFinished
from pegboard.core.result import ToolResult, for_model
from pegboard.runtime.engine import Engine

MOST_ROUNDS: Final = 5
"""How often a failure goes back to the model."""
UNTIL_NOTE: Final = "[The task is done only when this command passes, and it failed: "
"""What the message begins with that gives a failure back to the model."""
UNTIL_FAILED: Final = "until: "
"""What the error of a run begins with whose command never passed."""
_TIMEOUT_S: Final = 600.0
_EXEC: Final = "exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilCommand:
    """The command that ends a run, and what carries it out.

    Attributes:
        command: text for the shell; it passes with exit status 0.
        executor: its approver has said yes to it: whoever named the command is the one who would be asked.
    """

    command: str
    executor: Executor

    async def run(self, number: int, context: Context, engine: Engine) -> ToolResult:
        """Run the command for the `number`th time in its run; one that a process was killed in runs again."""
        call = self._call(number, context.run)

        async def step(sent: ToolCall, act: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
            return (await engine.step(f"call:{sent.id}", partial(_finished, act), idempotent=True)).result

        return (await self.executor.turn([call], context, step=step))[0]

    def failure(self, result: ToolResult, number: int, context: Context, mark: str) -> str:
        """The message that gives a failure back to the model; empty where the command passed."""
        data: Any = result.data
        code = cast("Mapping[str, Any]", data).get("exit_code") if isinstance(data, Mapping) else None
        if result.ok and code == 0:
            return ""
        shown = for_model([result], mark, [self._call(number, context.run)])[0]
        return (
            f"{UNTIL_NOTE}{self.command}. Find out why, fix it, and answer again. Its output:]\n{shown.text}"
        )

    def _call(self, number: int, run: str) -> ToolCall:
        arguments = {"command": self.command, "timeout": _TIMEOUT_S, "yield_ms": int(_TIMEOUT_S * 1000)}
        return ToolCall(f"until_{run}_{number}", _EXEC, arguments)


async def _finished(act: Callable[[], Awaitable[ToolResult]]) -> CallFinished:
    return CallFinished(await act())
