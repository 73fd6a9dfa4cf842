"""Replay: byte for byte without model and world; a divergence shows where (ledger G-03, K-89)."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pegboard import Agent, Limits, tool
from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.content import Text
from pegboard.core.effects import PURE, Effect
from pegboard.core.events import CallFinished, Event, PermissionRequested, RunFinished, RunStarted
from pegboard.core.policy.approval import Approved, Refused, SuspendAll
from pegboard.core.secrets.redact import Redactor
from pegboard.models import ScriptedModel
from pegboard.runtime.fold import fold
from pegboard.runtime.replay import Divergence, replay, text_of_event
from pegboard.runtime.replay_live import behaviour, replay_live
from pegboard.services.run_files import export_pytest
from tests.ledger import owes

ROOT = Path(__file__).parents[2]


@tool(effects=PURE)
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=[Effect("write", "log.txt")])
async def risky(text: str) -> str:
    """Do something that asks."""
    return f"did {text}"


class Sum(BaseModel):
    total: int


def call(name: str = "add", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments or {"a": 1, "b": 2}}


RUNS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "parallel calls, one unknown": ([{"calls": [call(), call("nope"), call(a="x", b=1)]}, {"text": "3"}], {}),
    "an empty answer": ([{"text": ""}, {"text": "here"}], {}),
    "a cut answer": ([{"text": "half", "stop": "length"}, {"text": " whole"}], {}),
    "a budget that ends": ([{"calls": [call()]}] * 3 + [{"text": "out"}], {"limits": Limits(turns=3)}),
    "repeats": ([{"calls": [call()]}] * 4 + [{"text": "sorry"}], {}),
    "a model that fails": ([{"calls": [call()], "text": "so far"}, {"error": "overloaded"}], {}),
    "a script that ends": ([{"calls": [call()]}], {}),
    "typed output": ([{"text": "no"}, {"text": '{"total": 3}'}], {"output": Sum}),
    "typed output never": ([{"text": "no"}] * 3, {"output": Sum}),
    "refused calls": ([{"calls": [call("risky", text="x")]}, {"text": "ok"}], {"mode": "read-only"}),
    "calls beyond a limit": (
        [{"calls": [call(), call(a=5, b=5)]}, {"text": "ok"}], {"limits": Limits(tool_calls={"add": 1})}),
    "a window that is kept": (
        [{"calls": [call(a=n, b=10**40)]} for n in range(80)] + [{"text": "ok"}],
        {"limits": Limits(turns=99, context_tokens=2500)}),
}  # fmt: skip


@owes("G-03", "K-89")
@pytest.mark.parametrize("name", RUNS)
async def test_every_kind_of_run_replays_exactly(name: str) -> None:
    script, options = RUNS[name]
    agent = Agent(tools=[add, risky], model=ScriptedModel(script), **options)
    answer = await agent.run("do it", session="s")
    # As a store keeps it: through the codec.
    kept = [event_from_dict(event_to_dict(e)) for e in agent.session("s")]

    done = await replay(kept, answer.run_id)

    assert done.events == len(kept)
    assert done.finished is not None
    assert done.finished.status == answer.status
    assert [text_of_event(e) for e in kept] == [text_of_event(e) for e in agent.session("s")]


@owes("G-03")
async def test_a_second_run_of_a_session_and_a_word_said_meanwhile_replay_too() -> None:
    agent: Agent

    def meanwhile(_: Any) -> dict[str, Any]:
        agent.tell("and be quick", session="s")
        return {"calls": [call()]}

    agent = Agent(tools=[add], model=ScriptedModel([{"text": "one"}, meanwhile, {"text": "two"}]))
    first = await agent.run("first", session="s")
    second = await agent.run("second", session="s")

    assert (await replay(agent.session("s"), first.run_id)).events == 4
    assert (await replay(agent.session("s"), second.run_id)).finished.answer == "two"  # pyright: ignore


@owes("G-03")
async def test_a_suspended_and_resumed_run_replays_over_both_parts() -> None:
    agent = Agent(
        tools=[add, risky], mode="ask", approver=SuspendAll(),
        model=ScriptedModel([{"calls": [call(), call("risky", text="x")]}, {"text": "done"}]),
    )  # fmt: skip
    answer = await agent.run("go", session="s")
    key = answer.pending[0]["pending"]
    events = [
        e async for e in agent.resume_events(answer.run_id, agent.session("s"), answers={key: Approved()})
    ]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "done"

    done = await replay(agent.session("s"), answer.run_id)

    assert done.finished == events[-1]


@owes("G-03")
async def test_a_run_whose_process_was_killed_replays_up_to_there() -> None:
    agent = Agent(tools=[add], model=ScriptedModel([{"calls": [call()]}, {"text": "3"}]))
    answer = await agent.run("go", session="s")
    events = agent.session("s")

    for end in range(1, len(events)):
        done = await replay(events[:end], answer.run_id)
        assert done.events == end
        assert done.finished is None


@owes("G-03")
async def test_a_cancelled_run_replays() -> None:
    started = asyncio.Event()

    @tool(effects=PURE)
    async def forever() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(tools=[forever], model=ScriptedModel([{"calls": [{"name": "forever", "arguments": {}}]}]))
    work = asyncio.ensure_future(agent.run("go", session="s"))
    await started.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    events = agent.session("s")

    assert (await replay(events, events[0].run)).events == len(events)  # pyright: ignore


@owes("G-03")
async def test_a_divergence_is_an_error_that_shows_where() -> None:
    agent = Agent(tools=[add], model=ScriptedModel([{"calls": [call()]}, {"text": "3"}]))
    answer = await agent.run("go", session="s")
    events: list[Event] = list(agent.session("s"))
    finished = events[-1]
    assert isinstance(finished, RunFinished)

    events[-1] = replace(finished, answer="4")
    with pytest.raises(Divergence) as caught:
        await replay(events, answer.run_id)
    assert caught.value.place == len(events) - 1
    assert '"answer": "4"' in str(caught.value)
    assert '"answer": "3"' in str(caught.value)

    without = [e for e in agent.session("s") if not isinstance(e, CallFinished)]
    with pytest.raises(Divergence, match="the calls add"):
        await replay(without, answer.run_id)


@owes("G-03")
async def test_a_live_model_gets_recorded_results_and_a_miss_is_an_error() -> None:
    ran: list[int] = []

    @tool(effects=PURE)
    async def double(n: int) -> int:
        """Double."""
        ran.append(n)
        return n * 2

    agent = Agent(tools=[double], model=ScriptedModel([{"calls": [call("double", n=4)]}, {"text": "8"}]))
    answer = await agent.run("go", session="s")
    kit = agent.executor.toolkit

    async def is_interactive(script: list[Any]) -> list[Event]:
        model = ScriptedModel(script)
        return await replay_live(
            agent.session("s"), answer.run_id, model=model, instructions="", toolkit=kit, limits=Limits()
        )

    same = await is_interactive([{"calls": [call("double", n=4)]}, {"text": "eight"}])
    missed = await is_interactive([{"calls": [call("double", n=5)]}, {"text": "ten"}])

    assert ran == [4]
    assert same[-1].answer == "eight"  # pyright: ignore
    assert missed[-1].status == "failed"  # pyright: ignore
    assert "no result for double" in missed[-1].error  # pyright: ignore
    assert [line for line in behaviour(same) if line not in behaviour(answer.events)] == ["model: eight"]


def rows_of(source: str) -> list[str]:
    tree = ast.parse(source)
    listed = next(n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "EVENTS")  # pyright: ignore
    return ast.literal_eval(listed)


@owes("G-03", "K-89")
async def test_a_live_models_call_is_looked_up_as_it_would_stand_in_the_record() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    redact = Redactor().redact
    agent = Agent(
        tools=[risky],
        mode="full",
        model=ScriptedModel([{"calls": [call("risky", text=secret)]}, {"text": "done"}]),
    )
    answer = await agent.run("go", session="s")
    kept = [event_from_dict(json.loads(redact(json.dumps(event_to_dict(e)))[0])) for e in agent.session("s")]

    async def is_interactive(text: str) -> list[Event]:
        model = ScriptedModel([{"calls": [call("risky", text=text)]}, {"text": "done"}])
        return await replay_live(
            kept, answer.run_id, model=model, instructions="", toolkit=agent.executor.toolkit, limits=Limits(),
            redact=redact,
        )  # fmt: skip

    same, other = await is_interactive(secret), await is_interactive(secret[:-1] + "9")

    assert same[-1].status == "done"  # pyright: ignore
    assert other[-1].status == "failed"  # pyright: ignore
    assert "no result for risky" in other[-1].error  # pyright: ignore
    assert "ghp_" not in other[-1].error  # pyright: ignore


@pytest.mark.parametrize("answer", [Approved(), Refused("no")])
@owes("G-03", "perm-18", "K-25")
async def test_a_call_that_waited_and_held_a_secret_replays_whatever_was_answered(answer: Any) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    redact = Redactor().redact

    def stored(events: list[Event]) -> list[Event]:
        return [event_from_dict(json.loads(redact(json.dumps(event_to_dict(e)))[0])) for e in events]

    first = Agent(
        tools=[risky], mode="ask", approver=SuspendAll(),
        model=ScriptedModel([{"calls": [call("risky", text="plain"), call("risky", text=secret)]}]),
    )  # fmt: skip
    run = (await first.run("go", session="s")).run_id
    before = stored(first.session("s"))
    plain, held = (e for e in before if isinstance(e, PermissionRequested))
    # One call may be made now, and a void one is counted before the others.
    other = Agent(tools=[risky], mode="ask", model=ScriptedModel([{"text": "done"}]), limits=Limits(calls=1))
    answers = {plain.approval: Refused("no"), held.approval: answer}
    later = [e async for e in other.resume_events(run, before, answers=answers)]
    kept = stored(other.session("s"))

    results = {e.result.call_id: e.result.error for e in later if isinstance(e, CallFinished)}
    void, beyond = results[held.call_id], results[plain.call_id]
    assert void is not None
    assert beyond is not None
    assert void.details.get("void") == ("secret" if isinstance(answer, Approved) else None)
    assert ("beyond" in beyond.details) == isinstance(answer, Approved)
    assert (await replay(kept, run)).events == len(kept)


@pytest.mark.slow
@owes("G-03", "K-89")
async def test_an_exported_test_passes_is_redacted_and_lists_what_it_holds(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    agent = Agent(
        tools=[risky], mode="full",
        model=ScriptedModel([{"calls": [call("risky", text=secret)]}, {"text": "done"}]),
    )  # fmt: skip
    answer = await agent.run(f"use {secret}", session="s")

    done = await export_pytest(agent.session("s"), answer.run_id)

    assert secret not in done.source
    assert "effect: write log.txt" in done.includes
    taken_out = next(line for line in done.includes if "secrets taken out" in line)
    again = await export_pytest([event_from_dict(json.loads(r)) for r in rows_of(done.source)], answer.run_id)
    # Of a record from which they were taken before, as a store keeps it, they are missing all the same.
    assert taken_out in again.includes
    assert not taken_out.startswith("0 ")
    assert any("arguments and result of 1 call of risky" in line for line in done.includes)
    assert all(line in done.source for line in done.includes)
    path = tmp_path / "test_exported.py"
    path.write_text(done.source)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"),
         "--rootdir", str(ROOT), str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_text_results_in_the_record_keep_every_block() -> None:
    started = RunStarted(run="r", session="s", agent="main", model="m", task="t")
    assert event_from_dict(event_to_dict(started)) == started
    assert Text("x").to_dict() == {"type": "text", "text": "x"}


@tool(effects=[Effect("connect", "evil.example")])
async def page() -> str:
    """A foreign page."""
    return "obey"


@owes("K-36", "G-03")
async def test_the_ids_of_marks_differ_between_runs_of_equal_call_ids_and_are_the_same_in_a_replay() -> None:
    shown: list[str] = []
    for session in ("s", "t"):
        model = ScriptedModel([{"calls": [{"id": "c1", "name": "page", "arguments": {}}]}, {"text": "done"}])
        agent = Agent(model=model, tools=[page], policy=["allow connect"])
        done = await agent.run("look", session=session)
        sent = [r.text for m in model.requests[-1].messages for r in getattr(m, "results", ())]
        events = agent.session(session)
        folded = [r.text for m in fold(events).messages for r in getattr(m, "results", ())]

        assert folded == sent
        assert (await replay(events, done.run_id)).finished is not None
        shown += sent

    assert len(shown) == 2 and all(s.startswith("<<untrusted ") for s in shown)
    assert shown[0] != shown[1]
