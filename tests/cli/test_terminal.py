"""What a person at a terminal meets: questions, answers and the moving line, in this process."""

from __future__ import annotations

import asyncio
import io
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.cli.approve import TerminalApprover, approver_for, parse_answer
from pegboard.cli.options import Options
from pegboard.cli.people import TerminalPeople, chosen, people_for
from pegboard.cli.prompt import read_line
from pegboard.cli.sandbox import sandbox
from pegboard.cli.status import StatusLine
from pegboard.core.content import ToolCall
from pegboard.core.effects import Change, Effect
from pegboard.core.errors import BuildError
from pegboard.core.policy.approval import (
    AllowOnce,
    ApprovalRequest,
    Approved,
    DenyAll,
    Refused,
    SuspendAll,
    Waiting,
)
from pegboard.ports.people import Question
from tests.cli.conftest import Run
from tests.waiting import soon


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the terminal that is standard input."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield leader
    os.close(leader)


def request() -> ApprovalRequest:
    effect = Effect("delete", "a\x1b[2J.txt")
    return ApprovalRequest(
        id="ap_1", tool="delete_file", call=ToolCall("c", "delete_file", "{}"), effects=(effect,), asking=(effect,),
        changes=(Change(path="a.txt", kind="delete", before=b"x\n", after=None, diff="--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),),
        reason="delete asks", digest="d",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Approved(by="terminal")),
        ("YES ", Approved(by="terminal")),
        ("s", Approved(scope="session", by="terminal")),
        ("a", Approved(scope="always", by="terminal")),
        ("a 2h", Approved(scope="always", expires_s=7200, by="terminal")),
        ("always 5x 30m", Approved(scope="always", expires_s=1800, uses=5, by="terminal")),
        ("n", Refused("", by="terminal")),
        ("n: not on Fridays", Refused("not on Fridays", by="terminal")),
        ("deny", Refused("", by="terminal")),
        ("", None),
        ("yes please", None),
        ("a soon", None),
        ("maybe", None),
    ],
)
def test_answers_are_read_as_the_help_says(line: str, answer: Approved | Refused | None) -> None:
    assert parse_answer(line) == answer


async def test_the_approver_shows_effects_and_diff_and_asks_until_it_understands(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    os.write(keyboard, b"hm\n")
    asked = asyncio.create_task(TerminalApprover().decide(request()))
    await asyncio.sleep(0)
    said = ""

    def understood() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return said.count("[y] once") == 2

    await soon(understood, "it asks again after a word that it does not know")
    os.write(keyboard, b"y\n")

    answer = await asyncio.wait_for(asked, 5)

    assert answer == Approved(by="terminal")
    assert "delete a\\x1b[2J.txt" in said
    assert "-x" in said
    assert "reason: delete asks" in said


async def test_the_end_of_input_is_a_refusal(keyboard: int) -> None:
    os.write(keyboard, b"\x04")

    assert await asyncio.wait_for(TerminalApprover().decide(request()), 5) == Refused("no one answered")


async def test_a_line_can_be_given_up_waiting_for(keyboard: int) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_line("> "), 0.05)
    os.write(keyboard, "später\n".encode())

    assert await asyncio.wait_for(read_line("> "), 5) == "später"


async def test_questions_are_answered_by_number_or_words_and_wait_without_an_answer(keyboard: int) -> None:
    os.write(keyboard, b"2\n")
    answered = await TerminalPeople().ask([Question(text="Which?", options=("red", "blue"))])
    late = await TerminalPeople().ask([Question(text="Which?", timeout_s=0.05)])

    assert answered == ["blue"]
    assert isinstance(late, Waiting)


def test_numbers_choose_options_several_only_where_allowed() -> None:
    one, many = (
        Question(text="?", options=("a", "b")),
        Question(text="?", options=("a", "b"), multi_select=True),
    )

    assert [chosen("1,2", one), chosen("1,2", many), chosen("3", one), chosen("other", one)] == [
        "1,2", "a, b", "3", "other",
    ]  # fmt: skip


def test_who_answers_follows_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    assert isinstance(approver_for(Options(yes=True), on_ask="deny"), AllowOnce)
    assert isinstance(approver_for(Options(), on_ask="suspend"), SuspendAll)
    assert isinstance(approver_for(Options(), on_ask="deny"), DenyAll)
    assert people_for(Options()) == []
    with pytest.raises(BuildError, match="deny or suspend"):
        approver_for(Options(), on_ask="maybe")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_moving_line_comes_after_a_while_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("pegboard.cli.status._PATIENCE_S", 0.0)
    monkeypatch.setattr("pegboard.cli.status._EVERY_S", 0.01)
    line = StatusLine()

    with line.showing("exec"):
        while "exec 0s" not in screen.getvalue():
            pass
        with line.hidden():
            hidden = screen.getvalue()
        line.clear()

    assert hidden.endswith("\r\x1b[2K")
    assert screen.getvalue().endswith("\r\x1b[2K")


def test_where_nobody_looks_no_line_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)

    with StatusLine().showing("exec"):
        pass

    assert screen.getvalue() == ""


@pytest.mark.slow
def test_a_sandboxed_command_in_this_process(
    workspace: Path, capsys: pytest.CaptureFixture[str], keyboard: int
) -> None:
    status = sandbox("run", ["echo out; exit 3"], backend=None, hosts=[], options=Options())

    assert (status, capsys.readouterr().out) == (3, "out\n")
    with pytest.raises(BuildError, match="use: pegboard sandbox run"):
        sandbox("dance", [], backend=None, hosts=[], options=Options())


def test_a_run_whose_process_ended_is_taken_up_again(pegboard: Run, workspace: Path, tmp_path: Path) -> None:
    from pegboard.app.app import App
    from pegboard.core.events import RunStarted, UserSaid
    from pegboard.core.transcript import UserMessage

    script = tmp_path / "s.jsonl"
    script.write_text('{"text": "done then"}\n')

    async def begin(app: App) -> None:
        async with app.history.log("s1") as log:
            log.record(
                RunStarted(run="run_x", session="s1", agent="main", model=f"scripted:{script}", task="go")
            )
            log.record(UserSaid(UserMessage.of("go")))

    with App.open(workspace=workspace) as app:
        asyncio.run(begin(app))

    done = pegboard("runs", "resume", "run_x", "--model", f"scripted:{script}")

    assert done.status == 0
    assert "run run_x done" in done.err
    assert "no unfinished runs" in pegboard("runs", "resume").err
