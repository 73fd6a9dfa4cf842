"""Comments on slides: those of PowerPoint up to 2019 (ECMA-376 part 1, 19.4) and the threads since (MS-PPTX 2.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

MAX_COMMENTS: Final = 200
"""Comments of one slide that are shown, replies included."""

_OLD: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_NEW: Final = "http://schemas.microsoft.com/office/2018/10/relationships/"


def authors_of(deck: Any) -> dict[str, str]:
    """Names by id, as far as they can be read."""
    found: dict[str, str] = {}
    for kind in (f"{_OLD}commentAuthors", f"{_NEW}authors"):
        try:
            for root in _parts(deck.part, kind):
                for author in root:
                    found[str(author.get("id"))] = " ".join(str(author.get("name") or "").split())
        except SyntaxError:  # lxml's own is one
            continue
    return found


def comments_of(slide: Any, authors: Mapping[str, str]) -> list[str]:
    """`- author: text`, a reply indented below what it answers.

    Raises:
        SyntaxError: they are no XML.
    """
    return [
        line
        for kind in (f"{_OLD}comments", f"{_NEW}comments")
        for root in _parts(slide.part, kind)
        for comment in root
        if _name(comment) == "cm"
        for line in _thread(comment, authors)
    ]


def _thread(comment: Any, authors: Mapping[str, str]) -> Iterator[str]:
    yield f"- {_said(comment, authors)}"
    for below in comment:
        if _name(below) == "replyLst":
            yield from (f"  - {_said(reply, authors)}" for reply in below if _name(reply) == "reply")


def _said(comment: Any, authors: Mapping[str, str]) -> str:
    author = authors.get(str(comment.get("authorId"))) or "unknown"
    done = " (resolved)" if comment.get("status") in ("resolved", "closed") else ""
    return f"{author}{done}: {' '.join(_text(comment).split())}"


def _text(comment: Any) -> str:
    """An old comment's text is in one element, a new one's in paragraphs of runs."""
    for below in comment:
        if _name(below) == "text":
            return str(below.text or "")
        if _name(below) == "txBody":
            paragraphs = (p for p in below if _name(p) == "p")
            return "\n".join("".join(t.text or "" for t in p.iter() if _name(t) == "t") for p in paragraphs)
    return ""


def _parts(owner: Any, kind: str) -> Iterator[Any]:
    """The roots of the parts that another refers to.

    Raises:
        SyntaxError: one is no XML.
    """
    parse: Any = import_module("pptx.oxml").parse_xml
    for relation in owner.rels.values():
        if relation.reltype == kind and not relation.is_external:
            yield parse(relation.target_part.blob)


def _name(element: Any) -> str:
    """Without its namespace; empty for what is no element."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
