"""grep: the same answers with ripgrep and without it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pegboard.core.errors import InvalidArguments, NotFound, TimedOut, Unsupported
from pegboard.files.search import search
from pegboard.ports.files import GrepResult, SearchQuery
from tests.ledger import owes

RG = shutil.which("rg")
assert RG is not None, "the contract needs ripgrep beside our own walker"
ENGINES: list[Path | Literal[False]] = [Path(RG), False]
both = pytest.mark.parametrize("rg", ENGINES, ids=["ripgrep", "walker"])


def build(root: Path, files: dict[str, bytes | str]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return root


FILES: dict[str, bytes | str] = {
    ".gitignore": "*.log\nbuild/\n",
    "keep/.gitignore": "!keep.log\n",
    "a.log": "needle\n",
    "keep/keep.log": "needle here\nother\n",
    "build/x.txt": "needle\n",
    "src/build/y.txt": "needle\n",
    "x.txt": "needle here\nother\n\nneedle again",
    "crlf.txt": "one\r\nneedle\r\nthree needle\r\n",
    "bom.txt": b"\xef\xbb\xbfneedle bom\nx\n",
    "u16.txt": "hi\nneedle é\n".encode("utf-16"),
    "b.bin": b"needle\0\1",
    "lat.txt": "café needle é\n".encode("latin-1"),
    "app.min.js": b"a" * 5000 + b"needle" + b"b" * 5000,
    "dir/deep/é ü.txt": "x\nÉcole needle\n",
    ".hid/n.txt": "needle",
    "code.py": "emit_row(r)\ndef close(self):\nx: int | None\nrender(page.data)\ninterface{}\na\tb c\n",
    "a:b.txt": "needle",
    "-n.txt": "needle",
    "my file.txt": "needle",
    "line\nend.txt": "needle",
    "empty.txt": "",
    "sub/one.js": "let x = needle;\n",
    "sub/two.ts": "let y = needle;\n",
    "sub/three.min.js": "needle\n",
}

QUERIES: list[dict[str, Any]] = [
    {"pattern": "needle"}, {"pattern": "needle$"}, {"pattern": "^needle"}, {"pattern": "NEEDLE", "ignore_case": True},
    {"pattern": r"\bneedle\b.*é"}, {"pattern": r"n\w+\s"}, {"pattern": "[^x]"}, {"pattern": "^$"}, {"pattern": "."},
    {"pattern": "é"}, {"pattern": "École", "ignore_case": True}, {"pattern": "école", "ignore_case": True},
    {"pattern": "caf. needle"}, {"pattern": "(?<=x)y|needle(?! )"}, {"pattern": r"one\nneedle", "multiline": True},
    {"pattern": "needle.*other", "multiline": True}, {"pattern": r"one\nneedle"}, {"pattern": "x*"}, {"pattern": "$"},
    {"pattern": "[[:alpha:]]+ (here|again)"}, {"pattern": "nothing_here"}, {"pattern": "(?i)NEEDLE"},
    {"pattern": "(?P<a>ne)edle"}, {"pattern": "(?<a>ne)edle"}, {"pattern": r"(e)\1dle"}, {"pattern": "e{2}"}, {"pattern": "a{"},
    {"pattern": "interface{}"}, {"pattern": "x[]y]"}, {"pattern": r"[\w-]+\.txt|ne[e-f]dle"}, {"pattern": r"\x6eeedle"},
    {"pattern": r"\u006eeedle"}, {"pattern": r"a\tb"}, {"pattern": r"\<needle\>"}, {"pattern": r"needle\Z"}, {"pattern": "a&&b|needle"},
    {"pattern": "needle", "mode": "count"}, {"pattern": "needle", "mode": "files"}, {"pattern": ".", "mode": "count"},
    {"pattern": "needle", "glob": "*.txt"}, {"pattern": "needle", "glob": "!*.txt"}, {"pattern": "needle", "glob": "sub/*.js"},
    {"pattern": "needle", "glob": "*.{js,ts}"}, {"pattern": "needle", "glob": "*.js,!*.min.js"}, {"pattern": "needle", "glob": "*.log"},
    {"pattern": "needle", "type": "js"}, {"pattern": "needle", "type": "typescript"}, {"pattern": "needle", "type": "js", "glob": "sub/*"},
    {"pattern": "needle", "path": "keep"}, {"pattern": "needle", "path": "build"}, {"pattern": "needle", "path": "a.log"},
    {"pattern": "needle", "path": "sub/"}, {"pattern": "needle", "path": "b.bin"}, {"pattern": "needle", "path": "keep", "glob": "*.log"},
    {"pattern": "needle", "hidden": True}, {"pattern": "needle", "no_ignore": True}, {"pattern": "needle", "no_ignore": True, "hidden": True},
    {"pattern": "needle", "context": 1}, {"pattern": "needle", "context": 9}, {"pattern": "needle", "limit": 3},
    {"pattern": "needle", "limit": 3, "offset": 2}, {"pattern": "needle", "limit": 2, "offset": 100}, {"pattern": "needle", "mode": "files", "limit": 2},
    {"pattern": "page.data)", "fixed_strings": True}, {"pattern": "NEEDLE", "fixed_strings": True, "ignore_case": True},
    {"pattern": "here\nother", "fixed_strings": True},
    {"pattern": "needle", "whole_words": True}, {"pattern": "(?i)NEED|here", "whole_words": True}, {"pattern": "x|y", "whole_words": True},
    {"pattern": "needle", "whole_words": True, "mode": "files", "limit": 2}, {"pattern": "École", "whole_words": True},
    {"pattern": "needle", "whole_words": True, "path": "keep"}, {"pattern": "needle", "whole_words": True, "path": "b.bin"},
    {"pattern": "needle", "whole_words": True, "context": 1, "offset": 1}, {"pattern": "café", "whole_words": True, "mode": "count"},
    {"pattern": "no_such", "whole_words": True}, {"pattern": "needle", "whole_words": True, "glob": "*.js", "hidden": True},
    {"pattern": ".", "whole_words": True}, {"pattern": "nee", "fixed_strings": True, "whole_words": True},
    {"pattern": "emit_row(r)"}, {"pattern": "def close(self):"}, {"pattern": "int | None"}, {"pattern": "render(page.data)"},
]  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = build(tmp_path_factory.mktemp("grep"), FILES)
    (root / os.fsdecode(b"bad\xff.txt")).write_text("needle\n")
    (root / "dir/up").symlink_to("..")
    (root / "out").symlink_to("/usr/share")
    os.mkfifo(root / "pipe")
    return root


def answer(root: Path, rg: Path | Literal[False], **query: Any) -> GrepResult:
    return replace(search(root, SearchQuery(**query), rg=rg), searched=0)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: " ".join(map(str, q.values())).replace("\n", "\\n"))
@owes("X-55", "D-28")
def test_both_engines_give_the_same_answer(query: dict[str, Any], tree: Path) -> None:
    assert answer(tree, ENGINES[0], **query) == answer(tree, ENGINES[1], **query)


PIECES = [
    "a",
    "b",
    "é",
    "needle",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\s",
    r"\d",
    r"\b",
    "a|b",
    "(a)",
    "x?",
    "a*",
    "b+",
    "{",
    "-",
    "E",
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_random_patterns_over_random_lines_match_alike(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    alphabet = "ab é\tE1_-{\r"
    lines = ["".join(rng.choice(alphabet) for _ in range(rng.randint(0, 12))) for _ in range(60)]
    build(
        tmp_path,
        {"f.txt": rng.choice(["\n", "\r\n"]).join(lines), "g.txt": "\n".join(lines[:20]).encode("latin-1")},
    )
    for _ in range(12):
        # Anchors stand at the ends only: ripgrep 13 misses `a*\\b^a` at the start of a line.
        inner = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))
        pattern = rng.choice(["", "", "^"]) + inner + rng.choice(["", "", "$"])
        query = {"pattern": pattern, "ignore_case": rng.random() < 0.3, "whole_words": rng.random() < 0.3}

        try:
            first: object = answer(tmp_path, ENGINES[0], **query)
        except InvalidArguments as error:
            first = error.message
        try:
            second: object = answer(tmp_path, ENGINES[1], **query)
        except InvalidArguments as error:
            second = error.message

        assert first == second, f"seed {seed} pattern {pattern!r}"


def lines_of(found: GrepResult) -> list[str]:
    return [f"{m.path}:{m.line}:{m.text}" for m in found.matches]


@both
@owes("search-08")
def test_a_binary_file_that_matches_is_named_and_not_shown(rg: Path | Literal[False], tmp_path: Path) -> None:
    build(tmp_path, {"b.bin": b"needle\0\1", "t.txt": "needle\n"})

    found = answer(tmp_path, rg, pattern="needle")

    assert lines_of(found) == ["t.txt:1:needle"]
    assert found.skipped == ("1 binary file matched but cannot be shown (b.bin)",)


@both
@owes("search-09")
def test_a_hit_inside_a_megabyte_of_one_line_is_clipped_around_it(
    rg: Path | Literal[False], tmp_path: Path
) -> None:
    build(tmp_path, {"app.min.js": b"a" * 500_000 + b"needle" + b"b" * 500_000})

    (match,) = answer(tmp_path, rg, pattern="needle").matches

    assert "needle" in match.text
    assert match.text.startswith("[… 499850 bytes] a")
    assert match.text.endswith(" bytes …]")
    assert len(match.text) < 400


@both
@owes("search-10")
def test_alternation_finds_either(rg: Path | Literal[False], tmp_path: Path) -> None:
    build(tmp_path, {"f": "will connect\nwill refuse\n"})

    assert [m.line for m in answer(tmp_path, rg, pattern="connect|refuse").matches] == [1, 2]


@both
@owes("search-11")
def test_code_that_is_another_regular_expression_is_found_as_text_and_the_answer_says_so(
    rg: Path | Literal[False], tree: Path
) -> None:
    for pattern, line in (("emit_row(r)", 1), ("def close(self):", 2), ("render(page.data)", 4)):
        found = answer(tree, rg, pattern=pattern)

        assert [(m.path, m.line) for m in found.matches] == [("code.py", line)]
        assert "literal text" in found.note
    assert answer(tree, rg, pattern="int | None").note == ""


@both
@owes("search-14")
def test_what_is_missing_is_said_and_is_no_empty_answer(rg: Path | Literal[False], tree: Path) -> None:
    with pytest.raises(NotFound, match="nope"):
        answer(tree, rg, pattern="x", path="nope")
    with pytest.raises(NotFound, match="nope"):
        answer(tree, rg, pattern="x", path="nope/deeper")
    with pytest.raises(InvalidArguments, match="empty"):
        answer(tree, rg, pattern="")
    with pytest.raises(InvalidArguments, match="empty"):
        answer(tree, rg, pattern="", fixed_strings=True)
    with pytest.raises(Unsupported):
        answer(tree, rg, pattern="x", path="pipe")
    with pytest.raises(InvalidArguments, match="did you mean 'python'"):
        answer(tree, rg, pattern="x", type="pyton")
    with pytest.raises(InvalidArguments, match="never closed"):
        answer(tree, rg, pattern="x", glob="*.{a")


@both
@owes("search-16", "K-42")
def test_a_full_page_ends_the_search_and_says_that_more_exists(
    rg: Path | Literal[False], tmp_path: Path
) -> None:
    build(tmp_path, {f"d{i:02}/f{j:02}.txt": "hit\n" for i in range(20) for j in range(25)})

    found = search(tmp_path, SearchQuery(pattern="hit", limit=50), rg=rg)

    assert [m.path for m in found.matches] == [f"d{i:02}/f{j:02}.txt" for i in range(2) for j in range(25)]
    assert found.truncated
    assert found.total == 51


@pytest.mark.slow
@both
@owes("search-17")
async def test_a_catastrophic_pattern_ends_in_time_and_blocks_nobody(
    rg: Path | Literal[False], tmp_path: Path
) -> None:
    build(tmp_path, {"f.txt": "a" * 40 + "b\n", "g.txt": "aaaa\n"})
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    heartbeat = asyncio.ensure_future(heart())
    start = time.perf_counter()
    found = await asyncio.to_thread(answer, tmp_path, rg, pattern="(a+)+$")
    took = time.perf_counter() - start
    heartbeat.cancel()

    assert took < 30
    assert beats >= took / 0.05 - 1
    # What could be searched was: only the hopeless file is given up.
    assert [m.path for m in found.matches] == ["g.txt"]
    assert rg or found.skipped == ("1 file given up, the pattern backtracks too long on it (f.txt)",)


@pytest.mark.slow
def test_two_hopeless_files_end_the_search(tmp_path: Path) -> None:
    build(tmp_path, {f"{name}.txt": "a" * 40 + "b\n" for name in "abc"})

    found = answer(tmp_path, False, pattern="(a+)+$")

    assert "2 files given up, the pattern backtracks too long on it (a.txt, b.txt)" in found.skipped
    assert "1 search ended early, the pattern backtracks too long (b.txt)" in found.skipped


@both
@owes("search-18")
def test_every_name_is_found_and_opens_under_the_path_given(rg: Path | Literal[False], tree: Path) -> None:
    found = answer(tree, rg, pattern="^needle$", mode="files")
    names = [path for path, _ in found.counts]

    assert {"my file.txt", "a:b.txt", "-n.txt", "bad\udcff.txt", "line\nend.txt"} <= set(names)
    assert all((tree / name).is_file() for name in names)


@both
def test_links_are_not_followed_and_folders_end(rg: Path | Literal[False], tmp_path: Path) -> None:
    build(tmp_path, {"a/n.txt": "needle"})
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "passwd").symlink_to("/etc/passwd")

    assert lines_of(answer(tmp_path, rg, pattern="needle|root")) == ["a/n.txt:1:needle"]


@both
def test_a_denied_file_is_neither_shown_nor_counted(rg: Path | Literal[False], tree: Path) -> None:
    def denied(path: str) -> bool:
        return path.startswith("sub/")

    found = search(tree, SearchQuery(pattern="needle", path="sub"), rg=rg, denied=denied)
    whole = search(tree, SearchQuery(pattern="let . = needle", mode="count"), rg=rg, denied=denied)

    assert (found.matches, found.total, whole.counts) == ((), 0, ())


@pytest.fixture
def unreadable() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    build(root, {"open.txt": "needle\n", "shut/x.txt": "needle\n", "shut.txt": "needle\n"})
    (root / "shut").chmod(0)
    (root / "shut.txt").chmod(0)
    user = os.geteuid()
    if user == 0:
        # The super-user reads everything: become nobody for the search.
        os.seteuid(65534)
    yield root
    os.seteuid(user)
    (root / "shut").chmod(0o755)
    shutil.rmtree(root)


@both
def test_what_may_not_be_read_is_reported(rg: Path | Literal[False], unreadable: Path) -> None:
    found = answer(unreadable, rg, pattern="needle")

    assert lines_of(found) == ["open.txt:1:needle"]
    assert found.skipped == ("2 paths could not be read: permission denied (shut, shut.txt)",)


@both
def test_the_deadline_ends_a_search(rg: Path | Literal[False], tree: Path) -> None:
    with pytest.raises(TimedOut):
        search(tree, SearchQuery(pattern="needle"), rg=rg, deadline_s=0)


@both
def test_an_invalid_pattern_is_told_with_its_position_and_a_way_out(
    rg: Path | Literal[False], tree: Path
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        answer(tree, rg, pattern="ab(c")

    assert caught.value.details == {"position": 3}
    assert "fixed_strings" in caught.value.hint


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}",
        r"[\p{L}]",
        "[a",
        "a\\",
        "(?x)a b",
        "*a",
        r"\x{110000}",
        "[[:^alpha:]]",
        r"[\q]",
        "a{3,1}",
        "a{99999999999}",
    ],
)
def test_patterns_that_one_engine_lacks_are_refused_by_both(pattern: str, tree: Path) -> None:
    for rg in ENGINES:
        with pytest.raises(InvalidArguments):
            answer(tree, rg, pattern=pattern)


def test_a_line_that_ripgrep_has_no_memory_for_is_searched_by_our_own(tmp_path: Path) -> None:
    with (tmp_path / "one").open("wb") as out:
        out.truncate(200)
    rg = tmp_path / "rg"
    rg.write_text("#!/bin/sh\nkill -ABRT $$\n")
    rg.chmod(0o755)
    build(tmp_path, {"f.txt": "needle\n"})

    assert lines_of(answer(tmp_path, rg, pattern="^needle")) == ["f.txt:1:needle"]


@both
@pytest.mark.slow
def test_lines_in_a_file_too_large_to_hold_are_shown_and_clipped_alike(
    rg: Path | Literal[False], tmp_path: Path
) -> None:
    with (tmp_path / "big.txt").open("wb") as out:
        out.write(b"plain line of some length\n" * 2_700_000)
        out.write(b"before\n" + b"z" * 6000 + b"needle" + b"z" * 6000 + b"\nneedle end\nafter\n")

    found = answer(tmp_path, rg, pattern="needle", context=1)

    assert [(m.line, m.is_match) for m in found.matches] == [
        (2_700_001, False), (2_700_002, True), (2_700_003, True), (2_700_004, False),
    ]  # fmt: skip
    assert "needle" in found.matches[1].text
    assert len(found.matches[1].text) < 400
    assert found.matches[2].text == "needle end"


@both
@owes("X-55", "D-28")
@pytest.mark.parametrize(
    "pattern", ["foo", "fo*", "o", "foo|bar", "(a|ab)c?", "é", "x-y", "f.o", "-", "foo$", "^foo"]
)
def test_whole_words_are_those_of_grep(pattern: str, rg: Path | Literal[False], tmp_path: Path) -> None:
    """GNU grep -w, which asks for no word character on either side."""
    lines = "foo\nfood\n_foo\nfoo_\n a-foo-b\nfoo bar\nafoo foo\nabc\nab\né\nés\nx-y\nxx-yy\nf o\n9foo\n- a\nfooé foo\n"
    (tmp_path / "f.txt").write_text(lines)
    told = subprocess.run(
        ["grep", "-nwE", pattern, "f.txt"],
        cwd=tmp_path,
        env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
        capture_output=True,
    )

    found = search(tmp_path, SearchQuery(pattern=pattern, whole_words=True), rg=rg)

    wanted = [int(line.split(b":")[0]) for line in told.stdout.splitlines()]
    assert wanted
    assert [match.line for match in found.matches] == wanted


@both
@owes("search-11", "search-14", "K-42")
@pytest.mark.parametrize(
    "pattern", ["f(*args)", "*args", "a[0", "print(", "(?P<x", "a**b", "x{3,1}", "\\p{L}", "[z-a]"]
)
def test_code_that_is_no_regular_expression_is_found_as_text(
    pattern: str, rg: Path | Literal[False], tmp_path: Path
) -> None:
    build(tmp_path, {"a.txt": f"one\nhere {pattern} stands\n", "b.txt": "f(args) a0 print x\n"})

    found = search(tmp_path, SearchQuery(pattern=pattern), rg=rg)

    assert [(match.path, match.line) for match in found.matches] == [("a.txt", 2)]
    assert found.note.startswith(
        "The pattern is not a valid regular expression; it was searched as literal text"
    )
    (tmp_path / "a.txt").unlink()
    with pytest.raises(InvalidArguments):
        search(tmp_path, SearchQuery(pattern=pattern), rg=rg)
