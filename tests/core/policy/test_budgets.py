"""Budgets: near the end they ask, at the end they refuse (ledger G-09)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from pegboard import PURE, Agent, Executor, ToolCall, Toolkit, tool
from pegboard.core.content import Text
from pegboard.core.context import Context
from pegboard.core.errors import BudgetExceeded, ConfigError
from pegboard.core.limits import SystemClock
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.budgets import Budget, Meter, Spent
from pegboard.core.result import Notes, ToolResult
from pegboard.core.transcript import AssistantMessage, Usage
from pegboard.models import ScriptedModel
from pegboard.runtime.replay import replay
from tests.ledger import owes

HERE = Context(session="s", agent="a", run="r")


class Noon(SystemClock):
    """A clock that is set by hand; 2026-01-01T12:00:00Z."""

    at = 1767268800.0

    def now(self) -> float:
        return self.at


@tool(effects=PURE)
def ping(word: str = "x") -> str:
    """Answer."""
    return word


@tool(effects=PURE)
def pong() -> str:
    """Answer otherwise."""
    return "y"


def door_with(*budgets: Budget, approver: Any = None, clock: Any = None) -> Executor:
    door = Executor(Toolkit([ping, pong]), approver=approver)
    meter = Meter(budgets, clock=clock)
    door.pipeline.parts.guards = replace(door.pipeline.parts.guards, meter=meter)
    return door


@owes("G-09")
async def test_a_used_up_budget_refuses_and_tells_the_model_to_answer() -> None:
    door = door_with(Budget(name="few", tool="ping", calls=2, soft=1))

    results = [await door.call("ping", {}) for _ in range(3)]

    assert [r.ok for r in results] == [True, True, False]
    error = results[2].error
    assert error is not None and error.code == "budget_exceeded"
    assert "'few'" in error.message and "2 of 2 calls" in error.message
    assert "answer with what you have" in error.hint
    assert (await door.call("pong", {})).ok
    refused = [e for e in door.events if e.type == "call.started" and getattr(e, "decision", "") == "deny"]
    assert len(refused) == 1


@owes("G-09")
async def test_from_its_soft_stop_on_a_budget_asks_and_a_yes_for_the_session_ends_the_asking() -> None:
    asked: list[ApprovalRequest] = []
    answers = [Approved(), Approved(scope="session")]

    class Person:
        async def decide(self, request: ApprovalRequest) -> Approved:
            asked.append(request)
            return answers[len(asked) - 1]

    door = door_with(Budget(name="few", calls=6, soft=0.5), approver=Person())

    results = [await door.call("ping", {}) for _ in range(7)]

    assert [r.ok for r in results] == [True] * 6 + [False]
    assert len(asked) == 2
    assert "3 of 6 calls" in asked[0].reason
    assert door.wiring.grants is not None and not door.wiring.grants.list()


@owes("G-09")
async def test_where_nobody_answers_the_soft_stop_refuses() -> None:
    door = door_with(Budget(name="few", calls=2, soft=0.5))

    assert (await door.call("ping", {})).ok
    assert not (await door.call("ping", {})).ok


@owes("G-09")
async def test_bytes_of_results_and_seconds_are_counted() -> None:
    door = door_with(Budget(name="text", bytes_out=10, soft=1))

    assert (await door.call("ping", {"word": "ä" * 5})).ok
    over = await door.call("ping", {"word": "x"})

    assert over.error is not None and "10 of 10 bytes out" in over.error.message
    meter = Meter([Budget(name="time", seconds=1.5, soft=1)])
    await meter.charge("ping", HERE, Spent(seconds=1.5))
    with pytest.raises(BudgetExceeded, match=r"1\.5 of 1\.5 seconds"):
        await meter.soft_limit_warning("ping", HERE)


@owes("G-09")
async def test_money_of_the_model_counts_where_the_budget_is_for_all_tools() -> None:
    meter = Meter([Budget(name="all", money=1.0, soft=1), Budget(name="one", tool="ping", money=0.1)])

    await meter.charge("", HERE, Spent(money=1.0))

    with pytest.raises(BudgetExceeded, match=r"\$1.0000 of \$1.0000"):
        await meter.soft_limit_warning("ping", HERE)


@pytest.mark.parametrize(("per", "same", "other"), [
    ("run", replace(HERE, session="t"), replace(HERE, run="r2")),
    ("session", replace(HERE, run="r2"), replace(HERE, session="t")),
    ("ever", replace(HERE, session="t", run="r2"), None),
])  # fmt: skip
@owes("G-09")
async def test_each_span_has_its_own_account(per: Any, same: Context, other: Context | None) -> None:
    meter = Meter([Budget(name="b", per=per, calls=1, soft=1)])
    await meter.reserve("ping", HERE)

    with pytest.raises(BudgetExceeded):
        await meter.reserve("ping", same)
    if other is not None:
        await meter.reserve("ping", other)


@owes("G-09")
async def test_a_day_ends_at_midnight_utc() -> None:
    clock = Noon()
    meter = Meter([Budget(name="b", per="day", calls=1, soft=1)], clock=clock)
    await meter.reserve("ping", HERE)
    clock.at += 12 * 3600 - 1
    with pytest.raises(BudgetExceeded):
        await meter.reserve("ping", HERE)

    clock.at += 1

    await meter.reserve("ping", HERE)


async def test_each_gives_every_tool_an_account_of_its_own() -> None:
    meter = Meter([Budget(name="b", calls=1, each=("tool",), soft=1)])
    await meter.reserve("ping", HERE)

    await meter.reserve("pong", HERE)

    with pytest.raises(BudgetExceeded):
        await meter.reserve("ping", HERE)


async def test_a_call_that_does_not_begin_is_booked_nowhere() -> None:
    meter = Meter([Budget(name="wide", calls=5, soft=1), Budget(name="narrow", tool="ping", calls=1, soft=1)])
    await meter.reserve("ping", HERE)
    with pytest.raises(BudgetExceeded, match="narrow"):
        await meter.reserve("ping", HERE)

    for _ in range(4):
        await meter.reserve("pong", HERE)
    with pytest.raises(BudgetExceeded, match="5 of 5"):
        await meter.reserve("pong", HERE)


async def test_of_two_budgets_near_their_end_the_first_is_named() -> None:
    meter = Meter([Budget(name="one", calls=2, soft=0.5), Budget(name="two", calls=2, soft=0.5)])
    await meter.reserve("ping", HERE)

    assert "'one'" in await meter.soft_limit_warning("ping", HERE)
    meter.lift_soft_limit("ping", HERE)
    assert await meter.soft_limit_warning("ping", HERE) == ""


@pytest.mark.parametrize("wrong", [
    {}, {"calls": -1}, {"calls": 1, "soft": 2}, {"calls": 1, "per": "week"}, {"calls": 1, "each": ("model",)},
])  # fmt: skip
def test_a_budget_that_means_nothing_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="budget 'b'"):
        Budget(name="b", **wrong)


async def test_a_cancelled_call_has_used_its_time() -> None:
    begun = asyncio.Event()

    @tool(effects=PURE)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    door = Executor([wait])
    meter = Meter([Budget(name="b", calls=1, soft=1)])
    door.pipeline.parts.guards = replace(door.pipeline.parts.guards, meter=meter)
    task = asyncio.ensure_future(door.call("wait", {}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not (await door.call("wait", {})).ok


@owes("G-09")
async def test_a_call_ends_when_the_seconds_of_its_budget_are_used_up_and_says_how_to_raise_them() -> None:
    ended: list[str] = []

    @tool(effects=PURE, timeout_s=60)
    async def wait() -> str:
        """Wait for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleanly")
        return ""

    door = Executor([wait])
    meter = Meter([Budget(name="time", seconds=0.05, soft=1), Budget(name="wide", seconds=500, soft=1)])
    door.pipeline.parts.guards = replace(door.pipeline.parts.guards, meter=meter)

    cut_short = await door.call("wait", {})
    after = await door.call("wait", {})

    assert ended == ["cleanly"]
    assert cut_short.error is not None and cut_short.error.code == "budget_exceeded"
    assert "'time'" in cut_short.error.message and "0.05 seconds" in cut_short.error.message
    assert "[budgets.time] seconds = … (now 0.05)" in cut_short.error.hint
    assert after.error is not None and "is used up" in after.error.message


