"""Hooks of the comparison bench: one function for each thing that is measured."""

from __future__ import annotations

import time
from typing import Any

from pegboard import Agent, Limits, tool
from pegboard.core.effects import PURE


@tool(effects=PURE)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def agent_loop(turns: int, recorder: Any = None) -> list[float]:
    """CPU stamps, one at each model turn of a run with `turns` tool calls."""
    from pegboard.models import ScriptedModel

    stamps: list[float] = []

    def turn(number: int) -> Any:
        def reply(_: Any) -> dict[str, Any]:
            stamps.append(time.process_time())
            if number == turns:
                return {"text": "done"}
            return {"calls": [{"name": "add", "arguments": {"a": number, "b": 1}}]}

        return reply

    agent = Agent(
        tools=[add],
        model=ScriptedModel([turn(n) for n in range(turns + 1)]),
        limits=Limits(turns=turns + 2),
    )
    answer = await agent.run("add", recorder=recorder)
    assert answer.status == "done", answer.error
    return stamps
