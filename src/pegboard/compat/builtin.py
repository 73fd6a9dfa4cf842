"""BuiltinTool: a tool of ours as an object that a document's code makes, registers and calls."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, cast

from pegboard.compat.executor import LazyExecutor
from pegboard.core.effects import Effect, Plan
from pegboard.core.policy.rules import Rule, Situation
from pegboard.core.profiles import apply_profile, find
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import import_object


def builtin_tool(name: str) -> Tool:
    """A tool of ours by its name.

    Raises:
        KeyError: there is none.
    """
    return cast(Tool, import_object(cast("Mapping[str, str]", import_object("pegboard.tools:TOOLS"))[name]))


def shown(tool: Tool, profile: str, defaults: Mapping[str, Any] = MappingProxyType({})) -> Tool:
    """A tool as a profile shows it, with other defaults where they are not None; the defaults have our names."""
    system = find(profile)
    row = next(r for r in system.rows if r.tool == tool.name)
    ours = {name: value for name, value in defaults.items() if value is not None}
    adapt = row.adapt

    def filled(sent: dict[str, Any]) -> dict[str, Any]:
        return {**ours, **(adapt(sent) if adapt else sent)}

    row = replace(row, adapt=filled) if ours else row
    return apply_profile(tool, row, description=row.description, render=row.render or system.words)


def bound(tool: Tool, **ports: Any) -> Tool:
    """The tool with some of its injected parameters filled, so that every executor runs it with these."""
    function, signature = tool.function, copy.copy(tool.signature)
    signature.inject = {name: kind for name, kind in signature.inject.items() if name not in ports}

    async def run(**arguments: Any) -> Any:
        return await function(**arguments, **ports)

    return tool.copy(function=run, signature=signature)


def searching(provider: str, key: str | None) -> Tool:
    """`web_search` with one provider.

    Args:
        provider: as the settings name it.
        key: None or empty = its variable of the environment, read at each search.
    """
    search = import_object("pegboard.app.search:only")(provider, key or "")

    async def plan(call: Any, context: Any) -> Plan:
        return Plan(tuple(Effect("connect", host) for host in search.hosts()))

    return bound(builtin_tool("web_search"), search=search).copy(plan=plan)


def restricted(tool: Tool, rules: Sequence[Rule]) -> Tool:
    """The tool with what the rules deny refused in every executor; what they allow is for the policy to say."""
    planned = cast("Callable[[Any, Any], Awaitable[Plan]]", tool.plan)

    async def plan(call: Any, context: Any) -> Plan:
        made = await planned(call, context)
        return replace(made, effects=tuple(_judged(effect, rules) for effect in made.effects))

    return tool.copy(plan=plan)


def _judged(effect: Effect, rules: Sequence[Rule]) -> Effect:
    found = next((r for r in rules if r.covers(effect, Situation())), None)
    if found is None or found.verdict != "deny":
        return effect
    return replace(effect, at_least="deny", reason=found.reason or str(found))


class BuiltinTool:
    """A tool of ours under a document's name.

    Register it as any other tool: its calls then go through that executor. Called directly, it opens an executor of its
    own.

    Args:
        workspace: the folder of direct calls; None = none.
        defaults: values of parameters that a call does not give, by our names; None = as they are.
        made: the tool in place of the built-in one.
        options: as `Executor` takes them: mode, policy, approver, provide.
    """

    profile: ClassVar[str]
    tool: ClassVar[str]

    def __init__(
        self,
        workspace: str | Path | None = None,
        *,
        defaults: Mapping[str, Any] = MappingProxyType({}),
        made: Tool | None = None,
        **options: Any,
    ) -> None:
        self._made = shown(made or builtin_tool(self.tool), self.profile, defaults)
        self._door = LazyExecutor(lambda: (self._made,), workspace=workspace, **options)

    @property
    def name(self) -> str:
        """What a model calls it."""
        return self._made.name

    @property
    def description(self) -> str:
        """What a model reads about it."""
        return self._made.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Its JSON Schema."""
        return self._made.schema

    def to_tool(self) -> Tool:
        """The same as a Pegboard tool."""
        return self._made

    def to_schema(self) -> dict[str, Any]:
        """See `Tool.to_schema`."""
        return self._made.to_schema()

    async def call(self, **arguments: Any) -> ToolResult:
        """One call through the policy."""
        return await self._door.call(self.name, arguments)

    async def execute(self, **arguments: Any) -> Any:
        """One call; the text that a model reads, of a failure too."""
        return str(await self.call(**arguments))

    async def run(self, **arguments: Any) -> Any:
        """See `execute`."""
        return await self.execute(**arguments)

    async def aclose(self) -> None:
        """End what a direct call has started."""
        await self._door.aclose()