@owes("G-09")
async def test_a_result_is_cut_to_the_bytes_that_its_budget_leaves() -> None:
    door = door_with(Budget(name="text", bytes_out=500, soft=1))

    first = await door.call("ping", {"word": "a" * 300})
    second = await door.call("ping", {"word": "b" * 10_000})
    third = await door.call("ping", {"word": "c"})

    assert first.text == "a" * 300 and not first.notes.truncated
    assert second.notes.truncated and len(second.text) <= 300  # the note of the cut comes on top
    assert third.error is not None and "bytes_out = … (now 500)" in third.error.hint


@owes("G-09")
async def test_what_a_tool_pays_counts_as_money_of_its_budget() -> None:
    @tool(effects=PURE)
    def search() -> ToolResult:
        """A search that costs."""
        return ToolResult(content=(Text("found"),), notes=Notes(extra={"cost_usd": 0.6}))

    door = Executor([search])
    meter = Meter([Budget(name="paid", tool="search", money=1.0, soft=1)])
    door.pipeline.parts.guards = replace(door.pipeline.parts.guards, meter=meter)

    results = [await door.call("search", {}) for _ in range(3)]

    assert [r.ok for r in results] == [True, True, False]
    assert results[2].error is not None and "$1.2000 of $1.0000" in results[2].error.message


