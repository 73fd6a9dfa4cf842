"""A process that ends in the middle of a commit never leaves a half change."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.core.effects import ChangeSet
from pegboard.files.changes import propose
from pegboard.files.commit import commit, recover
from pegboard.files.jail import Jail
from pegboard.files.journal import Journal
from pegboard.files.undo import Last, undo
from pegboard.ports.files import Delete, Move, Write
from tests.files.test_commit import tree
from tests.files.test_snapshot import run, with_folders
from tests.ledger import owes

State = dict[str, tuple[bytes, int]]
BIG = 300_000  # over the size from which old contents are kept by a second name


def lay_out(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    for index in range(6):
        path = root / f"d{index % 3}" / f"f{index}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(BIG if index == 0 else chance.randrange(50)))
        path.chmod(chance.choice([0o644, 0o600, 0o755]))
    (root / "link").symlink_to("d0/f0")


def wanted(jail: Jail, seed: int) -> ChangeSet:
    chance = random.Random(seed + 1)
    return propose(
        jail,
        [
            Write(path="d0/f0", data=chance.randbytes(BIG)),
            Write(path="new/deep/g", data=b"created"),
            Delete(path="d1/f1"),
            Move(path="d2/f2", to="new/moved", data=chance.choice([None, b"other"])),
            Delete(path="link"),
            Write(path="d0/f3", data=b"", mode=0o700),
            Write(path="d1/f4", data=chance.randbytes(20)),
        ],
        limit=1 << 30,
    )


def in_a_child_killed_at(point: int | float, root: Path, state: Path, seed: int, *, undoing: bool) -> bool:
    """Whether the child was killed, that is, had so many points; a float kills after so many seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            passed = 0
            if isinstance(point, float):
                # The kernel ends the process wherever it is, between two instructions or in a system call.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, point)

            def checkpoint(_: str) -> None:
                nonlocal passed
                if passed == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                passed += 1

            jail, journal = Jail(root, protected=()), Journal(state)
            if undoing:
                undo(jail, journal, Last(), checkpoint=checkpoint)
            else:
                commit(jail, wanted(jail, seed), journal=journal, checkpoint=checkpoint)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the child failed"
    return False


def one_crash(base: Path, seed: int, *, undoing: bool, point: int | float | None = None) -> bool:
    root, state = base / f"w{seed}", base / f"j{seed}"
    root.mkdir(parents=True)
    lay_out(root, seed)
    before = tree(root)
    jail, journal = Jail(root), Journal(state)
    after = None
    if undoing:
        commit(jail, wanted(jail, seed), journal=journal)
        before, after = tree(root), before
    point = random.Random(seed).randrange(45) if point is None else point
    killed = in_a_child_killed_at(point, root, state, seed, undoing=undoing)
    with journal.lock():
        assert recover(jail, journal) == []
        assert journal.intents() == []
    now = tree(root)
    assert not [path for path in root.rglob(".pegboard-*")], "a temporary was left"
    if after is None:
        other = base / f"x{seed}"
        other.mkdir()
        lay_out(other, seed)
        theirs = Jail(other)
        commit(theirs, wanted(theirs, seed))
        after = tree(other)
    assert now in (before, after), f"half a change at point {point} of seed {seed}"
    assert killed or now == after
    entries = [entry for entry in journal.entries() if entry.type == ("undo" if undoing else "commit")]
    assert len(entries) == (now == after)
    if now == before:
        assert not (root / "new").exists() or undoing
    # What is in the journal can still be undone and brings the beginning back, byte for byte.
    if not undoing and now == after:
        undo(jail, journal, Last())
        assert tree(root) == before
    jail.close()
    return killed


def seeds(count: int) -> list[int]:
    start = random.SystemRandom().randrange(1 << 30)
    print(f"crash seeds from {start}", file=sys.stderr)
    return [start + index for index in range(count)]


@owes("G-02")
@pytest.mark.slow
@pytest.mark.parametrize("undoing", [False, True], ids=["commit", "undo"])
def test_a_commit_killed_at_a_random_point_is_whole_or_not_at_all(tmp_path: Path, undoing: bool) -> None:
    killed = sum(one_crash(tmp_path, seed, undoing=undoing) for seed in seeds(15))

    assert killed > 0


