"""PPTX to Markdown: each slide's text, tables, notes and comments."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from pegboard.documents.archive import check_archive
from pegboard.documents.errors import DocumentRefused
from pegboard.documents.markdown import table
from pegboard.documents.pages import chosen
from pegboard.documents.pptx_comments import MAX_COMMENTS, Damaged, authors_of, comments_of

MAX_SLIDES: Final = 200


def read_pptx(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}` of the chosen slides."""
    check_archive(data)
    pptx: Any = import_module("pptx")

    try:
        deck: Any = pptx.Presentation(io.BytesIO(data))
    except (KeyError, ValueError) as error:
        raise DocumentRefused("unsupported", f"the file is not a PowerPoint presentation: {error}") from None
    slides = list(deck.slides)
    numbers, note = chosen(pages, len(slides), most=MAX_SLIDES, noun="slide")
    authors = authors_of(deck)
    parts: list[str] = []
    notes = [note] if note else []
    for number in numbers:
        slide = slides[number - 1]
        parts.append(_slide(number, slide))
        try:
            comments = comments_of(slide, authors)
        except Damaged:
            comments = []
            notes.append(f"The comments of slide {number} are damaged and not shown.")
        if comments:
            parts.append("Comments:\n" + "\n".join(comments[:MAX_COMMENTS]))
        if len(comments) > MAX_COMMENTS:
            notes.append(f"Slide {number} has {len(comments)} comments, of which {MAX_COMMENTS} are shown.")
    return {"text": "\n\n".join(parts), "pages": len(slides), "note": " ".join(notes)}


def _slide(number: int, slide: Any) -> str:
    title = slide.shapes.title
    name = title.text_frame.text.strip() if title is not None and title.has_text_frame else ""
    hidden = " (hidden)" if slide._element.get("show") in ("0", "false") else ""
    parts = [f"## Slide {number}{hidden}{': ' + ' '.join(name.split()) if name else ''}"]
    skip = None if title is None else title.shape_id
    parts += [text for text in _shapes(slide.shapes, skip) if text]
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            parts.append(f"Notes: {notes}")
    return "\n\n".join(parts)


def _shapes(shapes: Iterable[Any], skip: int | None) -> Iterable[str]:
    for shape in shapes:
        if shape.shape_id == skip:
            continue
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes, None)
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_chart", False) and shape.has_chart:
            yield _chart(shape.chart)
        elif shape.has_text_frame:
            yield _bullets(shape.text_frame)
        elif hasattr(shape, "image"):
            alternative = shape._element.xpath("string(.//p:cNvPr/@descr)")
            yield f"[picture: {alternative or shape.name}]"


def _chart(chart: Any) -> str:
    """The numbers behind a chart: one row a category, one column a series."""
    plot = chart.plots[0]
    series = list(plot.series)
    rows = [
        [str(category), *("" if s.values[at] is None else f"{s.values[at]:g}" for s in series)]
        for at, category in enumerate(plot.categories)
    ]
    return table([["chart", *(str(s.name) for s in series)], *rows])


def _bullets(frame: Any) -> str:
    paragraphs = [p for p in frame.paragraphs if p.text.strip()]
    if len(paragraphs) == 1:
        return str(paragraphs[0].text).strip()
    return "\n".join(f"{'  ' * p.level}- {p.text.strip()}" for p in paragraphs)
