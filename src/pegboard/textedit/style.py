"""How a file is written: its line ends, indentation, quotes and invisible characters, and new text in that style."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import reduce
from itertools import pairwise
from math import gcd
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


SHOWN: Final = 10
"""How many line numbers a message names at most."""


def line_numbers(data: bytes, offsets: Sequence[int]) -> tuple[int, ...]:
    """The 1-based line of each offset; offsets ascend, so that the whole costs one pass."""
    numbers: list[int] = []
    line, done = 1, 0
    for offset in offsets:
        line += data.count(b"\n", done, offset)
        done = offset
        numbers.append(line)
    return tuple(numbers)


def name_lines(numbers: Sequence[int]) -> str:
    """`line 4`, `lines 1, 3` or `lines 1, 2, … and 90 more`."""
    shown = ", ".join(map(str, numbers[:SHOWN]))
    more = len(numbers) - SHOWN
    tail = f" and {more} more" if more > 0 else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {shown}{tail}"


def newline_near(data: bytes, start: int, end: int) -> bytes:
    """The line ending that lines put in place of `data[start:end]` take.

    The one inside the span, else of the line that the span ends in, else of the line
    before: so a file of mixed endings changes only where it is edited.
    """
    at = data.find(b"\n", start, end)
    if at < 0:
        at = data.find(b"\n", end)
    if at < 0:
        at = data.rfind(b"\n", 0, start)
    return b"\r\n" if at > 0 and data[at - 1] == 0x0D else b"\n"


def indent_of(line: str) -> str:
    """The white space that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _width(indent: str) -> int:
    return len(indent.expandtabs(8))


class Reindent:
    """How the indentation of a model's lines stands for that of a file's lines.

    Args:
        old: lines as the model wrote them.
        found: the file's lines that they stand for, as many.
    """

    def __init__(self, old: Sequence[str], found: Sequence[str]) -> None:
        self._known: dict[str, str] = {}
        for left, right in zip(old, found, strict=True):
            if left.strip() and right.strip():
                self._known.setdefault(indent_of(left), indent_of(right))
        self._old_unit = _unit(list(self._known))
        self._tabs = any("\t" in indent for indent in self._known.values())
        self._unit = 1 if self._tabs else _unit(list(self._known.values()))

    def __call__(self, line: str) -> str:
        """The line with its indentation translated; blank lines stay as they are."""
        if not line.strip() or not self._known:
            return line
        indent = indent_of(line)
        known = self._known.get(indent)
        return (self._derive(indent) if known is None else known) + line[len(indent) :]

    def _derive(self, indent: str) -> str:
        """An indentation that was not seen: so many steps in or out from the nearest one that was."""
        width = _width(indent)
        nearest = min(self._known, key=lambda seen: (abs(_width(seen) - width), _width(seen)))
        target = self._known[nearest]
        steps, rest = divmod(width - _width(nearest), self._old_unit)
        if self._tabs:
            depth = max(0, target.count("\t") + steps)
            return "\t" * depth + target.replace("\t", "") + " " * rest
        return " " * max(0, len(target) + steps * self._unit + rest)


def _unit(indents: Sequence[str]) -> int:
    """Columns of one step: the greatest common divisor of the differences, 4 where there is none.

    One level alone says nothing of the step unless its own width is small.
    """
    widths = sorted({_width(indent) for indent in indents})
    if any("\t" in indent for indent in indents):
        return 8
    steps = [right - left for left, right in pairwise(widths)]
    step = reduce(gcd, steps, 0) or reduce(gcd, widths, 0)
    return step if step in (1, 2, 3, 4, 6, 8) else 4


_TOKEN: Final = re.compile(r"\w+|\s|[^\w\s]")
_MAX_TOKENS: Final = 4000

Fold = Callable[[str], FoldedText]
Keys = Callable[[str], list[str]]


