"""Theme 11: a yes that comes after the world has moved on."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Agent, Approved, BuildError, Effect, SuspendAll, tool
from pegboard.models import ScriptedModel
from tests.cases.kit import wire
from tests.ledger import owes


@owes("perm-13")
@pytest.mark.parametrize("moved_on", [True, False])
async def test_a_yes_that_comes_after_the_session_went_on_runs_nothing(moved_on: bool) -> None:
    did: list[str] = []

    @tool(effects=[Effect("send", "slack:1")])
    async def send() -> str:
        """Send."""
        did.append("sent")
        return "sent"

    model = ScriptedModel(
        [{"calls": [{"name": "send", "arguments": {}}]}, {"text": "done"}, {"text": "after"}]
    )
    agent = Agent(tools=[send], model=model, approver=SuspendAll())
    first = await agent.run("send it", session="s")
    assert (first.status, did) == ("suspended", [])
    events: list[Any] = list(first.events)
    if moved_on:
        events += (await agent.run("no, leave it", session="s")).events

    async def take_up() -> None:
        answers = {first.pending[0]["pending"]: Approved()}
        async for _ in agent.resume(first.run_id, events, answers=answers):
            pass

    if moved_on:
        with pytest.raises(BuildError, match="lapsed"):
            await take_up()
    else:
        await take_up()

    assert did == ([] if moved_on else ["sent"])
    for request in model.requests:
        wire(list(request.messages))
    await agent.aclose()
