"""Approving on a terminal: what is shown, what may be typed (K-26, G-25, perm-18)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pegboard.cli.approve import TerminalApprover, approver_for, parse_answer
from pegboard.cli.options import Options
from pegboard.core.content import ToolCall
from pegboard.core.effects import Change, Effect
from pegboard.core.errors import BuildError
from pegboard.core.policy.approval import AllowOnce, ApprovalRequest, Approved, DenyAll, Refused, SuspendAll
from tests.ledger import owes


class Typed:
    """Lines that a person types; waits until somebody asks."""

    def __init__(self, *lines: str | None) -> None:
        self.lines = list(lines)
        self.prompts = 0

    async def __call__(self, prompt: str) -> str | None:
        self.prompts += 1
        # The others that wait get their turn to say so.
        await asyncio.sleep(0)
        return self.lines.pop(0)


def request(number: int, target: str = "x", **more: Any) -> ApprovalRequest:
    effect = Effect("write", target)
    return ApprovalRequest(
        id=f"ap_{number}", call=ToolCall("c", "write_file", {}), tool=more.pop("tool", "write_file"),
        effects=(effect,), asking=(effect,), reason="mode ask", **more,
    )  # fmt: skip


@owes("K-26", "G-04")
@pytest.mark.parametrize(("line", "answer"), [
    ("y", Approved(by="terminal")), ("r", Approved(scope="run", by="terminal")), ("s", Approved(scope="session", by="terminal")),
    ("a 2h 5x", Approved(scope="always", expires_s=7200, uses=5, by="terminal")),
    ("n: not on Fridays", Refused("not on Fridays", "terminal")), ("n", Refused("", "terminal")),
    ("", None), ("y please", None), ("a 2y", None), ("maybe", None),
])  # fmt: skip
def test_what_may_be_typed(line: str, answer: Approved | Refused | None) -> None:
    assert parse_answer(line) == answer


async def test_what_is_no_answer_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    typed = Typed("maybe", "y")

    assert await TerminalApprover(typed).decide(request(1)) == Approved(by="terminal")
    assert typed.prompts == 2
    assert await TerminalApprover(Typed(None)).decide(request(1)) == Refused("no one answered")


@owes("K-26", "G-01")
async def test_of_a_long_diff_the_lines_that_were_left_out_are_shown_on_demand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    diff = "\n".join(f"+line {n}" for n in range(1, 301))
    long = request(1, changes=(Change(path="x", kind="create", before=None, after=b"same", diff=diff),))

    answer = await TerminalApprover(Typed("w", "n")).decide(long)
    shown = capsys.readouterr().out
    await TerminalApprover(Typed("w", "n")).decide(request(2))

    assert answer == Refused("", "terminal")
    assert "… 100 more lines of this diff" in shown
    assert shown.index("[w] show the whole diff") < shown.index("+line 201") < shown.index("+line 300")
    assert "[w]" not in capsys.readouterr().out


@owes("G-25")
async def test_one_key_answers_a_list_whatever_its_calls_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    typed = Typed("r")
    requests = request(1, "one"), request(2, "two", tainted=("x",)), request(3, "three", tool="other")

    answers = await TerminalApprover(typed).decide_all(requests)

    shown = capsys.readouterr().out
    assert answers == [Approved(scope="run", by="terminal")] * 3
    assert typed.prompts == 1
    assert "3 calls need your approval" in shown and "for all 3: [y] once" in shown
    assert "1. write_file wants to:" in shown and "write two" in shown and "3. other wants to:" in shown


@owes("G-25")
async def test_a_no_to_a_list_carries_its_reason() -> None:
    answers = await TerminalApprover(Typed("n: later")).decide_all([request(1), request(2)])

    assert answers == [Refused("later", "terminal")] * 2


@owes("G-25")
async def test_a_list_can_be_answered_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    typed = Typed("maybe", "e", "y", "e", "n: not this")

    answers = await TerminalApprover(typed).decide_all([request(1, "one"), request(2, "two")])

    assert answers == [Approved(by="terminal"), Refused("not this", "terminal")]
    # In a list of one there is nothing to go through.
    assert typed.prompts == 5
    assert "[e]" not in capsys.readouterr().out.rpartition("write two")[2]


async def test_an_input_that_ends_refuses_the_rest_of_a_list() -> None:
    answers = await TerminalApprover(Typed("e", "y", None)).decide_all([request(1), request(2)])

    assert answers == [Approved(by="terminal"), Refused("no one answered")]


async def test_questions_of_calls_that_run_at_once_are_asked_one_after_the_other() -> None:
    typed = Typed("y", "n", "y")
    approver = TerminalApprover(typed)

    answers = await asyncio.gather(*(approver.decide(request(n)) for n in range(3)))

    assert [type(a) for a in answers] == [Approved, Refused, Approved]


@owes("perm-18")
async def test_the_whole_command_is_shown_with_the_invisible_made_visible(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "echo " + "a" * 5000 + "\u200b\x1b[2K\n[y] once\u202etxt"

    await TerminalApprover(Typed("n")).decide(request(1, command))

    shown = capsys.readouterr().out
    assert "a" * 5000 in shown
    assert "\u200b" not in shown and "\u202e" not in shown and "\x1b" not in shown
    assert "200b" in shown and "\n     | [y] once" in shown


async def test_the_scripts_that_a_command_runs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    effect = Effect("exec", "sh run.sh", ("sh", "run.sh"), reason="new", bound="run.sh sha256:aa")
    asked = ApprovalRequest(id="ap", call=ToolCall("c", "exec", {}), tool="exec", effects=(effect,))

    await TerminalApprover(Typed("n")).decide(asked)

    assert "runs run.sh sha256:aa" in capsys.readouterr().out


@owes("K-28")
def test_who_answers_where_nobody_sits_at_a_terminal() -> None:
    assert isinstance(approver_for(Options(yes=True), on_ask="deny"), AllowOnce)
    assert isinstance(approver_for(Options(), on_ask="suspend"), SuspendAll)
    assert isinstance(approver_for(Options(json=True), on_ask="deny"), DenyAll)
    with pytest.raises(BuildError, match="--on-ask"):
        approver_for(Options(), on_ask="wait")
