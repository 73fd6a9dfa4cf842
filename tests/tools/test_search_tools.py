"""list_dir, glob and grep over a real workspace."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace, Unavailable
from pegboard.core.secrets.redact import Redactor
from pegboard.files.workspace import Workspace
from pegboard.tools.glob import glob
from pegboard.tools.grep import grep
from pegboard.tools.list_dir import list_dir
from pegboard.tools.read_file import read_file
from tests.ledger import owes
from tests.tools.test_read_file import MemorySpills

HIDDEN = "[1 hidden entry left out: hidden=true (.hidden)]"
LEFT_OUT = f"{HIDDEN}\n[1 ignored entry left out: no_ignore=true (n.log)]"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Workspace]:
    root = tmp_path / "w"
    for name, text in {
        "b/inner/deep.py": "needle = 1\n",
        "b/x.py": "one\nneedle\nthree\n\n\nsix needle\n",
        "a/y.txt": "needle\n",
        "z.py": "",
        ".hidden/h.py": "needle\n",
        ".gitignore": "*.log\n",
        "n.log": "needle\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    workspace = Workspace(root)
    yield workspace
    workspace.close()


@pytest.mark.parametrize("program", ["rg", None])
async def test_grep_says_where_it_shows_lines_in_a_guessed_encoding(
    files: Workspace, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program is None:
        monkeypatch.setenv("PATH", str(files.root / "nothing"))
    elif shutil.which(program) is None:
        pytest.skip("ripgrep is not installed")
    text = "Książka leży na półce. Dziękuję bardzo, źle się czułem.\n"
    (files.root / "pl.txt").write_bytes(text.encode("cp1250"))
    (files.root / "other.txt").write_bytes(text.replace("Książka", "Książki").encode("cp1250"))
    (files.root / "utf.txt").write_text(text)

    found = str(await grep("Książka", files=files))

    assert f"pl.txt:1:{text}" in found
    assert (
        "[1 file shown, encoding guessed: cp1250; if the text looks wrong, read_file with encoding= names another"
        " (pl.txt)]"
    ) in found


async def test_grep_in_a_large_tree_counts_what_it_left_out_from_the_outside_in_and_says_at_least(
    files: Workspace,
) -> None:
    deep = files.root / "a" / "deep"
    deep.mkdir()
    for number in range(1200):
        (deep / f"{number}.log").touch()
    (files.root / "zz").mkdir()
    (files.root / "zz" / ".late").touch()

    found = str(await grep("absent", files=files))

    assert "[at least 2 hidden entries left out: hidden=true (.hidden, zz/.late)]" in found
    assert "[at least 1001 ignored entries left out: no_ignore=true (a/deep/" in found


@owes("N-42", "C-16", "X-16", "D-21")
async def test_list_dir_names_folders_and_files(files: Workspace) -> None:
    found = await list_dir(files=files)

    assert str(found) == ("[DIR] .hidden/\n[DIR] a/\n[DIR] b/\n[FILE] .gitignore\n[FILE] n.log\n[FILE] z.py")
    assert found.data["entries"][1] == {**found.data["entries"][1], "path": "a", "kind": "dir"}


@owes("N-43", "X-16")
async def test_the_emoji_style_sorts_by_name_alone(files: Workspace) -> None:
    assert str(await list_dir(style="emoji", files=files)) == (
        "📄 .gitignore\n📁 .hidden\n📁 a\n📁 b\n📄 n.log\n📄 z.py"
    )


@owes("C-17")
async def test_recursive_and_depth_list_below(files: Workspace) -> None:
    assert (
        str(await list_dir("b", recursive=True, style="plain", files=files)) == "inner/\ninner/deep.py\nx.py"
    )
    assert str(await list_dir("b", depth=1, recursive=True, style="plain", files=files)) == "inner/\nx.py"


async def test_a_cut_listing_and_an_empty_folder_say_so(files: Workspace) -> None:
    (files.root / "void").mkdir()

    cut = await list_dir(max_entries=2, files=files)

    assert "only the first 2 entries" in str(cut)
    assert cut.data["truncated"]
    assert str(await list_dir("void", files=files)) == "[void is empty]"


@owes("C-18")
async def test_a_missing_folder_is_named(files: Workspace) -> None:
    with pytest.raises(NotFound, match="nope"):
        await list_dir("nope", files=files)
    with pytest.raises(OutsideWorkspace):
        await list_dir("/etc", files=files)


@owes("D-25", "D-26")
async def test_glob_gives_paths_of_the_workspace_newest_first(files: Workspace) -> None:
    os.utime(files.root / "b/x.py", (2000, 2000))
    os.utime(files.root / "b/inner/deep.py", (3000, 3000))

    found = await glob("**/*.py", "b", files=files)

    assert str(found) == "b/inner/deep.py\nb/x.py"
    assert found.data["paths"] == ["b/inner/deep.py", "b/x.py"]
    assert (await glob("**/*.py", "b", limit=1, files=files)).data["truncated"]


@owes("D-25", "D-26", "D-27")
async def test_glob_gives_the_first_hundred_where_nothing_is_said(files: Workspace) -> None:
    (files.root / "many").mkdir()
    for number in range(102):
        (files.root / f"many/{number}").write_text("")
        os.utime(files.root / f"many/{number}", (number, number))

    found = await glob("*", "many", files=files)

    assert found.data["paths"] == [f"many/{number}" for number in range(101, 1, -1)]
    assert "only the 100 newest" in str(found)


async def test_glob_says_what_it_left_out_when_it_finds_nothing(files: Workspace) -> None:
    found = await glob("*.log", files=files)

    assert str(found) == ("No file matches '*.log' in .\n[1 ignored entry left out: no_ignore=true (n.log)]")
    assert str(await glob("*.log", no_ignore=True, files=files)) == "n.log"
    assert str(await glob("**/h.py", hidden=True, files=files)) == ".hidden/h.py"


@owes("D-28", "X-55", "K-42")
async def test_grep_gives_path_line_and_text(files: Workspace) -> None:
    found = await grep("needle", glob="*.py", files=files)

    assert str(found) == (f"b/inner/deep.py:1:needle = 1\nb/x.py:2:needle\nb/x.py:6:six needle\n{HIDDEN}")
    assert found.data["total"] == 3


async def test_grep_divides_groups_of_context(files: Workspace) -> None:
    found = await grep("needle", "b/x.py", context=1, files=files)

    assert str(found) == ("b/x.py-1-one\nb/x.py:2:needle\nb/x.py-3-three\n--\nb/x.py-5-\nb/x.py:6:six needle")


async def test_grep_counts_and_names_files(files: Workspace) -> None:
    assert str(await grep("needle", mode="count", files=files)) == (
        f"a/y.txt:1\nb/inner/deep.py:1\nb/x.py:2\n{LEFT_OUT}"
    )
    assert str(await grep("needle", mode="files", files=files)) == (
        f"a/y.txt\nb/inner/deep.py\nb/x.py\n{LEFT_OUT}"
    )


async def test_grep_pages_and_says_how_to_go_on(files: Workspace) -> None:
    first = await grep("needle", limit=2, files=files)
    second = await grep("needle", limit=2, offset=2, files=files)

    assert str(first).endswith(f"[matches 1-2; more exist: offset=2 goes on]\n{LEFT_OUT}")
    assert str(second) == f"b/x.py:2:needle\nb/x.py:6:six needle\n{LEFT_OUT}"
    assert str(await grep("needle", offset=9, files=files)) == f"No results after 9.\n{LEFT_OUT}"


async def test_an_empty_answer_of_grep_says_what_was_not_searched(files: Workspace) -> None:
    found = await grep("nowhere", files=files)

    assert str(found).startswith("No matches for 'nowhere' in .")
    assert str(found).endswith(LEFT_OUT)


@owes("search-11")
async def test_grep_tells_when_it_took_the_pattern_literally(files: Workspace) -> None:
    (files.root / "c.py").write_text("emit(r)\n")

    assert str(await grep("emit(r)", files=files)).startswith(
        "[As a regular expression the pattern matches nothing;"
    )


async def test_grep_searches_a_spilled_result(files: Workspace) -> None:
    spills = MemorySpills(x="one\ntwo(\nthree")

    assert (
        str(await grep("T", "spill:x", ignore_case=True, files=files, spills=spills))
        == "spill:x:2:two(\nspill:x:3:three"
    )
    assert (
        str(await grep("two(", "spill:x", fixed_strings=True, files=files, spills=spills)) == "spill:x:2:two("
    )
    with pytest.raises(InvalidArguments, match="regular expression"):
        await grep("four(", "spill:x", files=files, spills=spills)
    with pytest.raises(Unavailable):
        await grep("x", "spill:x", files=files)


@pytest.mark.parametrize(
    ("tool", "given", "name", "value"),
    [
        (grep, {"pattern": "x", "-i": True}, "ignore_case", True),
        (grep, {"query": "x", "output_mode": "files"}, "mode", "files"),
        (grep, {"pattern": "x", "head_limit": 5}, "limit", 5),
        (glob, {"pattern": "x", "directory": "src"}, "path", "src"),
        (list_dir, {"dir": "src"}, "path", "src"),
    ],
)  # fmt: skip
def test_the_names_that_models_use_elsewhere_are_taken(
    tool: object, given: dict[str, object], name: str, value: object
) -> None:
    assert tool.signature.decode(given).arguments[name] == value  # type: ignore[attr-defined]


@owes("search-18")
async def test_a_name_that_is_no_utf_8_is_found_and_read_under_the_name_given(files: Workspace) -> None:
    (files.root / os.fsdecode(b"bad\xff \xe4.txt")).write_text("needle\n")
    (files.root / r"odd\xff.txt").write_text("as it stands\n")

    found = await grep("needle", glob="bad*", mode="files", files=files)
    (listed,) = (await glob("bad*", files=files)).data["paths"]
    name = str(found).partition("\n")[0]

    assert name == listed == r"bad\xff \xe4.txt"
    name.encode()
    assert name in str(await list_dir(files=files))
    assert str(await read_file(name, files=files)) == "     1→needle"
    assert (await files.resolve(name)).exists
    assert str(await grep("needle", name, files=files)) == f"{name}:1:needle"
    # A file whose name holds those four characters is itself.
    assert str(await read_file(r"odd\xff.txt", files=files)) == "     1→as it stands"


@owes("search-17", "K-48")
async def test_a_spilled_result_is_searched_with_every_option_and_within_bounds(files: Workspace) -> None:
    spills = MemorySpills(x="one\ntwo\nthree\n" + "a" * 40 + "b\n")

    context = str(await grep("two", "spill:x", context=1, files=files, spills=spills))
    count = str(await grep("t", "spill:x", mode="count", files=files, spills=spills))
    lines = str(await grep("one.two", "spill:x", multiline=True, files=files, spills=spills))
    begun = time.monotonic()
    endless = str(await grep("(?=(a+)+$)x", "spill:x", files=files, spills=spills))

    assert context == "spill:x-1-one\nspill:x:2:two\nspill:x-3-three"
    assert count == "spill:x:2"
    assert lines == "spill:x:1:one\nspill:x:2:two"
    assert time.monotonic() - begun < 10
    assert "backtracks too long" in endless


async def test_a_long_line_is_not_cut_into_an_address_with_a_password(files: Workspace) -> None:
    secret = "Qx7vR2mKp9"
    for gap in range(0, 320, 7):
        line = f"{'a' * 400} https://maria:{secret}@host.example/ {'b' * gap}needle{'c' * 300}"
        (files.root / "min.js").write_text(line)

        shown, _ = Redactor().redact(str(await grep("needle", "min.js", files=files)))

        assert "needle" in shown
        assert not any(secret[i : i + 4] in shown for i in range(len(secret) - 3)), shown


async def test_a_pattern_may_begin_with_the_folder_it_is_looked_for_in(files: Workspace) -> None:
    root = str(files.root)

    assert (
        (await glob(f"{root}/b/**/*.py", files=files)).data["paths"]
        == (await glob("b/**/*.py", files=files)).data["paths"]
        != []
    )
    assert (await glob(f"{root}/b/*.py", "b", files=files)).data["paths"] == ["b/x.py"]
    assert (await grep("needle", glob=f"{root}/b/*.py", mode="files", files=files)).data["counts"] == [
        {"path": "b/x.py", "count": 2}
    ]
    with pytest.raises(InvalidArguments, match="absolute"):
        await glob(f"{root}/b/*.py", "a", files=files)


@pytest.mark.parametrize("pattern", ["b", "./b"])
async def test_a_pattern_that_names_a_folder_is_told_to_be_one(pattern: str, files: Workspace) -> None:
    assert "[b is a folder; b/** finds what is in it]" in str(await glob(pattern, files=files))
