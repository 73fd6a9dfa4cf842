"""DOCX to Markdown: headings, lists, tables, links' text and comments, in the document's order."""

from __future__ import annotations

import io
import re
from importlib import import_module
from typing import Any

from pegboard.documents.archive import check_archive
from pegboard.documents.markdown import table
from pegboard.documents.refusal import Refused


def read_docx(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}`; `pages` means nothing in a flowing text."""
    check_archive(data)
    docx: Any = import_module("docx")
    table_type: Any = import_module("docx.table").Table

    try:
        document: Any = docx.Document(io.BytesIO(data))
    except (KeyError, ValueError) as error:
        raise Refused("unsupported", f"the file is no Word document: {error}") from None
    parts: list[str] = []
    for block in document.iter_inner_content():
        parts.append(_table(block) if isinstance(block, table_type) else _paragraph(block))
    comments = [f"- {c.author or 'unknown'}: {c.text}" for c in document.comments]
    if comments:
        parts.append("## Comments\n\n" + "\n".join(comments))
    note = "" if pages is None else "pages has no meaning in a Word document; all of it is shown."
    return {"text": _joined(parts), "pages": None, "note": note}


def _joined(parts: list[str]) -> str:
    """Blank lines between blocks, none between the items of a list."""
    out: list[str] = []
    for part in parts:
        if not part:
            continue
        tight = out and _is_item(part) and _is_item(out[-1].rsplit("\n", 1)[-1])
        out.append(("\n" if tight else "\n\n" if out else "") + part)
    return "".join(out)


def _is_item(text: str) -> bool:
    return re.match(r"\s*(?:- |1\. )", text.lstrip("\n")) is not None


def _paragraph(paragraph: Any) -> str:
    text = str(paragraph.text).strip()
    if not text:
        return ""
    style = str(getattr(paragraph.style, "name", "") or "")
    if style == "Title":
        return f"# {text}"
    if heading := re.fullmatch(r"Heading (\d)", style):
        return f"{'#' * min(6, int(heading[1]))} {text}"
    depth = re.search(r"\d", style)
    indent = "  " * (int(depth[0]) - 1 if depth else 0)
    if style.startswith("List Bullet"):
        return f"{indent}- {text}"
    if style.startswith("List Number"):
        return f"{indent}1. {text}"
    properties = paragraph._p.pPr
    if properties is not None and properties.numPr is not None:
        return f"- {text}"
    return text


def _table(value: Any) -> str:
    rows: list[list[str]] = []
    seen: set[int] = set()
    for row in value.rows:
        texts: list[str] = []
        for cell in row.cells:
            # A merged cell is given once for each place that it covers.
            texts.append("" if id(cell._tc) in seen else str(cell.text))
            seen.add(id(cell._tc))
        rows.append(texts)
    return table(rows)
