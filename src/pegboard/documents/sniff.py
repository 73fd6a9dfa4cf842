"""What a document is by its content, whatever its name says."""

from __future__ import annotations

import io
import zipfile
from typing import Final

_PDF_HEAD: Final = 1024
"""Bytes in which a PDF's mark may stand (ISO 32000-1, annex H.3.4.1)."""

_PARTS: Final = {"word/document.xml": "docx", "xl/workbook.xml": "xlsx", "ppt/presentation.xml": "pptx"}
_NAMES: Final = {
    "pdf": "a PDF",
    "docx": "a Word document",
    "xlsx": "an Excel workbook",
    "pptx": "a PowerPoint file",
}


def true_kind(kind: str, data: bytes) -> tuple[str, str]:
    """What to read some bytes as, and a sentence about it where that is not what their name says."""
    found = _kind(data) if kind in _NAMES else None
    if found is None or found == kind:
        return kind, ""
    return found, f"By its content the file is {_NAMES[found]}."


def _kind(data: bytes) -> str | None:
    if b"%PDF-" in data[:_PDF_HEAD]:
        return "pdf"
    if not data.startswith(b"PK"):
        return None
    try:
        # Only the directory at its end is read; the reader that is chosen looks at sizes before it unpacks.
        names = frozenset(zipfile.ZipFile(io.BytesIO(data)).namelist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return None
    return next((kind for part, kind in _PARTS.items() if part in names), None)
