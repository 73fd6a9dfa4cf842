"""list_dir: order, depth, limits, kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegboard.core.errors import NotFound, Unsupported
from pegboard.files.globs import list_dir
from tests.ledger import owes


def tree(root: Path) -> Path:
    (root / "b/inner").mkdir(parents=True)
    (root / "a").mkdir()
    (root / "z.txt").write_text("12345")
    (root / ".hidden").write_text("")
    (root / "b/inner/deep.txt").write_text("")
    (root / "b/x.txt").write_text("")
    (root / "link").symlink_to("b")
    os.mkfifo(root / "pipe")
    return root


@owes("D-21", "C-16")
def test_folders_come_before_files_each_by_name(tmp_path: Path) -> None:
    found = list_dir(tree(tmp_path), ".")

    assert [(e.path, e.kind) for e in found.entries] == [
        ("a", "dir"), ("b", "dir"), (".hidden", "file"), ("link", "link"), ("pipe", "other"), ("z.txt", "file"),
    ]  # fmt: skip
    assert found.entries[-1].size == 5
    assert not found.truncated


@owes("C-17")
def test_depth_lists_what_is_below_each_folder_right_behind_it(tmp_path: Path) -> None:
    found = list_dir(tree(tmp_path), ".", depth=2)
    deep = list_dir(tmp_path, "b", depth=9)

    assert [e.path for e in found.entries][:4] == ["a", "b", "b/inner", "b/x.txt"]
    assert [e.path for e in deep.entries] == ["inner", "inner/deep.txt", "x.txt"]


@owes("X-16")
def test_the_limit_cuts_and_says_so(tmp_path: Path) -> None:
    found = list_dir(tree(tmp_path), ".", limit=2)

    assert [e.path for e in found.entries] == ["a", "b"]
    assert found.truncated


def test_the_folder_of_git_is_shown_and_not_entered(tmp_path: Path) -> None:
    (tmp_path / ".git/objects").mkdir(parents=True)

    assert [e.path for e in list_dir(tmp_path, ".", depth=5).entries] == [".git"]


def test_a_denied_entry_is_left_out(tmp_path: Path) -> None:
    found = list_dir(tree(tmp_path), "b", depth=3, denied=lambda path: path == "b/inner")

    assert [e.path for e in found.entries] == ["x.txt"]


@owes("C-18", "N-36")
def test_a_missing_folder_a_file_and_a_link_are_no_folders(tmp_path: Path) -> None:
    tree(tmp_path)

    with pytest.raises(NotFound, match="Directory not found: nope"):
        list_dir(tmp_path, "nope")
    with pytest.raises(Unsupported):
        list_dir(tmp_path, "z.txt")
    with pytest.raises(Unsupported):
        list_dir(tmp_path, "link")


def test_a_tree_deeper_than_the_limit_is_reported_not_followed(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(205):
        folder = folder / "d"
        folder.mkdir()

    found = list_dir(tmp_path, ".", depth=1000)

    assert len(found.entries) == 200
    assert "deeper than 200 levels" in found.skipped[0]