def transfer(found: str, old: str, new: str, fold: Fold) -> str:
    """`new` with every part that equals `old` taken from `found`, where `fold(old) == fold(found)`.

    Quotes, invisible characters, line endings and spaces of the file stay in all that the
    model left as it was. The result folds to the same text as `new`.
    """
    was, source, wanted = fold(old), fold(found), fold(new)
    if was.text == wanted.text:
        return new if old != new else found
    pieces: list[str] = []
    for tag, i1, i2, j1, j2 in _token_opcodes(was.text, wanted.text):
        if tag == "equal":
            kept = _cut(source, found, i1, i2, wanted, new, j1, j2)
            pieces.append(_plain_spaces(kept, first=i1 == 0, last=i2 == len(was.text)))
        else:
            pieces.append(_piece(wanted, new, j1, j2))
    return "".join(pieces)


def _cut(
    source: FoldedText, found: str, i1: int, i2: int, wanted: FoldedText, new: str, j1: int, j2: int
) -> str:
    """The file's own text of an unchanged part, with the invisible characters on both sides of it."""
    start, end = source.end(i1), source.start(i2)
    return _piece(wanted, new, j1, j2) if start is None or end is None else found[start:end]


def _plain_spaces(kept: str, *, first: bool, last: bool) -> str:
    """No-break and other odd spaces as plain ones in lines that the model changed; whole lines stay."""
    lines = kept.split("\n")
    for index, line in enumerate(lines):
        whole = (index > 0 or first) and (index < len(lines) - 1 or last)
        if not whole and not line.isascii():
            lines[index] = line.translate(SPACES)
    return "\n".join(lines)


def _piece(folded: FoldedText, text: str, start: int, end: int) -> str:
    first = 0 if start == 0 else folded.start(start)
    last = len(text) if end == len(folded.text) else folded.start(end)
    # A piece that was folded as one stands whole on one side: fall back to its folded form.
    return folded.text[start:end] if first is None or last is None else text[first:last]


def _token_opcodes(old: str, new: str) -> list[tuple[str, int, int, int, int]]:
    """Opcodes in characters, compared token by token between the common ends."""
    left, right = _TOKEN.findall(old), _TOKEN.findall(new)
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    mid_left, mid_right = left[head : len(left) - tail], right[head : len(right) - tail]
    if len(mid_left) + len(mid_right) > _MAX_TOKENS:
        inner = [("replace", 0, len(mid_left), 0, len(mid_right))]
    else:
        inner = SequenceMatcher(None, mid_left, mid_right, autojunk=False).get_opcodes()
    at_left, at_right = _offsets(left), _offsets(right)
    codes: list[tuple[str, int, int, int, int]] = [
        ("equal", 0, head, 0, head),
        *((tag, head + a, head + b, head + c, head + d) for tag, a, b, c, d in inner),
        ("equal", len(left) - tail, len(left), len(right) - tail, len(right)),
    ]
    return [
        (tag, at_left[a], at_left[b], at_right[c], at_right[d])
        for tag, a, b, c, d in codes
        if a != b or c != d
    ]


def _offsets(tokens: Sequence[str]) -> list[int]:
    offsets = [0]
    for token in tokens:
        offsets.append(offsets[-1] + len(token))
    return offsets


