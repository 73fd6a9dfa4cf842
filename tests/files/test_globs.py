"""glob: patterns, order, limits, hidden files, links."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace
from pegboard.files.globs import glob_files, glob_regex
from tests.ledger import DATA, owes


def build(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n")
    return root


def paths(root: Path, pattern: str, path: str = ".", **options: bool) -> set[str]:
    return {e.path for e in glob_files(root, path, pattern, limit=1000, **options).entries}


def test_the_corpus_of_globs_is_read_as_its_authors_do_on_a_posix_system() -> None:
    rows = [json.loads(line) for line in (DATA / "globs/globset.jsonl").read_text().splitlines()]
    misses = {
        row["id"].removeprefix("globset/")
        for row in rows
        if (
            glob_regex(row["pattern"], ignore_case=row["opts"].get("casei") == "true").fullmatch(row["path"])
            is not None
        )
        != row["match"]
    }

    assert len(rows) == 128
    assert misses == {
        # Their star matches a slash too, their backslash is a character, and their braces leave out nothing.
        "matchpat3", "matchpat5", "matchpat7", "matchbackslash4", "matchbackslash5", "matchbackslash6", "matchalt15",
        # What Windows does, where a backslash divides folders.
        "matchslash2", "matchslash4", "matchslash5", "matchbackslash8",
    }  # fmt: skip


@owes("search-15", "D-25", "X-55")
def test_two_stars_match_at_depth_nought_and_deeper(tmp_path: Path) -> None:
    build(tmp_path, "x.rb", "lib/x.rb", "lib/a/b/x.rb")

    assert paths(tmp_path, "**/x.rb") == {"x.rb", "lib/x.rb", "lib/a/b/x.rb"}
    assert paths(tmp_path, "*.rb") == {"x.rb"}
    assert paths(tmp_path, "lib/**/x.rb") == {"lib/x.rb", "lib/a/b/x.rb"}
    assert paths(tmp_path, "{lib,nope}/*.{rb,py}") == {"lib/x.rb"}
    assert paths(tmp_path, "lib/") == {"lib/x.rb", "lib/a/b/x.rb"}
    assert paths(tmp_path, "./lib//x.rb") == {"lib/x.rb"}


@owes("D-26", "D-27", "K-42")
def test_the_newest_come_first_and_the_limit_is_stated(tmp_path: Path) -> None:
    build(tmp_path, *(f"f{i}.txt" for i in range(5)))
    for i in range(5):
        os.utime(tmp_path / f"f{i}.txt", (1000 + i, 1000 + i))

    found = glob_files(tmp_path, ".", "*.txt", limit=3)

    assert [e.path for e in found.entries] == ["f4.txt", "f3.txt", "f2.txt"]
    assert found.truncated
    assert found.entries[0].size == 7
    assert not glob_files(tmp_path, ".", "*.txt", limit=5).truncated


@owes("search-06")
def test_a_link_loop_ends_and_nothing_outside_is_found(tmp_path: Path) -> None:
    build(tmp_path, "a/n.txt")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "out").symlink_to("/usr/share")
    (tmp_path / "secret").symlink_to("/etc/passwd")
    (tmp_path / "alias.txt").symlink_to("a/n.txt")
    start = time.process_time()

    assert paths(tmp_path, "**/n.txt") == {"a/n.txt"}
    assert paths(tmp_path, "*") == {"alias.txt"}
    assert time.process_time() - start < 2


def test_a_link_that_leads_to_no_file_inside_is_named_as_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret").symlink_to("/etc/passwd")

    assert glob_files(tmp_path, ".", "sec*").skipped == ("1 link pointing to no file inside (secret)",)


def test_hidden_files_are_found_when_asked_for_or_named(tmp_path: Path) -> None:
    build(tmp_path, ".env", ".github/ci.yml", "a", ".git/config")

    assert paths(tmp_path, "**") == {"a"}
    assert paths(tmp_path, "**", hidden=True) == {".env", ".github/ci.yml", "a"}
    assert paths(tmp_path, ".env") == {".env"}
    assert paths(tmp_path, ".github/*.yml") == {".github/ci.yml"}
    assert paths(tmp_path, ".git/*") == {".git/config"}


def test_ignored_files_are_found_when_asked_for(tmp_path: Path) -> None:
    build(tmp_path, "build/a.txt", "b.txt")
    (tmp_path / ".gitignore").write_text("build\n")

    assert paths(tmp_path, "**/*.txt") == {"b.txt"}
    assert paths(tmp_path, "**/*.txt", no_ignore=True) == {"build/a.txt", "b.txt"}


def test_an_answer_says_what_was_left_out(tmp_path: Path) -> None:
    build(tmp_path, "build/a.txt", ".hid/a.txt")
    (tmp_path / ".gitignore").write_text("build\n")

    found = glob_files(tmp_path, ".", "**/*.txt")

    assert found.entries == ()
    assert found.skipped == (
        "1 hidden entry left out: hidden=true (.hid)",
        "1 ignored entry left out: no_ignore=true (build)",
    )


def test_an_answer_with_files_says_so_too_of_what_might_have_matched(tmp_path: Path) -> None:
    build(tmp_path, "a.yml", ".github/workflows/ci.yml", ".hidden.yml", ".editorconfig", "b.tmp")
    (tmp_path / ".gitignore").write_text("*.tmp\n")

    deep, flat = glob_files(tmp_path, ".", "**/*.yml"), glob_files(tmp_path, ".", "*.yml")

    assert [entry.path for entry in deep.entries] == ["a.yml"]
    assert deep.skipped in (
        ("2 hidden entries left out: hidden=true (.github, .hidden.yml)",),
        ("2 hidden entries left out: hidden=true (.hidden.yml, .github)",),
    )
    # No file of another folder or ending could have been found.
    assert flat.skipped == ("1 hidden entry left out: hidden=true (.hidden.yml)",)


def test_denied_paths_are_not_listed(tmp_path: Path) -> None:
    build(tmp_path, "a/x.txt", "b/x.txt")

    found = glob_files(tmp_path, ".", "**/x.txt", denied=lambda path: path == "a")

    assert [e.path for e in found.entries] == ["b/x.txt"]


@owes("search-18")
def test_names_with_spaces_colons_dashes_and_bytes_that_are_no_text_are_found(tmp_path: Path) -> None:
    build(tmp_path, "my file.txt", "a:b.txt", "-n.txt")
    (tmp_path / os.fsdecode(b"bad\xff.txt")).write_text("x")

    found = paths(tmp_path, "*.txt")

    assert found == {"my file.txt", "a:b.txt", "-n.txt", "bad\udcff.txt"}
    assert all((tmp_path / name).is_file() for name in found)


@owes("search-14")
@pytest.mark.parametrize("pattern", ["", ".", "/etc/*", "a[", "a{b", "b}", "a\\", "a\0b"])
def test_a_pattern_that_means_nothing_is_refused(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments):
        glob_files(tmp_path, ".", pattern)


def test_a_pattern_that_climbs_out_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutsideWorkspace):
        glob_files(tmp_path, ".", "../*")
    with pytest.raises(OutsideWorkspace):
        glob_files(tmp_path, "..", "*")
    with pytest.raises(NotFound):
        glob_files(tmp_path, "nope", "*")
    assert glob_files(tmp_path, ".", "nope/*.py").skipped == ("the folder nope does not exist",)


@owes("D-25")
def test_braces_that_stand_for_too_many_patterns_are_refused() -> None:
    # 9 pairs are 2 ** 9 = 512 patterns, 10 are 1,024; alternatives add, and nested ones count as often as they say.
    assert glob_regex("{a,aa}" * 9).fullmatch("a" * 14)
    assert glob_regex("{" + ",".join("abcdefghij" * 90) + "}").fullmatch("j")
    for pattern in ("{a,aa}" * 10, "{" * 14 + "a" + ",b}{c,d" * 14 + "}" * 14, "{a,{b,c}}" * 7):
        with pytest.raises(InvalidArguments, match=r"more than 1,000 patterns"):
            glob_regex(pattern)
