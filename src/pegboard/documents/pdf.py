"""PDF to Markdown: the text of each page, by PDFium, else by pypdf."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

from pegboard.documents.errors import DocumentRefused
from pegboard.documents.pages import chosen

MAX_PAGES: Final = 100
_NAMED: Final = 20

Opened: TypeAlias = tuple[int, Callable[[int], str]]
"""Number of pages, and the text of one by its number; that raises for a page which is damaged."""


class _Damaged(Exception):
    """One program could not open the document; another may."""


def read_pdf(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}` of the chosen pages.

    Raises:
        Refused: encrypted, or damaged beyond what either program reads.
        ImportError: neither program is installed.
    """
    (total, text_of), notes = _opened(data)
    if not total:
        raise DocumentRefused("unsupported", "the PDF is damaged: no page was found")
    numbers, cut = chosen(pages, total, most=MAX_PAGES)
    parts: list[str] = []
    empty: list[int] = []
    damaged: list[int] = []
    for number in numbers:
        try:
            text = text_of(number)
        except _Damaged:
            damaged.append(number)
            parts.append(f"## Page {number}\n\n(damaged: its text could not be read)")
            continue
        if not text:
            empty.append(number)
        parts.append(f"## Page {number}\n\n{text or '(no text)'}")
    notes += [cut, _named(damaged, "damaged and could not be read"), _empty(empty, len(numbers))]
    return {"text": "\n\n".join(parts), "pages": total, "note": " ".join(filter(None, notes))}


def _opened(data: bytes) -> tuple[Opened, list[str]]:
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


def _by_pdfium(data: bytes) -> Opened:
    pypdfium2: Any = import_module("pypdfium2")
    try:
        pdf: Any = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise _encrypted() from None
        raise _Damaged(str(error)) from None

    def text_of(number: int) -> str:
        try:
            page: Any = pdf[number - 1]
            words: Any = page.get_textpage()
            text = str(words.get_text_range())
        except pypdfium2.PdfiumError as error:
            raise _Damaged(str(error)) from None
        words.close()
        page.close()
        # PDFium ends lines in CRLF and marks hyphens at line ends with U+0002 or U+FFFE.
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x02\n", "").replace("\ufffe\n", "")
        return text.replace("\x02", "-").replace("\ufffe", "-").replace("\0", "").strip()

    return len(pdf), text_of


def _by_pypdf(data: bytes) -> Opened:
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

    def text_of(number: int) -> str:
        try:
            return str(pdf.pages[number - 1].extract_text()).replace("\0", "").strip()
        except Exception as error:  # noqa: BLE001  (boundary: as above, for one page)
            raise _Damaged(str(error)) from None

    return total, text_of


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
