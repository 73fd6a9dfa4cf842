"""Replanning: a recorded call's arguments, effects and decision by the tools and rules of now (ledger G-03, G-08)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, Executor, Limits, ReadPath, WritePath, builtin, tool
from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.effects import PURE, Effect
from pegboard.core.events import CallFinished, CallStarted, Event, RunStarted
from pegboard.core.policy.approval import Approved
from pegboard.models import ScriptedModel
from pegboard.runtime.replanning import Replanner
from pegboard.runtime.replay import Divergence, replay
from pegboard.runtime.replay_live import Comparison, compare_now
from tests.ledger import owes


def sends(where: str, name: str = "send_note", level: str | None = None) -> Any:
    """A tool of one revision: what it does is in its effects."""

    def effects(arguments: Mapping[str, Any]) -> list[Effect]:
        return [Effect("send", f"{where}:{arguments['to']}")]

    @tool(name=name, effects=effects, **({} if level is None else {"level": level}))
    async def send_note(to: str, text: str = "") -> str:
        """Send a note."""
        return f"sent to {to}"

    return send_note


def doubles(factor: int) -> Any:
    @tool(name="double", effects=PURE)
    async def double(n: int) -> int:
        """Double a number."""
        return n * factor

    return double


TURN = {
    "calls": [
        {"name": "send_note", "arguments": {"to": "ann", "text": "hi"}},
        {"name": "double", "arguments": {"n": 4}},
        {"name": "double", "arguments": {"n": "many"}},
    ]
}


async def recorded(
    tools: list[Any], script: list[Any] | None = None, **options: Any
) -> tuple[list[Event], str]:
    agent = Agent(
        tools=tools, model=ScriptedModel(script or [TURN, {"text": "done"}]), store="memory", **options
    )
    answer = await agent.run("go", session="s")
    return [event_from_dict(event_to_dict(e)) for e in agent.session("s")], answer.run_id


def planner(events: list[Event], tools: list[Any], *, lenient: bool = False, **options: Any) -> Replanner:
    start = next(e for e in events if isinstance(e, RunStarted))
    door = Executor(tools, **options)
    return Replanner(
        pipeline=door.pipeline, policy=start.detail["policy"]["revision"], lenient=lenient,
        then=start.detail["workspace"] or None, workspace=door.context.workspace,
    )  # fmt: skip


async def now(events: list[Event], run: str, tools: list[Any], **options: Any) -> Comparison:
    return await compare_now(events, run, planner(events, tools, lenient=True, **options))


def changed(done: Comparison) -> list[str]:
    return [line for line in done.diff if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@owes("G-03")
async def test_a_replay_plans_and_decides_every_call_again_and_finds_them_the_same() -> None:
    events, run = await recorded([sends("mail"), doubles(2)], mode="full")
    again = planner(events, [sends("mail"), doubles(2)], mode="full")

    done = await replay(events, run, planner=again)

    assert done.events == len(events)
    assert (again.checked, again.untold, again.otherwise) == (3, [], 0)


@owes("G-03")
@pytest.mark.parametrize(
    ("tools", "shown"),
    [
        ([sends("chat"), doubles(2)], '"target": "chat:ann"'),
        ([sends("mail", level="confirm"), doubles(2)], '"decision": "ask"'),
        ([doubles(2)], "Tool 'send_note' not found"),
        ([sends("mail")], "Tool 'double' not found"),
    ],
    ids=["other effects", "another level", "a tool that is gone", "a pure tool that is gone"],
)
async def test_a_call_that_is_planned_or_decided_otherwise_ends_the_replay_there(
    tools: list[Any], shown: str
) -> None:
    events, run = await recorded([sends("mail"), doubles(2)], mode="full")
    again = planner(events, tools, mode="full")

    with pytest.raises(Divergence) as caught:
        await replay(events, run, planner=again)

    assert shown in (caught.value.got or "")
    assert isinstance(events[caught.value.place], CallStarted)


@owes("G-03")
async def test_an_error_in_the_arguments_is_compared_word_by_word() -> None:
    events, run = await recorded([sends("mail"), doubles(2)], mode="full")

    @tool(name="double", effects=PURE)
    async def double(n: int | str) -> str:
        """Double a number, or a word."""
        return str(n) * 2

    with pytest.raises(Divergence) as caught:
        await replay(events, run, planner=planner(events, [sends("mail"), double], mode="full"))

    assert "invalid_arguments" in (caught.value.expected or "")
    assert '"type": "call.started"' in (caught.value.got or "")


@owes("G-03", "G-08")
async def test_under_other_rules_a_replay_is_the_same_and_counts_what_they_would_decide() -> None:
    events, run = await recorded([sends("mail"), doubles(2)], mode="full")
    again = planner(events, [sends("mail"), doubles(2)], mode="full", policy=["deny send:mail:*"])

    done = await replay(events, run, planner=again)

    assert done.finished is not None
    assert again.otherwise == 1


@owes("G-03", "G-08")
async def test_what_would_differ_now_is_one_readable_diff_of_effects_decisions_and_results() -> None:
    events, run = await recorded([sends("mail"), doubles(2)], mode="full")

    same = await now(events, run, [sends("mail"), doubles(2)], mode="full")
    denied = await now(events, run, [sends("mail"), doubles(2)], mode="full", policy=["deny send:mail:*"])
    other = await now(events, run, [sends("chat"), doubles(3)], mode="full")

    assert (same.diff, same.checked) == ((), 3)
    # Another call may end between the two: first what was, then what would be.
    assert sorted(changed(denied), key=lambda line: line[0] == "+") == [
        "-  decision: allow, mode full",
        "-  send_note -> ok",
        "-  sent to ann",
        "+  decision: deny, deny send:mail:*",
        "+  send_note -> permission_denied",
        "+  Error: send_note may not run: deny send:mail:*",
    ]
    assert changed(other) == [
        "-  effect: send mail:ann", "+  effect: send chat:ann", "-  8", "+  12",
    ]  # fmt: skip


@owes("G-03")
async def test_a_call_that_would_not_start_now_is_shown_with_its_error() -> None:
    events, run = await recorded([sends("mail"), doubles(2)], mode="full")

    done = await now(events, run, [doubles(2)], mode="full")

    lines = changed(done)
    assert '-call: send_note {"text": "hi", "to": "ann"}' in lines
    assert '+call: send_note {"text": "hi", "to": "ann"} -> unknown_tool' in lines


class Yes:
    """A person who says yes."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope

    async def decide(self, request: Any) -> Any:
        """See Approver."""
        return Approved(scope=self.scope, by="ann")


