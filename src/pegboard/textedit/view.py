"""What a model saw of a text, and the way back to where it stands in the file (decisions 16)."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: Characters that are taken out before a model sees a text: C0 except newline and tab, DEL, C1,
#: soft hyphen, zero-width and directional marks, tag characters. A superset of what any cleaner
#: takes out is safe here, because only unique matches count.
_INVISIBLE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_ESCAPE: Final = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
_MARKS: Final = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a"

_QUOTES: Final = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\ufe0e\ufe0f", ""),
    "\u2026": "...",
}  # fmt: skip

SPACES: Final = {ord(c): " " for c, plain in _QUOTES.items() if plain == " "}
"""Every kind of space, for `str.translate`."""

_SHOWN: Final = re.compile(f"\r\n|[{_INVISIBLE}]")
_SHOWN_PLAIN: Final = re.compile(f"\r\n|{_ESCAPE}|[{_INVISIBLE}]")
_LOOSE: Final = re.compile(
    f"\r\n|{_ESCAPE}|[{_INVISIBLE}]|[^\\W\\d_][{_MARKS}]+|[\u1100-\u11ff]+|[{''.join(_QUOTES)}]"
)
_CONTROLS: Final = [chr(c) for c in range(0x80) if (c < 0x20 and chr(c) not in "\t\n") or c == 0x7F]


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text with some characters replaced or taken out, and the map back.

    Attributes:
        text: the folded text.
        source: the length of the text that it came from.
        at, size: where each replaced piece stands in `text` and how long it is there.
        source_at, source_size: the same in the source.
    """

    text: str
    source: int
    at: list[int]
    size: list[int]
    source_at: list[int]
    source_size: list[int]

    def start(self, offset: int) -> int | None:
        """The source offset of the character at `offset`, behind anything taken out before it.

        None where `offset` lies inside a replaced piece.
        """
        return self._back(offset, bisect_right(self.at, offset) - 1)

    def end(self, offset: int) -> int | None:
        """The source offset behind the character before `offset`, before anything taken out there."""
        return 0 if offset == 0 else self._back(offset, bisect_right(self.at, offset - 1) - 1)

    def _back(self, offset: int, index: int) -> int | None:
        if index < 0:
            return offset
        inside = offset - self.at[index]
        if inside == 0 and self.size[index]:
            return self.source_at[index]
        if inside < self.size[index]:
            return None
        return self.source_at[index] + self.source_size[index] + inside - self.size[index]


def quiet(text: str) -> bool:
    """Whether no fold changes anything: plain ASCII without control characters; a few fast scans."""
    return text.isascii() and not any(c in text for c in _CONTROLS)


def _fold(text: str, pattern: re.Pattern[str], replace: Callable[[str], str]) -> FoldedText:
    pieces: list[str] = []
    at: list[int] = []
    size: list[int] = []
    source_at: list[int] = []
    source_size: list[int] = []
    done = length = 0
    if quiet(text):
        return FoldedText(text, len(text), at, size, source_at, source_size)
    for found in pattern.finditer(text):
        start, end = found.span()
        plain = text[done:start]
        new = replace(found.group())
        pieces.append(plain)
        pieces.append(new)
        length += len(plain)
        at.append(length)
        size.append(len(new))
        source_at.append(start)
        source_size.append(end - start)
        length += len(new)
        done = end
    pieces.append(text[done:])
    return FoldedText("".join(pieces), len(text), at, size, source_at, source_size)


def _shown_piece(piece: str) -> str:
    return "\n" if piece == "\r\n" else ""


def _loose_piece(piece: str) -> str:
    plain = _QUOTES.get(piece)
    if plain is not None:
        return plain
    if piece[-1] > "\u02ff" and piece[0].isalpha():
        return unicodedata.normalize("NFC", piece)
    return _shown_piece(piece)


def shown(text: str) -> FoldedText:
    """CRLF as LF; control and invisible characters taken out."""
    return _fold(text, _SHOWN, _shown_piece)


def shown_plain(text: str) -> FoldedText:
    """As `shown`, whole terminal escape sequences taken out too."""
    return _fold(text, _SHOWN_PLAIN, _shown_piece)


def loose(text: str) -> FoldedText:
    """As `shown_plain`, with plain quotes, dashes, spaces and ellipses, and composed accents (NFC)."""
    return _fold(text, _LOOSE, _loose_piece)


def trimmed_keys(text: str) -> list[str]:
    """One key a line: what is shown, without white space at both ends."""
    return [line.strip() for line in _by_line(text, _SHOWN, _shown_piece)]


def loose_keys(text: str) -> list[str]:
    """One key a line: loosely folded, runs of white space as one space, none at the ends."""
    return [" ".join(line.split()) for line in _by_line(text, _LOOSE, _loose_piece)]


def _by_line(text: str, pattern: re.Pattern[str], replace: Callable[[str], str]) -> list[str]:
    """The folded lines. Most lines of most files need no folding, and a fast look tells which."""
    lines = text.replace("\r\n", "\n").split("\n")
    noisy = any(c in text for c in _CONTROLS if c != "\r") or text.count("\r") > text.count("\r\n")
    if text.isascii() and not noisy:
        return lines
    return [
        line if not noisy and line.isascii() else pattern.sub(lambda m: replace(m.group()), line)
        for line in lines
    ]
