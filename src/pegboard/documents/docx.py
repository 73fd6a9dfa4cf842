"""DOCX to Markdown: headings, lists, tables, links, notes, comments, headers and footers, in the document's order."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from typing import Any, Final

from pegboard.documents.archive import open_archive
from pegboard.documents.damage import Damage
from pegboard.documents.errors import DocumentRefused
from pegboard.documents.markdown import table
from pegboard.documents.wordtext import Texts, blocks_of

MAX_RUNNING: Final = 50
"""Headers and footers that are shown; a document of many sections has each again and again."""


_UNREAD: Final = "[a part that could not be read]"


def read_docx(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}`; `pages` means nothing in a flowing text."""
    docx: Any = import_module("docx")
    paragraph_type: Any = import_module("docx.text.paragraph").Paragraph
    damage = Damage()

    try:
        document: Any = open_archive(data, docx.Document, damage)
    except (KeyError, ValueError):
        # The package's own words name an object in memory.
        raise DocumentRefused("unsupported", "the file is an archive, but not a Word document") from None
    if not hasattr(document.element, "body"):
        raise DocumentRefused(
            "unsupported", "the document's main part is damaged, so nothing of it can be shown"
        )
    texts = Texts(document.part)

    def block(kind: str, element: Any) -> str:
        return (
            _table(element, texts)
            if kind == "tbl"
            else _paragraph(paragraph_type(element, document._body), texts)
        )

    parts: list[str] = []
    for number, (kind, element) in enumerate(blocks_of(document.element.body), 1):
        name = f"{'the table' if kind == 'tbl' else 'the paragraph'} that is block {number}"
        parts.append(damage.read(name, partial(block, kind, element), _UNREAD))
    parts += damage.read("the notes", texts.notes, [])
    comments = damage.read(
        "the comments", lambda: [f"- {c.author or 'unknown'}: {c.text}" for c in document.comments], []
    )
    if comments:
        parts.append("## Comments\n\n" + "\n".join(comments))
    running = damage.read("headers and footers", lambda: texts.running(MAX_RUNNING), [])
    if running:
        parts.append("## Headers and footers\n\n" + "\n".join(running))
    note = "" if pages is None else "pages does not apply to Word documents; the whole document is shown."
    return {"text": _joined(parts), "pages": None, "note": " ".join(filter(None, (note, damage.note())))}


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


def _paragraph(paragraph: Any, texts: Texts) -> str:
    text = texts.of(paragraph._p).strip()
    if not text:
        return ""
    # The text is there without its style; damaged styles have been named already.
    style = Damage().read("the style", lambda: str(paragraph.style.name or ""), "")
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


def _table(value: Any, texts: Texts) -> str:
    return table([[texts.of_cell(cell) for cell in cells] for cells in _rows(value)])


def _rows(value: Any) -> list[list[Any | None]]:
    """Cells by row; None where a cell is merged into another."""
    rows: list[list[Any | None]] = []
    for row in value.iterchildren("{*}tr"):
        cells: list[Any | None] = [None] * _grid(row, "{*}trPr/{*}gridBefore", 0)
        for kind, cell in blocks_of(row, ("tc",)):
            assert kind == "tc"
            down = cell.find("{*}tcPr/{*}vMerge")
            merged = down is not None and next(iter(down.attrib.values()), "continue") == "continue"
            cells += [None if merged else cell, *[None] * (_grid(cell, "{*}tcPr/{*}gridSpan", 1) - 1)]
        rows.append(cells)
    return rows


def _grid(element: Any, path: str, default: int) -> int:
    found = element.find(path)
    text = "" if found is None else str(next(iter(found.attrib.values()), ""))
    return min(int(text), 200) if text.isdecimal() else default
