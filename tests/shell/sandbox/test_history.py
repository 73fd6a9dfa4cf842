"""A repository's history against what commands do to it, for real."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pegboard import Executor, builtin
from pegboard.app.shell import JournalSnapshots
from pegboard.files.journal import Journal
from pegboard.files.undo import Last
from pegboard.files.workspace import Workspace
from tests.shell.kit import run, shell_in

TAKE_AWAY = "import shutil, sys\nshutil.rmtree(sys.argv[1], ignore_errors=True)\n"
WORK = (
    "set -e; git config gc.auto 0; echo b >> f; git commit -qam two; git checkout -qb side; echo c > g; git add g;"
    " git commit -qm three; git rebase -q main; git stash list; git worktree add -q wt -b other; cd wt; echo d > h;"
    " git add h; git commit -qm four; cd ..; git gc -q --prune=now; git repack -adq; git fsck --strict; git worktree remove wt"
)


def git(root: Path, *words: str) -> str:
    """What git says outside, as the person's."""
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *settings, *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def repository(root: Path, *, packed: bool) -> Path:
    root.mkdir(exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "A")
    git(root, "config", "user.email", "a@example.org")
    (root / "f").write_text("a\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    if packed:
        git(root, "repack", "-adq")
    return root


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("what", [".git", ".git/objects", ".git/objects/pack"])
async def test_undo_brings_back_a_repository_that_a_script_took_away(
    tmp_path: Path, packed: bool, what: str
) -> None:
    root = repository(tmp_path / "ws", packed=packed)
    (root / "s.py").write_text(TAKE_AWAY)
    before = git(root, "log", "--all"), git(root, "status", "--porcelain")
    async with Executor(builtin("exec", "read_file"), workspace=root, mode="workspace") as executor:
        result = await executor.call("exec", {"command": f"python3 s.py {what}"})
        report = await executor.undo(result.call_id)

    assert report.applied
    assert (git(root, "log", "--all"), git(root, "status", "--porcelain")) == before
    git(root, "fsck", "--strict")


async def test_a_pack_that_no_snapshot_keeps_cannot_be_taken_away(tmp_path: Path) -> None:
    root = repository(tmp_path / "ws", packed=True)
    packs = {file.name: file.read_bytes() for file in (root / ".git/objects/pack").iterdir()}
    (root / "s.py").write_text(
        TAKE_AWAY + "import pathlib\nfor f in pathlib.Path('.git').rglob('pack-*'):\n    f.write_bytes(b'')\n"
    )
    shell = await shell_in(tmp_path, confine={"kept_bytes": 0})

    await run(shell, "python3 s.py .git; git gc -q --prune=now; mv .git/objects/pack/* .")

    assert {file.name: file.read_bytes() for file in (root / ".git/objects/pack").iterdir()} == packs


@pytest.mark.parametrize("kept_bytes", [0, 1 << 24], ids=["read-only packs", "kept packs"])
async def test_git_goes_on_working(tmp_path: Path, kept_bytes: int) -> None:
    root = repository(tmp_path / "ws", packed=True)
    shell = await shell_in(tmp_path, confine={"kept_bytes": kept_bytes})

    outcome = await run(shell, WORK)

    assert outcome.exit_code == 0, outcome.stderr
    assert {*git(root, "log", "--all", "--format=%s").split()} == {"one", "two", "three", "four"}
    git(root, "fsck", "--strict")


def linked(tmp_path: Path, *, packed: bool) -> tuple[Path, Path]:
    """A repository, and a linked worktree of it."""
    main = repository(tmp_path / "main", packed=packed)
    git(main, "worktree", "add", "-q", str(tmp_path / "ws"), "-b", "side")
    return main, tmp_path / "ws"


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("what", [".", "objects", "refs", "worktrees/ws/index"])
async def test_undo_brings_back_what_a_script_took_from_the_repository_of_a_linked_worktree(
    tmp_path: Path, packed: bool, what: str
) -> None:
    main, root = linked(tmp_path, packed=packed)
    (root / "s.py").write_text(
        "import os, shutil, sys\np = open('.git').read().split()[1].partition('/worktrees')[0] + '/' + sys.argv[1]\n"
        "shutil.rmtree(p, ignore_errors=True) if os.path.isdir(p) else os.remove(p)\n"
    )
    before = git(main, "log", "--all"), git(main, "status", "--porcelain"), git(root, "status", "--porcelain")
    async with Executor(builtin("exec"), workspace=root, mode="workspace") as executor:
        result = await executor.call("exec", {"command": f"python3 s.py {what}"})
        lost = subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False).returncode
    async with Executor(builtin("exec", "read_file"), workspace=root, mode="workspace") as later:
        report = await later.undo(result.call_id)

    assert lost or what.endswith("index")
    assert report.applied
    now = git(main, "log", "--all"), git(main, "status", "--porcelain"), git(root, "status", "--porcelain")
    assert now == before
    git(main, "fsck", "--strict")


async def test_undo_of_a_commit_in_a_linked_worktree_takes_the_branch_back(tmp_path: Path) -> None:
    main, root = linked(tmp_path, packed=True)
    before = git(main, "rev-parse", "side"), git(root, "status", "--porcelain")
    async with Executor(builtin("exec", "read_file"), workspace=root, mode="workspace") as executor:
        result = await executor.call("exec", {"command": "echo b >> f && git commit -qam two && git gc -q"})
        made = git(main, "log", "--format=%s", "side").split()
        await executor.undo(result.call_id)

    assert made == ["two", "one"], str(result)
    assert (git(main, "rev-parse", "side"), git(root, "status", "--porcelain")) == before
    assert (root / "f").read_text() == "a\n"
    git(main, "fsck", "--strict")


async def test_undo_leaves_what_other_checkouts_did_while_the_command_ran(tmp_path: Path) -> None:
    main, root = linked(tmp_path, packed=True)
    journal = Journal(tmp_path / "journal")
    snapshot = await JournalSnapshots(root, journal).take()
    (main / "f").write_text("by hand\n")
    git(main, "commit", "-qam", "by hand")
    (root / "f").write_text("by the command\n")
    git(root, "commit", "-qam", "by the command")
    found = await snapshot.changes()
    files = Workspace(root, journal=journal, restored_dirs=[main / ".git"])

    await files.undo(Last())

    assert found.not_captured == ()
    assert git(main, "log", "--format=%s", "main").split("\n")[0] == "by hand"
    assert git(main, "status", "--porcelain") == ""
    assert git(main, "log", "--format=%s", "side").split() == ["one"]
    assert git(root, "status", "--porcelain") == ""
    assert (root / "f").read_text() == "a\n"


async def test_large_packs_of_a_linked_worktree_are_out_of_reach(tmp_path: Path) -> None:
    main, root = linked(tmp_path, packed=True)
    (root / "s.py").write_text(TAKE_AWAY)
    shell = await shell_in(tmp_path, confine={"kept_bytes": 0})

    worked = await run(shell, "echo b >> f; git commit -qam two")
    await run(shell, f"python3 s.py {main}/.git/objects/pack")

    assert worked.exit_code == 0, worked.stderr
    assert git(main, "log", "--format=%s", "side").split() == ["two", "one"]
