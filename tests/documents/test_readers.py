"""Documents as Markdown: every kind, bombs, limits. Files are made by other programs where there are any."""

from __future__ import annotations

import io
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import docx
import openpyxl
import openpyxl.comments
import pptx
import pypdf
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from PIL import Image as Pillow
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pypdf._encryption import AlgV5
from pypdf.generic import (
    ArrayObject,
    ByteStringObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

from pegboard.core.errors import InvalidArguments, TimedOut, TooLarge, Unavailable, Unsupported
from pegboard.documents import child, worker
from pegboard.documents.child import DocumentReader, ReaderLimits
from pegboard.documents.markdown import fence, table
from pegboard.ports.documents import OFFICE, Document, DocumentKind
from tests.ledger import owes

pytestmark = pytest.mark.slow


class InProcess(DocumentReader):
    """The same readers without the child, so that what they do is seen by coverage and debuggers."""

    async def read(self, kind: DocumentKind, data: bytes, *, pages: str | None = None) -> Document:
        """What the child would answer."""
        found = worker.answer(kind, lambda: data, pages)
        return child.document_of(kind, json.dumps(found).encode(), 0)


CHILD = DocumentReader()


@pytest.fixture(params=[CHILD, InProcess()], ids=["child", "in-process"])
def reader(request: pytest.FixtureRequest) -> DocumentReader:
    return request.param


def saved(document: Any) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def pdf(pages: list[str]) -> bytes:
    """A PDF by hand (ISO 32000-1 §7.5): one line of Helvetica a page."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids: list[bytes] = []
    for text in pages:
        stream = b"BT /F1 12 Tf 72 720 Td (" + text.encode("latin-1") + b") Tj ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


@owes("D-16", "K-41")
async def test_pages_of_a_pdf_are_chosen_by_number(reader: DocumentReader) -> None:
    data = pdf([f"text of page {i}" for i in range(1, 8)])

    whole = await reader.read("pdf", data)
    some = await reader.read("pdf", data, pages="2-3,7")
    rest = await reader.read("pdf", data, pages="6-")

    assert whole.pages == 7
    assert whole.text.startswith("## Page 1\n\ntext of page 1\n\n## Page 2\n\ntext of page 2")
    assert some.text.split("\n\n") == [
        "## Page 2", "text of page 2", "## Page 3", "text of page 3", "## Page 7", "text of page 7",
    ]  # fmt: skip
    assert rest.text.count("## Page") == 2


async def test_a_long_pdf_comes_in_parts_and_says_how_to_go_on(reader: DocumentReader) -> None:
    found = await reader.read("pdf", pdf([f"p{i}" for i in range(1, 121)]))

    assert found.text.count("## Page") == 100
    assert found.note == "Pages 1-100 of 120; pages='101-120' goes on."


async def test_pages_that_do_not_exist_or_make_no_sense_are_refused(reader: DocumentReader) -> None:
    data = pdf(["one", "two"])
    with pytest.raises(InvalidArguments, match="selects none of the 2 pages"):
        await reader.read("pdf", data, pages="5-9")
    with pytest.raises(InvalidArguments, match="not a page range"):
        await reader.read("pdf", data, pages="first")


async def test_a_pdf_without_text_says_that_it_may_be_a_scan(reader: DocumentReader) -> None:
    found = await reader.read("pdf", pdf([""]))

    assert "scan" in found.note


async def test_pages_without_text_are_named_beside_those_that_have_some(reader: DocumentReader) -> None:
    found = await reader.read("pdf", pdf(["words", "", "more", ""]))

    assert found.note == "Pages 2, 4 are without text: probably scanned or a picture."


def encrypted(user: str, owner: str = "owner", algorithm: str = "RC4-128") -> bytes:
    """A PDF that pypdf locked."""
    writer = pypdf.PdfWriter(io.BytesIO(pdf(["locked words"])))
    writer.encrypt(user, owner, algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_with_a_password_is_refused_as_encrypted(reader: DocumentReader) -> None:
    with pytest.raises(Unsupported, match="encrypted") as caught:
        await reader.read("pdf", encrypted("user"))

    assert "password" in caught.value.hint


async def test_a_pdf_that_only_forbids_changes_is_read(reader: DocumentReader) -> None:
    assert "locked words" in (await reader.read("pdf", encrypted(""))).text


async def test_a_pdf_with_an_empty_owner_password_is_read(reader: DocumentReader) -> None:
    """ISO 32000-2 7.6.4.4.10: the empty password is tried as the owner's too; PDFium does not."""
    writer = pypdf.PdfWriter(io.BytesIO(pdf(["locked words"])))
    writer.encrypt("user", "owner", algorithm="AES-256")
    scheme: Any = writer._encryption
    entry: Any = writer._encrypt_entry
    # pypdf takes an empty owner password for none.
    values = AlgV5.generate_values(6, b"user", b"", scheme._key, scheme.P, scheme.EncryptMetadata)
    for name, value in values.items():
        entry[NameObject(name)] = ByteStringObject(value)
    out = io.BytesIO()
    writer.write(out)

    found = await reader.read("pdf", out.getvalue())

    assert "locked words" in found.text
    assert "empty owner password" in found.note


class TestWithoutPdfium:
    """DESIGN 6: pypdf where pypdfium2 is missing or cannot open the file."""

    @pytest.fixture(autouse=True)
    def missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pypdfium2", None)

    async def test_the_text_comes_from_pypdf_and_the_note_says_so(self) -> None:
        found = await InProcess().read("pdf", pdf(["first words", "", "third words"]), pages="1-2")

        assert found.text == "## Page 1\n\nfirst words\n\n## Page 2\n\n(no text)"
        assert found.pages == 3
        assert found.note.startswith("Read by pypdf, since pypdfium2 is not installed")
        assert "Page 2 is without text" in found.note

    async def test_an_encrypted_one_is_told_as_such(self) -> None:
        assert "locked words" in (await InProcess().read("pdf", encrypted(""))).text
        with pytest.raises(Unsupported, match="encrypted"):
            await InProcess().read("pdf", encrypted("user"))

    async def test_a_damaged_one_is_told_as_such(self) -> None:
        with pytest.raises(Unsupported, match="the PDF is damaged"):
            await InProcess().read("pdf", b"%PDF-1.4 nonsense")

    async def test_with_neither_program_the_first_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pypdf", None)

        with pytest.raises(Unavailable, match="pypdfium2") as caught:
            await InProcess().read("pdf", pdf(["x"]))

        assert "pegboard[documents]" in caught.value.hint


async def test_what_pdfium_cannot_open_is_tried_with_pypdf(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        PdfiumError = ValueError

        @staticmethod
        def PdfDocument(data: bytes) -> None:
            raise ValueError("Failed to load document (PDFium: Data format error).")

    monkeypatch.setitem(sys.modules, "pypdfium2", Broken)

    found = await InProcess().read("pdf", pdf(["rescued words"]))

    assert "rescued words" in found.text
    assert "PDFium could not open it" in found.note


def form() -> pypdf.PdfWriter:
    """A PDF form that pypdf made: fields of each type (ISO 32000-1 §12.7.4)."""
    writer = pypdf.PdfWriter(io.BytesIO(pdf(["Application", "second"])))
    text, name, number = TextStringObject, NameObject, NumberObject

    def widget(**entries: Any) -> Any:
        place = ArrayObject([number(x) for x in (50, 50, 200, 70)])
        whole = {"Type": name("/Annot"), "Subtype": name("/Widget"), "Rect": place, **entries}
        return writer._add_object(DictionaryObject({name(f"/{key}"): value for key, value in whole.items()}))

    def looks(value: str) -> DictionaryObject:
        states = DictionaryObject({name(f"/{state}"): DictionaryObject() for state in (value, "Off")})
        return DictionaryObject({name("/N"): states})

    lines = [text("no"), text("es"), text("fr")]
    fields = [
        widget(FT=name("/Tx"), T=text("name"), TU=text("Full name"), V=text("Zoë\rÖmer")),
        widget(FT=name("/Tx"), T=text("empty")),
        widget(FT=name("/Tx"), T=text("pin"), V=text("1234"), Ff=number(1 << 13)),
        widget(FT=name("/Btn"), T=text("agree"), V=name("/Yes"), AS=name("/Yes"), AP=looks("Yes")),
        widget(FT=name("/Btn"), T=text("news"), V=name("/Off"), AS=name("/Off"), AP=looks("Yes")),
        widget(FT=name("/Btn"), T=text("send"), Ff=number(1 << 16)),
        widget(FT=name("/Ch"), T=text("country"), V=text("Peru"), Ff=number(1 << 17), Opt=ArrayObject([text("Peru")])),
        widget(FT=name("/Ch"), T=text("languages"), V=ArrayObject(lines[:2]), Ff=number(1 << 21), Opt=ArrayObject(lines)),
    ]  # fmt: skip
    size = DictionaryObject({name("/FT"): name("/Btn"), name("/T"): text("size"), name("/V"): name("/L")})
    size[name("/Ff")] = number(1 << 15)
    choice = writer._add_object(size)
    buttons = [
        widget(Parent=choice, AS=name("/L" if value == "L" else "/Off"), AP=looks(value)) for value in "SL"
    ]
    size[name("/Kids")] = ArrayObject(buttons)
    writer.pages[0][name("/Annots")] = ArrayObject([*fields, *buttons])
    known = DictionaryObject({name("/Fields"): ArrayObject([*fields, choice])})
    writer._root_object[name("/AcroForm")] = writer._add_object(known)
    return writer


def written(writer: pypdf.PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


FORM = """## Page 1

Application

Form fields:
- Full name: Zoë
  Ömer
- empty: (empty)
- pin: (hidden)
- [x] agree
- [ ] news
- country: Peru
- languages: no, es
- size: L

## Page 2

second"""


@pytest.mark.parametrize("program", ["pdfium", "pypdf"])
async def test_a_form_shows_the_values_of_its_fields(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if program == "pypdf":
        monkeypatch.setitem(sys.modules, "pypdfium2", None)

    found = await InProcess().read("pdf", written(form()))

    assert found.text == FORM


@pytest.mark.parametrize("program", ["pdfium", "pypdf"])
async def test_a_form_field_that_cannot_be_read_is_named(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "pypdf":
        monkeypatch.setitem(sys.modules, "pypdfium2", None)
    writer = form()
    marks: Any = writer.pages[0]["/Annots"]
    marks[1] = NumberObject(7)

    found = await InProcess().read("pdf", written(writer))

    assert found.text == FORM.replace("- empty: (empty)\n", "")
    assert "Could not be read: annotation 2 of page 1." in found.note


async def test_a_page_that_is_damaged_does_not_hide_the_others(reader: DocumentReader) -> None:
    # The second page's object is gone: its entry in the tree leads nowhere.
    data = pdf(["one", "two", "three"]).replace(b"/Contents 6 0 R", b"/Contents 99 0 R")
    lost = pdf(["one", "two", "three"]).replace(
        b"7 0 obj\n<< /Type /Page /Parent", b"7 0 obj\n<< /Tipe /Paje /Barent"
    )

    assert (await reader.read("pdf", data)).text.count("## Page") == 3
    found = await reader.read("pdf", lost)
    assert "one" in found.text
    assert "three" in found.text


@owes("D-17")
async def test_a_word_document_keeps_headings_lists_and_tables_in_order(reader: DocumentReader) -> None:
    document = docx.Document()
    document.add_heading("Report", 0)
    document.add_heading("Part", 2)
    document.add_paragraph("Some text.")
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet")
    document.add_paragraph("first", style="List Number")
    grid = document.add_table(2, 3)
    grid.cell(0, 0).merge(grid.cell(0, 1)).text = "a|b"
    grid.cell(1, 2).text = "end"
    document.add_paragraph("after")

    found = await reader.read("docx", saved(document), pages="1")

    assert found.text == (
        "# Report\n\n## Part\n\nSome text.\n\n- one\n- two\n1. first\n\n"
        "| a\\|b |  |  |\n| --- | --- | --- |\n|  |  | end |\n\nafter"
    )
    assert "does not apply" in found.note


def element(name: str, *inner: Any, text: str = "", **attributes: str) -> Any:
    """One element of Word's XML."""
    made = OxmlElement(name)
    if text:
        made.text = text
    for key, value in attributes.items():
        made.set(qn(key.replace("_", ":")), value)
    for below in inner:
        made.append(below)
    return made


def words(text: str, name: str = "w:t") -> Any:
    return element("w:r", element(name, text=text))


@owes("D-17")
async def test_a_word_document_hides_no_text_in_controls_links_changes_or_cells(
    reader: DocumentReader,
) -> None:
    document = docx.Document()
    body = document.element.body
    body.insert(0, element("w:sdt", element("w:sdtContent", element("w:p", words("in a control")))))
    paragraph = document.add_paragraph("see ")._p
    rel = document.part.relate_to(
        "https://example.org/x", "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink",
        is_external=True,
    )  # fmt: skip
    paragraph.append(element("w:hyperlink", words("this"), r_id=rel))
    paragraph.append(element("w:ins", words(" and new")))
    paragraph.append(element("w:del", words(" and old", "w:delText")))
    cells = document.add_table(2, 2)
    cells.cell(0, 0).text = "a|b"
    cells.cell(0, 1).add_table(1, 1).cell(0, 0).text = "nested"
    cells.cell(1, 0).merge(cells.cell(1, 1)).text = "wide"

    found = await reader.read("docx", saved(document))

    assert found.text == (
        "in a control\n\nsee [this](https://example.org/x) and new\n\n"
        "| a\\|b | nested |\n| --- | --- |\n| wide |  |"
    )


async def test_a_workbook_with_a_chart_sheet_and_a_hidden_one_is_read(reader: DocumentReader) -> None:
    book = openpyxl.Workbook()
    book.create_chartsheet("Chart")
    hidden = book.create_sheet("Rates")
    hidden["A1"], hidden.sheet_state = 7, "hidden"

    assert "## Sheet 2: Rates (hidden)\n\n|  | A |" in (await reader.read("xlsx", saved(book))).text


@pytest.mark.parametrize(
    ("inner", "says"), [("EncryptedPackage", "encrypted"), ("WordDocument", "old binary Office document")]
)
async def test_a_locked_or_old_office_file_is_told_as_such(
    reader: DocumentReader, inner: str, says: str
) -> None:
    data = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500) + inner.encode("utf-16-le")

    with pytest.raises(Unsupported, match=says):
        await reader.read("docx", data)


async def test_entities_far_behind_spaces_are_found(reader: DocumentReader) -> None:
    padded = b" " * 300_000 + b'<!DOCTYPE x [<!ENTITY a "b">]><x/>'

    with pytest.raises(Unsupported, match="XML entities"):
        await reader.read("xlsx", archive(**{"xl/workbook.xml": padded}))


async def test_a_long_cell_of_a_csv_is_no_damage(reader: DocumentReader) -> None:
    assert "x" * 3_000_000 in (await reader.read("csv", b"a,b\n" + b"x" * 3_000_000 + b",1\n")).text


@owes("D-17")
async def test_a_workbook_shows_values_formulas_and_empty_cells(reader: DocumentReader) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Data"
    sheet.append(["n|ame", None, "when"])
    sheet.append([1.0, 2.5, None])
    sheet["C4"] = "=SUM(A2:B2)"
    sheet["A5"] = True
    book.create_sheet("Empty")

    found = await reader.read("xlsx", saved(book))
    second = await reader.read("xlsx", saved(book), pages="2")

    assert found.pages == 2
    assert found.text == (
        "## Sheet 1: Data\n\n"
        "|  | A | B | C |\n| --- | --- | --- | --- |\n"
        "| 1 | n\\|ame |  | when |\n| 2 | 1 | 2.5 |  |\n| 4 |  |  | =SUM(A2:B2) |\n| 5 | TRUE |  |  |\n\n"
        "## Sheet 2: Empty\n\n(empty)"
    )
    assert second.text == "## Sheet 2: Empty\n\n(empty)"


async def test_a_formula_stands_beside_the_value_that_its_program_stored(reader: DocumentReader) -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "=1+1"
    data = io.BytesIO(saved(book))
    patched = io.BytesIO()
    with zipfile.ZipFile(data) as old, zipfile.ZipFile(patched, "w") as new:
        for item in old.infolist():
            body = old.read(item)
            if item.filename == "xl/worksheets/sheet1.xml":
                body = (
                    body.replace(b"<v></v>", b"<v>2</v>")
                    .replace(b"<v />", b"<v>2</v>")
                    .replace(b"<v/>", b"<v>2</v>")
                )
            new.writestr(item, body)

    found = await reader.read("xlsx", patched.getvalue())

    assert "| 1 | 2 (=1+1) |" in found.text


@owes("D-17")
async def test_slides_come_with_tables_bullets_and_notes(reader: DocumentReader) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Hello"
    slide.placeholders[1].text = "a\nb"
    grid = slide.shapes.add_table(1, 2, 0, 0, 100, 100).table
    grid.cell(0, 1).text = "x|y"
    slide.notes_slide.notes_text_frame.text = "say hi"
    picture = io.BytesIO()
    Pillow.new("RGB", (2, 2)).save(picture, "PNG")
    slide.shapes.add_picture(picture, 0, 0)
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 10, 10).text_frame.text = "grouped"

    found = await reader.read("pptx", saved(deck))

    assert found.text.startswith("## Slide 1: Hello\n\n- a\n- b\n\n|  | x\\|y |\n| --- | --- |\n\n[picture: ")
    assert found.text.endswith("grouped\n\nNotes: say hi")


async def test_html_shows_what_a_reader_sees(reader: DocumentReader) -> None:
    page = (
        b"<html><head><meta charset='iso-8859-1'><style>x{}</style></head><body><!-- secret --><h1>Caf\xe9</h1>"
        b"<p>a <b>bold</b> <a href='http://x.example/'>link</a></p><script>alert(1)</script></body></html>"
    )

    found = await reader.read("html", page)

    assert "# Café" in found.text
    assert "**bold**" in found.text
    assert "[link](http://x.example/)" in found.text
    assert "alert" not in found.text
    assert "secret" not in found.text


async def test_a_notebook_shows_cells_and_the_text_of_their_outputs(reader: DocumentReader) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "print('```')",
            "outputs": [
                {"output_type": "stream", "text": ["out\n"]},
                {"output_type": "error", "ename": "ValueError", "evalue": "\x1b[31mbad\x1b[0m"},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
            ],
        },
        {"cell_type": "raw", "source": "raw"},
        "no cell at all",
    ]

    found = await reader.read("notebook", json.dumps({"cells": cells, "metadata": {}}).encode())

    assert found.text == (
        "# Title\ntext\n\nCell 2:\n````python\nprint('```')\n````\n\n```output\nout\n```\n\n"
        "```error\nValueError: bad\n```\n\n```output\n<Figure>\n```\n[output image/png]\n\n```\nraw\n```"
    )
    with pytest.raises(Unsupported, match="JSON"):
        await reader.read("notebook", b"{")
    with pytest.raises(Unsupported, match="cells"):
        await reader.read("notebook", b"[]")


async def test_a_csv_is_a_table_with_its_delimiter_found(reader: DocumentReader) -> None:
    found = await reader.read("csv", b'a;b\n1;"x|y\nz"\n2\n')
    long = await reader.read("csv", b"h\n" + b"1\n" * 3000)

    assert found.text == "| a | b |\n| --- | --- |\n| 1 | x\\|y<br>z |\n| 2 |  |"
    assert "first 1000 rows" in long.note


async def test_a_picture_is_downscaled_turned_upright_and_loses_its_metadata(reader: DocumentReader) -> None:
    out = io.BytesIO()
    exif = Pillow.Exif()
    exif[0x0112], exif[0x010E] = 6, "secret place"
    Pillow.new("RGB", (3000, 1000), "red").save(out, "JPEG", exif=exif)

    found = await reader.read("image", out.getvalue())

    assert found.image is not None
    shown = Pillow.open(io.BytesIO(found.image.data))
    assert shown.size == (523, 1568)
    assert found.image.mime_type == "image/jpeg"
    assert b"secret place" not in found.image.data
    assert not shown.getexif()
    assert "3000 x 1000 pixels" in found.text


async def test_a_small_picture_with_transparency_stays_as_it_is(reader: DocumentReader) -> None:
    out = io.BytesIO()
    Pillow.new("RGBA", (3, 2), (1, 2, 3, 4)).save(out, "PNG")

    found = await reader.read("image", out.getvalue())

    assert found.image is not None
    assert Pillow.open(io.BytesIO(found.image.data)).getpixel((0, 0)) == (1, 2, 3, 4)


def archive(**parts: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in parts.items():
            target.writestr(name.replace("_", "/").replace("DOT", "."), data)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (archive(word_documentDOTxml=b"0" * 50_000_000), "bomb"),
        (archive(word_documentDOTxml=b'<!DOCTYPE x [<!ENTITY a "b">]><x/>'), "entities"),
        (archive(word_documentDOTxml="<!DOCTYPE x><x/>".encode("utf-16")), "entities"),
        (archive(other=b"x"), "not an? "),
        (b"PK\x03\x04 cut off", "damaged"),
        (b"", "damaged"),
    ],
    ids=["zip-bomb", "entities", "entities-utf16", "no-document", "cut", "empty"],
)
async def test_bombs_and_damaged_archives_are_refused(
    reader: DocumentReader, kind: Any, data: bytes, words: str
) -> None:
    with pytest.raises(Unsupported, match=words):
        await reader.read(kind, data)


