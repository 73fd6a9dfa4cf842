"""Characters that act on a terminal or hide text, taken out of what people and models are shown.

This concerns the view only, never a file's bytes. Terminal control sequences follow ECMA-48 (CSI, OSC, DCS, SOS, PM,
APC, in 7-bit and C1 form); tag characters and bidirectional controls follow the Unicode tables (UAX 9, UTS 51).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LineRange:
    """Some lines of a text.

    Attributes:
        text: the lines, each with its `\\n` (the last may lack it).
        first, last: 1-based numbers, 0 where there is none.
        total: lines of the whole text, None where nobody counted.
        cut: numbers of the lines that were shortened.
    """

    text: str
    first: int
    last: int
    total: int | None
    cut: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """What fits of them.

    Attributes:
        view: what a model reads: lines and, where there is more, how to go on.
        text: the lines alone.
        first, last: their numbers.
        more: whether lines follow.
    """

    view: str
    text: str
    first: int
    last: int
    more: bool


def slice_text(text: str, offset: int, limit: int | None) -> LineRange:
    """Lines of a text that is held in memory; line ends become `\\n`.

    Args:
        offset: 1-based; -N starts at the N-th last line.
        limit: lines at most, None = all.
    """
    lines = text.replace("\r\n", "\n").splitlines(keepends=True) if "\r" in text else _split(text)
    first = offset if offset > 0 else max(1, len(lines) + offset + 1)
    chosen = lines[first - 1 : None if limit is None else first - 1 + limit]
    if not chosen:
        return LineRange("", 0, 0, len(lines))
    return LineRange("".join(chosen), first, first + len(chosen) - 1, len(lines))


def _split(text: str) -> list[str]:
    """At `\\n` only: `str.splitlines` also splits at form feeds and the like, which are no line ends."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def page(lines: LineRange, *, numbered: bool, most: int) -> Page:
    """The first of the lines that fit in `most` characters, at least one.

    Numbered, a line is `%6d→text`.
    """
    if not lines.last:
        return Page("", "", 0, 0, False)
    cut = set(lines.cut)
    view: list[str] = []
    taken: list[str] = []
    used = 0
    for number, line in enumerate(_split(lines.text), lines.first):
        body = line.removesuffix("\n")
        mark = f" [line cut: offset={number} column={len(body) + 1} goes on]" if number in cut else ""
        body += mark + ("\n" if line.endswith("\n") else "")
        shown = f"{number:6d}→{body}" if numbered else body
        if taken and used + len(shown) > most:
            break
        view.append(shown)
        taken.append(line)
        used += len(shown)
    last = lines.first + len(taken) - 1
    more = last < lines.last or (lines.total is None or last < lines.total)
    text = "".join(view)
    if more:
        of = f" of {lines.total}" if lines.total is not None else ""
        ended = "" if text.endswith("\n") else "\n"
        text += f"{ended}[lines {lines.first}-{last}{of}; offset={last + 1} goes on]"
    elif numbered:
        text = text.removesuffix("\n")
    return Page(text, "".join(taken), lines.first, last, more)


_ASCII_CONTROL: Final = bytes([*range(0x09), *range(0x0B, 0x20), 0x7F])
_STRING_END: Final = r"(?:\x07|\x1b\\|\x9c)"
_SEQUENCE: Final = re.compile(
    # A control string ends at its terminator; one without an end hides nothing but its introducer.
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}" + _STRING_END +
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"
    r"|\x1b[ -/]{0,4}[0-~]?"
)  # fmt: skip
_ENDINGS: Final = re.compile(r"\r+\n")
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f" + _INVISIBLE + "\ud800-\udfff]")
_TAGS: Final = re.compile("[\U000e0000-\U000e0fff]+")
_JOINERS: Final = re.compile("[\u200c\u200d]+")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f]{2,}")
_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200c\u200d\ufe00-\ufe0f"
    + _INVISIBLE
    + "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_FLAG_TAGS: Final = re.compile("[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
_BLACK_FLAG: Final = "\U0001f3f4"
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def sanitise(text: str) -> str:
    """The text as a person would have seen it, without what acts on a terminal or cannot be seen.

    Removed: terminal control sequences, control characters except newline and tab, tag characters, bidirectional
    controls, soft hyphens, zero-width characters. Kept: a single joiner inside a word that needs it or an emoji, a
    single variation selector, the tags of a flag. `\\r\\n` becomes `\\n`; a bare `\\r` too, so that it
    covers nothing. Line and paragraph separators become newlines. Clean text comes back as the same object.
    """
    if text.isascii():
        data = text.encode("ascii")
        if len(data.translate(None, _ASCII_CONTROL)) == len(data):
            return text
    elif not _SUSPECT.search(text):
        return text
    if "\x1b" in text or any(c in text for c in "\x90\x98\x9b\x9d\x9e\x9f"):
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = _ENDINGS.sub("\n", text)
        # A bare return would let a later text cover an earlier one; as a line end it hides nothing.
        text = text.replace("\r", "\n")
    if "\u2028" in text or "\u2029" in text:
        text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    # Tags first: a joiner beside a removed tag is judged by the letters that are then its neighbours.
    text = _TAGS.sub(_tags, text)
    text = _CONTROL.sub("", text)
    text = _SELECTORS.sub(lambda m: m[0][0], text)
    return _JOINERS.sub(_joiner, text)


def escape_invisible(name: str) -> str:
    """A name in one line, as a listing may show it: what `clean` would take out is written as an escape.

    `\\x0a` for ASCII, else `\\u202e`; file tools take these back, so that a name which pretends to be
    another, or to be two lines, can still be read and deleted.
    """
    if "\n" not in name and "\t" not in name and sanitise(name) == name:
        return name
    return "".join(escaped(char) if _hidden(char) else char for char in name)


def _hidden(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) in _UNSEEN or sanitise(char) != char


def escaped(char: str) -> str:
    """One character as `visible` writes it."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _tags(match: re.Match[str]) -> str:
    """A flag of a region (England, Texas) is spelt in tags behind a black flag; any other tag is hidden text."""
    before = match.string[match.start() - 1 : match.start()]
    return match[0] if before == _BLACK_FLAG and _FLAG_TAGS.fullmatch(match[0]) else ""


def _joiner(match: re.Match[str]) -> str:
    """One joiner between letters of a script that uses it, or between emoji, is part of the word."""
    if len(match[0]) > 1:
        return ""
    before, after = (
        match.string[max(match.start() - 1, 0) : match.start()],
        match.string[match.end() : match.end() + 1],
    )
    return match[0] if before and after and _joins(before) and _joins(after) else ""


def _joins(char: str) -> bool:
    code = ord(char)
    if code < 0x0600:
        # Latin, Greek, Cyrillic, Hebrew: no joiner is written there, so one only hides a border.
        return False
    return (
        unicodedata.category(char) in ("Lo", "Lm", "Mn", "Mc", "So", "Sk", "Cf") or 0x1F3FB <= code <= 0x1F3FF
    )
