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
        ({"case_sensitive": False, "path": "a.py"}, "a.py:2:two needle\na.py:5:NEEDLE five"),
        ({"caseSensitive": True, "path": "a.py"}, "a.py:2:two needle"),
        ({"exclude": "*.md", "mode": "files"}, "a.py\nsub/c.txt"),
        ({"exclude": ["*.{md,py}", "!x"], "mode": "files"}, "sub/c.txt"),
        ({"exclude_dir": "sub/", "mode": "files"}, "a.py"),
        ({"exclude": "**/sub/**", "mode": "files"}, "a.py"),
        ({"glob": "*.{md,txt}", "exclude": "c.*", "mode": "files"}, "sub/b.md"),
        ({"pattern": "nee|two", "-w": True}, "a.py:2:two needle"),
        ({"path": ["a.py"]}, "a.py:2:two needle"),
        ({"path": ["sub", "a.py", "sub"]}, "sub/b.md:1:needle\nsub/c.txt:1:needle\na.py:2:two needle"),
        ({"paths": ["sub/c.txt", "sub/b.md"], "mode": "count"}, "sub/c.txt:1\nsub/b.md:1"),
        ({"path": '["sub/c.txt", "sub/b.md"]', "mode": "count"}, "sub/c.txt:1\nsub/b.md:1"),
        ({"path": ' ["a.py"]', "mode": "count"}, "a.py:1"),
        ({"ignore": "sub", "mode": "files"}, "a.py"),
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
        ("glob", {"pattern": "**/*", "exclude": ["*.md", "a*"]}, "sub/c.txt"),
        ("glob", {"pattern": "**/*", "exclude_dirs": ["sub"]}, "a.py"),
        ("glob", {"pattern": "sub/*", "exclude": "sub/b*"}, "sub/c.txt"),
        ("glob", {"pattern": "SUB/*.MD", "case_sensitive": False}, "sub/b.md"),
        ("glob", {"pattern": "*.PY", "-i": True}, "a.py"),
        ("glob", {"pattern": "*", "path": '["sub", "."]'}, "sub/b.md\nsub/c.txt\na.py"),
        ("glob", {"pattern": "**/*", "exclude-dir": "sub"}, "a.py"),
        ("glob", {"pattern": "*", "path": ["sub", "."]}, "sub/b.md\nsub/c.txt\na.py"),
        ("read_file", {"path": "a.py", "view_range": [2, 3]}, "     2→two needle\n     3→three\n[lines 2-3 of 6; offset=4 goes on]"),
        ("read_file", {"path": "a.py", "view_range": [5, -1]}, "     5→NEEDLE five\n     6→six"),
        ("read_file", {"path": "a.py", "lines": "5-6"}, "     5→NEEDLE five\n     6→six"),
        ("read_file", {"path": "a.py", "line_range": "L5:L6"}, "     5→NEEDLE five\n     6→six"),
        ("read_file", {"path": "a.py", "lines": "5-"}, "     5→NEEDLE five\n     6→six"),
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
        left = await door.call("glob", {"pattern": "*.py", "exclude": [2]})
        paths = await door.call("grep", {"pattern": "needle", "path": [1]})

    assert [r.error.code for r in (mode, globs, kinds, left, paths) if r.error] == ["invalid_arguments"] * 5


@owes("X-08", "X-14")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("grep", {"pattern": "x", "case_sensitive": True, "ignore_case": True}),
        ("glob", {"pattern": "x", "case_sensitive": True, "ignore_case": True}),
        # A list of no places would be a search that no rule sees.
        ("grep", {"pattern": "x", "path": []}),
        ("glob", {"pattern": "x", "path": []}),
        # How many lines, or which one?
        ("read_file", {"path": "a.py", "lines": 5}),
        ("read_file", {"path": "a.py", "lines": "5"}),
        ("read_file", {"path": "a.py", "view_range": [1, 2, 3]}),
        ("read_file", {"path": "a.py", "view_range": [3, 2]}),
        ("read_file", {"path": "a.py", "lines": "2-3", "limit": 1}),
    ],
    ids=str,
)
async def test_what_means_two_things_is_refused(name: str, arguments: dict[str, Any], root: Path) -> None:
    async with Executor(builtin(name), workspace=root) as door:
        result = await door.call(name, arguments)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"


@owes("X-11")
def test_no_model_is_told_of_the_other_words() -> None:
    shown = {tool.name: set(tool.schema["properties"]) for tool in builtin("grep", "glob", "read_file")}

    assert not {"exclude", "word", "case_sensitive", "lines"} & set().union(*shown.values())
    assert all(
        tool.schema["properties"]["path"]["type"] == "string" for tool in builtin("grep", "glob", "read_file")
    )


@owes("K-42", "D-28")
@pytest.mark.parametrize("mode", ["content", "files", "count"])
@pytest.mark.parametrize("limit", [1, 2, 3, 10])
async def test_pages_of_several_places_are_those_of_one_list(mode: str, limit: int, root: Path) -> None:
    """Read page by page, nothing is missing and nothing twice."""
    ask: dict[str, Any] = {"pattern": "e", "path": ["sub/c.txt", "a.py", "sub/b.md"], "mode": mode}
    whole = (await said(root, "grep", ask)).split("\n")
    pages: list[str] = []
    for offset in range(0, len(whole), limit):
        answer = (await said(root, "grep", {**ask, "limit": limit, "offset": offset})).split("\n")
        assert answer[-1].startswith("[") == (offset + limit < len(whole))
        pages += [line for line in answer if not line.startswith("[")]

    assert len(whole) == (6 if mode == "content" else 3)
    assert pages == whole


@owes("X-55", "N-33")
async def test_a_denied_place_in_a_list_is_no_way_around_the_rule(root: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "s.txt").write_text("needle\n")

    async with Executor(builtin("grep", "glob"), workspace=root) as door:
        found = await door.call("grep", {"pattern": "needle", "path": ["a.py", str(outside)]})
        named = await door.call("glob", {"pattern": "*", "path": ["sub", str(outside)]})

    assert not found.ok
    assert not named.ok
    assert "s.txt" not in str(found) + str(named)


@owes("X-55", "N-33")
@pytest.mark.parametrize("name", ["grep", "glob"])
async def test_a_rule_about_one_place_of_a_list_holds(name: str, root: Path) -> None:
    async with Executor(builtin(name), workspace=root, policy=["deny read:sub"]) as door:
        alone = await door.call(name, {"pattern": "one", "path": ["."]})
        both = await door.call(name, {"pattern": "one", "path": [".", "sub"]})

    assert alone.ok
    assert both.error is not None
    assert both.error.code == "permission_denied"


@pytest.mark.parametrize("name", ["[id]", "[1]", "[]", '["a"', "[null]"])
async def test_a_name_in_brackets_is_a_name(name: str, root: Path) -> None:
    (root / name).mkdir()
    (root / name / "x.py").write_text("needle\n")

    assert await said(root, "grep", {"pattern": "needle", "path": name}) == f"{name}/x.py:1:needle"
    assert await said(root, "glob", {"pattern": "*", "path": name}) == f"{name}/x.py"
