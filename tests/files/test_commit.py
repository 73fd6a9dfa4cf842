"""Propose and commit on real files: what is kept, what is refused, what is said."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    Unsupported,
)
from pegboard.files.jail import Jail
from pegboard.files.journal import Journal
from pegboard.files.workspace import Workspace
from pegboard.ports.files import Delete, Move, Write
from tests.ledger import owes


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file and link with content and mode."""
    out: dict[str, tuple[bytes, int]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            out[str(path.relative_to(root))] = (os.fsencode(os.readlink(path)), stat.S_IFLNK)
        elif path.is_file():
            out[str(path.relative_to(root))] = (path.read_bytes(), path.stat().st_mode)
    return out


@owes("G-01")
async def test_commit_keeps_mode_and_follows_links_and_leaves_no_temporaries(
    root: Path, files: Workspace
) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("run.sh")

    changes = await files.propose([Write(path="link", data=b"new"), Write(path="exe", data=b"x", mode=0o700)])
    await files.commit(changes)

    assert [c.path for c in changes.changes] == ["run.sh", "exe"]
    assert tree(root) == {
        "exe": (b"x", 0o100700),
        "link": (b"run.sh", stat.S_IFLNK),
        "run.sh": (b"new", 0o100755),
    }


async def test_a_change_of_mode_alone_is_a_change(root: Path, files: Workspace) -> None:
    (root / "a").write_text("x")
    (root / "a").chmod(0o644)

    changes = await files.propose([Write(path="a", data=b"x", mode=0o755)])
    await files.commit(changes)

    assert changes.changes[0].diff == "mode a => 755\n"
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755


async def test_a_hard_link_is_warned_about_in_the_note(root: Path, files: Workspace) -> None:
    (root / "a").write_text("x")
    os.link(root / "a", root / "b")

    changes = await files.propose([Write(path="a", data=b"y")])
    await files.commit(changes)

    assert changes.note == "a is a hard link; its 1 other name keeps the old content."
    assert (root / "b").read_text() == "x"


async def test_wants_of_one_path_become_one_change(root: Path, files: Workspace) -> None:
    (root / "a").write_text("1")
    (root / "b").write_text("2")

    changes = await files.propose(
        [
            Write(path="a", data=b"x"), Write(path="./a", data=b"y"),
            Delete(path="b"), Move(path="a", to="b"),
            Write(path="n", data=b"new"), Delete(path="n"),
            Write(path="m", data=b"new"), Move(path="m", to="k"),
        ]
    )  # fmt: skip

    assert {(c.kind, c.path, c.after) for c in changes.changes} == {
        ("delete", "a", None),
        ("modify", "b", b"y"),
        ("create", "k", b"new"),
    }
    await files.commit(changes)
    assert {name: data for name, (data, _) in tree(root).items()} == {"b": b"y", "k": b"new"}


async def test_a_move_carries_mode_and_shows_a_rename(root: Path, files: Workspace) -> None:
    (root / "a").write_text("x\n")
    (root / "a").chmod(0o711)
    (root / "l").symlink_to("a")

    changes = await files.propose([Move(path="a", to="d/b"), Move(path="l", to="d/l")])
    await files.commit(changes)

    assert [c.diff for c in changes.changes] == [
        "rename from a\nrename to d/b\n",
        "rename from l\nrename to d/l\n",
    ]
    assert tree(root) == {"d/b": (b"x\n", 0o100711), "d/l": (b"a", stat.S_IFLNK)}


async def test_a_move_onto_itself_is_a_write(root: Path, files: Workspace) -> None:
    (root / "a").write_text("x\n")

    assert not await files.propose([Move(path="a", to="./a")])
    changes = await files.propose([Move(path="a", to="a", data=b"y\n")])
    assert [(c.kind, c.after) for c in changes.changes] == [("modify", b"y\n")]


async def test_what_cannot_be_is_refused_when_proposed(root: Path, files: Workspace) -> None:
    (root / "f").write_text("x")
    (root / "l").symlink_to("f")
    (root / "d").mkdir()

    with pytest.raises(InvalidArguments, match="below the file"):
        await files.propose([Write(path="n", data=b""), Write(path="n/m", data=b"")])
    with pytest.raises(Conflict, match="is a file"):
        await files.propose([Write(path="f/g", data=b"")])
    with pytest.raises(Unsupported):
        await files.propose([Write(path="d", data=b"")])
    with pytest.raises(Unsupported):
        await files.propose([Delete(path="d")])
    with pytest.raises(Unsupported, match="symbolic link"):
        await files.propose([Move(path="l", to="k", data=b"new")])
    with pytest.raises(OutsideWorkspace):
        await files.propose([Move(path="f", to="../f")])
    with pytest.raises(PermissionDenied):
        await files.propose([Write(path=".git/hooks/x", data=b"")])
    with pytest.raises(Conflict, match="case or Unicode"):
        await files.propose([Write(path="F", data=b"")])
    with pytest.raises(InvalidArguments):
        await files.propose([Write(path="new\n/x", data=b"")])
    assert sorted(os.listdir(root)) == ["d", "f", "l"]


async def test_deleting_a_link_deletes_the_link_and_undo_brings_it_back(root: Path, files: Workspace) -> None:
    from pegboard.files.undo import Last

    (root / "f").write_text("x")
    (root / "l").symlink_to("f")

    await files.commit(await files.propose([Delete(path="l")]))
    assert sorted(os.listdir(root)) == ["f"]
    await files.undo(Last())

    assert os.readlink(root / "l") == "f"


@pytest.mark.parametrize("meanwhile", ["content", "gone", "link", "same bytes, new file", "made"])
async def test_what_happens_between_proposal_and_commit_is_noticed(
    root: Path, files: Workspace, meanwhile: str
) -> None:
    (root / "a").write_text("one")
    (root / "z").write_text("z")
    changes = await files.propose(
        [Write(path="z", data=b"Z"), Write(path="a", data=b"two"), Write(path="n/new", data=b"new")]
    )
    match meanwhile:
        case "content":
            (root / "a").write_text("eno")
        case "gone":
            (root / "a").unlink()
        case "link":
            (root / "a").unlink()
            (root / "a").symlink_to("z")
        case "made":
            (root / "n").mkdir()
            (root / "n/new").write_text("theirs")
        case _:
            (root / "a").unlink()
            (root / "a").write_text("one")
    before = tree(root)

    if meanwhile == "same bytes, new file":
        await files.commit(changes)
        assert (root / "a").read_text() == "two"
        return
    with pytest.raises(Conflict, match="nothing was changed"):
        await files.commit(changes)
    assert tree(root) == before
    assert files.history() == []


async def test_a_change_in_the_very_moment_before_the_rename_is_noticed_and_all_is_taken_back(
    root: Path, journal: Journal
) -> None:
    (root / "a").write_text("one")
    (root / "b").write_text("two")

    def meddle(label: str) -> None:
        if label == "placed":
            (root / "b").write_text("by hand")

    files = Workspace(root, journal=journal, checkpoint=meddle)
    changes = await files.propose(
        [Write(path="a", data=b"A"), Write(path="b", data=b"B"), Write(path="n/c", data=b"C")]
    )
    with pytest.raises(Conflict):
        await files.commit(changes)

    assert {name: data for name, (data, _) in tree(root).items()} == {"a": b"one", "b": b"by hand"}
    assert not (root / "n").exists()
    assert files.history() == []


async def test_a_full_disk_takes_everything_back(
    root: Path, files: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("one")
    changes = await files.propose([Write(path="a", data=b"A"), Write(path="b", data=b"B" * 100)])
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if bytes(data).startswith(b"BBB") and not os.readlink(f"/proc/self/fd/{descriptor}").startswith(
            str(root.parent / "journal")
        ):
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Exception, match="no space left"):
        await files.commit(changes)

    assert {name: data for name, (data, _) in tree(root).items()} == {"a": b"one"}


async def test_without_a_journal_a_commit_is_still_all_or_nothing(root: Path) -> None:
    (root / "a").write_text("one")
    files = Workspace(root)
    changes = await files.propose(
        [Write(path="a", data=b"A"), Write(path="n/b", data=b"B"), Delete(path="a")][:2]
    )
    (root / "n").mkdir()
    (root / "n").chmod(0o755)

    await files.commit(changes)

    assert (root / "a").read_bytes() == b"A"
    assert files.history() == []
    assert files.recover() == []


async def test_a_name_that_starts_with_a_tilde_is_committed_as_a_name(root: Path, files: Workspace) -> None:
    from pegboard.files.undo import Last

    await files.commit(await files.propose([Write(path="./~/x", data=b"1"), Write(path="~$doc", data=b"2")]))

    assert {name: data for name, (data, _) in tree(root).items()} == {"~/x": b"1", "~$doc": b"2"}
    await files.undo(Last())
    assert list(root.iterdir()) == []


async def test_files_outside_in_allowed_dirs_are_committed_and_undone(
    tmp_path: Path, root: Path, journal: Journal
) -> None:
    from pegboard.files.undo import Last

    (tmp_path / "more").mkdir()
    files = Workspace(root, journal=journal, allowed_dirs=[tmp_path / "more"])
    changes = await files.propose([Write(path=str(tmp_path / "more/n/a"), data=b"x")])
    await files.commit(changes)

    assert changes.changes[0].path == str(tmp_path / "more/n/a")
    assert (tmp_path / "more/n/a").read_bytes() == b"x"
    await files.undo(Last())
    assert list((tmp_path / "more").iterdir()) == []


async def test_a_folder_and_a_file_change_places(root: Path, journal: Journal) -> None:
    """As an exec's undo needs it: the file `a` was made a folder with `a/b`."""
    from pegboard.files.commit import commit

    (root / "a").mkdir()
    (root / "a/b").write_text("b")
    jail = Jail(root)
    changes = ChangeSet(
        (
            Change(path="a", kind="create", before=None, after=b"file"),
            Change(path="a/b", kind="delete", before=b"b", after=None),
        )
    )
    # `a` is a folder, so that creating the file is right only once the folder is gone.
    entry = commit(jail, changes, journal=journal, remove_dirs=["a"])

    assert (root / "a").read_bytes() == b"file"
    assert entry is not None


async def test_a_large_file_is_kept_by_a_second_name_and_a_difference(root: Path, journal: Journal) -> None:
    from pegboard.files.undo import Last

    old = os.urandom(1_000_000)
    new = old[:500_000] + b"edit" + old[500_000:]
    (root / "big").write_bytes(old)
    inode = (root / "big").stat().st_ino
    files = Workspace(root, journal=journal)
    await files.commit(await files.propose([Write(path="big", data=new)]))

    blobs = sorted((journal.folder / "blobs").glob("*/*"), key=lambda path: path.stat().st_size)
    assert [path.stat().st_ino == inode for path in blobs] == [False, True]
    assert blobs[0].stat().st_size < 1000
    assert {stat.S_IMODE(path.stat().st_mode) for path in blobs} == {0o600}
    await files.undo(Last())
    assert (root / "big").read_bytes() == old
    await files.undo(Last(), redo=True)
    assert (root / "big").read_bytes() == new


async def test_a_large_file_that_others_still_write_to_is_copied(root: Path, journal: Journal) -> None:
    from pegboard.files.undo import Last

    old = os.urandom(400_000)
    (root / "big").write_bytes(old)
    writer = os.open(root / "big", os.O_WRONLY)

    def meddle(label: str) -> None:
        if label == "placed":
            os.write(writer, b"late bytes into the old file")

    files = Workspace(root, journal=journal, checkpoint=meddle)
    await files.commit(await files.propose([Write(path="big", data=b"new")]))
    os.close(writer)
    await files.undo(Last())

    assert (root / "big").read_bytes() == old


@owes("K-37")
async def test_a_file_that_changed_since_it_was_read_is_not_changed_and_the_change_is_shown(
    root: Path, files: Workspace
) -> None:
    (root / "a").write_text("one\ntwo\n")
    files.note_read("a", b"one\ntwo\n")
    (root / "a").write_text("one\nTWO\n")

    with pytest.raises(Conflict, match=r"changed since you read it(?s:.*)-two\n\+TWO"):
        await files.propose([Write(path="a", data=b"x")])
    with pytest.raises(Conflict):
        await files.propose([Delete(path="a")])
    files.note_read("a", b"one\nTWO\n")
    await files.commit(await files.propose([Write(path="a", data=b"x")]))
    # What the session wrote itself it knows.
    await files.commit(await files.propose([Write(path="a", data=b"y"), Write(path="b", data=b"z")]))
    await files.commit(await files.propose([Move(path="a", to="c")]))
    assert (root / "c").read_text() == "y"


@owes("K-37")
async def test_a_touched_file_is_no_changed_file(root: Path, files: Workspace) -> None:
    (root / "a").write_text("one")
    files.note_read("a", b"one")
    os.utime(root / "a", (1, 1))

    assert await files.propose([Write(path="a", data=b"x")])


async def test_large_reads_go_to_a_thread_and_give_the_same(root: Path, files: Workspace) -> None:
    data = os.urandom(2_000_000)
    (root / "big").write_bytes(data)

    assert await files.read_bytes("big") == data
    with pytest.raises(NotFound):
        await files.read_bytes("none")
    files.close()