async def test_an_archive_that_claims_too_much_or_too_many_is_refused(reader: DocumentReader) -> None:
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as target:
        for number in range(10_001):
            target.writestr(str(number), b"")

    with pytest.raises(Unsupported, match="10001 entries"):
        await reader.read("docx", many.getvalue())
    with pytest.raises(Unsupported, match="unpacks to 270000000"):
        await reader.read("docx", archive(x=b"0" * 270_000_000))


@pytest.mark.parametrize("kind", ["pdf", "image"])
async def test_a_damaged_pdf_or_picture_is_refused(reader: DocumentReader, kind: Any) -> None:
    with pytest.raises(Unsupported):
        await reader.read(kind, b"%PDF-1.4 nonsense")


async def test_a_picture_of_too_many_pixels_is_refused_before_it_is_unpacked(reader: DocumentReader) -> None:
    out = io.BytesIO()
    Pillow.new("1", (20_000, 20_000)).save(out, "PNG")

    with pytest.raises(TooLarge, match="20000 x 20000"):
        await reader.read("image", out.getvalue())


async def test_a_reader_that_takes_too_long_is_ended() -> None:
    start = time.perf_counter()

    with pytest.raises(TimedOut):
        await DocumentReader(ReaderLimits(wall_s=0.01)).read("pdf", pdf(["x"] * 50))

    assert time.perf_counter() - start < 5


