"""Budgets: notices before the end, calls beyond a limit, tools by model (ledger K-51, G-09, M-67, K-22)."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Agent, Limits, tool
from pegboard.core.effects import PURE
from pegboard.core.errors import ModelError
from pegboard.core.events import CallFinished, Notice
from pegboard.models import ScriptedModel
from pegboard.runtime.availability import Availability
from tests.ledger import owes
from tests.runtime.transcripts import valid


@tool(effects=PURE)
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


@tool(effects=PURE)
async def patch(n: int) -> str:
    """Patch."""
    return f"patched {n}"


def calls(*numbers: int, name: str = "look") -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": {"n": n}} for n in numbers]}


@owes("G-09", "K-51")
async def test_a_notice_comes_once_when_most_of_a_limit_is_spent() -> None:
    agent = Agent(
        tools=[look],
        model=ScriptedModel([calls(n) for n in range(5)] + [{"text": "out"}]),
        limits=Limits(turns=5),
    )

    answer = await agent.run("go")

    notices = [e for e in answer.events if isinstance(e, Notice)]
    assert [n.text for n in notices] == ["4 of 5 turns are used", "5 of 5 turns are used up"]
    assert notices[0].detail == {"limit": "turns", "spent": 4, "most": 5}
    assert answer.status == "limit"


@owes("G-09")
async def test_no_share_gives_no_notice() -> None:
    agent = Agent(
        tools=[look], model=ScriptedModel([calls(1), {"text": "x"}]), limits=Limits(turns=2, soft=0)
    )

    answer = await agent.run("go")

    assert not [e for e in answer.events if isinstance(e, Notice)]


@owes("G-09")
async def test_calls_beyond_a_limit_are_refused_and_the_run_goes_on() -> None:
    model = ScriptedModel([calls(1, 2, 3), calls(4), {"text": "enough"}])
    agent = Agent(tools=[look], model=model, limits=Limits(tool_calls={"look": 2}))

    answer = await agent.run("go")

    results = [e.result for e in answer.events if isinstance(e, CallFinished)]
    by_id = {r.call_id: r for r in results}
    assert [by_id[f"call_1_{n}"].ok for n in (1, 2, 3)] == [True, True, False]
    assert not by_id["call_2_1"].ok
    assert "2 of 2 calls of look in this run are used up" in by_id["call_2_1"].text
    assert answer.answer == "enough"
    valid(model.requests[-1].messages)


@owes("G-09")
async def test_a_limit_on_all_calls_counts_every_tool() -> None:
    model = ScriptedModel([calls(1), calls(1, name="patch"), {"text": "end"}])

    answer = await Agent(tools=[look, patch], model=model, limits=Limits(calls=1)).run("go")

    assert [e.result.ok for e in answer.events if isinstance(e, CallFinished)] == [True, False]


@owes("X-46")
async def test_calls_behind_the_most_of_a_turn_are_refused_and_can_be_made_next() -> None:
    model = ScriptedModel([calls(1, 2, 3), calls(2), {"text": "end"}])

    answer = await Agent(tools=[look], model=model, limits=Limits(calls_per_turn=1)).run("go")

    results = {e.result.call_id: e.result for e in answer.events if isinstance(e, CallFinished)}
    assert [results[f"call_1_{n}"].ok for n in (1, 2, 3)] == [True, False, False]
    assert "at most 1 calls may be made at once" in results["call_1_2"].text
    assert results["call_2_1"].ok
    valid(model.requests[-1].messages)


@owes("G-09")
async def test_money_ends_a_run_by_what_each_turn_cost() -> None:
    turns: list[Any] = [{**calls(n), "usage": {"cost_usd": 0.3}} for n in range(5)]
    agent = Agent(tools=[look], model=ScriptedModel([*turns, {"text": "out"}]), limits=Limits(money=1.0))

    answer = await agent.run("go")

    assert answer.status == "limit"
    assert answer.error == "$1.2000 of $1.0000"


@owes("M-67", "K-22")
@pytest.mark.parametrize(
    ("model", "allowed"),
    [("openai:gpt-5", True), ("mine:gpt-5", True), ("openai:gpt-5@http://h/v1", True), ("anthropic:claude", False),
     ("openai:o9", False), ("local", False)],
)  # fmt: skip
def test_a_tool_is_for_the_models_that_its_patterns_name(model: str, allowed: bool) -> None:
    rules = Availability({"apply_patch": ["openai:gpt-*", "GPT-5"], "exec*": ["*"]})

    assert rules.allows("apply_patch", model) is allowed
    assert rules.allows("exec", model)
    assert rules.allows("look", model)


@owes("M-67", "K-22", "args-28")
async def test_a_model_neither_sees_nor_can_call_a_tool_that_is_not_for_it() -> None:
    model = ScriptedModel([calls(1, name="patch"), calls(2), {"text": "ok"}])
    agent = Agent(tools=[look, patch], model=model, allow_models={"patch": ["openai:*"]})

    answer = await agent.run("go")

    assert model.requests[0].tools.names == ("look",)
    refused, seen = [e.result for e in answer.events if isinstance(e, CallFinished)]
    assert refused.error is not None
    assert refused.error.code == "unknown_tool"
    assert "Available: look" in refused.text
    assert seen.ok
    valid(model.requests[-1].messages)


@owes("M-67")
async def test_each_of_several_models_gets_its_own_tools() -> None:
    first = ScriptedModel([ModelError("overloaded", retryable=True)], name="openai:gpt-5")
    second = ScriptedModel([{"text": "from the second"}], name="anthropic:claude")
    agent = Agent(tools=[look, patch], model=[first, second], allow_models={"patch": ["openai:*"]})

    answer = await agent.run("go")

    assert answer.answer == "from the second"
    assert first.requests[0].tools.names == ("look", "patch")
    assert second.requests[0].tools.names == ("look",)
