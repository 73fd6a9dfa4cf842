"""Calls that wait: answers become results, nothing runs twice (decisions 5, 14; ledger K-25; case perm-16)."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Agent, Effect, tool
from pegboard.core.errors import BuildError
from pegboard.core.events import CallFinished, CallStarted, Event, PermissionRequested, RunFinished
from pegboard.core.policy.approval import AllowOnce, Approved, DenyAll, Refused, SuspendAll, Waiting
from pegboard.models import ScriptedModel
from pegboard.runtime.fold import fold
from pegboard.runtime.replay import replay
from tests.ledger import owes
from tests.runtime.transcripts import valid


class World:
    """What the tools did."""

    def __init__(self) -> None:
        self.asked = 0
        self.log: list[str] = []
        self.target = "a.txt"

    def tools(self) -> list[Any]:
        @tool(effects=[Effect("control", "people")])
        async def ask() -> Waiting:
            """Ask a person."""
            self.asked += 1
            return Waiting("question", f"q{self.asked}", None, {"question": "which colour?"})

        @tool(effects=lambda arguments: [Effect("write", self.target)])
        async def risky(text: str) -> str:
            """Write."""
            self.log.append(text)
            return f"wrote {text}"

        @tool(effects=[Effect("read", "b.txt")])
        async def safe() -> str:
            """Read."""
            self.log.append("read")
            return "read"

        return [ask, risky, safe]


def agent(world: World, *calls: str) -> tuple[Agent, ScriptedModel]:
    made = [{"name": n, "arguments": {"text": n} if n == "risky" else {}} for n in calls]
    model = ScriptedModel([{"calls": made}, {"text": "done"}])
    rules = ["allow control:people"]
    return Agent(tools=world.tools(), model=model, mode="ask", policy=rules, approver=SuspendAll()), model


async def resumed(one: Agent, run: str, **options: Any) -> list[Event]:
    return [e async for e in one.resume_events(run, one.session("s"), **options)]


@owes("K-25")
async def test_the_answer_to_a_question_is_the_calls_result_and_the_tool_does_not_run_again() -> None:
    world = World()
    one, model = agent(world, "ask", "safe")
    answer = await one.run("go", session="s")
    assert (answer.status, [p["pending"] for p in answer.pending]) == ("suspended", ["q1"])
    assert answer.pending[0]["question"] == "which colour?"

    events = await resumed(one, answer.run_id, answers={"q1": "blue"})

    assert isinstance(events[-1], RunFinished)
    assert events[-1].answer == "done"
    assert world.asked == 1
    assert world.log == ["read"]
    results = model.requests[1].messages[-1].results  # pyright: ignore
    assert [r.text for r in results] == ["blue", "read"]
    valid(model.requests[1].messages)
    assert (await replay(one.session("s"), answer.run_id)).finished == events[-1]


@owes("K-25")
async def test_a_question_without_an_answer_goes_on_waiting_under_the_same_key() -> None:
    world = World()
    one, _ = agent(world, "ask")
    answer = await one.run("go", session="s")

    events = await resumed(one, answer.run_id)
    again = await resumed(one, answer.run_id, answers={"q1": "red"})

    assert isinstance(events[-1], RunFinished)
    assert (events[-1].status, events[-1].pending[0]["pending"]) == ("suspended", "q1")
    assert again[-1].status == "done"  # pyright: ignore
    assert world.asked == 1
    assert (await replay(one.session("s"), answer.run_id)).finished == again[-1]


@owes("perm-16", "K-25")
async def test_one_of_two_approvals_answered_runs_that_call_alone() -> None:
    world = World()
    one, _ = agent(world, "risky", "risky")
    answer = await one.run("go", session="s")
    first, second = [str(p["pending"]) for p in answer.pending]

    half = await resumed(one, answer.run_id, answers={first: Approved(by="me")})
    assert half[-1].status == "suspended"  # pyright: ignore
    assert [p["pending"] for p in half[-1].pending] == [second]  # pyright: ignore
    assert world.log == ["risky"]
    whole = await resumed(one, answer.run_id, answers={second: Refused("no more")})

    assert whole[-1].status == "done"  # pyright: ignore
    assert world.log == ["risky"]
    finished = [e.result for e in whole if isinstance(e, CallFinished)]
    assert "no more" in finished[-1].text
    valid(fold(one.session("s")).messages)


@owes("perm-18")
async def test_a_yes_is_void_where_the_effects_are_others_by_now() -> None:
    world = World()
    one, _ = agent(world, "risky")
    answer = await one.run("go", session="s")
    asked = next(e for e in answer.events if isinstance(e, PermissionRequested))
    assert len(asked.digest) == 64

    world.target = "secret.txt"
    events = await resumed(one, answer.run_id, answers={asked.approval: Approved()})

    assert world.log == []
    result = next(e.result for e in events if isinstance(e, CallFinished))
    assert "has changed since it was approved" in result.text


@pytest.mark.parametrize(("approver", "ran"), [(AllowOnce(), ["risky"]), (DenyAll(), [])])
async def test_whoever_is_there_at_resume_answers_the_rest(approver: Any, ran: list[str]) -> None:
    world = World()
    one, _ = agent(world, "risky")
    answer = await one.run("go", session="s")

    events = await resumed(one, answer.run_id, approver=approver)

    assert events[-1].status == "done"  # pyright: ignore
    assert world.log == ran


@owes("perm-13")
async def test_a_run_that_its_session_has_left_behind_cannot_be_taken_up() -> None:
    world = World()
    one, model = agent(world, "risky")
    answer = await one.run("go", session="s")
    await one.run("never mind", session="s")

    with pytest.raises(BuildError, match="has continued"):
        await resumed(one, answer.run_id, answers={answer.pending[0]["pending"]: Approved()})
    assert world.log == []
    closed = model.requests[1].messages[2].results[0]  # pyright: ignore
    assert "waited for an answer that did not come" in closed.text
    valid(model.requests[1].messages)


@owes("G-10", "G-17")
async def test_an_approved_call_whose_process_ends_while_it_runs_is_not_done_again() -> None:
    world = World()
    one, _ = agent(world, "risky")
    answer = await one.run("go", session="s")
    key = answer.pending[0]["pending"]
    events = await resumed(one, answer.run_id, answers={key: Approved(by="bob")})
    assert world.log == ["risky"]
    began = next(i for i, e in enumerate(events) if isinstance(e, CallStarted))
    before = len(one.session("s")) - len(events)

    # Its process ended here: the start is written down, the result is not.
    again, model = agent(world, "risky")
    again.remember("s", [*one.session("s")[:before], *events[: began + 1]])
    model.skip(1)
    events = await resumed(again, answer.run_id, answers={key: Approved(by="bob")})

    assert world.log == ["risky"]
    result = next(e.result for e in events if isinstance(e, CallFinished))
    assert result.error is not None
    assert result.error.code == "interrupted"
    assert "it is unknown whether it took effect" in result.error.message