async def test_a_reader_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises((TooLarge, Unsupported)):
        await DocumentReader(ReaderLimits(memory_bytes=120 << 20)).read("csv", b"a,b\n" * 20_000_000)


async def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # An interpreter without site-packages has none of the readers' packages.
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(child.sys, "executable", str(bare))

    with pytest.raises(Unavailable) as caught:
        await CHILD.read("pdf", pdf(["x"]))

    assert "pypdfium2" in caught.value.message
    assert "pip install 'pegboard[documents]'" in caught.value.hint


async def test_a_reader_that_breaks_down_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setattr(child.sys, "executable", str(broken))

    with pytest.raises(Unsupported, match="exit status 9"):
        await CHILD.read("pdf", b"x" * 1_000_000)


def test_kinds_are_told_by_name_and_by_media_type() -> None:
    assert CHILD.kind_of("A.PDF") == "pdf"
    assert CHILD.kind_of("a.py") is None
    assert CHILD.kind_of("x", "application/pdf") == "pdf"
    assert CHILD.kind_of("x", "image/png") == "image"
    assert CHILD.kind_of("x", "application/zip") is None
    assert CHILD.kind_of("x", OFFICE) == "docx"


def test_tables_and_fences_cannot_be_broken_by_what_they_hold() -> None:
    assert table([["a\\|b", "c\nd"], ["1"]]) == "| a\\\\\\|b | c<br>d |\n| --- | --- |\n| 1 |  |"
    assert table([]) == ""
    assert fence("```\n") == "````\n```\n````"


