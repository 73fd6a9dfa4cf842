"""The text of Word's XML: what a reader sees of a paragraph or cell (ECMA-376 part 1, 17)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

_BLOCKS: Final = ("p", "tbl")
_UNSEEN: Final = frozenset(("del", "moveFrom", "Fallback", "rPr", "pPr", "instrText", "delText", "fldData"))
_SIGNS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_NOTES: Final = (("footnotes", "footnote"), ("endnotes", "endnote"))


def name_of(element: Any) -> str:
    """An element's name without its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def blocks_of(element: Any, wanted: tuple[str, ...] = _BLOCKS) -> Iterator[tuple[str, Any]]:
    """Paragraphs and tables in order, also those in content controls and in tracked insertions."""
    for child in element.iterchildren():
        name = name_of(child)
        if name in wanted:
            yield name, child
        elif name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"):
            yield from blocks_of(child, wanted)


class Texts:
    """Texts of one document part, with the notes that they refer to."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self._notes: dict[tuple[str, str], str] = {}

    def of(self, paragraph: Any) -> str:
        """A paragraph: tracked insertions as accepted, deletions left out, links as Markdown."""
        return "".join(self._walk(paragraph))

    def of_cell(self, cell: Any | None) -> str:
        """A cell: its paragraphs by line; a table inside it row by row. Empty for None."""
        if cell is None:
            return ""
        lines: list[str] = []
        for kind, block in blocks_of(cell):
            if kind == "p":
                lines.append(self.of(block))
                continue
            for _, row in blocks_of(block, ("tr",)):
                lines.append("; ".join(self.of_cell(inner) for _, inner in blocks_of(row, ("tc",))))
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """Footnotes and endnotes that were referred to, in that order."""
        found: dict[tuple[str, str], str] = {}
        for relation in self._part.rels.values():
            for plural, single in _NOTES:
                if not relation.is_external and relation.reltype.endswith(f"/{plural}"):
                    root: Any = import_module("docx.oxml").parse_xml(relation.target_part.blob)
                    for note in root.iterchildren(f"{{*}}{single}"):
                        found[(single, _attribute(note, "id"))] = self.of_cell(note).strip()
        lines = [f"[^{mark}]: {found[key]}" for key, mark in self._notes.items() if key in found]
        return ["\n".join(lines)] if lines else []

    def running(self, most: int) -> list[str]:
        """What stands at the top and bottom of pages, each text once, in the order of the sections."""
        found: dict[str, None] = {}
        for element in self._part.element.iter("{*}headerReference", "{*}footerReference"):
            relation = self._part.rels.get(_attribute(element, "id"))
            if relation is None or relation.is_external or len(found) >= most:
                continue
            part = relation.target_part
            root: Any = import_module("docx.oxml").parse_xml(part.blob)
            text = " ".join(Texts(part).of_cell(root).split())
            if text:
                found[f"- {name_of(element).removesuffix('Reference').capitalize()}: {text}"] = None
        return list(found)

    def _walk(self, element: Any) -> Iterator[str]:
        for child in element.iterchildren():
            name = name_of(child)
            if name in _UNSEEN:
                continue
            if name == "t":
                yield str(child.text or "")
            elif name in _SIGNS:
                yield _SIGNS[name]
            elif name == "hyperlink":
                yield self._link("".join(self._walk(child)), _attribute(child, "id"))
            elif name in ("footnoteReference", "endnoteReference"):
                key = (name.removesuffix("Reference"), _attribute(child, "id"))
                yield f"[^{self._notes.setdefault(key, str(len(self._notes) + 1))}]"
            elif name == "txbxContent":
                yield "\n" + self.of_cell(child) + "\n"
            elif name == "docPr":
                words = child.get("descr") or ""
                yield f"[picture: {words}]" if words else ""
            else:
                yield from self._walk(child)

    def _link(self, text: str, relation: str) -> str:
        known = self._part.rels.get(relation)
        if known is None or not known.is_external or not text.strip():
            return text
        return f"[{text}]({known.target_ref})"


def _attribute(element: Any, name: str) -> str:
    """An attribute by its name without its namespace."""
    return next((str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")
