"""What every Files keeps to; a new one needs only its line in IMPLEMENTATIONS."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pegboard.core.effects import ChangeSet
from pegboard.core.errors import Conflict, InvalidArguments, NotFound, OutsideWorkspace, TooLarge, Unsupported
from pegboard.files.journal import Journal
from pegboard.files.workspace import Workspace
from pegboard.ports.files import Delete, Files, Move, SearchQuery, Write
from tests.fakes.files import MemoryFiles
from tests.ledger import owes

Make = Callable[[dict[str, str]], Files]


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="pegboard-files-"))
    yield path
    shutil.rmtree(path)


def _workspace(folder: Path, files: dict[str, str], journal: Journal | None) -> Files:
    root = folder / "work"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    root.mkdir(exist_ok=True)
    return Workspace(root, journal=journal)


IMPLEMENTATIONS: dict[str, Callable[[Path, dict[str, str]], Files]] = {
    "memory": lambda folder, files: MemoryFiles(dict(files)),
    "workspace": lambda folder, files: _workspace(folder, files, None),
    "journalled": lambda folder, files: _workspace(folder, files, Journal(folder / "journal")),
}


@pytest.fixture(params=IMPLEMENTATIONS)
def make(request: pytest.FixtureRequest, folder: Path) -> Make:
    return lambda files: IMPLEMENTATIONS[request.param](folder, files)


@owes("N-31", "N-35", "C-19")
async def test_a_relative_path_is_read_from_the_workspace(make: Make) -> None:
    files = make({"src/a.txt": "one\r\ntwo"})

    assert await files.read_bytes("src/a.txt") == b"one\r\ntwo"
    assert await files.read_bytes("./src/../src/a.txt") == b"one\r\ntwo"


@owes("N-36", "C-11", "N-121")
async def test_a_missing_file_a_folder_and_an_outside_file_are_told_apart(make: Make) -> None:
    files = make({"src/a.txt": "x"})

    with pytest.raises(NotFound, match=r"File not found: src/b\.txt"):
        await files.read_bytes("src/b.txt")
    with pytest.raises(Unsupported):
        await files.read_bytes("src")
    with pytest.raises(OutsideWorkspace):
        await files.read_bytes("../etc/passwd")
    with pytest.raises(InvalidArguments):
        await files.read_bytes("a\0b")


async def test_a_read_over_its_limit_names_size_and_limit(make: Make) -> None:
    files = make({"a": "12345"})

    with pytest.raises(TooLarge, match="5 bytes; the limit is 4"):
        await files.read_bytes("a", limit=4)
    assert await files.read_bytes("a", limit=5) == b"12345"


async def test_resolve_tells_where_a_path_leads_and_does_not_raise_for_outside(make: Make) -> None:
    files = make({"src/a.txt": "abc"})

    there = await files.resolve("src/../src/a.txt")
    assert (there.target, there.exists, there.kind, there.inside, there.size) == (
        "src/a.txt",
        True,
        "file",
        True,
        3,
    )
    assert (await files.resolve("src")).kind == "dir"
    new = await files.resolve("new/b.txt", write=True)
    assert (new.target, new.exists, new.inside) == ("new/b.txt", False, True)
    assert not (await files.resolve("../b.txt")).inside


@owes("N-37", "C-12", "D-19", "G-01")
async def test_a_proposal_shows_the_diff_and_changes_nothing(make: Make) -> None:
    files = make({"a.txt": "one\ntwo\n"})

    changes = await files.propose(
        [Write(path="a.txt", data=b"one\n2\n"), Write(path="new/b.txt", data=b"hi\n")]
    )

    assert [(c.kind, c.path, c.before, c.after) for c in changes.changes] == [
        ("modify", "a.txt", b"one\ntwo\n", b"one\n2\n"),
        ("create", "new/b.txt", None, b"hi\n"),
    ]
    assert "-two\n+2\n" in changes.changes[0].diff
    assert await files.read_bytes("a.txt") == b"one\ntwo\n"
    assert not (await files.resolve("new/b.txt")).exists


@owes("N-37", "C-12", "D-19")
async def test_a_commit_writes_every_file_and_makes_parents(make: Make) -> None:
    files = make({"a.txt": "one\ntwo\n"})
    changes = await files.propose(
        [Write(path="a.txt", data=b"\x00\xff"), Write(path="new/deep/b.txt", data=b"")]
    )

    done = await files.commit(changes)

    assert [c.path for c in done.changes] == ["a.txt", "new/deep/b.txt"]
    assert await files.read_bytes("a.txt") == b"\x00\xff"
    assert await files.read_bytes("new/deep/b.txt") == b""


async def test_a_commit_of_a_file_that_changed_meanwhile_changes_no_file(make: Make) -> None:
    files = make({"a.txt": "one", "b.txt": "two"})
    stale = await files.propose([Write(path="b.txt", data=b"B"), Write(path="a.txt", data=b"A")])
    await files.commit(await files.propose([Write(path="a.txt", data=b"other")]))

    with pytest.raises(Conflict):
        await files.commit(stale)

    assert await files.read_bytes("b.txt") == b"two"
    assert await files.read_bytes("a.txt") == b"other"


async def test_a_write_with_another_expected_digest_is_a_conflict(make: Make) -> None:
    files = make({"a.txt": "one"})
    right = hashlib.sha256(b"one").hexdigest()

    with pytest.raises(Conflict):
        await files.propose([Write(path="a.txt", data=b"x", expected_sha256="0" * 64)])
    with pytest.raises(Conflict):
        await files.propose([Write(path="new.txt", data=b"x", expected_sha256=right)])
    assert await files.propose([Write(path="a.txt", data=b"x", expected_sha256=right)])


async def test_a_write_that_expects_another_content_is_a_conflict(make: Make) -> None:
    files = make({"a.txt": "one"})

    with pytest.raises(Conflict):
        await files.propose([Write(path="a.txt", data=b"x", expected=b"two")])
    with pytest.raises(Conflict):
        await files.propose([Write(path="new.txt", data=b"x", expected=b"one")])
    assert await files.propose([Write(path="a.txt", data=b"x", expected=b"one")])


async def test_a_move_without_a_change_names_both_places(make: Make) -> None:
    files = make({"a.txt": "one"})

    changes = await files.propose([Move(path="a.txt", to="b.txt")])

    assert changes.changes[0].diff == "rename from a.txt\nrename to b.txt\n"


@owes("D-22", "X-54")
async def test_delete_and_move_are_changes_like_any_other(make: Make) -> None:
    files = make({"a.txt": "one\n", "b.txt": "two\n"})

    changes = await files.propose([Delete(path="b.txt"), Move(path="a.txt", to="d/c.txt", data=b"uno\n")])
    await files.commit(changes)

    assert {(c.kind, c.path, c.moved_to) for c in changes.changes} == {
        ("delete", "b.txt", None),
        ("move", "a.txt", "d/c.txt"),
    }
    assert await files.read_bytes("d/c.txt") == b"uno\n"
    for gone in ("a.txt", "b.txt"):
        with pytest.raises(NotFound):
            await files.read_bytes(gone)


async def test_deleting_what_is_not_there_and_moving_onto_a_file_are_refused(make: Make) -> None:
    files = make({"a.txt": "one", "b.txt": "two"})

    with pytest.raises(NotFound):
        await files.propose([Delete(path="c.txt")])
    with pytest.raises(NotFound):
        await files.propose([Move(path="c.txt", to="d.txt")])
    with pytest.raises(Conflict):
        await files.propose([Move(path="a.txt", to="b.txt")])


async def test_writing_the_same_bytes_is_no_change(make: Make) -> None:
    files = make({"a.txt": "one"})

    changes = await files.propose([Write(path="a.txt", data=b"one")])

    assert not changes
    assert await files.commit(ChangeSet()) == ChangeSet()


async def test_a_slice_has_true_line_numbers(make: Make) -> None:
    files = make({"a.txt": "l1\nl2\nl3\nl4\n"})

    part = await files.read_slice("a.txt", offset=2, limit=2)

    assert (part.text, part.first, part.last) == ("l2\nl3\n", 2, 3)
    assert (await files.read_slice("a.txt", offset=-1)).text == "l4\n"


async def test_list_glob_and_search_see_the_same_files(make: Make) -> None:
    files = make({"src/a.py": "needle\n", "src/sub/b.py": "hay\nneedle\n", "c.md": "hay\n"})

    assert [(e.path, e.kind) for e in (await files.list(".")).entries] == [("src", "dir"), ("c.md", "file")]
    assert {e.path for e in (await files.list(pattern="**/*.py")).entries} == {"src/a.py", "src/sub/b.py"}
    found = await files.search(SearchQuery(pattern="needle"))
    assert [(m.path, m.line) for m in found.matches] == [("src/a.py", 1), ("src/sub/b.py", 2)]
    with pytest.raises(NotFound):
        await files.list("nowhere")
