"""grep, glob, read_file and list_dir under the words of other programs, where nothing else can be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard import Executor, builtin
from tests.ledger import owes

LINES = "one\ntwo needle\nthree\nfour\nNEEDLE five\nsix\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(LINES)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.md").write_text("needle\n")
    (tmp_path / "sub/c.txt").write_text("needle\n")
    return tmp_path


async def said(root: Path, name: str, arguments: dict[str, Any]) -> str:
    async with Executor(builtin(name), workspace=root) as door:
        result = await door.call(name, arguments)
    assert result.ok, result.error
    return str(result)


@owes("X-55", "D-28")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # ripgrep's own words, and those of the agents whose models were trained on them.
        ({"output_mode": "files_with_matches"}, "a.py\nsub/b.md\nsub/c.txt"),
        ({"mode": "filesWithMatches"}, "a.py\nsub/b.md\nsub/c.txt"),
        ({"mode": "files-with-matches", "head_limit": 0}, "a.py\nsub/b.md\nsub/c.txt"),
        ({"mode": "count_matches"}, "a.py:1\nsub/b.md:1\nsub/c.txt:1"),
        ({"mode": "Lines", "path": "sub"}, "sub/b.md:1:needle\nsub/c.txt:1:needle"),
        ({"-n": True, "-i": True, "path": "a.py"}, "a.py:2:two needle\na.py:5:NEEDLE five"),
        ({"-n": False, "path": "a.py"}, "a.py:two needle"),
        ({"-A": 1, "path": "a.py"}, "a.py:2:two needle\na.py-3-three"),
        ({"-B": 1, "path": "a.py"}, "a.py-1-one\na.py:2:two needle"),
        ({"-C": 1, "-A": 2, "path": "a.py"}, "a.py-1-one\na.py:2:two needle\na.py-3-three\na.py-4-four"),
        ({"-C": 1, "-B": 0, "path": "a.py"}, "a.py:2:two needle\na.py-3-three"),
        ({"include": ["*.py", "*.md"], "mode": "files"}, "a.py\nsub/b.md"),
        ({"includePattern": "*.md"}, "sub/b.md:1:needle"),
        ({"type": "*.py"}, "a.py:2:two needle"),
    ],
    ids=str,
)
async def test_grep_reads_the_words_of_other_programs(
    arguments: dict[str, Any], expected: str, root: Path
) -> None:
    assert await said(root, "grep", {"pattern": "needle", **arguments}) == expected


@owes("X-55", "X-11", "X-14", "X-16")
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("glob", {"glob_pattern": "*.py", "target_directory": "."}, "a.py"),
        ("glob", {"patterns": ["*.py"]}, "a.py"),
        ("glob", {"pattern": ["a.*", "**/b.*"], "cwd": "."}, "sub/b.md\na.py"),
        ("read_file", {"target_file": "a.py", "start_line_one_indexed": 2, "end_line_one_indexed_inclusive": 2, "numbered": False}, "two needle\n[lines 2-2 of 6; offset=3 goes on]"),
        ("read_file", {"filepath": "a.py", "line_offset": 6, "n_lines": 1, "line_numbers": False}, "six\n"),
        ("list_dir", {"directory_path": "sub", "max_depth": 1}, "[FILE] b.md\n[FILE] c.txt"),
    ],
    ids=str,
)  # fmt: skip
async def test_the_other_file_tools_read_them_too(
    name: str, arguments: dict[str, Any], expected: str, root: Path
) -> None:
    answer = await said(root, name, arguments)

    assert sorted(answer.split("\n")) == sorted(expected.split("\n"))


@owes("X-08")
async def test_a_mode_that_means_nothing_and_a_list_that_is_no_globs_are_refused(root: Path) -> None:
    async with Executor(builtin("grep", "glob"), workspace=root) as door:
        mode = await door.call("grep", {"pattern": "needle", "mode": "everything"})
        globs = await door.call("grep", {"pattern": "needle", "glob": [1]})
        kinds = await door.call("glob", {"pattern": ["*.py", 2]})

    assert [r.error.code for r in (mode, globs, kinds) if r.error] == ["invalid_arguments"] * 3
