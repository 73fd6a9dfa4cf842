"""PDF to Markdown: the text of each page."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pegboard.documents.pages import chosen
from pegboard.documents.refusal import Refused

MAX_PAGES = 100


def read_pdf(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}` of the chosen pages."""
    pypdfium2: Any = import_module("pypdfium2")

    try:
        pdf: Any = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Refused("unsupported", "the PDF is encrypted", "Remove its password first.") from None
        raise Refused("unsupported", f"the PDF is damaged: {error}") from None
    total = len(pdf)
    numbers, note = chosen(pages, total, most=MAX_PAGES)
    parts: list[str] = []
    empty = 0
    for number in numbers:
        page: Any = pdf[number - 1]
        text = _text_of(page.get_textpage())
        empty += not text
        parts.append(f"## Page {number}\n\n{text}" if text else f"## Page {number}\n\n(no text)")
        page.close()
    if numbers and empty == len(numbers):
        note = f"{note} No page has text: it is probably a scan.".strip()
    return {"text": "\n\n".join(parts), "pages": total, "note": note}


def _text_of(page: Any) -> str:
    text = str(page.get_text_range())
    page.close()
    # PDFium ends lines in CRLF and marks hyphens at line ends with U+0002 or U+FFFE.
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x02\n", "").replace("\ufffe\n", "")
    return text.replace("\x02", "-").replace("\ufffe", "-").replace("\0", "").strip()
