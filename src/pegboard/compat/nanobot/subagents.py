"""SubagentManager and SpawnTool of 000: a task in the background, whose report wakes the main agent by the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final, Protocol

from pegboard.compat.builtin import bound, builtin_tool
from pegboard.compat.nanobot.builtin import Nanobot
from pegboard.compat.nanobot.context import ContextAware, current_origin
from pegboard.core.call.call import new_id
from pegboard.core.limits import Limits
from pegboard.core.toolkit import Toolkit, import_object
from pegboard.ports.messages import InboundMessage
from pegboard.ports.subagents import Child, ChildRequest
from pegboard.runtime.subagents import RULES

TOOLS: Final = ("read_file", "write_file", "edit_file", "list_dir", "exec", "web_search", "web_fetch")
"""What a subagent of the document has."""


class MessageBus(Protocol):
    """What the manager uses of a bus."""

    def publish_inbound(self, message: InboundMessage) -> Awaitable[None] | None:
        """Hand a message to the main agent; async or not."""
        ...


class SubagentManager:
    """Runs tasks in the background, each in an agent of its own with the document's seven tools.

    Args:
        provider: a Model of ours, or its name as `--model` takes it; None = the first found.
        workspace: the folder that the subagents work in.
        bus: gets each report, `channel="system"` and `sender_id="subagent"`, for the chat that asked.
        max_iterations: model turns of one subagent.
        options: as `Agent` takes them: mode, policy, approver, provide.
    """

    def __init__(
        self,
        provider: Any = None,
        workspace: str | Path | None = None,
        bus: MessageBus | None = None,
        *,
        max_iterations: int = 15,
        **options: Any,
    ) -> None:
        self._provider = provider
        self._workspace = workspace
        self._bus = bus
        self._limits = Limits(turns=max_iterations)
        self._options = options
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def spawn(
        self, task: str, label: str | None = None, origin_channel: str = "cli", origin_chat_id: str = "direct"
    ) -> str:
        """Start a task and return at once; what the main agent reads."""
        child = self.start(task, label, f"{origin_channel}:{origin_chat_id}")
        return f"Subagent [{child.label}] started (id: {child.id}). I'll notify you when it completes."

    def start(self, task: str, label: str | None, chat: str) -> Child:
        """Start a task whose report is for a chat, `CHANNEL:ID`."""
        name = label or (task if len(task) <= 30 else f"{task[:30]}…")
        child = Child(id=new_id("sub"), session=new_id("session"), parent=chat, label=name, task=task)
        running = self._tasks[child.id] = asyncio.create_task(self._run(child))
        running.add_done_callback(lambda _: self._tasks.pop(child.id, None))
        return child

    def get_running_count(self) -> int:
        """How many subagents work now."""
        return len(self._tasks)

    async def aclose(self) -> None:
        """Stop those that still work; they do not report."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, child: Child) -> None:
        kit = Toolkit([builtin_tool(name) for name in TOOLS]).profile("nanobot")
        agent = import_object("pegboard.app.agent:Agent")(
            tools=kit, instructions=RULES, model=self._provider, limits=self._limits, name="subagent",
            workspace=self._workspace, **self._options,
        )  # fmt: skip
        try:
            answer = await agent.run(child.task)
        finally:
            await agent.executor.aclose()
        ended = "completed successfully" if answer.status == "done" else f"ended: {answer.status}"
        read = {label for e in answer.events if e.type == "call.finished" for label in e.result.notes.labels}
        message = InboundMessage(
            session=child.parent, id=f"subagent:{child.id}", by="subagent", channel="system", sender_id="subagent",
            chat_id=child.parent, labels=tuple(sorted(read)),
            content=f"[Subagent '{child.label}' {ended}]\n\nTask: {child.task}\n\nResult:\n{answer.answer}",
        )  # fmt: skip
        if self._bus is not None and (published := self._bus.publish_inbound(message)) is not None:
            await published


class SpawnTool(ContextAware, Nanobot):
    """`spawn` of 000; `set_context` says which chat a report is for that this task starts.

    Args:
        manager: starts the subagents; None = they are those of the run that calls.
    """

    tool = "spawn"

    def __init__(self, manager: SubagentManager | None = None, **options: Any) -> None:
        made = None if manager is None else bound(builtin_tool("spawn"), subagents=_Starting(manager))
        super().__init__(made=made, **options)


class _Starting:
    """What `spawn` uses of the Subagents port, over a manager."""

    def __init__(self, manager: SubagentManager) -> None:
        self._manager = manager

    async def start(self, request: ChildRequest) -> Child:
        origin = current_origin()
        chat = f"{origin.channel or 'cli'}:{origin.chat_id or 'direct'}"
        return self._manager.start(request.task, request.label or None, chat)
