"""`pegboard run --transaction` and `pegboard transactions`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Run
from tests.cli.test_worktrees import script, write
from tests.ledger import owes


def run(pegboard: Run, workspace: Path, *more: str) -> Done:
    model = script(workspace, write("new.txt", "n\n"), write("a.txt", "theirs\n"))
    return pegboard("run", "work", "--model", model, "--transaction", *more)


@owes("G-16")
def test_with_a_yes_all_changes_land_after_one_diff(pegboard: Run, workspace: Path) -> None:
    done = run(pegboard, workspace, "--yes")

    assert done.status == 0, done.err
    assert (workspace / "new.txt").read_text() == "n\n" and (workspace / "a.txt").read_text() == "theirs\n"
    assert "applied: 2 file changes" in done.out and "-hello" in done.out
    assert pegboard("transactions").out == "no transactions in this workspace\n"
    assert pegboard("undo", "last").status == 0
    assert (workspace / "a.txt").read_text() == "hello\nworld\n" and not (workspace / "new.txt").exists()


@owes("G-16")
def test_without_a_person_nothing_lands_and_the_changes_wait(pegboard: Run, workspace: Path) -> None:
    done = run(pegboard, workspace)

    assert done.status == 3 and not (workspace / "new.txt").exists()
    (row,) = json.loads(pegboard("transactions", "--json").out)
    assert f"pegboard transactions apply {row['id']}" in done.err
    shown = pegboard("transactions", "show", row["id"])
    assert "+theirs" in shown.out and "2 file changes would land" in shown.out
    assert pegboard("transactions", "apply", row["id"], "--yes").status == 0
    assert (workspace / "a.txt").read_text() == "theirs\n"


def test_discarding_changes_nothing(pegboard: Run, workspace: Path) -> None:
    run(pegboard, workspace)
    (row,) = json.loads(pegboard("transactions", "--json").out)

    done = pegboard("transactions", "discard", row["id"][:6])

    assert done.status == 0 and "nothing was changed" in done.out
    assert (workspace / "a.txt").read_text() == "hello\nworld\n"
    assert pegboard("transactions").out == "no transactions in this workspace\n"


def test_a_conflict_is_named_and_nothing_lands(pegboard: Run, workspace: Path) -> None:
    run(pegboard, workspace)
    (row,) = json.loads(pegboard("transactions", "--json").out)
    (workspace / "a.txt").write_text("mine\n")

    done = pegboard("transactions", "apply", row["id"], "--yes")

    assert done.status == 1 and "a.txt changed in" in done.err
    assert (workspace / "a.txt").read_text() == "mine\n" and not (workspace / "new.txt").exists()
    assert len(json.loads(pegboard("transactions", "--json").out)) == 1


def test_a_run_that_fails_lands_nothing(pegboard: Run, workspace: Path) -> None:
    done = run(pegboard, workspace, "--yes", "--turns", "1")

    assert done.status == 1 and not (workspace / "new.txt").exists()
    assert "did not finish, so nothing was applied" in done.err


def test_a_run_without_changes_leaves_no_copy(pegboard: Run, workspace: Path, home: Path) -> None:
    done = pegboard("run", "work", "--model", script(workspace), "--transaction")

    assert done.status == 0 and "it is removed" in done.err
    assert list((home / ".local/share/pegboard-transactions").iterdir()) == []
    assert [p.name for p in (home / ".local/state/pegboard/transactions").iterdir()] == []


def test_a_run_that_waits_for_approval_goes_on_in_the_copy(pegboard: Run, workspace: Path) -> None:
    (workspace.parent / "ask.toml").write_text('rules = ["ask write:**"]')
    policy = ("--policy", "../ask.toml")
    waiting = run(pegboard, workspace, *policy, "--on-ask", "suspend")
    assert waiting.status == 4, waiting.err
    (row,) = json.loads(pegboard("transactions", "--json").out)
    copy = waiting.err.partition("add to pegboard runs resume: ")[2].splitlines()[0].split()

    pegboard("approvals", "approve", row["run"])
    done = pegboard("runs", "resume", *copy, *policy)

    assert done.status == 0, done.err
    assert not (workspace / "new.txt").exists()
    assert pegboard("transactions", "apply", row["id"], "--yes").status == 0
    assert (workspace / "new.txt").exists()
    assert pegboard("undo", row["run"]).status == 0 and not (workspace / "new.txt").exists()


def test_folders_outside_can_be_read_only(pegboard: Run, workspace: Path, home: Path) -> None:
    beside = workspace.parent / "beside"
    beside.mkdir()
    settings = home / ".config/pegboard"
    settings.mkdir(parents=True)
    (settings / "pegboard.toml").write_text(f'allowed_dirs = ["{beside}"]\n')
    model = script(workspace, write(str(beside / "x.txt"), "x"))

    pegboard("run", "work", "--model", model, "--transaction", "--yes")
    assert not (beside / "x.txt").exists()
    pegboard("run", "work", "--model", model, "--yes")
    assert (beside / "x.txt").exists()


def test_worktree_and_transaction_are_one_or_the_other(pegboard: Run, workspace: Path) -> None:
    done = run(pegboard, workspace, "--worktree")
    assert done.status == 2 and "--worktree or --transaction" in done.err


@pytest.mark.slow
@owes("G-16")
def test_commands_and_file_tools_share_the_copy(pegboard: Run, workspace: Path) -> None:
    command: dict[str, object] = {"name": "exec", "arguments": {"command": "cat new.txt && rm a.txt"}}
    done = pegboard(
        "run",
        "work",
        "--model",
        script(workspace, write("new.txt", "n\n"), command),
        "--transaction",
        "--yes",
    )

    assert done.status == 0, done.err
    assert not (workspace / "a.txt").exists() and (workspace / "new.txt").read_text() == "n\n"
    assert pegboard("undo", "last").status == 0
    assert (workspace / "a.txt").exists() and not (workspace / "new.txt").exists()
