"""SafetyHook: a question before dangerous tools, a refusal of dangerous commands."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pegboard.compat.locale import message
from pegboard.core.context import Context
from pegboard.core.errors import PermissionDenied, ToolExecutionDenied

Ask = Callable[[str], bool | Awaitable[bool]]


class AgentHook:
    """Sees the calls of a turn before any runs."""

    async def before_execute_tools(self, tool_calls: Sequence[Any]) -> None:
        """Raise ToolExecutionDenied to refuse them.

        Args:
            tool_calls: objects with `name` and `input`.
        """

    async def before_turn(self, calls: Sequence[Any], context: Context) -> None:
        """The hook as an `Executor` takes it in `hooks=[hook.before_turn]`.

        Every call of a refused turn gets a result of its own.

        Raises:
            PermissionDenied: the hook refused.
        """
        try:
            await self.before_execute_tools(calls)
        except ToolExecutionDenied as denied:
            raise PermissionDenied(str(denied), details={"by": type(self).__name__}) from denied


class SafetyHook(AgentHook):
    """Asks before `delete_file` and `exec`; refuses commands with `rm -rf`, `sudo` or `DROP TABLE`.

    Patterns are looked for in the text, as the document does, and in the parsed command, so that another
    spelling of the same command is found too.

    Args:
        ask: answers the question with a bool, sync or async; None = everything asked is refused.
        locale: `zh` (the document's texts) or `en`.
    """

    DANGEROUS_TOOLS: ClassVar[frozenset[str]] = frozenset({"delete_file", "exec"})
    DANGEROUS_PATTERNS: ClassVar[tuple[str, ...]] = ("rm -rf", "sudo", "DROP TABLE")

    def __init__(self, ask: Ask | None = None, *, locale: str = "zh") -> None:
        self._ask = ask
        self._locale = locale

    async def ask_user(self, question: str) -> bool:
        """The answer to one question."""
        if self._ask is None:
            return False
        answer = self._ask(question)
        return bool(await answer) if inspect.isawaitable(answer) else bool(answer)

    async def before_execute_tools(self, tool_calls: Sequence[Any]) -> None:
        """See AgentHook."""
        # Patterns first: nobody should be asked about what is refused anyway.
        for call in tool_calls:
            pattern = self._dangerous(call) if call.name == "exec" else None
            if pattern is not None:
                raise ToolExecutionDenied(message("pattern", self._locale, pattern=pattern))
        for call in tool_calls:
            if call.name in self.DANGEROUS_TOOLS:
                question = message("confirm", self._locale, name=call.name, input=call.input)
                if not await self.ask_user(question):
                    raise ToolExecutionDenied(message("denied", self._locale, name=call.name))

    def _dangerous(self, call: Any) -> str | None:
        from pegboard.shell.guard import deny_matches, judge

        given = call.input
        command = str(given.get("command", "")) if hasattr(given, "get") else str(given)
        for pattern in self.DANGEROUS_PATTERNS:
            if pattern in command:
                return pattern
        found = deny_matches("nanobot-hook", command, judge(command, workspace=Path.cwd()).effects)
        return found.pattern if found is not None else None
