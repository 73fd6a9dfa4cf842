"""Undo and redo: by call, run and order; later hand edits kept; bytes exact."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.core.context import Context, attach, detach
from pegboard.core.errors import Conflict, NotFound, Unavailable
from pegboard.files.journal import ChangeOrigin, Journal
from pegboard.files.undo import ByCall, ById, ByRun, Last, UndoReport
from pegboard.files.workspace import Workspace
from pegboard.ports.files import Delete, Move, Wanted, Write
from tests.files.test_commit import tree
from tests.ledger import owes


async def done(files: Workspace, *wanted: Wanted, call: str = "", run: str = "") -> None:
    token = attach(Context(session="s", run=run, call_id=call))
    try:
        await files.commit(await files.propose(list(wanted)))
    finally:
        detach(token)


def texts(root: Path) -> dict[str, bytes]:
    return {name: data for name, (data, _) in tree(root).items()}


@owes("G-02", "X-54")
async def test_a_call_s_create_change_delete_and_move_are_undone_with_their_modes(
    root: Path, files: Workspace
) -> None:
    for name, mode in (("a", 0o755), ("b", 0o600), ("c", 0o640)):
        (root / name).write_text(name)
        (root / name).chmod(mode)
    before = tree(root)

    await done(
        files, Write(path="a", data=b"A", mode=0o644), Delete(path="b"), Move(path="c", to="n/c"),
        Write(path="n/m/new", data=b"x"), call="call-1",
    )  # fmt: skip
    after = tree(root)
    report = await files.undo(ByCall(id="call-1"))

    assert tree(root) == before
    assert not (root / "n").exists()
    assert report.applied
    assert {(c.kind, c.path) for c in report.changes.changes} == {
        ("modify", "a"), ("create", "b"), ("create", "c"), ("delete", "n/c"), ("delete", "n/m/new"),
    }  # fmt: skip
    await files.undo(Last(), redo=True)
    assert tree(root) == after


@owes("G-02")
async def test_a_run_is_undone_as_a_whole_and_other_runs_stay(root: Path, files: Workspace) -> None:
    (root / "a").write_text("".join(f"{n}\n" for n in range(20)))

    def with_line(number: int, text: str) -> bytes:
        lines = (root / "a").read_text().splitlines(keepends=True)
        lines[number] = text + "\n"
        return "".join(lines).encode()

    await done(files, Write(path="a", data=with_line(1, "run1 first")), call="c1", run="run-1")
    await done(files, Write(path="a", data=with_line(10, "run2")), call="c2", run="run-2")
    await done(
        files,
        Write(path="a", data=with_line(18, "run1 second")),
        Write(path="b", data=b"b"),
        call="c3",
        run="run-1",
    )
    report = await files.undo(ByRun(id="run-1"))

    expected = [f"{n}\n" for n in range(20)]
    expected[10] = "run2\n"
    assert (root / "a").read_text() == "".join(expected)
    assert not (root / "b").exists()
    assert len(report.entries) == 2
    assert report.kept == ("a",)
    with pytest.raises(Conflict, match="already undone"):
        await files.undo(ByRun(id="run-1"))
    await files.undo(ById(id="run-1"), redo=True)
    assert (root / "a").read_text().splitlines()[18] == "run1 second"
    assert (root / "b").read_text() == "b"


@owes("G-02")
async def test_a_hand_edit_elsewhere_in_the_file_is_kept(root: Path, files: Workspace) -> None:
    (root / "a").write_text("1\n2\n3\n4\n5\n")
    await done(files, Write(path="a", data=b"1\nagent\n3\n4\n5\n"))
    (root / "a").write_text("1\nagent\n3\n4\nhand\n")
    (root / "a").chmod(0o755)

    preview = await files.undo(Last(), preview=True)
    assert not preview.applied
    assert (root / "a").read_text() == "1\nagent\n3\n4\nhand\n"
    report = await files.undo(Last())

    assert (root / "a").read_text() == "1\n2\n3\n4\nhand\n"
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755
    assert report.kept == ("a",)
    assert preview.changes == report.changes


@owes("G-02")
async def test_a_hand_edit_in_the_same_place_is_shown_and_nothing_is_overwritten(
    root: Path, files: Workspace
) -> None:
    (root / "a").write_text("1\n2\n3\n")
    (root / "b").write_text("b")
    await done(
        files,
        Write(path="a", data=b"1\nagent\n3\n"),
        Write(path="b", data=b"B"),
        Write(path="n", data=b"new"),
    )
    (root / "a").write_text("1\nhand\n3\n")
    (root / "n").write_text("new, and more by hand")
    before = tree(root)

    with pytest.raises(Conflict) as caught:
        await files.undo(Last())

    assert tree(root) == before
    assert "<<<<<<< the file now\nhand\n=======\n2\n" in caught.value.message
    assert {c["path"] for c in caught.value.details["conflicts"]} == {"a", "n"}
    preview = await files.undo(Last(), preview=True)
    assert {c.path for c in preview.conflicts} == {"a", "n"}
    report = await files.undo(Last(), skip_conflicts=True)
    assert [c.path for c in report.changes.changes] == ["b"]
    assert texts(root) == {"a": b"1\nhand\n3\n", "b": b"b", "n": b"new, and more by hand"}


@owes("G-02")
@pytest.mark.parametrize(
    ("meanwhile", "word"),
    [
        ("gone", "deleted since"),
        ("link", "symbolic link"),
        ("remade", "made again since"),
        ("moved back", "made again"),
    ],
)
async def test_files_that_came_or_went_since_are_conflicts(
    root: Path, files: Workspace, meanwhile: str, word: str
) -> None:
    for name in ("changed", "deleted", "moved"):
        (root / name).write_text(name)
    await done(files, Write(path="changed", data=b"x"))
    await done(files, Delete(path="deleted"))
    await done(files, Move(path="moved", to="there"))
    ids = [entry.id for entry in files.history()]
    which = {"gone": 0, "link": 0, "remade": 1, "moved back": 2}[meanwhile]
    match meanwhile:
        case "gone":
            (root / "changed").unlink()
        case "link":
            (root / "changed").unlink()
            (root / "changed").symlink_to("there")
        case "remade":
            (root / "deleted").write_text("another")
        case _:
            (root / "moved").write_text("another")
    before = tree(root)

    with pytest.raises(Conflict, match=word):
        await files.undo(ByCall(id=ids[which]))

    assert tree(root) == before


async def test_what_was_undone_by_hand_already_counts_as_undone(root: Path, files: Workspace) -> None:
    (root / "a").write_text("one")
    await done(files, Write(path="a", data=b"two"), call="call-1")
    (root / "a").write_text("one")

    report = await files.undo(ByCall(id="call-1"))

    assert (report.unchanged, report.changes.changes, report.applied) == (("a",), (), True)
    with pytest.raises(Conflict, match="already undone"):
        await files.undo(ByCall(id="call-1"))


async def test_undo_goes_back_step_by_step_and_redo_forward_and_an_undo_can_be_undone(
    root: Path, files: Workspace
) -> None:
    for text in (b"1", b"2", b"3"):
        await done(files, Write(path="a", data=text))

    seen: list[bytes | None] = []
    for _ in range(3):
        await files.undo(Last())
        seen.append((root / "a").read_bytes() if (root / "a").exists() else None)
    assert seen == [b"2", b"1", None]
    with pytest.raises(NotFound, match="Nothing left"):
        await files.undo(Last())
    redone: UndoReport | None = None
    for text in (b"1", b"2"):
        redone = await files.undo(Last(), redo=True)
        assert (root / "a").read_bytes() == text
    assert redone is not None
    await files.undo(ByCall(id=redone.entry))  # the undo of the redo
    assert (root / "a").read_bytes() == b"1"
    await files.undo(Last(), redo=True)
    assert (root / "a").read_bytes() == b"2"
    await files.undo(Last())
    assert (root / "a").read_bytes() == b"1"
    for text in (b"2", b"3"):
        await files.undo(Last(), redo=True)
        assert (root / "a").read_bytes() == text
    with pytest.raises(NotFound, match="nothing to redo"):
        await files.undo(Last(), redo=True)


async def test_unknown_ids_and_missing_journals_are_said(root: Path, files: Workspace) -> None:
    await done(files, Write(path="a", data=b"1"), call="call-abcdef", run="run-xyz")

    with pytest.raises(NotFound, match="No recorded changes for call or run nothing"):
        await files.undo(ById(id="nothing"))
    with pytest.raises(Unavailable):
        await Workspace(root).undo(Last())
    assert (await files.undo(ByCall(id="call-ab"), preview=True)).entries
    assert (await files.undo(ById(id="run-xyz"), preview=True)).entries


@owes("G-02")
async def test_a_later_command_of_which_nothing_was_captured_hides_no_change_from_the_last_undo(
    root: Path, files: Workspace, journal: Journal
) -> None:
    await done(files, Write(path="a", data=b"1"), call="call-1")
    told = "The folder cache was made and stays: it is not watched."
    with journal.lock():
        journal.append(
            journal.new_entry("exec", str(root.resolve()), ChangeOrigin(call_id="c2"), (), missed=[told])
        )

    preview = await files.undo(Last(), preview=True)
    report = await files.undo(Last())

    assert not (root / "a").exists()
    assert [(c.kind, c.path) for c in report.changes.changes] == [("delete", "a")]
    assert preview.missed == report.missed == (told,)
    with pytest.raises(NotFound):
        await files.undo(Last())


async def test_pruned_contents_are_a_conflict_not_a_guess(
    root: Path, files: Workspace, journal: Journal
) -> None:
    (root / "a").write_text("1")
    await done(files, Write(path="a", data=b"2"))
    for blob in (journal.folder / "blobs").glob("*/*"):
        blob.write_bytes(b"damaged")

    with pytest.raises(Conflict, match="no longer in the journal"):
        await files.undo(Last())
    assert (root / "a").read_text() == "2"


NAMES = ["a", "b", "d/c", "d/e/f"]
WANTED: st.SearchStrategy[Wanted] = st.one_of(
    st.builds(
        Write,
        path=st.sampled_from(NAMES),
        data=st.binary(max_size=40),
        mode=st.sampled_from([None, 0o755, 0o600]),
    ),
    st.builds(Delete, path=st.sampled_from(NAMES)),
    st.builds(
        Move, path=st.sampled_from(NAMES), to=st.sampled_from(NAMES), data=st.none() | st.binary(max_size=9)
    ),
)


@owes("G-02")
@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(calls=st.lists(st.lists(WANTED, min_size=1, max_size=4), min_size=1, max_size=5))
def test_any_calls_undone_and_redone_give_back_every_byte_and_mode(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[Wanted]]
) -> None:
    base = tmp_path_factory.mktemp("round")
    root = base / "w"
    (root / "d").mkdir(parents=True)
    (root / "a").write_bytes(b"a\r\nb\n\x00\xff")
    (root / "d/c").write_bytes(b"c" * 100)
    files = Workspace(root, journal=Journal(base / "j"))

    async def play() -> None:
        states = [tree(root)]
        for wanted in calls:
            try:
                changes = await files.propose(wanted)
            except (NotFound, Conflict):
                continue
            if not changes:
                continue
            await files.commit(changes)
            for change in changes.changes:
                goal = root / (change.moved_to or change.path)
                assert change.after is None or goal.read_bytes() == change.after
            states.append(tree(root))
        for state in reversed(states[:-1]):
            await files.undo(Last())
            assert tree(root) == state
        for state in states[1:]:
            await files.undo(Last(), redo=True)
            assert tree(root) == state

    asyncio.run(play())
    files.close()


@pytest.mark.slow
def test_two_processes_on_one_journal_lose_no_entry(root: Path, journal: Journal) -> None:
    children: list[int] = []
    for worker in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mine = Workspace(root, journal=Journal(journal.folder))

                async def work(mine: Workspace = mine, worker: int = worker) -> None:
                    for step in range(8):
                        await done(mine, Write(path=f"w{worker}", data=b"%d" % step), call=f"{worker}-{step}")

                asyncio.run(work())
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]

    entries = journal.entries()
    assert len({entry.id for entry in entries}) == 24
    assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)
    assert {entry.origin.call_id for entry in entries} == {f"{w}-{s}" for w in range(3) for s in range(8)}