def test_a_document_is_a_value() -> None:
    assert Document(kind="pdf", text="x") == Document(kind="pdf", text="x")
    assert os.path.exists(child.__file__)


async def test_a_chart_is_shown_by_its_numbers_and_a_hidden_slide_as_such(reader: DocumentReader) -> None:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck = pptx.Presentation()
    slide: Any = deck.slides.add_slide(deck.slide_layouts[6])
    numbers = CategoryChartData()
    numbers.categories = ["Q1", "Q2"]
    numbers.add_series("Sales", (1.5, None))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, numbers)
    slide._element.set("show", "0")

    found = await reader.read("pptx", saved(deck))

    assert found.text == "## Slide 1 (hidden)\n\n| chart | Sales |\n| --- | --- |\n| Q1 | 1.5 |\n| Q2 |  |"


async def test_a_duration_of_more_than_a_day_is_shown_as_excel_shows_it(reader: DocumentReader) -> None:
    import datetime

    book: Any = openpyxl.Workbook()
    book.active["A1"] = datetime.timedelta(hours=26, seconds=5)

    assert "| 1 | 26:00:05 |" in (await reader.read("xlsx", saved(book))).text


def moved(data: bytes, part: str) -> bytes:
    """An Office file with its main part under another name, which its relations give."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as made:
        for name in given.namelist():
            content = given.read(name).replace(f"{part}.xml".encode(), b"main.xml")
            made.writestr(name.replace(f"{part}.xml", "main.xml"), content)
    return out.getvalue()


async def test_an_office_file_of_another_kind_is_told_without_naming_our_objects(
    reader: DocumentReader,
) -> None:
    # Their main parts lie elsewhere, so that nothing but a reader tells what they are.
    book, text = moved(saved(openpyxl.Workbook()), "workbook"), moved(saved(docx.Document()), "document")

    for kind, data in (("docx", book), ("xlsx", text)):
        with pytest.raises(Unsupported) as caught:
            await reader.read(kind, data)  # type: ignore[arg-type]
        assert "0x" not in caught.value.message
        assert (
            "not a Word document" in caught.value.message or "not an Excel workbook" in caught.value.message
        )


async def test_cells_of_a_notebook_that_are_none_leave_no_empty_fences(reader: DocumentReader) -> None:
    book = {
        "cells": [1, None, {"cell_type": "raw", "source": ["a", "b"]}, {"cell_type": "raw", "source": " "}]
    }

    assert (await reader.read("notebook", json.dumps(book).encode())).text == "```\nab\n```"


@owes("D-17")
async def test_a_word_document_shows_its_headers_and_footers_once_each(reader: DocumentReader) -> None:
    document = docx.Document()
    document.add_paragraph("Body.")
    section = document.sections[0]
    section.header.paragraphs[0].text = "Confidential\tDraft 3"
    section.footer.paragraphs[0].text = "ACME Ltd"
    section.different_first_page_header_footer = True
    section.first_page_header.paragraphs[0].text = "First page"
    later = document.add_section()
    later.header.is_linked_to_previous = False
    later.header.paragraphs[0].text = "Confidential\tDraft 3"
    later.footer.is_linked_to_previous = False

    found = (await reader.read("docx", saved(document))).text

    assert found.startswith("Body.")
    heading, _, lines = found.partition("## Headers and footers\n\n")
    assert "Confidential" not in heading
    assert sorted(lines.split("\n")) == [
        "- Footer: ACME Ltd", "- Header: Confidential Draft 3", "- Header: First page",
    ]  # fmt: skip


@owes("D-17")
async def test_so_many_headers_are_shown_and_no_more(reader: DocumentReader) -> None:
    document = docx.Document()
    for number in range(60):
        section = document.sections[0] if number == 0 else document.add_section()
        section.header.is_linked_to_previous = False
        section.header.paragraphs[0].text = f"Part {number}"

    found = (await reader.read("docx", saved(document))).text

    assert found.count("- Header: Part ") == 50


@owes("D-17")
async def test_comments_on_cells_are_shown_with_their_sheet(reader: DocumentReader) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet["A1"], sheet["B2"] = "x", 2
    sheet["B2"].comment = openpyxl.comments.Comment("Check\nthis figure", "Ann")
    thread = "[Threaded comment]\n\nYour version of Excel allows you to read it.\n\nComment:\n    Is it net?"
    sheet["A1"].comment = openpyxl.comments.Comment(thread, "Bob")
    other = book.create_sheet("Many")
    for row in range(1, 204):
        other.cell(row, 1, row).comment = openpyxl.comments.Comment("c", "Cy")

    found = await reader.read("xlsx", saved(book))
    first, second = found.text.split("## Sheet 2: Many")

    assert "Comments:\n- A1 (Bob): Is it net?\n- B2 (Ann): Check this figure" in first
    assert second.count("(Cy): c") == 200
    assert found.note == "Sheet 'Many' has 203 comments, of which 200 are shown."


@owes("D-17")
@pytest.mark.parametrize("broken", [b"<comments><commentList", b"<other/>", None])
async def test_damaged_comments_do_not_hide_the_figures(reader: DocumentReader, broken: bytes | None) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet["A1"] = 41
    sheet["A1"].comment = openpyxl.comments.Comment("c", "Ann")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(book))) as given, zipfile.ZipFile(out, "w") as made:
        for name in given.namelist():
            data = given.read(name)
            if "comment" in name.lower() and name.endswith(".xml"):
                if broken is None:
                    continue
                data = broken
            made.writestr(name, data)

    found = await reader.read("xlsx", out.getvalue())

    assert "| 1 | 41 |" in found.text
    assert "Ann" not in found.text


OLD_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
NEW_RELATIONS = "http://schemas.microsoft.com/office/2018/10/relationships/"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
P188 = "http://schemas.microsoft.com/office/powerpoint/2018/8/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def with_part(owner: Any, kind: str, name: str, xml: str) -> None:
    """Add an XML part to an Office package, as PowerPoint does."""
    part = Part(PackURI(name), "application/xml", owner.package, xml.encode())
    owner.relate_to(part, kind)


@owes("D-17")
async def test_comments_on_slides_are_shown_with_their_authors_and_replies(reader: DocumentReader) -> None:
    deck = pptx.Presentation()
    for _ in range(3):
        deck.slides.add_slide(deck.slide_layouts[6])
    one, two, three = (slide.part for slide in deck.slides)
    # ECMA-376 part 1, 19.4.1 (cm), 19.4.2 (cmAuthor) and 19.4.5 (text).
    authors = f'<p:cmAuthorLst xmlns:p="{P}"><p:cmAuthor id="0" name="Ann Lee" initials="A" lastIdx="1" clrIdx="0"/></p:cmAuthorLst>'
    old = (
        f'<p:cmLst xmlns:p="{P}"><p:cm authorId="0" dt="2020-01-01T00:00:00" idx="1"><p:pos x="1" y="1"/>'
        '<p:text>Check\nthis figure</p:text></p:cm><p:cm authorId="7" idx="2"><p:pos x="1" y="1"/></p:cm></p:cmLst>'
    )
    with_part(deck.part, OLD_RELATIONS + "commentAuthors", "/ppt/commentAuthors.xml", authors)
    with_part(one, OLD_RELATIONS + "comments", "/ppt/comments/comment1.xml", old)
    # MS-PPTX 2.6: CT_Author, CT_Comment, CT_CommentReply.
    people = f'<p188:authorLst xmlns:p188="{P188}"><p188:author id="{{B}}" name="Bob"/><p188:author id="{{C}}" name="Cy"/></p188:authorLst>'

    def body(text: str) -> str:
        return f"<p188:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p><a:p><a:r><a:t>two</a:t></a:r></a:p></p188:txBody>"

    new = (
        f'<p188:cmLst xmlns:p188="{P188}" xmlns:a="{A}"><p188:cm id="{{1}}" authorId="{{B}}" status="resolved">'
        f'<p188:replyLst><p188:reply id="{{2}}" authorId="{{C}}">{body("Yes")}</p188:reply></p188:replyLst>'
        f"{body('Is it net?')}</p188:cm></p188:cmLst>"
    )
    with_part(deck.part, NEW_RELATIONS + "authors", "/ppt/authors.xml", people)
    with_part(two, NEW_RELATIONS + "comments", "/ppt/comments/modernComment_100_0.xml", new)
    many = "".join(f'<p:cm authorId="0" idx="{n}"><p:text>c</p:text></p:cm>' for n in range(203))
    with_part(
        three,
        OLD_RELATIONS + "comments",
        "/ppt/comments/comment3.xml",
        f'<p:cmLst xmlns:p="{P}">{many}</p:cmLst>',
    )

    found = await reader.read("pptx", saved(deck))

    first, second, third = found.text.split("## Slide ")[1:]
    assert first == "1\n\nComments:\n- Ann Lee: Check this figure\n- unknown: \n\n"
    assert second == "2\n\nComments:\n- Bob (resolved): Is it net? two\n  - Cy: Yes two\n\n"
    assert third.count("- Ann Lee: c") == 200
    assert found.note == "Slide 3 has 203 comments, of which 200 are shown."


@owes("D-17")
@pytest.mark.parametrize("broken", ["<p:cmLst", "", "<other/>"])
async def test_damaged_comments_do_not_hide_a_slide(reader: DocumentReader, broken: str) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Sales"
    with_part(slide.part, OLD_RELATIONS + "comments", "/ppt/comments/comment1.xml", broken)
    with_part(deck.part, OLD_RELATIONS + "commentAuthors", "/ppt/commentAuthors.xml", broken)

    found = await reader.read("pptx", saved(deck))

    assert found.text == "## Slide 1: Sales"
    assert found.note == ("" if broken == "<other/>" else "Could not be read: the comments of slide 1.")


@owes("D-17")
@pytest.mark.parametrize("named", ["pdf", "docx", "xlsx", "pptx"])
async def test_a_document_under_another_s_name_is_read_as_what_it_is(
    reader: DocumentReader, named: DocumentKind
) -> None:
    document, book, deck, pages = docx.Document(), openpyxl.Workbook(), pptx.Presentation(), pypdf.PdfWriter()
    document.add_paragraph("a word")
    assert book.active is not None
    book.active["A1"] = "a cell"
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "a slide"
    pages.add_blank_page(100, 100)
    out = io.BytesIO()
    pages.write(out)
    made: dict[DocumentKind, tuple[bytes, str]] = {
        "docx": (saved(document), "a word"), "xlsx": (saved(book), "| a cell |"), "pptx": (saved(deck), "a slide"),
        "pdf": (b"\n" * 500 + out.getvalue(), "## Page 1"),
    }  # fmt: skip
    for kind, (data, text) in made.items():
        found = await reader.read(named, data)

        assert (found.kind, text in found.text) == (kind, True)
        assert found.note.startswith("By its content the file is a") == (kind != named)


@owes("D-17")
async def test_what_is_no_document_at_all_is_told_by_the_name_it_has(reader: DocumentReader) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a.txt", "x")
    for data in (archive.getvalue(), archive.getvalue()[:-30], b"PK\x03\x04" + bytes(300)):
        with pytest.raises(Unsupported, match=r"Word document|damaged or is not an Office"):
            await reader.read("docx", data)


def with_damage(data: bytes, name: str, content: bytes | None) -> bytes:
    """An archive with other bytes in the part whose name ends so; None = the right ones with a wrong checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as made:
        (wanted,) = (one for one in given.namelist() if one.endswith(name))
        for one in given.namelist():
            made.writestr(one, given.read(one) if one != wanted or content is None else content)
        part = given.read(wanted)
    if content is not None:
        return out.getvalue()
    at = out.getvalue().index(part)
    return out.getvalue()[:at] + bytes([part[0] ^ 1]) + out.getvalue()[at + 1 :]