def merge_lines(found: str, old: str, new: str, keys: Keys, fold: Fold, *, newline: str = "\n") -> str | None:
    """Three-way merge by lines: what the model changed from `old` to `new`, done to `found`.

    Lines count as equal when their keys are. Lines that the model left alone stay byte for
    byte as the file has them; the others take the file's indentation.

    Args:
        found: the file's lines, without the last line ending.
        old: what the model believed to stand there.
        new: what it wants instead.
        keys: one comparison key a line.
        fold: how characters inside a line are compared.
        newline: the ending of lines that are new.

    Returns:
        The merged lines, without the last line ending; None where the model changes a line
        that differs from what it believed.
    """
    found_lines, old_lines, new_lines = found.split("\n"), old.split("\n"), new.split("\n")
    found_keys, old_keys, new_keys = keys(found), keys(old), keys(new)
    to_found, to_new = _matched(old_keys, found_keys), _matched(old_keys, new_keys)
    pairs = sorted(to_found.items())
    reindent = Reindent([old_lines[o] for o, _ in pairs], [found_lines[f] for _, f in pairs])
    out = _Lines(found_lines, newline)
    o = f = n = 0
    for anchor in [*(o for o, _ in pairs if o in to_new), len(old_lines)]:
        f_end, n_end = to_found.get(anchor, len(found_lines)), to_new.get(anchor, len(new_lines))
        if found_keys[f:f_end] == old_keys[o:anchor]:
            out.add(rewrite(found_lines[f:f_end], old_lines[o:anchor], new_lines[n:n_end], reindent, fold))
        elif new_keys[n:n_end] in (old_keys[o:anchor], found_keys[f:f_end]):
            out.keep(f, f_end)
        elif f_end - f == anchor - o == n_end - n:
            # Neighbouring lines changed on both sides: decide each line alone.
            for k in range(f_end - f):
                if found_keys[f + k] == old_keys[o + k]:
                    out.add(
                        rewrite([found_lines[f + k]], [old_lines[o + k]], [new_lines[n + k]], reindent, fold)
                    )
                elif new_keys[n + k] in (old_keys[o + k], found_keys[f + k]):
                    out.keep(f + k, f + k + 1)
                else:
                    return None
        else:
            return None
        if anchor < len(old_lines):
            out.keep(f_end, f_end + 1, indent=_moved(old_lines[anchor], new_lines[n_end], reindent))
        o, f, n = anchor + 1, f_end + 1, n_end + 1
    return out.joined()


class _Lines:
    """Lines on their way out: kept ones have their own ending, new ones the given one."""

    def __init__(self, found: Sequence[str], newline: str) -> None:
        self._found = found
        self._newline = newline
        self._out: list[tuple[str, str]] = []

    def add(self, lines: Sequence[str]) -> None:
        """Put lines that are new."""
        self._out += [(line, self._newline) for line in lines]

    def keep(self, start: int, end: int, *, indent: str | None = None) -> None:
        """Put lines of the file, with another indentation where one is given."""
        for index in range(start, end):
            line = self._found[index]
            ending = (
                self._newline if index == len(self._found) - 1 else "\r\n" if line.endswith("\r") else "\n"
            )
            body = line.removesuffix("\r") if ending == "\r\n" else line
            if indent is not None:
                body = indent + body[len(indent_of(body)) :]
            self._out.append((body, ending))

    def joined(self) -> str:
        """All of it, without the last ending."""
        text = "".join(body + ending for body, ending in self._out)
        return text[: len(text) - len(self._out[-1][1])] if self._out else ""


def _matched(left: Sequence[str], right: Sequence[str]) -> dict[int, int]:
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return {a + k: b + k for a, b, size in blocks for k in range(size)}


def _moved(old: str, new: str, reindent: Reindent) -> str | None:
    """The new indentation of a line that the model only moved in or out; None where it did not."""
    return None if indent_of(old) == indent_of(new) else indent_of(reindent(new))


def rewrite(
    found: Sequence[str], old: Sequence[str], new: Sequence[str], reindent: Reindent, fold: Fold
) -> list[str]:
    """New lines in the file's indentation; where they pair up, with the file's characters in what stays."""
    moved = [reindent(line) for line in new]
    if not len(found) == len(old) == len(new):
        return moved
    out: list[str] = []
    for was, believed, wanted in zip(found, old, moved, strict=True):
        was, believed, indent = was.strip(), believed.strip(), indent_of(wanted)
        same = fold(was).text == fold(believed).text
        out.append(
            indent + (transfer(was, believed, wanted[len(indent) :], fold) if same else wanted[len(indent) :])
        )
    return out
