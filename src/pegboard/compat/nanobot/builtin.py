"""The two Nanobots' own tools by the names of their classes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from pegboard.compat.builtin import BuiltinTool, bound, builtin_tool, restricted, searching
from pegboard.compat.messages import CallbackMessages, Send, message_tool
from pegboard.compat.nanobot.context import ContextAware
from pegboard.compat.nanobot.registry import ToolRegistry
from pegboard.compat.rules import compile_rules
from pegboard.core.content import Text
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import ToolError
from pegboard.core.result import ToolResult
from pegboard.core.schema.foreign import ForeignSchema
from pegboard.core.tool import Tool
from pegboard.core.toolkit import import_object
from pegboard.ports.schedules import Schedules


class Nanobot(BuiltinTool):
    """A tool of ours as the two Nanobots show it."""

    profile = "nanobot"

    def validate_params(self, params: Mapping[str, Any]) -> list[str]:
        """Each thing that does not fit, with its path; empty = valid."""
        return [str(p) for p in ForeignSchema(self.parameters, name=self.name).errors(dict(params))]


class _FileTool(Nanobot):
    """Works in `allowed_dir`, where one is set, else in `workspace`."""

    def __init__(
        self, workspace: str | Path | None = None, allowed_dir: str | Path | None = None, **options: Any
    ) -> None:
        super().__init__(allowed_dir or workspace or Path.cwd(), **options)


class ReadFileTool(_FileTool):
    """`read_file`."""

    tool = "read_file"


class WriteFileTool(_FileTool):
    """`write_file`."""

    tool = "write_file"


class EditFileTool(_FileTool):
    """`edit_file`."""

    tool = "edit_file"


class ListDirTool(_FileTool):
    """`list_dir`."""

    tool = "list_dir"


class GlobTool(_FileTool):
    """`glob`."""

    tool = "glob"


class AskUserTool(Nanobot):
    """`ask_user`."""

    tool = "ask_user"


class ExecTool(Nanobot):
    """`exec`; what `deny_patterns` name and `allow_patterns` leave out is refused in every registry.

    Args:
        timeout: seconds for a command that says no other.
        working_dir: where direct calls run; None = the current folder.
        deny_patterns, allow_patterns: regular expressions; None and empty as in the document.
        restrict_to_workspace: direct calls run in mode `workspace`; it is their default too.
    """

    tool = "exec"

    def __init__(
        self,
        timeout: float = 60,
        working_dir: str | Path | None = None,
        deny_patterns: Sequence[str] | None = None,
        allow_patterns: Sequence[str] | None = None,
        restrict_to_workspace: bool = False,
        **options: Any,
    ) -> None:
        given = {"deny_patterns": deny_patterns, "allow_patterns": allow_patterns}
        compiled = compile_rules("nanobot", {k: v for k, v in given.items() if v is not None})
        if restrict_to_workspace:
            options.setdefault("mode", "workspace")
        options.setdefault("policy", compiled.rules)
        made = restricted(builtin_tool("exec"), compiled.rules)
        super().__init__(working_dir or Path.cwd(), made=made, defaults={"timeout": timeout}, **options)


class SandboxedExecTool(ExecTool):
    """`exec` in the sandbox, as every command runs in mode `workspace`."""

    def __init__(self, timeout: float = 30, working_dir: str | Path | None = None, **options: Any) -> None:
        super().__init__(timeout, working_dir, restrict_to_workspace=True, **options)


class WebSearchTool(Nanobot):
    """`web_search` with Brave.

    Args:
        api_key: None = `BRAVE_API_KEY`, read at each search.
        max_results: results of a search that says no other number.
    """

    tool = "web_search"

    def __init__(self, api_key: str | None = None, max_results: int = 5, **options: Any) -> None:
        super().__init__(made=searching("brave", api_key), defaults={"count": max_results}, **options)


class WebFetchTool(Nanobot):
    """`web_fetch`.

    Args:
        max_chars: characters of a page where a call says no other number.
    """

    tool = "web_fetch"

    def __init__(self, max_chars: int = 50_000, **options: Any) -> None:
        super().__init__(defaults={"max_chars": max_chars}, **options)


class CronTool(ContextAware, Nanobot):
    """`cron` of 000; `set_context` says where the answers of jobs go that this task adds.

    Args:
        cron_service: an object with our Schedules port, in place of this machine's jobs.
    """

    tool = "cron"

    def __init__(self, cron_service: Any = None, **options: Any) -> None:
        super().__init__(made=None if cron_service is None else _keeping(cron_service), **options)


class MessageTool(ContextAware, Nanobot):
    """`message`; without a channel it goes to the chat that `set_context` named.

    Args:
        send_callback: takes each message on, async or not; None = the channels of this machine.
        default_channel, default_chat_id, default_message_id: as `set_context` takes them, for this task.
    """

    tool = "message"

    def __init__(
        self,
        send_callback: Send | None = None,
        default_channel: str = "",
        default_chat_id: str = "",
        default_message_id: str | None = None,
        **options: Any,
    ) -> None:
        self._send = send_callback
        messages = None if send_callback is None else CallbackMessages(lambda: self._send)
        if default_channel:
            self.set_context(default_channel, default_chat_id, default_message_id)
        super().__init__(made=message_tool(messages), **options)

    def set_send_callback(self, callback: Send) -> None:
        """Send by another callback from here on; for a tool that was made with one."""
        self._send = callback


def _keeping(schedules: Any) -> Tool:
    """`cron` over a Schedules port of one's own, in every executor."""
    ours = builtin_tool("cron")
    planned = cast("Callable[[Any, Any], Awaitable[Plan]]", ours.plan)

    async def plan(call: Any, context: Any) -> Plan:
        return await planned(call, replace(context, ports={Schedules: schedules}))

    return bound(ours, schedules=schedules).copy(plan=plan)