@owes("G-02")
@pytest.mark.slow
@pytest.mark.parametrize("undoing", [False, True], ids=["commit", "undo"])
def test_a_commit_killed_at_a_random_time_is_whole_or_not_at_all(tmp_path: Path, undoing: bool) -> None:
    times = [(seed, random.Random(seed).uniform(0.0001, 0.02)) for seed in seeds(15)]

    assert sum(one_crash(tmp_path, seed, undoing=undoing, point=point) for seed, point in times) > 0


@owes("G-02")
@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("undoing", [False, True], ids=["commit", "undo"])
@pytest.mark.parametrize("where", ["point", "time"])
def test_two_hundred_random_crashes(tmp_path: Path, undoing: bool, where: str) -> None:
    killed = 0
    for seed in seeds(2000):
        point = random.Random(seed).uniform(0.0001, 0.02) if where == "time" else None
        killed += one_crash(tmp_path, seed, undoing=undoing, point=point)
        if killed == 200:
            return
    pytest.fail(f"only {killed} of 2000 were killed before they were done")


@pytest.mark.slow
@pytest.mark.parametrize("redo", [False, True], ids=["undo", "redo"])
def test_every_point_of_an_undo_of_folders(tmp_path: Path, redo: bool) -> None:
    for point in range(60):
        root = tmp_path / f"w{point}"
        (root / "nest/inner").mkdir(parents=True)
        (root / "nest/f").write_text("f")
        (root / "empty").mkdir(mode=0o750)
        journal, jail = Journal(tmp_path / f"j{point}"), Jail(root)
        states = [with_folders(root)]
        run(root, journal, "rm -r nest; rmdir empty; mkdir -p made/deep; echo x > made/x; echo f > empty")
        states.append(with_folders(root))
        if redo:
            undo(jail, journal, Last())
        child = os.fork()
        if child == 0:
            left = iter(range(point))

            def checkpoint(_: str, left: Iterator[int] = left) -> None:
                if next(left, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            undo(jail, journal, Last(), redo=redo, checkpoint=checkpoint)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        with journal.lock():
            assert recover(jail, journal) == []

        assert with_folders(root) in states, f"half a change at point {point}"
        if not os.WIFSIGNALED(status):
            break
    assert point > 8


@pytest.mark.slow
def test_every_point_of_one_commit(tmp_path: Path) -> None:
    point = 0
    while one_crash(tmp_path / str(point), 7, undoing=False, point=point):
        point += 1

    assert point > 20


def test_a_file_changed_by_hand_after_the_crash_is_left_and_named(root: Path, journal: Journal) -> None:
    lay_out(root, 3)
    # Killed after the first rename.
    labels = 0
    child = os.fork()
    if child == 0:

        def checkpoint(label: str) -> None:
            if label == "placed":
                os.kill(os.getpid(), signal.SIGKILL)

        jail = Jail(root)
        commit(jail, wanted(jail, 3), journal=journal, checkpoint=checkpoint)
        os._exit(0)
    os.waitpid(child, 0)
    assert labels == 0
    (root / "d0/f0").write_text("by hand, after the crash")

    with journal.lock():
        left = recover(Jail(root), journal)

    assert left == ["d0/f0 was changed since and is left as it is."]
    assert (root / "d0/f0").read_text() == "by hand, after the crash"
    assert not (root / "new").exists()


def test_another_workspace_s_intent_is_left_alone_and_a_denied_one_waits(
    tmp_path: Path, root: Path, journal: Journal
) -> None:
    lay_out(root, 4)
    child = os.fork()
    if child == 0:
        jail = Jail(root)
        commit(
            jail, wanted(jail, 4), journal=journal,
            checkpoint=lambda label: os.kill(os.getpid(), signal.SIGKILL) if label == "placed" else None,
        )  # fmt: skip
    os.waitpid(child, 0)
    (tmp_path / "other").mkdir()

    with journal.lock():
        assert recover(Jail(tmp_path / "other"), journal) == []
        assert len(journal.intents()) == 1
        waiting = recover(Jail(root, deny=lambda access, target: "not now"), journal)
        assert "not taken back yet" in waiting[0]
        assert len(journal.intents()) == 1
        assert recover(Jail(root), journal) == []
        assert journal.intents() == []
