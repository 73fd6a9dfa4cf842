"""Transactions: what is changed in the copy of a workspace lands whole or not at all."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from pegboard.app.app import App
from pegboard.core.errors import ConfigError, Conflict, PermissionDenied, TooLarge
from pegboard.services.transactions import Transaction
from tests.cli.test_worktrees import git
from tests.ledger import owes


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    root = tmp_path / "work"
    (root / "sub/deep").mkdir(parents=True)
    (root / "a.txt").write_text("one\n")
    (root / "bin.dat").write_bytes(bytes(range(256)) * 20)
    (root / "sub/deep/b.txt").write_text("b\n")
    (root / "sub/c.txt").write_text("c\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "link").symlink_to("a.txt")
    (root / "empty").mkdir()
    (root / "__pycache__").mkdir()
    (root / "__pycache__/x.pyc").write_bytes(b"cache")
    return root


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: mode with its type, and content or target; git's own folder is left out."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/")[0] == ".git":
            continue
        mode = os.lstat(path).st_mode
        body = (
            os.fsencode(os.readlink(path))
            if stat.S_ISLNK(mode)
            else b""
            if path.is_dir()
            else path.read_bytes()
        )
        found[name] = mode, body
    return found


def change_much(copy: Path) -> None:
    """Each kind of change: of content, mode, name, kind and place."""
    (copy / "a.txt").write_text("two\n")
    (copy / "bin.dat").write_bytes(bytes(reversed(range(256))) * 30)
    (copy / "run.sh").chmod(0o755)
    (copy / "sub/c.txt").rename(copy / "moved.txt")
    (copy / "sub/deep/b.txt").unlink()
    (copy / "sub/deep").rmdir()
    (copy / "sub").rmdir()
    (copy / "sub").write_text("a file now\n")
    (copy / "link").unlink()
    (copy / "link").symlink_to("moved.txt")
    (copy / "empty").rmdir()
    (copy / "new/below").mkdir(parents=True)
    (copy / "new").chmod(0o700)
    (copy / "new/below/n.txt").write_text("n\n")
    (copy / "hollow").mkdir(mode=0o750)


async def opened(work: Path, session: str = "s") -> Transaction:
    return await App.open(workspace=work).transactions.open(session)


@owes("G-16")
async def test_everything_that_was_changed_lands_as_one_change_that_undo_takes_back(work: Path) -> None:
    before = tree(work)
    transaction = await opened(work)
    change_much(transaction.copy)
    transaction.note_run("run_1")
    assert tree(work) == before
    wanted = tree(transaction.copy)

    await transaction.apply()

    assert tree(work) == wanted
    assert not transaction.copy.exists()
    app = App.open(workspace=work)
    (entry,) = await app.undo.entries()
    assert (entry.entry.type, entry.entry.origin.run) == ("transaction", "run_1")
    await app.undo.undo("run_1")
    assert tree(work) == before


async def test_the_copy_is_like_the_workspace_down_to_modes_links_and_times(work: Path) -> None:
    (work / "run.sh").chmod(0o750)
    (work / "sub").chmod(0o500)
    os.mkfifo(work / "pipe")

    transaction = await opened(work)

    (work / "pipe").unlink()
    assert tree(transaction.copy) == tree(work)
    assert (transaction.copy / "a.txt").stat().st_mtime_ns == (work / "a.txt").stat().st_mtime_ns
    assert not await transaction.diff()
    await transaction.discard()
    assert not transaction.copy.exists()


@owes("G-16")
async def test_where_a_file_was_changed_meanwhile_nothing_lands_and_the_copy_stays(work: Path) -> None:
    transaction = await opened(work)
    change_much(transaction.copy)
    (work / "run.sh").write_text("#!/bin/sh\necho mine\n")
    (work / "moved.txt").write_text("mine\n")
    before = tree(work)

    with pytest.raises(Conflict) as caught:
        await transaction.apply()

    assert caught.value.details["conflicts"] == ["moved.txt", "run.sh"]
    assert str(transaction.copy) in caught.value.hint
    assert tree(work) == before and (transaction.copy / "hollow").is_dir()


async def test_what_was_changed_in_both_alike_or_elsewhere_is_no_conflict(work: Path) -> None:
    transaction = await opened(work)
    (transaction.copy / "a.txt").write_text("two\n")
    (transaction.copy / "sub/c.txt").unlink()
    (work / "a.txt").write_text("two\n")
    (work / "sub/c.txt").unlink()
    (work / "sub/deep/b.txt").write_text("mine\n")

    assert not (await transaction.diff()).conflicts
    await transaction.apply()
    assert (work / "sub/deep/b.txt").read_text() == "mine\n" and (work / "a.txt").read_text() == "two\n"


async def test_what_changes_in_caches_stays_in_the_copy(work: Path) -> None:
    transaction = await opened(work)
    (transaction.copy / "__pycache__/x.pyc").write_bytes(b"another")
    (transaction.copy / "a.txt").write_text("two\n")

    await transaction.apply()

    assert (work / "__pycache__/x.pyc").read_bytes() == b"cache"


async def test_a_rule_that_denies_a_file_holds_where_it_lands(work: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(f'rules = ["deny write:{work}/a.txt"]\n')
    before = tree(work)
    transaction = await App.open(workspace=work, policy=rules).transactions.open("s")
    change_much(transaction.copy)  # By its absolute path the rule does not see the copy.

    with pytest.raises(PermissionDenied):
        await transaction.apply()
    assert tree(work) == before


@pytest.mark.parametrize("point", range(0, 60, 3))
@owes("G-16")
async def test_a_kill_while_it_lands_leaves_all_or_nothing(work: Path, point: int) -> None:
    before = tree(work)
    transaction = await opened(work)
    change_much(transaction.copy)
    wanted = tree(transaction.copy)
    transaction.release()
    child = os.fork()
    if child == 0:
        passed = 0

        def checkpoint(_: str) -> None:
            nonlocal passed
            if passed == point:
                os.kill(os.getpid(), signal.SIGKILL)
            passed += 1

        async def apply() -> None:
            again = await App.open(workspace=work).transactions.find(transaction.record.id)
            await again.apply(checkpoint=checkpoint)

        try:
            with asyncio.Runner() as runner:
                runner.run(apply())
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    app = App.open(workspace=work)
    app.transactions.recover()
    assert tree(work) in (before, wanted)
    if app.transactions.list():
        again = await app.transactions.find(transaction.record.id)
        await again.apply()
    assert tree(work) == wanted and app.transactions.list() == []


async def test_a_kill_while_the_workspace_is_copied_leaves_nothing_in_the_way(work: Path) -> None:
    transaction = await opened(work)
    # As a process leaves it that was killed before it wrote what the copy began with.
    record = App.open(workspace=work).paths.state / "transactions" / f"{transaction.record.id}.json"
    record.unlink()
    (transaction.copy / "half.txt").write_text("half")
    transaction.release()

    again = await opened(work)

    assert again.is_new and not await again.diff()


async def test_after_its_process_has_ended_the_session_goes_on_in_the_same_copy(work: Path) -> None:
    first = await opened(work)
    (first.copy / "a.txt").write_text("two\n")
    with pytest.raises(ConfigError, match="another process works in"):
        await opened(work)
    first.release()

    again = await opened(work)

    assert not again.is_new and again.copy == first.copy
    assert [c.path for c in (await again.diff()).changes.changes] == ["a.txt"]


async def test_commits_land_with_their_objects_and_undo_takes_them_back(work: Path) -> None:
    git(work, "init", "--quiet")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "-m", "first")
    (work / "a.txt").write_text("not committed\n")
    transaction = await opened(work)
    transaction.note_run("run_1")
    (transaction.copy / "n.txt").write_text("n\n")
    assert git(transaction.copy, "status", "--porcelain").split() == ["M", "a.txt", "??", "n.txt"]
    git(transaction.copy, "add", "n.txt")
    git(transaction.copy, "commit", "--quiet", "-m", "second")
    git(work, "status")  # Writes new times into the index; that is no change.

    await transaction.apply()

    assert git(work, "log", "--format=%s").split() == ["second", "first"]
    assert git(work, "status", "--porcelain").split() == ["M", "a.txt"]
    git(work, "fsck", "--strict")


@pytest.mark.parametrize("version", [2, 4])
async def test_undo_passes_over_the_times_that_git_writes_into_its_index(work: Path, version: int) -> None:
    git(work, "init", "--quiet")
    git(work, "config", "index.version", str(version))
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "-m", "first")
    transaction = await opened(work)
    transaction.note_run("run_1")
    (transaction.copy / "n.txt").write_text("n\n")
    (transaction.copy / "n2.txt").write_text("n2\n")
    git(transaction.copy, "add", "n.txt", "n2.txt")
    git(transaction.copy, "commit", "--quiet", "-m", "second")
    await transaction.apply()
    landed = (work / ".git/index").read_bytes()
    git(work, "status")
    assert (work / ".git/index").read_bytes() != landed

    with App.open(workspace=work) as app:
        git(work, "rm", "--quiet", "--cached", "a.txt")
        with pytest.raises(Conflict, match=r"\.git/index"):
            await app.undo.undo("run_1")
        git(work, "add", "a.txt")
        await app.undo.undo("run_1")

    assert git(work, "log", "--format=%s").split() == ["first"]
    assert git(work, "status", "--porcelain") == ""
    git(work, "fsck", "--strict")


async def test_looking_with_git_changes_nothing(work: Path) -> None:
    git(work, "init", "--quiet")
    git(work, "add", "--all")
    transaction = await opened(work)
    index = transaction.copy / ".git/index"
    before = index.stat().st_mtime_ns
    os.utime(transaction.copy / "a.txt", (1, 1))
    git(transaction.copy, "status")

    assert index.stat().st_mtime_ns != before and not [
        c for c in (await transaction.diff()).changes.changes if c.path == ".git/index"
    ]


async def test_where_it_cannot_hold_changes_back_it_says_so(work: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="in mode full"):
        await App.open(workspace=work, mode="full").transactions.open("s")
    (work / ".git").write_text("gitdir: /elsewhere\n")
    with pytest.raises(ConfigError, match="linked git worktree"):
        await opened(work)
    with pytest.raises(ConfigError, match="holds the folder of copies"):
        await opened(tmp_path)


async def test_a_change_of_large_files_is_refused_whole(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.files.staged.MAX_BYTES", 1 << 20)
    transaction = await opened(work)
    (transaction.copy / "a.txt").write_text("two\n")
    (transaction.copy / "large").write_bytes(bytes(2 << 20))

    with pytest.raises(TooLarge, match="too much to apply at once"):
        await transaction.apply()
    assert (work / "a.txt").read_text() == "one\n"