class ScheduleTaskTool(Nanobot):
    """`schedule_task`, 001's CronTool.

    Args:
        cron_service: an object whose `add(task=…, schedule=…, channel=…)`, async or not, keeps the job; None = it is one
            of this machine's jobs.
        timezone: the zone that `parse_schedule` reads times in.
    """

    tool = "schedule_task"

    def __init__(self, cron_service: Any = None, *, timezone: str = "UTC", **options: Any) -> None:
        self._timezone = timezone
        super().__init__(made=None if cron_service is None else self._with(cron_service), **options)

    def parse_schedule(self, schedule: str) -> str:
        """A schedule as a cron expression where it is one; an interval as `every 10m`, a time in ISO 8601.

        Raises:
            InvalidArguments: it cannot be read.
        """
        return str(import_object("pegboard.runtime.schedule:canonical_text")(schedule, self._timezone))

    def _with(self, service: Any) -> Tool:
        async def run(task: str, schedule: str, channel: str = "") -> ToolResult:
            text = self.parse_schedule(schedule)
            kept = service.add(task=task, schedule=text, channel=channel)
            if hasattr(kept, "__await__"):
                await kept
            return ToolResult(
                content=(Text(text),), data={"created": True, "job": {"message": task, "schedule": text}}
            )

        async def plan(call: Any, context: Any) -> Plan:
            given = call.arguments
            self.parse_schedule(given["schedule"])
            return Plan((Effect("schedule", f"add:{given['schedule']} {given['task']}"),))

        ours = builtin_tool("schedule_task")
        return bound(ours, schedules=service).copy(function=run, plan=plan)


class MCPManager:
    """The MCP servers of a registry.

    Args:
        config: by server name, `{command, args, env}` or `{url, headers}`, with `tool_timeout` in seconds.
        registry: where their tools are registered.

    Attributes:
        errors: why a server has no tools, by its name.
    """

    _NAMES: ClassVar[Mapping[str, str]] = {"tool_timeout": "timeout_s", "toolTimeout": "timeout_s"}

    def __init__(self, config: Mapping[str, Any], registry: ToolRegistry) -> None:
        make = import_object("pegboard.mcp.client:MCPServer")
        known = ("command", "args", "env", "cwd", "url", "headers", "timeout_s", "transport")
        self._servers: list[Any] = []
        for name, server in config.items():
            settings = cast("Mapping[str, Any]", server if isinstance(server, Mapping) else vars(server))
            named = {self._NAMES.get(k, k): v for k, v in settings.items()}
            self._servers.append(make(name, **{k: named[k] for k in known if named.get(k) is not None}))
        self._registry = registry
        self.errors: dict[str, ToolError] = {}

    async def initialize(self) -> None:
        """Start the servers, list their tools and register them; one that fails holds up no other."""
        found = await import_object("pegboard.mcp.client:start_all")(self._servers)
        for name, tools in found.items():
            if isinstance(tools, ToolError):
                self.errors[name] = tools
                continue
            for tool in tools:
                self._registry.register(tool)

    async def shutdown(self) -> None:
        """End the servers."""
        await asyncio.gather(*(server.aclose() for server in self._servers))


async def connect_mcp_servers(
    mcp_servers: Mapping[str, Any], registry: ToolRegistry, stack: Any = None
) -> MCPManager:
    """Start servers and register their tools.

    Args:
        mcp_servers: see `MCPManager`.
        registry: where their tools are registered.
        stack: an AsyncExitStack that ends the servers; None = call `shutdown` yourself.
    """
    manager = MCPManager(mcp_servers, registry)
    if stack is not None:
        stack.push_async_callback(manager.shutdown)
    await manager.initialize()
    return manager
