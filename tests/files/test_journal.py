"""The journal: private, bounded, locked, tolerant of damage."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from pegboard.core.errors import Unavailable
from pegboard.files.changes import propose
from pegboard.files.commit import commit
from pegboard.files.jail import Jail
from pegboard.files.journal import ChangeOrigin, Journal
from pegboard.files.undo import Last, undo
from pegboard.ports.files import Write
from tests.ledger import owes


@dataclass
class HandClock:
    """A clock that is set by hand."""

    time: float = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def write(root: Path, journal: Journal, name: str, data: bytes) -> None:
    jail = Jail(root)
    commit(
        jail,
        propose(jail, [Write(path=name, data=data)], limit=1 << 30),
        journal=journal,
        origin=ChangeOrigin(call_id=name),
    )


@owes("G-02")
def test_folders_are_0700_and_files_0600(root: Path, journal: Journal) -> None:
    old = os.umask(0)
    try:
        (root / "a").write_bytes(b"x" * 300_000)
        write(root, journal, "a", b"new")
    finally:
        os.umask(old)

    for path in [journal.folder, *journal.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_equal_contents_are_kept_once(root: Path, journal: Journal) -> None:
    for name in "abc":
        write(root, journal, name, b"the same")

    assert len(list((journal.folder / "blobs").glob("*/*"))) == 1
    assert [entry.files[0].path for entry in journal.entries()] == ["a", "b", "c"]


def test_entries_over_the_age_go_and_the_rest_can_be_undone(root: Path, tmp_path: Path) -> None:
    clock = HandClock()
    journal = Journal(tmp_path / "j", clock=clock, max_age_s=100)
    write(root, journal, "old", b"old content")
    clock.time += 101
    write(root, journal, "new", b"new content")
    with journal.lock():
        freed = journal.prune()

    assert freed == len(b"old content")
    assert [entry.origin.call_id for entry in journal.entries()] == ["new"]
    undo(Jail(root), journal, Last())
    assert os.listdir(root) == ["old"]


def test_the_oldest_go_first_when_the_size_is_reached(root: Path, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", max_bytes=20_000)
    for index in range(12):
        write(root, journal, f"f{index}", os.urandom(3000))

    assert journal.blobs.size() <= 23_000
    kept = [entry.origin.call_id for entry in journal.entries()]
    assert kept[-1] == "f11"
    assert kept == [f"f{index}" for index in range(12 - len(kept), 12)]
    with journal.lock():
        journal.purge()
    assert journal.entries() == []
    assert journal.blobs.size() == 0


def test_a_damaged_entry_or_counter_hides_no_other(root: Path, journal: Journal) -> None:
    write(root, journal, "a", b"1")
    write(root, journal, "b", b"2")
    first = sorted((journal.folder / "entries").iterdir())[0]
    first.write_text("{")
    (journal.folder / "counter").write_text("?")
    (journal.folder / "entries" / "0000000009-later.json").write_text('{"version": 99}')
    again = Journal(journal.folder)
    write(root, again, "c", b"3")

    assert [entry.origin.call_id for entry in Journal(journal.folder).entries()] == ["b", "c"]
    assert max(entry.id for entry in again.entries()).startswith("0000000010-")


def test_a_lock_that_is_held_too_long_is_said(journal: Journal) -> None:
    with journal.lock():
        with pytest.raises(Unavailable, match="held the journal"):
            with Journal(journal.folder).lock(timeout_s=0.01):
                raise AssertionError("two at once")
    assert Journal(journal.folder / "none").entries() == []


def test_a_difference_keeps_the_content_it_stands_on(root: Path, tmp_path: Path) -> None:
    clock = HandClock()
    journal = Journal(tmp_path / "j", clock=clock, max_age_s=100)
    base = os.urandom(100_000)
    (root / "a").write_bytes(base)
    write(root, journal, "a", base[:50_000] + b"x" + base[50_000:])
    (root / "a").unlink()
    with journal.lock():
        journal.prune()
    digest = journal.entries()[0].files[0].after

    assert digest is not None
    assert journal.blobs.get(digest) == base[:50_000] + b"x" + base[50_000:]
    assert journal.blobs.has(digest)
    assert not journal.blobs.has("0" * 64)
