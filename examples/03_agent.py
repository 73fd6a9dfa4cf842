"""An agent that answers by calling a tool; the model is scripted, so no key is needed."""

from __future__ import annotations

import asyncio

from pegboard import PURE, Agent, tool
from pegboard.models import ScriptedModel


@tool(effects=PURE)
def tide(hours: float) -> str:
    """Tell the water level in a number of hours from now."""
    return f"{2 + hours / 10:.1f} m"


async def main() -> None:
    """Run one task and look at what happened."""
    model = ScriptedModel(
        [{"calls": [{"name": "tide", "arguments": {"hours": 3}}]}, {"text": "2.3 m in three hours."}]
    )
    answer = await Agent(instructions="Be brief.", tools=[tide], model=model).run(
        "How high will the water be at three?"
    )
    print(answer.status, answer.answer)
    for event in answer.events:
        print(" ", event.type)


asyncio.run(main())