@owes("D-17")
@pytest.mark.parametrize("broken", [b"<c:chartSpace", b"<other/>", None])
async def test_a_damaged_chart_leaves_the_rest_of_its_slide(
    reader: DocumentReader, broken: bytes | None
) -> None:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck: Any = pptx.Presentation()
    slide: Any = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Sales"
    numbers: Any = CategoryChartData()
    numbers.categories = ["Q1"]
    numbers.add_series("Sales", (1.5,))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, numbers)
    slide.notes_slide.notes_text_frame.text = "Say more"
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "Next"
    chart = slide.shapes[-1].name

    name = str(slide.shapes[-1].chart.part.partname)

    found = await reader.read("pptx", with_damage(saved(deck), name[1:], broken))

    assert (
        found.text
        == "## Slide 1: Sales\n\n[chart that could not be read]\n\nNotes: Say more\n\n## Slide 2: Next"
    )
    assert f"the chart {chart!r} of slide 1" in found.note


@owes("D-17")
async def test_a_damaged_slide_leaves_the_others(reader: DocumentReader) -> None:
    deck: Any = pptx.Presentation()
    for title in ("One", "Two", "Three"):
        deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = title

    found = await reader.read("pptx", with_damage(saved(deck), "/slides/slide2.xml", None))

    assert found.text == "## Slide 1: One\n\n## Slide 2\n\n## Slide 3: Three"
    assert "slide 2" in found.note


