"""read_file over a real workspace."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import docx
import pytest
from PIL import Image as Pillow

from pegboard.core.content import Image
from pegboard.core.errors import (
    InvalidArguments,
    NotFound,
    OutsideWorkspace,
    ToolError,
    Unavailable,
    Unsupported,
)
from pegboard.core.result import ToolResult
from pegboard.documents.child import DocumentReader
from pegboard.files.workspace import Workspace
from pegboard.tools.edit_file import edit_file
from pegboard.tools.read_file import read_file
from pegboard.tools.write_file import write_file
from tests.ledger import owes


class MemorySpills:
    """Spills in a dict."""

    def __init__(self, **texts: str) -> None:
        self.texts = {f"spill:{name}": text for name, text in texts.items()}

    def save(self, text: str, *, call_id: str, labels: frozenset[str]) -> str:
        self.texts[f"spill:{call_id}"] = text
        return f"spill:{call_id}"

    def read(self, name: str) -> str:
        if name not in self.texts:
            raise NotFound(f"there is no {name}")
        return self.texts[name]


async def read(root: Path, path: str, **options: Any) -> ToolResult:
    files = Workspace(root)
    try:
        return await read_file(path, files=files, documents=DocumentReader(), **options)
    finally:
        files.close()


@owes("N-34", "M-02", "M-03", "X-13", "C-08", "C-10", "D-15")
async def test_lines_carry_their_true_numbers_right_aligned_in_six_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")

    whole = await read(tmp_path, "a.txt")
    part = await read(tmp_path, "a.txt", offset=2, limit=1)

    assert str(whole) == "     1→one\n     2→two\n     3→three"
    assert str(part) == "     2→two\n[lines 2-2 of 3; offset=3 goes on]"
    assert part.data["text"] == "two\n"
    assert (whole.data["encoding"], whole.data["newline"], whole.data["total"]) == ("utf-8", "\n", 3)


@owes("N-35")
async def test_unnumbered_is_the_bare_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  two")

    assert str(await read(tmp_path, "a.txt", numbered=False)) == "one\n\n  two"


@owes("X-14", "C-09")
async def test_start_line_and_end_line_are_inclusive_and_count_from_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"l{i}\n" for i in range(1, 10)))
    decoded = read_file.signature.decode({"file_path": "a.txt", "startLine": 3, "endLine": "5"}).arguments

    found = await read(
        tmp_path, **{k: v for k, v in decoded.items() if k not in ("files", "documents", "spills")}
    )

    assert found.data["text"] == "l3\nl4\nl5\n"
    assert (await read(tmp_path, "a.txt", end_line=2)).data["text"] == "l1\nl2\n"
    assert (await read(tmp_path, "a.txt", offset=4, end_line=9, limit=1)).data["text"] == "l4\n"


async def test_ranges_that_name_no_line_are_refused_with_the_real_count(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    with pytest.raises(InvalidArguments, match=r"a\.txt \(2 lines\)"):
        await read(tmp_path, "a.txt", offset=3)
    with pytest.raises(InvalidArguments, match="count from 1"):
        await read(tmp_path, "a.txt", offset=0)
    with pytest.raises(InvalidArguments, match="end_line 1"):
        await read(tmp_path, "a.txt", offset=2, end_line=1)


@owes("edit-29")
async def test_following_the_hints_gives_the_whole_file(tmp_path: Path) -> None:
    text = "".join(f"line {i:04} {'x' * 60}\n" for i in range(1, 501))
    (tmp_path / "a.txt").write_text(text)
    parts: list[str] = []
    offset: int | None = 1
    while offset is not None:
        found = await read(tmp_path, "a.txt", offset=offset)
        parts.append(found.data["text"])
        assert len(str(found)) <= 10_000
        assert found.data["first"] == offset
        offset = found.data["last"] + 1 if found.data["more"] else None
        assert offset is None or f"offset={offset} goes on" in str(found)

    assert "".join(parts) == text
    assert len(parts) > 3


async def test_the_last_lines_and_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "empty").write_text("")

    assert str(await read(tmp_path, "a.txt", offset=-2)) == "     2→two\n     3→three"
    assert str(await read(tmp_path, "empty")) == "[empty file]"
    for name in ("e.pdf", "e.docx", "e.png", "e.ipynb"):
        (tmp_path / name).write_bytes(b"")
        assert str(await read(tmp_path, name)) == "[empty file]"


@owes("N-36", "C-11")
async def test_missing_files_folders_and_paths_outside_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(NotFound, match="File not found: nope"):
        await read(tmp_path, "nope")
    with pytest.raises(ToolError, match="folder"):
        await read(tmp_path, "folder")
    with pytest.raises(OutsideWorkspace):
        await read(tmp_path, "/etc/passwd")


@owes("edit-30")
async def test_a_binary_file_is_described_not_dumped(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"ab\0\1")
    (tmp_path / "x.png").write_bytes(bytes.fromhex("89504e470d0a1a0a0000000d"))

    assert str(await read(tmp_path, "x.bin")) == "[binary, 4 bytes, application/octet-stream]"
    assert str(await read(tmp_path, "x.png")).startswith("[binary, 12 bytes, image")


@owes("K-41")
async def test_a_picture_is_an_image_block_whatever_its_name(tmp_path: Path) -> None:
    out = io.BytesIO()
    Pillow.new("RGB", (4, 4)).save(out, "PNG")
    (tmp_path / "shot").write_bytes(out.getvalue())
    (tmp_path / "shot.png").write_bytes(out.getvalue())

    for name in ("shot", "shot.png"):
        found = await read(tmp_path, name)

        assert isinstance(found.content[1], Image)
        assert "4 x 4 pixels" in str(found)


@owes("D-18")
async def test_a_stated_encoding_is_used_strictly(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("żółw\nx\n".encode("cp1250"))

    assert (await read(tmp_path, "a.txt", encoding="cp1250")).data["text"] == "żółw\nx\n"
    assert (await read(tmp_path, "a.txt", encoding="cp1250", offset=2)).data["text"] == "x\n"
    with pytest.raises(InvalidArguments, match="byte 0"):
        await read(tmp_path, "a.txt", encoding="ascii")
    with pytest.raises(InvalidArguments, match="unknown encoding"):
        await read(tmp_path, "a.txt", encoding="klingon")
    # utf-8 is what the documents name as default: it means "find out".
    assert (await read(tmp_path, "a.txt", encoding="utf-8")).ok


async def test_html_and_csv_are_markdown_to_read_and_source_to_edit(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<h1>Hi</h1>\n")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")

    assert str(await read(tmp_path, "a.html")).startswith("# Hi")
    assert str(await read(tmp_path, "a.csv")).startswith("| a | b |")
    assert "format='text'" in str(await read(tmp_path, "a.csv"))
    assert str(await read(tmp_path, "a.html", format="text")) == "     1→<h1>Hi</h1>"
    assert str(await read(tmp_path, "a.csv", offset=2)) == "     2→1,2"
    assert str(await read(tmp_path, "a.csv", offset=2, format="markdown")).startswith("| a | b |")


async def test_a_damaged_document_is_an_error_but_plain_text_named_so_is_no_matter_of_readers(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.pdf").write_text("no pdf")

    with pytest.raises(Unsupported):
        await read(tmp_path, "a.pdf")


async def test_lines_that_were_shown_and_have_not_changed_are_not_shown_again_unless_forced(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    files = Workspace(tmp_path)

    first = await read_file("a.txt", files=files)
    again = await read_file("a.txt", files=files)
    other = await read_file("a.txt", offset=2, files=files)
    forced = await read_file("a.txt", force=True, files=files)
    bare = await read_file("a.txt", numbered=False, files=files)
    (tmp_path / "a.txt").write_text("one\nTWO\n")
    changed = await read_file("a.txt", files=files)
    files.close()

    assert (
        str(again) == "[a.txt lines 1-2: unchanged since you read them above. force=true shows them again.]"
    )
    assert again.data["unchanged"]
    assert str(other) == "     2→two"
    assert str(forced) == str(first)
    assert str(bare) == "one\ntwo\n"
    assert str(changed) == "     1→one\n     2→TWO"


async def test_a_spilled_result_is_read_like_a_file(tmp_path: Path) -> None:
    files = Workspace(tmp_path)
    spills = MemorySpills(x="a\nb\x0cc\nd")

    found = await read_file("spill:x", offset=2, limit=1, files=files, spills=spills)

    assert found.data["text"] == "b\x0cc\n"
    assert found.data["total"] == 3
    with pytest.raises(NotFound):
        await read_file("spill:y", files=files, spills=spills)
    with pytest.raises(Unavailable):
        await read_file("spill:x", files=files)
    files.close()


async def test_a_cut_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 3000 + "\nend\n")

    found = await read(tmp_path, "a.txt")

    assert str(found).split("\n")[0] == "     1→" + "x" * 2000 + " [line cut: offset=1 column=2001 goes on]"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_a_long_line_is_read_to_its_end_by_what_each_answer_names(
    tmp_path: Path, encoding: str
) -> None:
    long = "".join(f"é{number}," for number in range(8000))
    (tmp_path / "one.txt").write_bytes(f"first\r\n{long}\r\nlast".encode(encoding))

    found = await read(tmp_path, "one.txt")
    (text,) = re.findall(r"→(é.*) \[line cut", str(found))
    while way := re.search(r"column=(\d+) goes on\]", str(found)):
        assert int(way[1]) == len(text) + 1
        found = await read(tmp_path, "one.txt", offset=2, column=int(way[1]))
        text += found.data["text"]

    assert text == long
    assert str(found).endswith(f"-{len(long)} of {len(long)}]")


async def test_a_long_line_of_a_spilled_result_is_read_to_its_end_too(tmp_path: Path) -> None:
    spills = MemorySpills()
    spills.texts["spill:1"] = "first\n" + "word " * 5000 + "\nlast\n"

    async def shown(**arguments: Any) -> str:
        return str(await read_file("spill:1", files=Workspace(tmp_path), spills=spills, **arguments))

    assert "[line cut: offset=2 column=9501 goes on]" in await shown(offset=2)
    assert "[line 2, characters 9501-19000 of 25000; column=19001 goes on]" in await shown(
        offset=2, column=9501
    )
    assert (await shown(offset=3)).startswith("     3→last")


async def test_a_column_is_of_one_line_that_is_that_long(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    assert (
        str(await read(tmp_path, "a.txt", offset=-1, column=2)) == "     2→wo\n[line 2, characters 2-3 of 3]"
    )
    with pytest.raises(
        InvalidArguments, match=r"column 4 is past the end of line 1 of a.txt \(3 characters\)"
    ):
        await read(tmp_path, "a.txt", column=4)
    with pytest.raises(InvalidArguments, match="2 lines in all"):
        await read(tmp_path, "a.txt", offset=9, column=1)
    with pytest.raises(InvalidArguments, match="3 lines are asked for"):
        await read(tmp_path, "a.txt", limit=3, column=1)


async def test_a_secret_at_the_edge_of_a_page_of_a_line_is_not_shown(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (tmp_path / "a.txt").write_text("x" * 3000 + " " + key + " " + "y" * 3000)

    found = await read(tmp_path, "a.txt", column=3010)

    assert key[8:] not in str(found)


@owes("N-31", "X-44")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"one\n"),
        ("wide.txt", "one\n".encode("utf-16")),
        ("a.csv", b"a,b\n1,2\n"),
        ("a.bin", b"\0\1\2\3"),
        ("latin", b"caf\xe9\n"),
    ],
)
async def test_reading_a_file_with_a_second_name_says_so(tmp_path: Path, name: str, data: bytes) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "outside").write_bytes(data)
    (root / name).hardlink_to(tmp_path / "outside")
    note = "this file has 2 names (hard link); others may lie outside the workspace"

    shown = await read(root, name)

    assert shown.data["notes"][-1] == note
    assert str(shown).endswith(f"[{note}]")
    (tmp_path / "outside").unlink()
    assert "hard link" not in str(await read(root, name))


@owes("N-35")
async def test_a_few_bad_bytes_leave_the_rest_of_a_utf8_file_as_it_reads_and_come_back_exactly(
    tmp_path: Path,
) -> None:
    data = "Größe: fünf Straßen\n".encode() + b"torn: \xe2\x82|\xff\n" + "日本語\n".encode()
    (tmp_path / "a.txt").write_bytes(data)
    files = Workspace(tmp_path)

    shown = await read_file("a.txt", files=files, numbered=False)

    text = shown.data["text"]
    assert text == "Größe: fünf Straßen\ntorn: \uefe2\uef82|\uefff\n日本語\n"
    assert shown.data["encoding"] == "utf-8"
    assert shown.data["notes"] == [
        "bytes of these lines that are no UTF-8: 3, shown as U+EF80 to U+EFFF (U+EFE9 is the byte E9);"
        " edits keep them as they are"
    ]
    await edit_file("a.txt", old_string="fünf", new_string="sechs", files=files)
    assert (tmp_path / "a.txt").read_bytes() == data.replace("fünf".encode(), b"sechs")
    await edit_file("a.txt", old_string="torn: \uefe2\uef82|", new_string="torn: €|\uef82", files=files)
    after = data.replace("fünf".encode(), b"sechs").replace(b"\xe2\x82|", b"\xe2\x82\xac|\x82")
    assert (tmp_path / "a.txt").read_bytes() == after
    await write_file("a.txt", content=text, files=files)
    assert (tmp_path / "a.txt").read_bytes() == data
    files.close()


@owes("D-17")
@pytest.mark.parametrize("name", ["notes.pdf", "notes.docx", "notes.xlsx", "notes.pptx"])
async def test_text_under_a_document_s_name_is_told_and_shown_where_it_is_asked_for(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("one\ntwo\n")

    with pytest.raises(Unsupported) as caught:
        await read(tmp_path, name)

    assert caught.value.hint == "The content is text: format='text' shows it."
    assert str(await read(tmp_path, name, format="text")) == "     1→one\n     2→two"


@owes("D-17")
async def test_a_damaged_document_is_not_called_text_and_a_whole_one_has_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 and no more")
    docx.Document().save(str(tmp_path / "b.docx"))

    with pytest.raises(Unsupported) as caught:
        await read(tmp_path, "a.pdf")

    assert "format" not in caught.value.hint
    assert str(await read(tmp_path, "b.docx", format="text")) == "[the docx contains no text]"


@owes("D-17")
async def test_an_office_file_without_a_telling_name_is_read_and_another_package_named(
    tmp_path: Path,
) -> None:
    document = docx.Document()
    document.add_paragraph("a word")
    document.save(str(tmp_path / "report"))
    with zipfile.ZipFile(tmp_path / "package", "w") as made:
        made.writestr("[Content_Types].xml", "<Types/>")
        made.writestr("drawing.xml", "<x/>")

    assert str(await read(tmp_path, "report")) == "a word"
    assert str(await read(tmp_path, "package")).startswith("[binary, ")


async def test_a_guessed_encoding_is_called_a_guess_and_another_can_be_named(tmp_path: Path) -> None:
    text = "Książka leży na półce. Dziękuję bardzo, źle się czułem.\n"
    (tmp_path / "a.txt").write_bytes(text.encode("cp1250"))

    shown = await read(tmp_path, "a.txt")
    other = await read_file("a.txt", encoding="iso8859-2", files=Workspace(tmp_path))

    assert any("encoding guessed: " in note and "encoding=" in note for note in shown.data["notes"])
    assert "encoding guessed" not in str(other)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("a.html", "<p>{}</p>\n"),
        ("b.html", '<meta charset="ascii"><p>{}</p>\n'),
        ("c.csv", 'text,number\n"{}",1\n'),
    ],
)
async def test_a_document_in_a_guessed_encoding_says_so(tmp_path: Path, name: str, page: str) -> None:
    text = "Książka leży na półce. Dziękuję bardzo, źle się czułem."
    (tmp_path / name).write_bytes(page.format(text).encode("cp1250"))

    shown = await read(tmp_path, name)

    assert text in str(shown)
    assert "[encoding guessed: cp1250; if the text looks wrong, name another with encoding=]" in str(shown)


async def test_lines_in_an_encoding_that_the_text_names_are_no_guess(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes("# coding: cp1251\nx = 'я'\n".encode("cp1251"))

    shown = str(await read(tmp_path, "a.py"))

    assert "x = 'я'" in shown and "guess" not in shown


async def test_a_page_that_names_its_encoding_is_no_guess(tmp_path: Path) -> None:
    page = '<meta charset="windows-1250"><p>Książka leży na półce.</p>\n'
    (tmp_path / "a.html").write_bytes(page.encode("cp1250"))

    shown = str(await read(tmp_path, "a.html"))

    assert "Książka leży na półce." in shown
    assert "guessed" not in shown


async def test_wide_text_without_a_mark_is_read_with_its_encoding_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes("Server started\nport=8080\n".encode("utf-16-le"))

    shown = await read(tmp_path, "a.log")

    assert shown.data["text"] == "Server started\nport=8080\n"
    assert "encoding guessed: utf-16-le" in str(shown)


async def test_stray_zero_bytes_are_marked_in_the_text_and_edits_keep_them(tmp_path: Path) -> None:
    lines = [("\0" if n % 3 == 0 else "") + f"line {n}\n" for n in range(120)]
    (tmp_path / "n.log").write_text("".join(lines))

    shown = await read(tmp_path, "n.log")
    await edit_file("n.log", "\u2400line 3\n", "\u2400line three\n", files=Workspace(tmp_path))

    assert shown.data["text"] == "".join(lines).replace("\0", "\u2400")
    assert "NUL bytes in these lines: 40" in str(shown)
    assert (tmp_path / "n.log").read_text() == "".join(lines).replace("line 3\n", "line three\n", 1)


async def test_a_file_full_of_zero_bytes_is_shown_on_demand_and_the_answer_says_how(tmp_path: Path) -> None:
    (tmp_path / "torn.log").write_bytes(b"one\n" + bytes(40) + b"two\n")

    assert "format='text'" in str(await read(tmp_path, "torn.log"))
    whole = await read_file("torn.log", format="text", files=Workspace(tmp_path))

    assert whole.data["text"] == "one\n" + "\u2400" * 40 + "two\n"
