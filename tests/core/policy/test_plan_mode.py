"""Mode plan: it only reads, a yes to a plan allows exactly what was shown, and what goes beyond asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard import Effect, Executor, Policy, builtin
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused
from pegboard.core.policy.policy import PROPOSE_PLAN
from pegboard.core.policy.rules import Situation

TOOLS = ("read_file", "write_file", "delete_file", "exec", "todo", "propose_plan", "web_fetch")
PLAN = {
    "plan": "Write b.txt, then look.",
    "files": ["b.txt"],
    "commands": ["echo hi > log.txt"],
    "hosts": ["pypi.org"],
}


class Person:
    """Answers in order, and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self._answers.pop(0)


def planning(folder: Path, person: Person, **options: Any) -> Executor:
    return Executor(builtin(*TOOLS), workspace=folder, mode="plan", approver=person, **options)


async def test_nothing_changes_before_a_yes_and_exactly_the_plan_is_allowed_after_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    person = Person(Approved(by="ann"), Refused("no"), Refused("no"))
    async with planning(tmp_path, person) as executor:
        read = await executor.call("read_file", {"path": "a.txt"})
        early = await executor.call("write_file", {"path": "b.txt", "content": "1"})
        ran = await executor.call("exec", {"command": "touch c.txt"})
        assert (read.ok, early.ok, ran.ok) == (True, False, False)
        assert early.error is not None and "propose_plan" in early.error.message
        assert person.asked == []

        proposed = await executor.call(PROPOSE_PLAN, PLAN)
        assert proposed.ok
        shown = {(e.kind, e.target) for e in person.asked[0].effects}
        assert {("write", "b.txt"), ("write", "log.txt"), ("connect", "pypi.org")} <= shown
        assert executor.policy.mode == "workspace"

        planned = await executor.call("write_file", {"path": "b.txt", "content": "2"})
        command = await executor.call("exec", {"command": "echo hi > log.txt"})
        assert (planned.ok, command.ok, len(person.asked)) == (True, True, 1)
        beyond = await executor.call("write_file", {"path": "c.txt", "content": "3"})
        other = await executor.call("exec", {"command": "touch d.txt"})

    assert (beyond.ok, other.ok, len(person.asked)) == (False, False, 3)
    assert "not part of the plan" in person.asked[1].reason
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.txt", "log.txt"]


async def test_a_no_to_a_plan_is_none_to_its_parts_and_a_better_plan_may_follow(tmp_path: Path) -> None:
    person = Person(Refused("use c.txt too"), Approved())
    async with planning(tmp_path, person) as executor:
        turn = await executor.call(PROPOSE_PLAN, PLAN)
        assert turn.error is not None and "use c.txt too" in turn.error.message
        assert executor.policy.mode == "plan"

        better = await executor.call(PROPOSE_PLAN, {**PLAN, "files": ["b.txt", "c.txt"]})

    assert better.ok and executor.policy.planned is not None


async def test_a_plan_brings_no_labels_since_it_only_names_what_is_reached(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    person = Person(Approved())
    async with planning(tmp_path, person) as executor:
        result = await executor.call(
            PROPOSE_PLAN, {"plan": "look", "commands": ["cat .env"], "hosts": ["pypi.org"]}
        )
        seen = await executor.call("read_file", {"path": ".env"})

    assert (result.ok, result.notes.labels) == (True, ())
    assert "private" in seen.notes.labels


async def test_a_plan_that_names_what_a_rule_denies_is_refused_at_once(tmp_path: Path) -> None:
    person = Person()
    async with planning(tmp_path, person, policy=["deny write:b.txt reason=hands off"]) as executor:
        result = await executor.call(PROPOSE_PLAN, PLAN)

    assert result.error is not None and "hands off" in result.error.message
    assert person.asked == []


async def test_an_empty_plan_asks_too_and_a_rule_that_allows_agrees_to_no_plan(tmp_path: Path) -> None:
    person = Person(Refused(), Refused())
    async with planning(tmp_path, person, policy=["allow write:**"]) as executor:
        nothing = await executor.call(PROPOSE_PLAN, {"plan": "think"})
        allowed = await executor.call(PROPOSE_PLAN, {"plan": "write", "files": ["b.txt"]})

    assert (nothing.ok, allowed.ok, len(person.asked)) == (False, False, 2)


async def test_outside_mode_plan_there_is_nothing_to_propose(tmp_path: Path) -> None:
    async with Executor(builtin(*TOOLS), workspace=tmp_path, mode="workspace") as executor:
        result = await executor.call(PROPOSE_PLAN, PLAN)

    assert result.error is not None and result.error.code == "conflict"


async def test_another_mode_ends_the_plan(tmp_path: Path) -> None:
    async with planning(tmp_path, Person(Approved())) as executor:
        await executor.call(PROPOSE_PLAN, PLAN)
        executor.set_mode("workspace")
        result = await executor.call("write_file", {"path": "anything.txt", "content": "1"})

    assert result.ok


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        (Effect("write", "a.py"), "allow"),
        (Effect("write", "b.py"), "ask"),
        (Effect("delete", "a.py"), "ask"),
        (Effect("read", "b.py"), "allow"),
        (Effect("exec", "pytest -q", ("pytest", "-q")), "allow"),
        (Effect("exec", "pytest -q x", ("pytest", "-q", "x")), "ask"),
        (Effect("exec", "ls", ("ls",), read_only=True), "allow"),
        (Effect("connect", "pypi.org"), "allow"),
        (Effect("connect", "pypi.org:443"), "allow"),
        (Effect("connect", "pypi.org:8080"), "ask"),
        (Effect("write", ".git/hooks/pre-commit"), "ask"),
    ],
    ids=str,
)
def test_what_was_planned_is_allowed_to_the_letter(effect: Effect, verdict: str) -> None:
    planned = (
        Effect("write", "a.py"),
        Effect("exec", "pytest -q", ("pytest", "-q")),
        Effect("connect", "pypi.org"),
        Effect("write", ".git/hooks/pre-commit"),
    )
    policy = Policy(planned=planned)

    assert policy((effect,), Situation(values={"tool": "t"})).verdict == verdict
    assert policy.revision != Policy().revision
