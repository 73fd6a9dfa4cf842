"""The documents' own subagents: the same tools under their names and parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pegboard import Agent
from pegboard.compat import moltbot, nanobot, nanobot_net
from pegboard.core.tool import Tool
from pegboard.models.scripted import ModelRequest, ScriptedModel
from pegboard.ports.messages import InboundMessage
from tests.ledger import owes
from tests.waiting import soon


class Bus:
    """Takes what is published."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[InboundMessage] = asyncio.Queue()

    async def publish_inbound(self, message: InboundMessage) -> None:
        await self.messages.put(message)


@owes("N-103", "N-105", "N-109", "X-38")
async def test_000s_manager_reports_on_the_bus_to_the_chat_that_asked(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def turn(request: ModelRequest) -> Mapping[str, Any]:
        seen.append(request)
        return {"text": "It is Friday."}

    bus = Bus()
    manager = nanobot.SubagentManager(ScriptedModel([turn] * 4), tmp_path, bus)
    tool = nanobot.SpawnTool(manager)

    async def chat(number: str) -> str:
        tool.set_context("telegram", number)
        await asyncio.sleep(0)
        return await tool.execute(task=f"When is {number}?", label=f"t{number}")

    said = await asyncio.gather(chat("1"), chat("2"))
    reports = [await asyncio.wait_for(bus.messages.get(), 30) for _ in range(2)]

    assert [s.partition(" started")[0] for s in said] == ["Subagent [t1]", "Subagent [t2]"]
    assert all(s.endswith("I'll notify you when it completes.") for s in said)
    assert {(m.channel, m.sender_id, m.chat_id) for m in reports} == {
        ("system", "subagent", "telegram:1"),
        ("system", "subagent", "telegram:2"),
    }
    assert all("It is Friday." in m.content for m in reports)
    assert seen[0].tools.names == (
        "read_file", "write_file", "edit_file", "list_dir", "exec", "web_search", "web_fetch",
    )  # fmt: skip
    await soon(lambda: manager.get_running_count() == 0, "both have ended")


@owes("M-17")
async def test_003_and_002_start_subagents_by_their_own_parameters() -> None:
    molt, net = moltbot.create_sessions_spawn_tool(), nanobot_net.SpawnTools.create_spawn_tool()
    assert isinstance(molt, Tool)
    assert list(molt.schema["properties"]) == ["prompt", "thinking", "agentId"]
    assert list(net.schema["properties"]) == ["task", "label"]
    tasks: list[str] = []

    def turn(request: ModelRequest) -> Mapping[str, Any]:
        if request.instructions.startswith("You are a subagent"):
            tasks.append(request.messages[-1].text)  # type: ignore[union-attr]
            return {"text": "done"}
        if len(request.messages) == 1:
            return {
                "calls": [
                    {"name": "sessions_spawn", "arguments": {"prompt": "A", "thinking": "low"}},
                    {"name": "spawn", "arguments": {"task": "B", "label": "b"}},
                ]
            }
        return {"text": "over"}

    answer = await Agent(tools=[molt, net], model=ScriptedModel([turn] * 9)).run("Go")

    assert answer.answer == "over"
    assert sorted(tasks) == ["A\n\n(Think with low effort.)", "B"]
