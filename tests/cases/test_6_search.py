"""Theme 6: searching finds what is there, says what it left out, and always ends."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from pegboard.files.search import search
from pegboard.ports.files import SearchQuery
from tests.cases.kit import door, of_kind, row_id, rows, write_tree
from tests.ledger import owes


async def globbed(folder: Path, pattern: str) -> list[str]:
    async with door(folder, "glob") as tools:
        result = await tools.call("glob", {"pattern": pattern})
    assert result.ok, str(result)
    return sorted(line for line in str(result).splitlines() if line and not line.startswith(("[", "No ")))


async def grepped(folder: Path, pattern: str, **more: Any) -> str:
    async with door(folder, "grep") as tools:
        result = await tools.call("grep", {"pattern": pattern, **more})
    return str(result)


@owes("search-02", "search-03")
@pytest.mark.parametrize("row", of_kind("6-search", "gitignore"), ids=row_id)
async def test_ignored_files_are_found_by_neither_tool(row: dict[str, Any], tmp_path: Path) -> None:
    write_tree(tmp_path, dict.fromkeys(row["calc"]["files"], "needle\n"))
    write_tree(tmp_path, row["calc"]["ignore"])

    listed = await globbed(tmp_path, "**/*")
    found = await grepped(tmp_path, "needle", mode="files")

    assert sorted(f for f in listed if f in row["calc"]["files"]) == sorted(row["calc"]["kept"])
    for name in row["calc"]["files"]:
        assert (name in found.splitlines()) == (name in row["calc"]["kept"]), name


@owes("search-04")
@pytest.mark.parametrize("target", ["dot/gi", "nowhere"])
async def test_an_ignore_file_that_is_a_link_never_crashes(target: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {"dot/gi": "build/\n", "build/a": "x", "b": "x"})
    (tmp_path / ".gitignore").symlink_to(target)

    listed = await globbed(tmp_path, "**/*")

    assert "b" in listed
    assert ("build/a" in listed) == (target == "nowhere")


@owes("search-06")
async def test_links_neither_loop_nor_lead_out(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/n.txt": "needle\n"})
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "out").symlink_to("/usr/share")
    begun = time.process_time()

    assert await globbed(tmp_path, "**/n.txt") == ["a/n.txt"]
    assert time.process_time() - begun < 2
    assert (await grepped(tmp_path, "needle", mode="files")).splitlines()[0] == "a/n.txt"


@owes("search-08")
async def test_a_binary_hit_is_named_and_not_shown(tmp_path: Path) -> None:
    write_tree(tmp_path, {"b.bin": b"needle\0\1", "t.txt": "needle\n"})

    said = await grepped(tmp_path, "needle")

    assert "t.txt" in said and re.search(r"\b1\b", said)
    assert "\0" not in said and "binary" in said.lower()


@owes("search-09")
async def test_a_hit_in_a_megabyte_line_is_clipped(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app.min.js": "a" * 500_000 + "needle" + "b" * 500_000})

    said = await grepped(tmp_path, "needle")

    assert "needle" in said and len(said) < 5000


@owes("search-10")
@pytest.mark.parametrize("row", of_kind("6-search", "regex"), ids=row_id)
async def test_the_lines_of_a_pattern_are_those_of_the_reference(row: dict[str, Any], tmp_path: Path) -> None:
    write_tree(tmp_path, {"f.txt": row["calc"]["text"]})

    async with door(tmp_path, "grep") as tools:
        result = await tools.call("grep", {"pattern": row["calc"]["pat"]})

    assert [hit["line"] for hit in result.data["matches"]] == row["calc"]["lines"]


@owes("search-11")
@pytest.mark.parametrize("row", of_kind("6-search", "literal"), ids=row_id)
async def test_code_that_is_another_pattern_is_found_as_text(row: dict[str, Any], tmp_path: Path) -> None:
    for pattern, text in [*row["calc"]["pairs"], *((p, p) for p in row["input"].get("patterns", []))]:
        write_tree(tmp_path, {"f.txt": f"{text}\nother\n"})

        said = await grepped(tmp_path, pattern)

        assert text in said, pattern


@owes("search-14")
@pytest.mark.parametrize(
    ("name", "arguments", "word"),
    [
        ("grep", {"pattern": "x", "path": "nope"}, "nope"),
        ("glob", {"pattern": ""}, "pattern"),
        ("grep", {"pattern": "", "path": "."}, "pattern"),
    ],
)
async def test_what_is_missing_is_an_error_and_no_empty_answer(
    name: str, arguments: dict[str, str], word: str, tmp_path: Path
) -> None:
    async with door(tmp_path, "grep", "glob") as tools:
        wrong = await tools.call(name, arguments)
        empty = await tools.call("grep", {"pattern": "zzz"})

    assert not wrong.ok and word in str(wrong)
    assert empty.ok


@owes("search-15")
async def test_two_stars_match_at_every_depth(tmp_path: Path) -> None:
    names = rows("6-search")["search-15"]["input"]["tree"]
    write_tree(tmp_path, dict.fromkeys(names, "x"))

    assert await globbed(tmp_path, "**/x.rb") == sorted(names)
    assert await globbed(tmp_path, "*.rb") == ["x.rb"]
    assert await globbed(tmp_path, "**") != []


@owes("search-16")
@pytest.mark.slow
async def test_a_full_page_says_that_more_exists(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"d{n % 50}/{n}.txt": "hit\n" for n in range(2000)})

    async with door(tmp_path, "grep") as tools:
        result = await tools.call("grep", {"pattern": "hit", "limit": 50})

    assert len(result.data["matches"]) == 50
    assert "more" in str(result).lower()


@owes("search-17")
@pytest.mark.slow
async def test_a_catastrophic_pattern_ends_and_blocks_nobody(tmp_path: Path) -> None:
    write_tree(tmp_path, {"f.txt": "a" * 40 + "b\n"})
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    await grepped(tmp_path, "b")  # Loads what every search needs.
    beating = asyncio.ensure_future(heart())
    begun = time.perf_counter()
    await grepped(tmp_path, "(a+)+$")
    took = time.perf_counter() - begun
    beating.cancel()

    assert took < 30
    assert beats + 1 >= took / 0.01 / 4


@owes("search-18")
async def test_every_name_is_found_and_read_by_the_path_given(tmp_path: Path) -> None:
    for name in (b"my file.txt", b"a:b.txt", b"-n.txt", b"bad\xff.txt", "é.txt".encode()):
        (tmp_path / os.fsdecode(name)).write_text("needle\n")

    listed = await globbed(tmp_path, "*.txt")
    found = (await grepped(tmp_path, "needle", mode="files")).splitlines()
    async with door(tmp_path, "read_file") as tools:
        read = [str(await tools.call("read_file", {"path": name})) for name in listed]

    assert len(listed) == 5
    assert sorted(f for f in found if f.endswith(".txt")) == listed
    assert all("needle" in text for text in read)
    "\n".join(listed).encode("utf-8")


@owes("search-17")
@pytest.mark.parametrize("rg", [None, False])
@pytest.mark.parametrize(
    "pattern",
    [
        # Each backtracks, unfolds or compiles beyond all bounds though no part of it is unbounded.
        "((a{1,100}){1,100}){1,100}c", "((((a{1,9}){1,9}){1,9}){1,9}){1,9}c", "a?" * 30 + "a" * 30 + "c",
        "(a|a)" * 40 + "c", "a{20000}b",
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_pattern_of_bounded_repeats_ends_in_time_too(
    pattern: str, rg: Literal[False] | None, tmp_path: Path
) -> None:
    write_tree(tmp_path, {"a.txt": "a" * 40 + "b\n", "long.txt": "a" * 100_000 + "\n"})

    # An answer, and no TimedOut: whatever it could not finish is named in it.
    found = search(tmp_path.resolve(), SearchQuery(pattern=pattern), rg=rg, deadline_s=15)

    assert found.matches == ()


async def test_a_pattern_longer_than_an_engine_takes_is_refused_by_its_length(tmp_path: Path) -> None:
    assert "128,889 characters" in await grepped(tmp_path, "|".join(f"w{n}" for n in range(20_000)))


@owes("search-10", "search-11")
@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"connect\|refuse", "a|b finds either"), ("connect\nwill", "multiline=true"),
        (r"connect\nwill", "multiline=true"), (r"C:\path", "fixed_strings=true"),
    ],
)  # fmt: skip
async def test_a_pattern_in_the_syntax_of_another_program_is_told_apart_from_nothing_there(
    pattern: str, says: str, tmp_path: Path
) -> None:
    write_tree(tmp_path, {"a.txt": "will connect\nwill refuse\nC:\\path\n"})

    assert says in await grepped(tmp_path, pattern)


@owes("search-15")
async def test_brackets_in_names_and_doubled_stars_find_what_is_meant(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app/[id]/page.tsx": "", "app/i/x.ts": "", "x.rb": "", "lib/a/x.rb": ""})

    assert await globbed(tmp_path, "app/[id]/*.tsx") == ["app/[id]/page.tsx"]
    assert await globbed(tmp_path, "**/[id]/**/page.tsx") == ["app/[id]/page.tsx"]
    assert await globbed(tmp_path, "app/[id]/*.ts") == ["app/i/x.ts"]
    assert await globbed(tmp_path, "**/**/x.rb") == ["lib/a/x.rb", "x.rb"]


@owes("search-15", "X-55")
async def test_braces_without_a_choice_are_part_of_the_name_where_they_find_nothing_else(
    tmp_path: Path,
) -> None:
    """As in a shell: `echo {a}` says {a}."""
    write_tree(
        tmp_path, {"{{name}}/setup.py": "", "other/x.py": "", "q/{id}.ts": "", "q/[{k}].ts": "", "a,{b}": ""}
    )

    assert await globbed(tmp_path, "{{name}}/*.py") == ["{{name}}/setup.py"]
    assert await globbed(tmp_path, "**/{id}.ts") == ["q/{id}.ts"]
    assert await globbed(tmp_path, "q/[{k}].*") == ["q/[{k}].ts"]
    # A choice stays one, also of one name, where that finds something.
    assert await globbed(tmp_path, "{other}/*.py") == ["other/x.py"]
    assert await globbed(tmp_path, "q/{id,k}.ts") == []
