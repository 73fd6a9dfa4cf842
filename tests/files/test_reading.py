"""Reading through the workspace: what a session has seen, denials on every file that a walk meets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.core.context import Context, attach, detach
from pegboard.core.errors import Conflict, NotFound, OutsideWorkspace, PermissionDenied, Unsupported
from pegboard.files.workspace import Workspace
from pegboard.ports.files import SearchQuery, Write
from tests.ledger import owes


@owes("K-37")
async def test_a_repeated_read_of_an_unchanged_file_is_known_by_session(root: Path, files: Workspace) -> None:
    (root / "a").write_text("1\n2\n3\n")
    await files.read_slice("a", offset=1, limit=2)

    assert files.already_shown("./a", offset=1, last=2)
    assert not files.already_shown("a", offset=1, last=3)
    assert not files.already_shown("none", offset=1, last=2)
    token = attach(Context(session="another"))
    assert not files.already_shown("a", offset=1, last=2)
    detach(token)
    (root / "a").write_text("1\n2\n4\n")
    assert not files.already_shown("a", offset=1, last=2)


@owes("K-37")
async def test_a_file_that_changed_since_its_lines_were_shown_is_not_written(
    root: Path, files: Workspace
) -> None:
    (root / "a").write_text("1\n2\n3\n")
    await files.read_slice("a")
    (root / "a").write_text("1\n2\nhand\n")

    with pytest.raises(Conflict, match=r"\+hand"):
        await files.propose([Write(path="a", data=b"x")])
    await files.read_slice("a")
    assert await files.propose([Write(path="a", data=b"x")])


async def test_another_session_s_reading_does_not_bind_this_one(root: Path, files: Workspace) -> None:
    (root / "a").write_text("1\n")
    token = attach(Context(session="another"))
    await files.read_slice("a")
    detach(token)
    (root / "a").write_text("2\n")

    assert await files.propose([Write(path="a", data=b"x")])


async def test_a_large_file_s_slice_comes_from_a_thread(root: Path, files: Workspace) -> None:
    (root / "a").write_text("".join(f"line {n}\n" for n in range(300_000)))

    part = await files.read_slice("a", offset=299_999)

    assert part.text == "line 299998\nline 299999\n"


@owes("K-30")
async def test_denied_and_masked_files_are_in_no_walk(tmp_path: Path, root: Path) -> None:
    for name in ("a.txt", "secret/b.txt", "keys/c.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("needle\n")
    files = Workspace(
        root,
        deny=lambda access, target: "no" if target.startswith("secret") else None,
        masked=[root / "keys"],
    )

    assert [m.path for m in (await files.search(SearchQuery(pattern="needle"))).matches] == ["a.txt"]
    assert [e.path for e in (await files.list(pattern="**/*.txt")).entries] == ["a.txt"]
    assert [e.path for e in (await files.list(".", depth=3)).entries] == ["a.txt"]
    with pytest.raises(PermissionDenied):
        await files.list("secret")
    with pytest.raises(PermissionDenied):
        await files.search(SearchQuery(pattern="x", path="keys"))


async def test_walks_start_where_a_link_inside_leads_and_in_allowed_folders(
    tmp_path: Path, root: Path
) -> None:
    (root / "real").mkdir()
    (root / "real/f.txt").write_text("needle\n")
    (root / "link").symlink_to("real")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/g.txt").write_text("needle\n")
    files = Workspace(root, read_only_dirs=[tmp_path / "more"])

    assert [e.path for e in (await files.list("link")).entries] == ["f.txt"]
    assert [e.path for e in (await files.list(str(tmp_path / "more"), pattern="*.txt")).entries] == ["g.txt"]
    assert (await files.search(SearchQuery(pattern="needle", path="link/f.txt"))).total == 1
    assert (await files.search(SearchQuery(pattern="needle", path=str(tmp_path / "more/g.txt")))).total == 1
    with pytest.raises(OutsideWorkspace):
        await files.list("..")
    with pytest.raises(NotFound):
        await files.list("nowhere", pattern="*")
    with pytest.raises(Unsupported):
        await files.list("real/f.txt")


async def test_resolve_names_links_folders_and_special_things(root: Path, files: Workspace) -> None:
    import os

    (root / "d").mkdir()
    (root / "l").symlink_to("d")
    (root / "out").symlink_to("/etc")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "p")

    assert [(await files.resolve(p)).kind for p in ("d", "l", "p", "loop")] == ["dir", "dir", "other", "link"]
    assert (await files.resolve("l/new")).target == "d/new"
    outside = await files.resolve("out/passwd")
    assert (outside.target, outside.inside) == ("/etc/passwd", False)
    assert (await files.resolve(".")).target == "."
