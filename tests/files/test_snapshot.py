"""What a command changed becomes a ChangeSet that can be undone (decisions 19)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.core.errors import Conflict, NotFound
from pegboard.files.jail import Jail
from pegboard.files.journal import ChangeOrigin, Journal
from pegboard.files.snapshot import SnapshotDiff, SnapshotLimits, TreeSnapshot
from pegboard.files.undo import ByRun, Last, undo
from tests.files.test_commit import tree
from tests.ledger import owes


def run(root: Path, journal: Journal, command: str, **how: object) -> SnapshotDiff:
    snapshot = TreeSnapshot.take(root, journal=journal, **how)  # type: ignore[arg-type]
    subprocess.run(["bash", "-c", command], cwd=root, check=True)
    diff = snapshot.diff_after()
    diff.record(journal, root, ChangeOrigin(call_id="exec-1", run="r"))
    return diff


def lay_out(root: Path) -> None:
    (root / "d/e").mkdir(parents=True)
    (root / "a").write_text("one\ntwo\n")
    (root / "d/b").write_text("b")
    (root / "d/e/c").write_bytes(b"\x00binary")
    (root / "l").symlink_to("a")
    (root / "big").write_bytes(os.urandom(2_000_000))


def with_folders(root: Path) -> dict[str, object]:
    """As `tree`, and every folder with its mode."""
    folders = {
        str(p.relative_to(root)): p.stat().st_mode
        for p in root.rglob("*")
        if p.is_dir() and not p.is_symlink()
    }
    return {**tree(root), **folders}


@owes("G-02")
@pytest.mark.parametrize(
    "command",
    [
        "rmdir empty", "mkdir -p new/and/deeper", "rmdir empty closed", "rm -r d", "mv empty elsewhere",
        "rmdir empty && echo file > empty", "rm a && mkdir a", "mkdir x && rmdir x && rmdir empty/ && mkdir y",
        "rm -r nest", "mv nest/inner nest2 && rmdir nest", "rmdir empty && mkdir empty && echo x > empty/f",
    ],
)  # fmt: skip
def test_empty_folders_come_back_and_go_with_their_modes(root: Path, journal: Journal, command: str) -> None:
    lay_out(root)
    for name, mode in (("empty", 0o755), ("closed", 0o700), ("nest", 0o750), ("nest/inner", 0o711)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    (root / "d").chmod(0o705)
    before = with_folders(root)

    diff = run(root, journal, command)
    after = with_folders(root)

    assert diff.missed == ()
    undo(Jail(root), journal, Last())
    assert with_folders(root) == before
    undo(Jail(root), journal, Last(), redo=True)
    assert with_folders(root) == after
    undo(Jail(root), journal, Last())
    assert with_folders(root) == before


@owes("G-02")
def test_a_run_that_made_and_removed_folders_is_undone_as_a_whole(root: Path, journal: Journal) -> None:
    (root / "old").mkdir()
    for command in ("mkdir a", "rmdir old", "rmdir a && mkdir b", "mkdir -p old/again"):
        run(root, journal, command)

    preview = undo(Jail(root), journal, ByRun(id="r"), preview=True)
    assert sorted(p.name for p in root.iterdir()) == ["b", "old"]
    assert preview.removed_dirs == ("old/again", "b")
    undo(Jail(root), journal, ByRun(id="r"))

    assert [str(p.relative_to(root)) for p in root.rglob("*")] == ["old"]


def test_a_folder_that_someone_filled_or_replaced_since_is_kept(root: Path, journal: Journal) -> None:
    (root / "old").mkdir()
    run(root, journal, "mkdir made; rmdir old")
    (root / "made/by-hand").write_text("mine")
    (root / "old").write_text("mine too")

    with pytest.raises(Conflict, match="was a folder and is a file now"):
        undo(Jail(root), journal, Last())
    (root / "old").unlink()
    undo(Jail(root), journal, Last())

    assert (root / "made/by-hand").read_text() == "mine"
    assert (root / "old").is_dir()


def test_what_no_undo_brings_back_is_named(root: Path, journal: Journal) -> None:
    for name in ("node_modules", "sub"):
        (root / name).mkdir()
    os.mkfifo(root / "pipe")
    diff = run(root, journal, "rm -r node_modules pipe; chmod 700 sub; mkdir .venv; mkfifo p2")

    assert diff.missed == (
        "The mode of the folder sub was changed from 755 to 700 and is not undoable.",
        "The FIFO pipe was removed; undo cannot restore it (not tracked).",
        "The FIFO p2 was created; undo will not remove it (not tracked).",
    )
    assert dict(diff.unwatched) == {
        "node_modules": "The folder node_modules was removed; undo cannot restore it (not tracked).",
        ".venv": "The folder .venv was created; undo will not remove it (not tracked).",
    }


def test_caches_that_tools_make_and_throw_away_are_not_mentioned(root: Path, journal: Journal) -> None:
    (root / ".pytest_cache").mkdir()
    (root / "m.py").write_text("import n\n")
    (root / "n.py").write_text("")

    diff = run(root, journal, "python3 m.py; rmdir .pytest_cache; mkdir -p src/.mypy_cache/3.11")

    assert (diff.missed, dict(diff.unwatched)) == ((), {})


def repository(root: Path) -> dict[str, object]:
    """A repository with packed and loose objects, a tag and a stash; its log, and its refs."""
    git(root, "init", "-q", "-b", "main")
    for number in range(3):
        (root / "f").write_text(f"{number}\n" * 40)
        git(root, "add", ".")
        git(root, "commit", "-qm", f"c{number}")
        if number == 1:
            git(root, "repack", "-adq")
    git(root, "tag", "-a", "v1", "-m", "one")
    (root / "f").write_text("stashed")
    git(root, "stash", "-q")
    return state(root)


def git(root: Path, *words: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "gc.auto=0")
    return subprocess.run(
        ["git", *settings, *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout


def state(root: Path) -> dict[str, object]:
    git(root, "fsck", "--strict")
    return {
        "log": git(root, "log", "--all", "--oneline"),
        "refs": git(root, "show-ref"),
        "stash": git(root, "stash", "show", "-p"),
        "status": git(root, "status", "--porcelain"),
    }


def overwrite(root: Path) -> None:
    for file in (root / ".git" / "objects").rglob("*"):
        if file.is_file():
            file.chmod(0o644)
            file.write_bytes(b"x" + file.read_bytes()[1:])


@pytest.mark.parametrize(
    "act",
    [
        lambda root: shutil.rmtree(root / ".git"),
        lambda root: shutil.rmtree(root / ".git" / "objects"),
        lambda root: shutil.rmtree(root / ".git" / "objects" / "pack"),
        lambda root: (root / ".git").rename(root / "elsewhere"),
        overwrite,
    ],
    ids=["repository", "objects", "packs", "moved", "overwritten"],
)  # fmt: skip
def test_a_repository_that_a_command_took_away_comes_back_whole(
    root: Path, journal: Journal, act: Callable[[Path], object]
) -> None:
    before = repository(root)
    TreeSnapshot.take(root, journal=journal)  # An earlier command's.
    (root / "g").write_text("new")
    git(root, "add", "g")
    git(root, "commit", "-qm", "by hand")
    before = state(root)
    snapshot = TreeSnapshot.take(root, journal=journal)
    act(root)

    snapshot.diff_after().record(journal, root, ChangeOrigin(call_id="exec-1"))
    undo(Jail(root, protected=()), journal, Last())

    assert state(root) == before


def test_what_git_adds_and_packs_is_ordinary_work(root: Path, journal: Journal) -> None:
    repository(root)
    snapshot = TreeSnapshot.take(root, journal=journal)
    (root / "g").write_text("new")
    git(root, "add", "g")
    git(root, "commit", "-qm", "in the command")
    git(root, "gc", "-q", "--prune=now")
    after = state(root)

    diff = snapshot.diff_after()
    diff.record(journal, root, ChangeOrigin(call_id="exec-1"))

    assert (diff.missed, dict(diff.unwatched)) == ((), {})
    assert not [change.path for change in diff.changes.changes if ".git/objects" in change.path]
    undo(Jail(root, protected=()), journal, Last())
    git(root, "fsck", "--strict")
    assert "in the command" not in git(root, "log", "--all", "--oneline")
    undo(Jail(root, protected=()), journal, Last(), redo=True)
    assert state(root) == after


@owes("G-02")
@pytest.mark.parametrize(
    "command",
    [
        "echo three >> a", "rm -r d", "mv a z", "chmod 755 a", "rm l && ln -s d/b l", "rm l && echo file > l",
        "mkdir -p n/m && echo x > n/m/f && ln -s f n/m/k", "printf X | dd of=big bs=1 seek=5 conv=notrunc 2>/dev/null",
        "rm -r d && echo now-a-file > d", "rm a && mkdir a && echo x > a/x", "sed -i s/one/ONE/ a", "true",
        "touch -d 2001-01-01 a", "printf 'eno\\ntwo\\n' > a && touch -r d/b a", "truncate -s 0 big",
    ],
)  # fmt: skip
def test_what_a_command_did_is_undone_exactly(root: Path, journal: Journal, command: str) -> None:
    lay_out(root)
    before = tree(root)

    diff = run(root, journal, command)
    after = tree(root)

    assert bool(diff.changes) == (before != after)
    assert diff.missed == ()
    if diff.changes:
        undo(Jail(root), journal, Last())
        assert tree(root) == before
        undo(Jail(root), journal, Last(), redo=True)
        assert tree(root) == after


def test_a_made_folder_goes_with_its_files(root: Path, journal: Journal) -> None:
    diff = run(root, journal, "mkdir -p n/m && echo x > n/m/f")

    assert diff.made_dirs == ("n", "n/m")
    undo(Jail(root), journal, ByRun(id="r"))
    assert list(root.iterdir()) == []


def test_the_second_snapshot_reads_only_what_changed(
    root: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(root)
    for path in (root / "a", root / "d/b", root / "d/e/c", root / "big"):
        os.utime(path, (1, 1))
    later = Journal(journal.folder, clock=Later())
    TreeSnapshot.take(root, journal=later)
    reads: list[str] = []
    monkeypatch.setattr(
        "pegboard.files.snapshot.read_below", lambda root, path, there: reads.append(path) or b""
    )
    monkeypatch.setattr(
        "pegboard.files.snapshot._clone", lambda root, path, journal: reads.append(path) or ""
    )

    TreeSnapshot.take(root, journal=later)
    assert reads == []
    (root / "a").write_text("changed")
    TreeSnapshot.take(root, journal=later)
    assert reads == ["a"]


class Later:
    """An hour from now, so that no file counts as just written."""

    def now(self) -> float:
        import time

        return time.time() + 3600

    def monotonic(self) -> float:
        return 0.0


def test_ignored_folders_are_left_out_and_named(root: Path, journal: Journal) -> None:
    for name in ("node_modules/x", "sub/.venv/y", ".git/objects/ab", ".git/refs/heads"):
        (root / name).mkdir(parents=True)
    snapshot = TreeSnapshot.take(root, journal=journal)
    (root / "node_modules/x/f").write_text("")
    (root / ".git/objects/ab/f").write_text("")
    (root / ".git/refs/heads/main").write_text("123")

    assert sorted(snapshot.left_out) == ["node_modules", "sub/.venv"]
    assert [c.path for c in snapshot.diff_after().changes.changes] == [".git/refs/heads/main"]


def test_what_is_too_large_or_too_many_is_named_as_not_undoable(root: Path, journal: Journal) -> None:
    (root / "large").write_bytes(b"x" * 100)
    (root / "small").write_text("s")
    (root / "same").write_bytes(b"x" * 100)
    diff = run(
        root, journal, "echo more >> large; echo more >> small; head -c 100 /dev/zero > new; rm same; touch gone",
        limits=SnapshotLimits(max_file_bytes=50),
    )  # fmt: skip

    assert [c.path for c in diff.changes.changes] == ["gone", "small"]
    assert diff.missed == (
        "large was changed and cannot be undone: its content was not saved, it has 105 bytes and the limit is 50.",
        "new was created and cannot be undone: its content was not saved, it has 100 bytes and the limit is 50.",
        "same was removed and cannot be undone: its content was not saved, it has 100 bytes and the limit is 50.",
    )
    report = undo(Jail(root), journal, Last())
    assert report.missed == diff.missed
    few = run(root, journal, "true", limits=SnapshotLimits(max_files=2))
    assert few.missed == ("The workspace has over 2 files; changes to the rest cannot be undone.",)
    total = run(root, journal, "true", limits=SnapshotLimits(max_total_bytes=1))
    assert total.missed == ()


def test_special_and_unreadable_things_do_not_stop_it(root: Path, journal: Journal) -> None:
    os.mkfifo(root / "pipe")
    (root / "l").symlink_to("nowhere")
    (root / "loop").symlink_to(".")
    diff = run(root, journal, "rm pipe; mkfifo pipe2; echo x > f")

    assert [c.path for c in diff.changes.changes] == ["f"]
    with pytest.raises(NotFound):
        TreeSnapshot.take(root / "f", journal=journal)


def test_a_command_that_changed_protected_files_is_undone_for_a_person(root: Path, journal: Journal) -> None:
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[core]\n")
    run(root, journal, "echo '[remote]' >> .git/config")

    undo(Jail(root, protected=()), journal, Last())

    assert (root / ".git/config").read_text() == "[core]\n"


def test_a_damaged_index_or_store_is_read_anew(root: Path, journal: Journal) -> None:
    (root / "a").write_text("one")
    TreeSnapshot.take(root, journal=journal)
    (index,) = journal.snapshots.glob("*.json")
    index.write_text("{")
    snapshot = TreeSnapshot.take(root, journal=journal)
    for blob in (journal.folder / "blobs").glob("*/*"):
        blob.unlink()
    (root / "a").write_text("two")

    assert snapshot.diff_after().missed == ("a was changed and is not undoable: its old content is gone.",)
    index.write_text('{"version": 99}')
    assert not TreeSnapshot.take(root, journal=journal).diff_after().changes


def test_pruning_keeps_what_the_last_snapshot_needs_until_the_size_is_reached(
    root: Path, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "j")
    (root / "a").write_bytes(os.urandom(1000))
    before = (root / "a").read_bytes()
    snapshot = TreeSnapshot.take(root, journal=journal)
    with journal.lock():
        assert journal.prune() == 0
    (root / "a").write_text("x")
    assert snapshot.diff_after().changes.changes[0].before == before
    small = Journal(tmp_path / "j", max_bytes=10)
    with small.lock():
        assert small.prune() > 0


@owes("N-31", "G-02")
def test_a_command_that_writes_through_a_hard_link_out_of_the_workspace_is_told(
    root: Path, journal: Journal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "theirs"
    outside.write_text("theirs\n")
    os.link(outside, root / "linked")
    (root / "a").write_text("1\n")
    os.link(root / "a", root / "b")

    diff = run(root, journal, "echo mine > linked; echo 2 > a")

    assert outside.read_text() == "mine\n"
    assert diff.missed == (
        "linked is a hard link: the same change shows under its 1 other name outside the workspace,"
        " which undo does not change back.",
    )
    report = undo(Jail(root), journal, Last())
    assert report.missed == diff.missed
    assert (root / "linked").read_text() == "theirs\n"
    assert outside.read_text() == "mine\n"


@owes("N-31")
def test_a_command_that_replaces_a_hard_link_leaves_the_other_name_and_is_not_told(
    root: Path, journal: Journal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "theirs"
    outside.write_text("theirs\n")
    os.link(outside, root / "linked")

    diff = run(root, journal, "echo mine > new && mv new linked")

    assert outside.read_text() == "theirs\n"
    assert diff.missed == ()
