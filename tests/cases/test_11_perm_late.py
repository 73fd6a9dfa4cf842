"""Theme 11: a yes that comes after the world has moved on."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Agent, Approved, BuildError, Effect, Refused, SuspendAll, tool
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
        async for _ in agent.resume_events(first.run_id, events, answers=answers):
            pass

    if moved_on:
        with pytest.raises(BuildError, match="what it waited for has expired"):
            await take_up()
    else:
        await take_up()

    assert did == ([] if moved_on else ["sent"])
    for request in model.requests:
        wire(list(request.messages))
    await agent.aclose()


@owes("perm-19")
async def test_a_refused_call_made_again_in_a_later_step_asks_nobody_until_the_next_run() -> None:
    asked: list[Any] = []

    class Friday:
        async def decide(self, request: Any) -> Any:
            asked.append(request)
            return Refused("not on Fridays")

    @tool(effects=[Effect("send", "slack:1")])
    async def send(text: str) -> str:
        """Send."""
        raise AssertionError

    def call(text: str) -> dict[str, Any]:
        return {"calls": [{"name": "send", "arguments": {"text": text}}]}

    model = ScriptedModel(
        [call("a"), call("a"), call("b"), call("a"), {"text": "no"}, call("a"), {"text": "no"}]
    )
    agent = Agent(tools=[send], model=model, approver=Friday())
    await agent.run("send it", session="s")
    once = [r.call.arguments for r in asked]
    await agent.run("send it after all", session="s")
    await agent.aclose()

    # Another text to the same place is the same effect.
    assert once == [{"text": "a"}]
    assert len(asked) == 2
    told = [request.messages[-1] for request in model.requests[1:5]]
    assert all("not on Fridays" in message.results[0].text for message in told)  # pyright: ignore


@owes("perm-19")
async def test_an_approver_that_broke_is_asked_again() -> None:
    did: list[str] = []
    answers: list[Any] = [RuntimeError("the line is down"), Approved()]

    class Shaky:
        async def decide(self, request: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    @tool(effects=[Effect("send", "slack:1")])
    async def send() -> str:
        """Send."""
        did.append("sent")
        return "sent"

    call: dict[str, Any] = {"calls": [{"name": "send", "arguments": {}}]}
    agent = Agent(tools=[send], model=ScriptedModel([call, call, {"text": "done"}]), approver=Shaky())
    await agent.run("send it")
    await agent.aclose()

    assert did == ["sent"]


@owes("perm-19", "K-52")
async def test_a_refusal_holds_for_the_run_also_when_the_person_speaks_meanwhile() -> None:
    asked: list[Any] = []

    class Friday:
        async def decide(self, request: Any) -> Any:
            asked.append(request)
            agent.tell("or do send it", session="s")
            return Refused("not on Fridays")

    @tool(effects=[Effect("send", "slack:1")])
    async def send() -> str:
        """Send."""
        raise AssertionError

    call: dict[str, Any] = {"calls": [{"name": "send", "arguments": {}}]}
    agent = Agent(
        tools=[send], model=ScriptedModel([call, call, {"text": "no"}, {"text": "no"}]), approver=Friday()
    )
    await agent.run("send it", session="s")
    await agent.aclose()

    assert len(asked) == 1