@owes("G-09", "G-03")
async def test_a_money_budget_ends_a_run_without_calls_cleanly_and_the_run_replays() -> None:
    paid = AssistantMessage(content=(Text("ok"),), stop="end", usage=Usage(cost_usd=0.7))
    calls = replace(paid, content=(ToolCall("c1", "ping", {}),), stop="tools")
    model = ScriptedModel([calls, replace(calls, content=(ToolCall("c2", "ping", {}),)), paid])
    agent = Agent(model=model, tools=[ping], store="memory")
    meter = Meter([Budget(name="purse", per="day", money=1.0, soft=1)])
    agent.executor.wiring.safeguards = replace(agent.executor.wiring.safeguards, meter=meter)

    first = await agent.run("go", session="s")
    second = await agent.run("go on", session="s")

    assert (
        first.status == "limit" and "budget 'purse' (per day) is used up, $1.4000 of $1.0000" in first.error
    )
    assert second.status == "limit" and len(model.requests) == 2
    for done in (first, second):
        assert (await replay(agent.session("s"), done.run_id)).finished is not None


@pytest.mark.parametrize("sizes", [(10, 500), (500, 10)])
async def test_of_several_budgets_the_least_is_left(sizes: tuple[int, int]) -> None:
    budgets = [Budget(name=f"b{size}", bytes_out=size, seconds=size) for size in sizes]

    left = await Meter(budgets).remaining("ping", HERE)

    assert (left.bytes_out, left.seconds) == (10, 10)
    assert left.budget is not None and left.budget.name == "b10"


@owes("G-09")
@pytest.mark.parametrize(("spent", "said"), [(0.99, False), (1.0, True), (1.5, True)])
async def test_money_that_is_all_spent_pays_for_no_further_turn(spent: float, said: bool) -> None:
    meter = Meter([Budget(name="m", money=1.0)])
    await meter.charge("", HERE, Spent(money=spent))

    assert bool(await meter.exhausted_reason(HERE)) == said
