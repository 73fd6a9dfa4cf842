"""PPTX to Markdown: each slide's text, tables, notes and comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from pegboard.documents.archive import open_archive
from pegboard.documents.damage import Damage
from pegboard.documents.errors import DocumentRefused
from pegboard.documents.markdown import table
from pegboard.documents.pages import chosen
from pegboard.documents.pptx_comments import MAX_COMMENTS, authors_of, comments_of

MAX_SLIDES: Final = 200


def read_pptx(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}` of the chosen slides."""
    pptx: Any = import_module("pptx")
    damage = Damage()

    try:
        deck: Any = open_archive(data, pptx.Presentation, damage)
    except (KeyError, ValueError) as error:
        raise DocumentRefused("unsupported", f"the file is not a PowerPoint presentation: {error}") from None
    slides = list(deck.element.get_or_add_sldIdLst())  # `deck.slides` breaks down over one that is missing.
    numbers, note = chosen(pages, len(slides), most=MAX_SLIDES, noun="slide")
    authors = authors_of(deck)
    parts: list[str] = []
    notes = [note] if note else []
    for number in numbers:
        slide = damage.read(f"slide {number}", partial(deck.part.related_slide, slides[number - 1].rId), None)
        if slide is None:
            parts.append(f"## Slide {number}")
            continue
        parts += damage.read(
            f"slide {number}", partial(_slide, number, slide, damage), [f"## Slide {number}"]
        )
        comments = damage.read(f"the comments of slide {number}", partial(comments_of, slide, authors), [])
        if comments:
            parts.append("Comments:\n" + "\n".join(comments[:MAX_COMMENTS]))
        if len(comments) > MAX_COMMENTS:
            notes.append(f"Slide {number} has {len(comments)} comments, of which {MAX_COMMENTS} are shown.")
    notes.append(damage.note())
    return {"text": "\n\n".join(parts), "pages": len(slides), "note": " ".join(filter(None, notes))}


def _slide(number: int, slide: Any, damage: Damage) -> list[str]:
    title = slide.shapes.title
    name = title.text_frame.text.strip() if title is not None and title.has_text_frame else ""
    hidden = " (hidden)" if slide._element.get("show") in ("0", "false") else ""
    parts = [f"## Slide {number}{hidden}{': ' + ' '.join(name.split()) if name else ''}"]
    skip = None if title is None else title.shape_id
    for shape in _shapes(slide.shapes, skip):
        text = damage.read(
            f"the {_kind(shape)} {shape.name!r} of slide {number}",
            partial(_shown, shape),
            f"[{_kind(shape)} that could not be read]",
        )
        parts += [text] if text else []
    notes = damage.read(f"the notes of slide {number}", partial(_notes, slide), "")
    return [*parts, f"Notes: {notes}"] if notes else parts


def _notes(slide: Any) -> str:
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    return "" if frame is None else str(frame.text).strip()


def _shapes(shapes: Iterable[Any], skip: int | None) -> Iterator[Any]:
    """The shapes in order, those of groups among them."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes, None)
        elif shape.shape_id != skip:
            yield shape


def _kind(shape: Any) -> str:
    return next((kind for kind in ("table", "chart") if getattr(shape, f"has_{kind}", False)), "shape")


def _shown(shape: Any) -> str:
    match _kind(shape):
        case "table":
            return table([[cell.text for cell in row.cells] for row in shape.table.rows])
        case "chart":
            return _chart(shape.chart)
        case _ if shape.has_text_frame:
            return _bullets(shape.text_frame)
        case _ if hasattr(shape, "image"):
            alternative = shape._element.xpath("string(.//p:cNvPr/@descr)")
            return f"[picture: {alternative or shape.name}]"
        case _:
            return ""


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
