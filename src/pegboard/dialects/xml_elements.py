"""Elements, CDATA and entities as models write them, read in linear time and without any DTD."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from pegboard.dialects.literals import LiteralError, TruncatedLiteral, skip_space
from pegboard.dialects.wire import clean_text

CDATA: Final = "<![CDATA["
CDATA_END: Final = "]]>"
MAX_NESTING: Final = 40

OPEN: Final = re.compile(
    r"<([^\W\d][\w.:-]*+)((?:\s++[\w:-]++\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'))*)\s*+(/?)>"
)
_TYPE = re.compile(r"\btype\s*=\s*[\"'](\w+)[\"']")
_KEY = re.compile(r"\bname\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


@dataclass(slots=True)
class Element:
    """An element's value.

    Attributes:
        text: its text; exact where it stood in CDATA, stripped where it did not.
        children: nested elements, where its content is nothing else.
        kind: what its `type` attribute says, else empty.
        exact: whether its text stood in CDATA.
        name: what its `name` attribute says, else empty.
    """

    tag: str
    text: str = ""
    children: list[Element] = field(default_factory=list["Element"])
    kind: str = ""
    exact: bool = False
    name: str = ""

    @property
    def key(self) -> str:
        """The parameter that it gives: its tag, or the name that `<param name="…">` says."""
        return self.name if self.name and self.tag in ("param", "parameter") else self.tag


@dataclass(slots=True)
class ParseBudget:
    """How much failing look-ahead a text may still cost, and what was repaired."""

    left: int
    repairs: list[str] = field(default_factory=list[str])


def unescape(text: str) -> str:
    """Entities decoded once; an unknown one stays as it is."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def cdata(text: str) -> str:
    """The text as CDATA, its end mark split over two sections."""
    return f"{CDATA}{clean_text(text).replace(CDATA_END, ']]]]><![CDATA[>')}{CDATA_END}"


def read_element(text: str, opened: re.Match[str], work: ParseBudget, depth: int = 0) -> tuple[Element, int]:
    """The element from its opening tag on.

    Raises:
        CutOff: the text ends inside it.
    """
    tag = opened[1]
    element = Element(tag)
    if opened[2]:
        element.kind = kind[1] if (kind := _TYPE.search(opened[2])) else ""
        element.name = unescape(key[1] or key[2] or "") if (key := _KEY.search(opened[2])) else ""
    if opened[3]:
        return element, opened.end()
    pos = opened.end()
    inner = skip_space(text, pos)
    if text.startswith(CDATA, inner):
        return _sections(text, inner, element, work)
    if inner >= len(text):
        raise TruncatedLiteral(inner)
    if depth < MAX_NESTING and OPEN.match(text, inner) is not None:
        nested = _children(text, inner, tag, work, depth)
        if nested is not None:
            element.children, end = nested
            element.text = text[pos : end - len(tag) - 3].strip()
            return element, end
    return _plain(text, pos, element, work)


def _children(
    text: str, pos: int, tag: str, work: ParseBudget, depth: int
) -> tuple[list[Element], int] | None:
    """The elements up to the closing tag, None where there is anything else between them."""
    start, children, close = pos, list[Element](), f"</{tag}>"
    while not text.startswith(close, pos):
        opened = OPEN.match(text, pos)
        if opened is None:
            work.left -= pos - start
            return None
        repairs = len(work.repairs)
        try:
            child, pos = read_element(text, opened, work, depth + 1)
        except TruncatedLiteral:
            del work.repairs[repairs:]
            work.left -= len(text) - start
            return None
        children.append(child)
        pos = skip_space(text, pos)
    return children, pos + len(close)


def _plain(text: str, pos: int, element: Element, work: ParseBudget) -> tuple[Element, int]:
    """Text without CDATA, up to the closing tag."""
    close = f"</{element.tag}>"
    end = text.find(close, pos)
    if end < 0 or work.left < 0:
        raise TruncatedLiteral(len(text))
    section = text.find(CDATA, pos, end)
    if section >= 0 and (mixed := _mixed(text, pos, section, close)) is not None:
        element.text, end = mixed
    else:
        element.text = clean_text(unescape(text[pos:end].strip()))
    return element, end + len(close)


def _mixed(text: str, pos: int, section: int, close: str) -> tuple[str, int] | None:
    """Text around CDATA sections, joined as XML 1.0 §2.7 says, and where the closing tag stands.

    None where a section does not end: then the mark is text that was not escaped.
    """
    parts: list[str] = []
    while True:
        parts.append(unescape(text[pos:section]))
        end = text.find(CDATA_END, section)
        if end < 0:
            return None
        parts.append(text[section + len(CDATA) : end])
        pos = end + len(CDATA_END)
        stop = text.find(close, pos)
        if stop < 0:
            return None
        section = text.find(CDATA, pos, stop)
        if section < 0:
            parts.append(unescape(text[pos:stop]))
            return clean_text("".join(parts).strip()), stop


def _sections(text: str, pos: int, element: Element, work: ParseBudget) -> tuple[Element, int]:
    """CDATA sections, adjacent ones joined, up to the closing tag; a missing one is repaired."""
    close = f"</{element.tag}>"
    parts: list[str] = []
    while True:
        start = pos + len(CDATA)
        end = text.find(CDATA_END, start)
        if end < 0:
            raise TruncatedLiteral(len(text))
        pos = end + len(CDATA_END)
        if text.startswith(CDATA, pos):
            parts.append(text[start:end])
            continue
        ahead = skip_space(text, pos)
        if text.startswith(close, ahead):
            break
        inner = _unsplit(text, pos, close, work)
        if inner is not None:
            work.repairs.append(f"a literal ]]> in <{element.tag}> was not split over two CDATA sections")
            end, ahead = inner
            break
        if text.startswith(CDATA, ahead):
            parts.append(text[start:end])
            pos = ahead
            continue
        if ahead >= len(text):
            raise TruncatedLiteral(ahead)
        ahead = _missing(text, ahead, element.tag, work)
        close = ""
        break
    element.exact = True
    element.text = clean_text("".join([*parts, text[start:end]]))
    return element, ahead + len(close)


def _unsplit(text: str, pos: int, close: str, work: ParseBudget) -> tuple[int, int] | None:
    """Where CDATA really ends if its content holds the end mark: before the closing tag.

    Only up to the next opening of a section: beyond it, it would be another value's.
    """
    if work.left < 0:
        return None
    closing = text.find(close, pos)
    section = text.find(CDATA, pos, closing if closing >= 0 else len(text))
    work.left -= (closing if closing >= 0 else len(text)) - pos
    if closing < 0 or section >= 0:
        return None
    before = text[pos:closing].rstrip()
    return (pos + len(before) - len(CDATA_END), closing) if before.endswith(CDATA_END) else None


def _missing(text: str, pos: int, tag: str, work: ParseBudget) -> int:
    """The position behind a closing tag of another name, or right here where there is none."""
    wrong = re.compile(r"</([\w.:-]+)>").match(text, pos)
    if wrong is not None and wrong[1] not in ("params", "parameters", "tool_call"):
        work.repairs.append(f"<{tag}> was closed by </{wrong[1]}>")
        return wrong.end()
    if text[pos] != "<":
        raise LiteralError(pos)
    work.repairs.append(f"the closing tag of <{tag}> was missing")
    return pos


def _character(match: re.Match[str]) -> str:
    if match[3]:
        return _NAMED[match[3]]
    code = int(match[1]) if match[1] else int(match[2], 16)
    return chr(code) if 0 < code < 0x110000 else match[0]
