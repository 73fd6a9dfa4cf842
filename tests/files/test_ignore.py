"""Ignore rules, judged by git itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pegboard.files.globs import glob_files
from pegboard.files.walk import IgnoreFile, as_bytes_text
from tests.ledger import DATA, owes

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "globs/gitignore.jsonl").read_text().splitlines()
]


def ignored_by(text: str, path: str, *, is_dir: bool = False) -> bool:
    """Whether one ignore file at the top ignores `path`, ancestors counted, as `git check-ignore` says.

    Args:
        path: below the file's folder; for a folder a trailing `/` is matched as git matches it.
    """
    file = IgnoreFile(text)
    whole = as_bytes_text(path)
    parts = whole.rstrip("/").split("/")
    for i in range(1, len(parts) + 1):
        last = i == len(parts)
        verdict = file.verdict("/".join(parts[:i]), parts[i - 1], is_dir or whole.endswith("/") or not last)
        if verdict is not None and (verdict or last):
            return verdict
    if whole.endswith("/"):
        return file.verdict(whole, "", True) is True
    return False


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_gitignore_line_ignores_what_git_says(row: dict[str, Any]) -> None:
    # The corpus asked `git check-ignore` with a slash behind folders.
    path = row["path"] + ("/" if row["is_dir"] else "")

    assert ignored_by(row["gitignore"], path, is_dir=row["is_dir"]) == row["ignored_git"]


def build(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=", *arguments], cwd=root, capture_output=True, check=True
    )
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


def kept_by_git(root: Path) -> list[str]:
    git(root, "init", "-q")
    return git(root, "ls-files", "-z", "--others", "--exclude-standard")


def kept_by_us(root: Path) -> list[str]:
    found = glob_files(root, ".", "**", limit=100_000, hidden=True)
    return sorted(entry.path for entry in found.entries)


@owes("search-02")
def test_ignored_copies_do_not_flood_results(tmp_path: Path) -> None:
    copies = {f".agent/worktrees/{i}/src/A.php": "" for i in range(1, 7)}
    build(tmp_path, {".gitignore": ".agent/worktrees/\n", "src/A.php": "", **copies})

    found = glob_files(tmp_path, ".", "**/A.php", limit=100)

    assert [entry.path for entry in found.entries] == ["src/A.php"]


@owes("search-03")
def test_a_nested_ignore_file_with_a_negation_keeps_what_git_keeps(tmp_path: Path) -> None:
    files = ["a.log", "keep/keep.log", "keep/b.log", "build/x.txt", "src/build/y.txt", "x.txt"]
    build(
        tmp_path,
        {".gitignore": "*.log\nbuild/\n", "keep/.gitignore": "!keep.log\n", **dict.fromkeys(files, "")},
    )

    kept = kept_by_us(tmp_path)

    assert kept == [".gitignore", "keep/.gitignore", "keep/keep.log", "x.txt"]
    assert kept == kept_by_git(tmp_path)


@owes("search-04")
def test_a_gitignore_that_is_a_link_is_read_through_it_and_a_dangling_one_ignores_nothing(
    tmp_path: Path,
) -> None:
    build(tmp_path, {"dot/gi": "build/\n", "build/a": "", "b": ""})
    (tmp_path / ".gitignore").symlink_to("dot/gi")
    read = kept_by_us(tmp_path)
    (tmp_path / ".gitignore").unlink()
    (tmp_path / ".gitignore").symlink_to("nowhere")

    dangling = kept_by_us(tmp_path)

    assert "build/a" not in read
    assert "build/a" in dangling


def test_an_ignore_file_that_is_a_pipe_ignores_nothing_and_stops_nobody(tmp_path: Path) -> None:
    build(tmp_path, {"a": ""})
    os.mkfifo(tmp_path / ".gitignore")

    assert kept_by_us(tmp_path) == ["a"]


def test_info_exclude_counts_and_a_dot_ignore_beats_every_gitignore(tmp_path: Path) -> None:
    build(tmp_path, {"a.tmp": "", "b.log": "", "c.txt": "", "sub/d.log": "", ".gitignore": "*.log\n"})
    git(tmp_path, "init", "-q")
    (tmp_path / ".git/info/exclude").write_text("*.tmp\n")
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path) == [".gitignore", "c.txt"]

    (tmp_path / ".ignore").write_text("!b.log\nc.txt\n")

    assert kept_by_us(tmp_path) == [".gitignore", ".ignore", "b.log"]


def test_rules_of_the_folders_above_hold_in_a_folder_that_is_searched_alone(tmp_path: Path) -> None:
    build(tmp_path, {".gitignore": "sub/*.log\n", "sub/a.log": "", "sub/b.txt": ""})

    found = glob_files(tmp_path, "sub", "*", limit=10)

    assert [entry.path for entry in found.entries] == ["b.txt"]


def test_a_nested_repository_has_its_own_rules_only(tmp_path: Path) -> None:
    build(tmp_path, {".gitignore": "*.log\n", "inner/a.log": "", "b.log": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path / "inner", "init", "-q")

    assert kept_by_us(tmp_path) == [".gitignore", "inner/a.log"]


def test_a_byte_order_mark_and_crlf_in_an_ignore_file_are_no_part_of_its_rules(tmp_path: Path) -> None:
    build(tmp_path, {"a.log": "", "b.tmp": "", "c": ""})
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\r\n*.tmp\r\n")

    assert kept_by_us(tmp_path) == kept_by_git(tmp_path) == [".gitignore", "c"]


PIECES = [
    "*",
    "**",
    "?",
    "a",
    "b",
    "ab",
    "a*",
    "*b",
    "[ab]",
    "[!a]",
    "[a-",
    "é",
    "\\*",
    "\\a",
    ".x",
    "a b",
    "[[:alpha:]]",
]
NAMES = ["a", "b", "ab", "ba", "abc", "é", "*", ".x", "a b", "c"]


def random_rules(rng: random.Random) -> str:
    lines: list[str] = []
    for _ in range(rng.randint(1, 5)):
        body = "/".join(rng.choice(PIECES) for _ in range(rng.randint(1, 3)))
        lines.append(
            rng.choice(["", "", "!"]) + rng.choice(["", "", "/"]) + body + rng.choice(["", "", "/", "  "])
        )
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_rules_over_a_random_tree_keep_what_git_keeps(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    files = {
        "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 4))) + ".f" * rng.randint(0, 1): ""
        for _ in range(60)
    }
    for name in sorted(files, key=len):
        path = tmp_path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:
            continue  # one random name is a folder of another
    for folder in (tmp_path, *[p for p in tmp_path.rglob("*") if p.is_dir() and rng.random() < 0.2]):
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text(random_rules(rng))

    assert kept_by_us(tmp_path) == kept_by_git(tmp_path), f"seed {seed}"
