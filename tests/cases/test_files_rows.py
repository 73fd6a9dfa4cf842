"""Rows of the file tools through the public surface: the real workspace, the real readers, the real search."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pegboard import AllowOnce, builtin
from pegboard.core.result import ToolResult
from tests.cases.kit import door, write_tree
from tests.documents.test_readers import pdf
from tests.ledger import owes


async def call(folder: Path, name: str, **arguments: Any) -> ToolResult:
    async with door(folder, name, approver=AllowOnce()) as tools:
        return await tools.call(name, arguments)


@owes("N-34", "N-37", "N-39", "D-19", "D-20", "D-22", "D-25", "D-28")
@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("read_file", ["path"]), ("write_file", ["path", "content"]), ("delete_file", ["path"]),
        ("edit_file", ["path", "old_string", "new_string"]), ("glob", ["pattern"]), ("grep", ["pattern"]),
        ("apply_patch", ["patch"]), ("list_dir", []),
    ],
)  # fmt: skip
def test_what_a_file_tool_cannot_do_without_is_required(name: str, required: list[str]) -> None:
    (schema,) = builtin(name).schemas("mcp")

    assert schema["inputSchema"].get("required", []) == required


@owes("D-15", "D-18")
async def test_a_file_is_decoded_in_the_encoding_that_is_asked_for(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.txt": "Привет".encode("cp866"), "u.txt": "é"})

    assert str(await call(tmp_path, "read_file", path="a.txt", encoding="cp866")) == "     1→Привет"
    assert str(await call(tmp_path, "read_file", path="u.txt", encoding="utf-8")) == "     1→é"
    assert "a.txt is not in ascii" in str(await call(tmp_path, "read_file", path="a.txt", encoding="ascii"))
    assert "unknown encoding" in str(await call(tmp_path, "read_file", path="a.txt", encoding="klingon"))


@owes("D-15", "D-16", "K-41")
@pytest.mark.slow
async def test_a_pdf_is_told_by_its_name_and_read_as_text(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"a.PDF": pdf(["Hello page"]), "plain": pdf(["Also here"]), "words.pdf": "only words\n"}
    )

    # Its name makes it a PDF, and then it is a broken one: it is not shown as lines of text.
    broken = await call(tmp_path, "read_file", path="words.pdf")
    assert broken.error is not None and "PDF is damaged" in broken.error.message
    assert "## Page 1\n\nHello page" in str(await call(tmp_path, "read_file", path="a.PDF"))
    assert "Also here" in str(await call(tmp_path, "read_file", path="plain"))


@owes("D-15", "D-17", "K-41")
@pytest.mark.slow
async def test_office_files_are_told_by_their_names_and_read_as_text(tmp_path: Path) -> None:
    import docx
    import openpyxl
    import pptx

    text, book, deck = docx.Document(), openpyxl.Workbook(), pptx.Presentation()
    text.add_paragraph("in Word")
    book.active["A1"] = "in Excel"  # type: ignore[index]
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "in PowerPoint"  # type: ignore[union-attr]
    for name, document in (("a.docx", text), ("a.xlsx", book), ("a.pptx", deck)):
        document.save(str(tmp_path / name))

    said = [str(await call(tmp_path, "read_file", path=f"a.{kind}")) for kind in ("docx", "xlsx", "pptx")]

    assert ["in Word" in said[0], "in Excel" in said[1], "in PowerPoint" in said[2]] == [True] * 3


@owes("K-41")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.html"])
async def test_a_table_or_page_in_a_legacy_encoding_is_read_as_its_lines_are(
    name: str, tmp_path: Path
) -> None:
    words = "名字,年龄\n张三,五十\n" if name == "a.csv" else "<p>名字年龄张三五十</p>"
    write_tree(tmp_path, {name: words.encode("gbk")})

    shown = str(await call(tmp_path, "read_file", path=name))
    lines = str(await call(tmp_path, "read_file", path=name, format="text"))

    assert "张三" in shown and "张三" in lines


@owes("D-21", "C-17")
async def test_a_folder_is_listed_alone_and_with_all_below_it(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/b/c/deep.txt": "", "top.txt": ""})

    alone = str(await call(tmp_path, "list_dir")).splitlines()
    whole = str(await call(tmp_path, "list_dir", recursive=True)).splitlines()
    two = str(await call(tmp_path, "list_dir", depth=2)).splitlines()

    assert alone == ["[DIR] a/", "[FILE] top.txt"]
    assert "[FILE] a/b/c/deep.txt" in whole
    assert sorted(two) == ["[DIR] a/", "[DIR] a/b/", "[FILE] top.txt"]


@owes("X-16", "N-43", "C-16")
@pytest.mark.parametrize(
    ("style", "wanted"),
    [
        ("default", ["[DIR] d/", "[FILE] a", "[LINK] l"]),
        ("plain", ["d/", "a", "l"]),
        ("emoji", ["📄 a", "📁 d", "📄 l"]),
    ],
)
async def test_a_listing_is_written_in_the_style_that_is_asked_for(
    style: str, wanted: list[str], tmp_path: Path
) -> None:
    write_tree(tmp_path, {"a": ""})
    (tmp_path / "d").mkdir()
    os.symlink("a", tmp_path / "l")

    assert str(await call(tmp_path, "list_dir", style=style)).splitlines() == wanted


@owes("D-28", "X-55")
async def test_grep_takes_a_regular_expression_unless_told_otherwise(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a": "port = 80\nport = x\n", "b": "port = [0-9]+\n"})

    regex = str(await call(tmp_path, "grep", pattern="port = [0-9]+$"))
    fixed = str(await call(tmp_path, "grep", pattern="port = [0-9]+", fixed_strings=True))

    assert regex == "a:1:port = 80"
    assert fixed == "b:1:port = [0-9]+"


@owes("K-42")
@pytest.mark.parametrize("mode", ["content", "files", "count"])
async def test_pages_of_a_search_follow_on_another_without_gap_or_overlap(mode: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {f"f{number:02}": "hit\n" for number in range(7)})

    pages = [
        str(await call(tmp_path, "grep", pattern="hit", mode=mode, limit=3, offset=at)) for at in (0, 3, 6)
    ]

    rows = [line for page in pages for line in page.splitlines() if not line.startswith("[")]
    assert [row.partition(":")[0] for row in rows] == [f"f{number:02}" for number in range(7)]
    assert "more exist: offset=3 goes on" in pages[0] and "more exist" not in pages[2]


@owes("C-08", "X-14", "C-09", "M-02")
@pytest.mark.parametrize(
    "arguments",
    [
        {"startLine": 2, "endLine": 3}, {"start_line": 2, "end_line": 3}, {"offset": 2, "limit": 2},
        {"offset": -3, "limit": 2}, {"offset": 2, "end_line": 3, "limit": 9},
    ],
)  # fmt: skip
async def test_lines_are_asked_for_in_every_spelling_of_a_range(
    arguments: dict[str, int], tmp_path: Path
) -> None:
    write_tree(tmp_path, {"f": "a\nb\nc\nd\n"})

    shown = str(await call(tmp_path, "read_file", path="f", **arguments))

    assert shown.splitlines()[:2] == ["     2→b", "     3→c"]
    assert "[lines 2-3 of 4; offset=4 goes on]" in shown


@owes("C-14", "N-41")
async def test_a_miss_quotes_the_first_50_characters_of_what_was_looked_for(tmp_path: Path) -> None:
    write_tree(tmp_path, {"f": "nothing alike\n"})
    wanted = "".join(chr(ord("a") + n % 26) for n in range(70))

    said = str(await call(tmp_path, "edit_file", path="f", old_string=wanted, new_string="x"))

    assert f"Text not found in f: {wanted[:50]}..." in said and wanted[:51] not in said.split("\n")[0]


@owes("C-18", "C-11", "N-36")
async def test_what_is_not_there_is_named_as_the_file_or_folder_that_it_is_not(tmp_path: Path) -> None:
    assert "Directory not found: nope" in str(await call(tmp_path, "list_dir", path="nope"))
    assert "File not found: nope" in str(await call(tmp_path, "read_file", path="nope"))
    assert "File not found: nope" in str(await call(tmp_path, "delete_file", path="nope"))


@owes("C-19", "N-31", "N-33", "X-44")
async def test_a_rooted_path_is_taken_as_it_is_and_another_from_the_workspace(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    write_tree(work, {"f": "inside\n", str(other).lstrip("/") + "/f": "decoy\n"})
    write_tree(other, {"f": "outside\n"})

    assert "inside" in str(await call(work, "read_file", path=str(work / "f")))
    assert "inside" in str(await call(work, "read_file", path="f"))
    outside = await call(work, "read_file", path=str(other / "f"))
    assert outside.error is not None and "decoy" not in str(outside) and "outside\n" not in str(outside)


@owes("M-04", "D-19", "N-37", "X-15")
async def test_a_write_replaces_the_whole_of_what_was_there(tmp_path: Path) -> None:
    write_tree(tmp_path, {"f": "old and long\n"})

    replaced = await call(tmp_path, "write_file", path="f", content="new")
    made = await call(tmp_path, "write_file", path="a/b/f", content="x")

    assert (tmp_path / "f").read_bytes() == b"new"
    assert (tmp_path / "a/b/f").read_bytes() == b"x"
    assert [replaced.data["created"], made.data["created"]] == [False, True]


@owes("X-55", "D-26", "D-27")
async def test_files_are_found_newest_first_and_under_the_other_documents_name(tmp_path: Path) -> None:
    for number in range(105):
        write_tree(tmp_path, {f"f{number:03}": ""})
        os.utime(tmp_path / f"f{number:03}", (number, number))

    async with door(tmp_path, "glob") as tools:
        found = await tools.call("find_files", {"pattern": "*"})
        same = await tools.call("glob", {"pattern": "*"})

    lines = str(found).splitlines()
    assert str(found) == str(same)
    assert lines[:2] == ["f104", "f103"] and len(lines) == 101
    assert lines[-1] == "[only the 100 newest; raise limit or narrow the pattern]"


@owes("K-37")
async def test_lines_that_were_shown_and_have_not_changed_are_not_shown_again(tmp_path: Path) -> None:
    write_tree(tmp_path, {"f": "a\nb\n"})

    async with door(tmp_path, "read_file") as tools:
        first = await tools.call("read_file", {"path": "f"})
        again = await tools.call("read_file", {"path": "f"})
        forced = await tools.call("read_file", {"path": "f", "force": True})
        (tmp_path / "f").write_text("a\nc\n")
        changed = await tools.call("read_file", {"path": "f"})

    assert str(first) == str(forced) == "     1→a\n     2→b"
    assert "unchanged since you read them" in str(again)
    assert str(changed) == "     1→a\n     2→c"
