"""PDF to Markdown: the text of each page and the values of its form fields, by PDFium, else by pypdf."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

from pegboard.documents.damage import Damage
from pegboard.documents.errors import DocumentRefused
from pegboard.documents.pages import chosen

MAX_PAGES: Final = 100
MAX_MARKS: Final = 2000
"""Annotations of one page that are looked at for form fields."""
_NAMED: Final = 20
_PASSWORD: Final = 1 << 13
"""The flag of a text field that holds a password (ISO 32000-1 §12.7.4.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A document, opened by one program.

    Attributes:
        pages: how many it has.
        text: the text of one by its number.
        fields: the annotations of one by its number, each read when called: a form field as an item of a Markdown
            list, anything else as an empty text.
    """

    pages: int
    text: Callable[[int], str]
    fields: Callable[[int], list[Callable[[], str]]]


class _Damaged(Exception):
    """One program could not open the document; another may."""


def read_pdf(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}` of the chosen pages.

    Raises:
        Refused: encrypted, or damaged beyond what either program reads.
        ImportError: neither program is installed.
    """
    pdf, notes = _opened(data)
    if not pdf.pages:
        raise DocumentRefused("unsupported", "the PDF is damaged: no page was found")
    numbers, cut = chosen(pages, pdf.pages, most=MAX_PAGES)
    damage = Damage()
    parts: list[str] = []
    empty: list[int] = []
    for number in numbers:
        text = damage.read(f"page {number}", partial(pdf.text, number), None)
        if text is None:
            parts.append(f"## Page {number}\n\n(could not be read)")
            continue
        marks = damage.read(f"the form fields on page {number}", partial(pdf.fields, number), [])
        if len(marks) > MAX_MARKS:
            notes.append(f"Form fields of page {number} are shown up to its annotation {MAX_MARKS}.")
        fields = [
            damage.read(f"annotation {at} of page {number}", field, "")
            for at, field in enumerate(marks[:MAX_MARKS], 1)
        ]
        # The buttons of a choice are one field.
        form = "\n".join(dict.fromkeys(filter(None, fields)))
        if not text and not form:
            empty.append(number)
        parts.append(f"## Page {number}\n\n{text or '(no text)'}")
        parts += [f"Form fields:\n{form}"] if form else []
    notes += [cut, damage.note(), _empty(empty, len(numbers))]
    return {"text": "\n\n".join(parts), "pages": pdf.pages, "note": " ".join(filter(None, notes))}


def _opened(data: bytes) -> tuple[_Opened, list[str]]:
    """The document by the first program that is there and can open it, and what to say about that."""
    try:
        return _by_pdfium(data), []
    except ImportError as missing:
        first: ImportError | _Damaged | DocumentRefused = missing
        why = "pypdfium2 is not installed"
    except DocumentRefused as locked:
        first = locked
        why = "PDFium does not try an empty owner password"
    except _Damaged as damage:
        first = damage
        why = f"PDFium could not open it ({damage})"
    try:
        return _by_pypdf(data), [f"Read by pypdf, since {why}; words may be split or out of order."]
    except (ImportError, _Damaged) as second:
        if isinstance(first, DocumentRefused):
            raise first from None
        if isinstance(first, ImportError):
            # Whoever has only pypdf hears what it says; whoever has neither is told of the first.
            if isinstance(second, ImportError):
                raise first from None
            first = second
        raise DocumentRefused("unsupported", f"the PDF is damaged: {first}") from None


def _by_pdfium(data: bytes) -> _Opened:
    pypdfium2: Any = import_module("pypdfium2")
    try:
        pdf: Any = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise _encrypted() from None
        raise _Damaged(str(error)) from None

    # Before any page, and harmless where there is no form.
    with suppress(pypdfium2.PdfiumError):
        pdf.init_forms()

    def text(number: int) -> str:
        page: Any = pdf[number - 1]
        words: Any = page.get_textpage()
        found = str(words.get_text_range())
        words.close()
        page.close()
        # PDFium ends lines in CRLF and marks hyphens at line ends with U+0002 or U+FFFE.
        found = found.replace("\r\n", "\n").replace("\r", "\n").replace("\x02\n", "").replace("\ufffe\n", "")
        return found.replace("\x02", "-").replace("\ufffe", "-").replace("\0", "").strip()

    def fields(number: int) -> list[Callable[[], str]]:
        if pdf.formenv is None:
            return []
        page: Any = pdf[number - 1]
        count = pypdfium2.raw.FPDFPage_GetAnnotCount(page)
        return [partial(_pdfium_field, pypdfium2.raw, pdf.formenv, page, at) for at in range(count)]

    return _Opened(pages=len(pdf), text=text, fields=fields)


def _pdfium_field(raw: Any, form: Any, page: Any, at: int) -> str:
    mark: Any = raw.FPDFPage_GetAnnot(page, at)
    if not mark:
        raise _Damaged(f"no annotation {at}")
    try:
        is_field = raw.FPDFAnnot_GetSubtype(mark) == raw.FPDF_ANNOT_WIDGET
        return _pdfium_value(raw, form, mark) if is_field else ""
    finally:
        raw.FPDFPage_CloseAnnot(mark)


def _pdfium_value(raw: Any, form: Any, mark: Any) -> str:
    def text(read: Callable[..., int], *place: Any) -> str:
        size = read(*place, None, 0)
        buffer = ctypes.create_string_buffer(size)
        # FPDF_WCHAR is an unsigned short.
        read(*place, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
        return buffer.raw[:size].decode("utf-16-le").rstrip("\0")

    names = (raw.FPDFAnnot_GetFormFieldAlternateName, raw.FPDFAnnot_GetFormFieldName)
    name = next(filter(None, (text(read, form, mark) for read in names)), "")
    kind = raw.FPDFAnnot_GetFormFieldType(form, mark)
    if kind == raw.FPDF_FORMFIELD_CHECKBOX:
        return _item(name, checked=bool(raw.FPDFAnnot_IsChecked(form, mark)))
    if kind in (raw.FPDF_FORMFIELD_UNKNOWN, raw.FPDF_FORMFIELD_PUSHBUTTON):
        return ""
    value = text(raw.FPDFAnnot_GetFormFieldValue, form, mark)
    if kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        options = range(raw.FPDFAnnot_GetOptionCount(form, mark))
        selected = [at for at in options if raw.FPDFAnnot_IsOptionSelected(form, mark, at)]
        value = ", ".join(text(raw.FPDFAnnot_GetOptionLabel, form, mark, at) for at in selected) or value
    secret = kind == raw.FPDF_FORMFIELD_TEXTFIELD and raw.FPDFAnnot_GetFormFieldFlags(form, mark) & _PASSWORD
    return _item(name, "(hidden)" if secret and value else value)


def _by_pypdf(data: bytes) -> _Opened:
    pypdf: Any = import_module("pypdf")
    errors: Any = import_module("pypdf.errors")
    try:
        pdf: Any = pypdf.PdfReader(io.BytesIO(data))
        # An empty password opens what only forbids printing or changes.
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise _encrypted()
        total = len(pdf.pages)
    except (errors.DependencyError, errors.FileNotDecryptedError):
        raise _encrypted() from None
    except DocumentRefused:
        raise
    except Exception as error:  # noqa: BLE001  (boundary: over a damaged file it raises whatever it meets)
        raise _Damaged(str(error) or type(error).__name__) from None

    def text(number: int) -> str:
        return str(pdf.pages[number - 1].extract_text()).replace("\0", "").strip()

    def fields(number: int) -> list[Callable[[], str]]:
        return [partial(_pypdf_field, mark) for mark in pdf.pages[number - 1].get("/Annots") or ()]

    return _Opened(pages=total, text=text, fields=fields)


def _pypdf_field(reference: Any) -> str:
    mark = reference.get_object()
    if mark.get("/Subtype") != "/Widget":
        return ""
    chain = [mark]
    while (parent := chain[-1].get("/Parent")) is not None and len(chain) < _NAMED:
        chain.append(parent.get_object())

    def first(key: str) -> Any:
        return next((one[key] for one in chain if key in one), None)

    name = str(first("/TU") or ".".join(str(one["/T"]) for one in reversed(chain) if "/T" in one))
    kind, flags, value = first("/FT"), int(first("/Ff") or 0), first("/V")
    if kind == "/Btn":
        if flags & 1 << 16:
            return ""
        if flags & 1 << 15:
            return _item(name, str(value or "").removeprefix("/").replace("Off", ""))
        return _item(name, checked=mark.get("/AS", "/Off") != "/Off")
    if kind == "/Sig" or value is None:
        return _item(name)
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return _item(name, "(hidden)" if kind == "/Tx" and flags & _PASSWORD else ", ".join(map(str, values)))


def _item(name: str, value: str = "", *, checked: bool | None = None) -> str:
    name = " ".join(name.split()) or "(no name)"
    if checked is not None:
        return f"- [{'x' if checked else ' '}] {name}"
    text = value.replace("\r\n", "\n").replace("\r", "\n").strip()
    return f"- {name}: " + (text.replace("\n", "\n  ") or "(empty)")


def _encrypted() -> DocumentRefused:
    return DocumentRefused("unsupported", "the PDF is encrypted", "Remove its password first.")


def _empty(numbers: Sequence[int], shown: int) -> str:
    if numbers and len(numbers) == shown:
        which = "No page has text" if shown > 1 else f"Page {numbers[0]} has no text"
        return f"{which}: it is probably a scan whose text exists only as images."
    return _named(numbers, "without text: probably scanned or a picture")


def _named(numbers: Sequence[int], what: str) -> str:
    if not numbers:
        return ""
    names = ", ".join(map(str, numbers[:_NAMED])) + (", …" if len(numbers) > _NAMED else "")
    return f"Page {names} is {what}." if len(numbers) == 1 else f"Pages {names} are {what}."