@owes("D-17")
async def test_a_damaged_sheet_shows_its_rows_before_the_damage(reader: DocumentReader) -> None:
    book = openpyxl.Workbook()
    first, second = book.active, book.create_sheet("Other")
    assert first is not None
    for row in range(1, 6):
        first.append([row, row * 10])
    second["A1"] = "whole"
    with zipfile.ZipFile(io.BytesIO(saved(book))) as given:
        sheet = given.read("xl/worksheets/sheet1.xml")

    found = await reader.read(
        "xlsx", with_damage(saved(book), "/sheet1.xml", sheet[: sheet.index(b'<row r="4"') + 20])
    )

    assert "| 3 | 3 | 30 |" in found.text
    assert "| 1 | whole |" in found.text
    assert found.note == "Could not be read: sheet 'Sheet' after row 3."


def without(data: bytes, name: str) -> bytes:
    """The archive without the part whose name ends so; what leads to it stays."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as made:
        for one in given.namelist():
            if not one.endswith(name):
                made.writestr(one, given.read(one))
    return out.getvalue()


@owes("D-17")
async def test_a_missing_part_is_named_and_leaves_the_rest(reader: DocumentReader) -> None:
    document = docx.Document()
    document.add_heading("words", 1)
    picture = io.BytesIO()
    Pillow.new("RGB", (40, 40), (1, 2, 3)).save(picture, "BMP")
    picture.seek(0)
    document.add_picture(picture)
    book = openpyxl.Workbook()
    book.create_sheet("Other")["A1"] = "whole"
    deck: Any = pptx.Presentation()
    for title in ("One", "Two"):
        deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = title

    styles = await reader.read("docx", without(saved(document), "word/styles.xml"))
    image = await reader.read("docx", without(saved(document), "image1.bmp"))
    sheet = await reader.read("xlsx", without(saved(book), "sheet1.xml"))
    slide = await reader.read("pptx", without(saved(deck), "slides/slide1.xml"))

    assert styles.text == "words" and styles.note == "Could not be read: the part word/styles.xml."
    assert image.text == "# words" and image.note == "Could not be read: the part word/media/image1.bmp."
    assert "| 1 | whole |" in sheet.text and sheet.note == "Could not be read: sheet 'Sheet'."
    assert slide.text == "## Slide 1\n\n## Slide 2: Two" and slide.note == "Could not be read: slide 1."


@owes("D-17")
async def test_damaged_styles_leave_the_text_of_a_word_document(reader: DocumentReader) -> None:
    document = docx.Document()
    document.add_paragraph("words")

    found = await reader.read("docx", with_damage(saved(document), "word/styles.xml", b"<w:styles"))

    assert found.text == "words"
    assert found.note == "Could not be read: the part word/styles.xml."


@owes("D-17")
async def test_a_damaged_picture_leaves_the_text_of_a_word_document(reader: DocumentReader) -> None:
    document = docx.Document()
    document.add_paragraph("before")
    picture = io.BytesIO()
    Pillow.new("RGB", (40, 40), (1, 2, 3)).save(picture, "BMP")
    picture.seek(0)
    document.add_picture(picture)
    document.add_paragraph("behind")

    found = await reader.read("docx", with_damage(saved(document), "image1.bmp", None))

    assert found.text.split() == ["before", "behind"]
    assert found.note == "Could not be read: the part word/media/image1.bmp."


@owes("D-17")
async def test_damaged_headers_leave_the_text_of_a_word_document(reader: DocumentReader) -> None:
    document = docx.Document()
    document.add_paragraph("words")
    document.sections[0].header.paragraphs[0].text = "a header"

    found = await reader.read("docx", with_damage(saved(document), "header1.xml", b"<w:hdr"))

    assert found.text == "words"
    assert found.note == "Could not be read: the part word/header1.xml."


async def test_a_cell_of_a_notebook_that_makes_no_sense_leaves_the_others(reader: DocumentReader) -> None:
    cells = [{"cell_type": "code", "source": "1", "outputs": 7}, {"cell_type": "markdown", "source": "two"}]

    found = await reader.read("notebook", json.dumps({"cells": cells}).encode())

    assert found.text == "two"
    assert found.note == "Could not be read: cell 1."