@owes("G-03")
async def test_what_a_person_answered_then_is_no_difference_now() -> None:
    script = [TURN, {"calls": [{"name": "send_note", "arguments": {"to": "ann"}}]}, {"text": "done"}]
    tools = [sends("mail"), doubles(2)]
    events, run = await recorded(tools, script, mode="ask", approver=Yes("session"))
    rules = [e.rule for e in events if isinstance(e, CallStarted) and e.tool == "send_note"]
    refused, other = await recorded(tools, mode="ask")

    assert rules[0] == "mode ask" and rules[1].startswith("grant ")
    assert (await now(events, run, tools, mode="ask")).diff == ()
    assert (await now(refused, other, tools, mode="ask")).diff == ()


@tool
async def peek(path: ReadPath) -> str:
    """Read a file."""
    return "seen"


@tool
async def fetch(host: str, path: WritePath = "out.txt") -> str:
    """Fetch into a file."""
    return "fetched"


@owes("G-03", "G-06")
async def test_decisions_that_hang_on_taint_are_the_same_in_a_replay(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("K=1")

    @tool(effects=[Effect("connect", "evil.example")])
    async def page() -> str:
        """A foreign page."""
        return "obey"

    script = [
        {"calls": [{"name": "peek", "arguments": {"path": ".env"}}]},
        {"calls": [{"name": "page", "arguments": {}}]},
        {"calls": [{"name": "send_note", "arguments": {"to": "eve"}}]},
        {"text": "done"},
    ]
    tools = [peek, page, sends("mail")]
    options: dict[str, Any] = {"workspace": tmp_path, "mode": "full", "approver": Yes("once")}
    events, run = await recorded(tools, script, **options)
    last = [e for e in events if isinstance(e, CallStarted)][-1]
    again = planner(events, tools, workspace=tmp_path, mode="full")

    done = await replay(events, run, planner=again)

    assert last.rule == "taint"
    assert done.finished is not None
    assert (again.checked, again.untold) == (3, [])


@owes("G-03")
async def test_a_plan_over_files_that_have_changed_since_is_told_and_its_decision_still_compared(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    edit = {"path": "a.txt", "old_string": "one", "new_string": "two"}
    script = [{"calls": [{"name": "edit_file", "arguments": edit}]}, {"text": "done"}]
    kit = list(builtin("edit_file"))
    events, run = await recorded(kit, script, workspace=tmp_path, mode="workspace")
    assert (tmp_path / "a.txt").read_text() == "two\n"
    again = planner(events, kit, workspace=tmp_path, mode="workspace")

    await replay(events, run, planner=again)
    done = await now(events, run, kit, workspace=tmp_path, mode="read-only")

    assert len(again.untold) == 1 and "edit_file: what it was planned on has changed" in again.untold[0]
    assert any(line.startswith("+  decision: deny, mode read-only") for line in changed(done))
    assert (tmp_path / "a.txt").read_text() == "two\n"


@owes("G-03")
async def test_a_script_that_the_run_changed_after_it_ran_is_compared_as_it_was_then(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text("print(1)\n")
    script = [
        {"calls": [{"name": "exec", "arguments": {"command": "python3 count.py"}}]},
        {"calls": [{"name": "write_file", "arguments": {"path": "count.py", "content": "print(2)\n"}}]},
        {"text": "done"},
    ]
    kit = list(builtin("exec", "write_file"))
    events, run = await recorded(kit, script, workspace=tmp_path, mode="workspace")
    again = planner(events, kit, workspace=tmp_path, mode="workspace")

    done = await replay(events, run, planner=again)

    assert done.finished is not None
    assert again.checked == 2
    assert [line.partition(":")[0] for line in again.untold] == ["exec", "write_file"]


@owes("G-03")
async def test_in_another_workspace_nothing_is_planned_again_and_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    script = [{"calls": [{"name": "peek", "arguments": {"path": "x"}}]}, {"text": "done"}]
    events, run = await recorded([peek], script, workspace=tmp_path / "one")
    again = planner(events, [peek], workspace=tmp_path / "two")

    await replay(events, run, planner=again)

    assert again.untold == [f"peek: the run worked in {tmp_path / 'one'}"]
    assert again.checked == 0


@owes("G-03", "K-51")
async def test_results_that_the_loop_itself_gave_are_no_difference_now() -> None:
    limits = Limits(tool_calls={"double": 1})
    twice = {"calls": [{"name": "double", "arguments": {"n": n}} for n in (1, 2)]}
    events, run = await recorded([doubles(2)], [twice, {"text": "done"}], limits=limits)
    refused = [e for e in events if isinstance(e, CallFinished) and not e.result.ok]

    assert len(refused) == 1
    assert (await now(events, run, [doubles(2)])).diff == ()
