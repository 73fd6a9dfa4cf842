"""How a file is written: its line ends, indentation, quotes and invisible characters, and new text in that style."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
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
_HABITS: Final = [
    re.compile(f"[{''.join(char for char, plain in _QUOTES.items() if plain and plain in kind)}]")
    for kind in ("'\"", "-", " ", "...")
] + [re.compile(f"[{_INVISIBLE}]")]
"""Kinds of characters that some programs put in place of plain ones everywhere."""

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


class UnclearStyle(Exception):
    """The file does not say how a line of the new text is to be written."""


class Reindent:
    """How the indentation of a model's lines stands for that of a file's lines.

    One rule must hold for every pair: the same white space more or less, or the same number of steps (tabs, or so many
    spaces) more or less. Without a rule only the indentations that pairs show are known.

    Args:
        old: lines as the model wrote them.
        found: the file's lines that they stand for, as many.
        lines: all lines that the model wrote.
        text: the whole file.
    """

    def __init__(self, old: Sequence[str], found: Sequence[str], lines: Sequence[str], text: str) -> None:
        pairs = [
            (indent_of(left), indent_of(right))
            for left, right in zip(old, found, strict=True)
            if left.strip() and right.strip()
        ]
        self._known = dict(pairs)
        self._twice = {left for left, right in pairs if self._known[left] != right}
        self._rule = _indent_rule(pairs, lines, text)
        self._lead = ""
        if self._rule is None and pairs and not pairs[0][0]:
            # Copied from its first letter on, the first line alone says nothing of the others.
            self._rule = _indent_rule(pairs[1:], lines, text)
            self._lead = next((left for left, right in pairs[1:] if right == pairs[0][1]), "")
            self._known = {**dict(pairs[1:]), "": pairs[0][1]} if self._lead else self._known

    @property
    def lead(self) -> str:
        """What the first line of old and new lacks, where it was copied from its first letter on."""
        return self._lead

    def __call__(self, indent: str) -> str:
        """The indentation as the file has it.

        Raises:
            UnclearStyle: no pair and no rule says what it is.
        """
        if not self._known:
            return indent
        moved = self._known.get(indent)
        if moved is None and self._rule is not None:
            moved = self._rule(indent)
        if moved is None or indent in self._twice:
            raise UnclearStyle
        return moved


_TAB: Final = 0
"""A step that is one tab; any other is a number of columns."""
_STEPS: Final = (_TAB, 4, 2, 8, 3)


def _indent_rule(
    pairs: Sequence[tuple[str, str]], lines: Sequence[str], text: str
) -> Callable[[str], str | None] | None:
    """What makes the right one of every pair out of the left one; None where nothing does."""
    if not pairs:
        return None
    theirs = _step(lines)
    ours = _step(text.split("\n"))
    ours = theirs if ours is None else ours
    prefix = _by_prefix(pairs)
    if theirs is not None and ours is not None and theirs != ours:
        steps = _by_steps(pairs, theirs, ours)
        counts = _TAB in (theirs, ours) or any(_levels(left, theirs)[0] for left, _ in pairs)
        if steps is not None and (prefix is None or (counts and steps("") == "")):
            return steps
    if prefix is not None or len(set(pairs)) == 1:
        return prefix
    tried = (_by_steps(pairs, left, right) for left in _STEPS for right in _STEPS)
    return next((rule for rule in tried if rule is not None), None)


def _by_prefix(pairs: Sequence[tuple[str, str]]) -> Callable[[str], str | None] | None:
    left, right = pairs[0]
    more, less = right.removesuffix(left), left.removesuffix(right)
    if right.endswith(left) and all(there == more + here for here, there in pairs):
        return lambda indent: more + indent
    if left.endswith(right) and all(here == less + there for here, there in pairs):
        return lambda indent: indent.removeprefix(less) if indent.startswith(less) else None
    return None


def _by_steps(pairs: Sequence[tuple[str, str]], theirs: int, ours: int) -> Callable[[str], str | None] | None:
    left, right = _levels(pairs[0][0], theirs), _levels(pairs[0][1], ours)
    more = right[0] - left[0]

    def rule(indent: str) -> str | None:
        level, rest = _levels(indent, theirs)
        return None if level + more < 0 else ("\t" if ours == _TAB else " " * ours) * (level + more) + rest

    return rule if all(rule(here) == there for here, there in pairs) else None


def _levels(indent: str, step: int) -> tuple[int, str]:
    """How many steps an indentation has, and what is left of it."""
    size = 1 if step == _TAB else step
    level = (len(indent) - len(indent.lstrip("\t" if step == _TAB else " "))) // size
    return level, indent[level * size :]


def _step(lines: Sequence[str]) -> int | None:
    """What most lines that are deeper than the one before are deeper by; None where none is."""
    indents = [indent_of(line) for line in lines if line.strip()]
    if sum(indent[:1] == "\t" for indent in indents) * 2 > sum(map(bool, indents)):
        return _TAB
    steps = Counter(right - left for left, right in pairwise(map(len, indents)) if right > left)
    return min(steps, key=lambda step: (-steps[step], step)) if steps else None


def file_style(found: str, old: str, new: str, text: str) -> tuple[str, str]:
    """`old` and `new` without what the writer has everywhere and the file has not: that is a habit, not a wish.

    Trailing blanks go, also where the file has none at all; typographic quotes, dashes, spaces and invisible characters become plain. In a file
    whose quotes are all typographic, plain ones become such.

    Args:
        found: where `old` stands in the file.
        old: what the model believed to stand there.
        new: what it wants instead.
        text: the whole file.
    """
    for kind in _HABITS:
        strange = set(kind.findall(old))
        if strange and not kind.search(found):
            strange |= {char for char in kind.findall(new) if char not in text}
            plain = {ord(char): _QUOTES.get(char, "") for char in strange}
            old, new = old.translate(plain), new.translate(plain)
    if not text.isascii() and "'" not in text and '"' not in text:
        old, new = _typographic(old, text), _typographic(new, text)
    habit, lines = re.search(r"(?m)[ \t]\r?$", text) is None, found.replace("\r\n", "\n")
    for blanks in (r"(?m)(?<=\S)[ \t]+$", r"(?m)^[ \t]+$"):
        habit = habit or re.search(blanks, old) is not None
        if habit and not re.search(blanks, lines):
            old, new = re.sub(blanks, "", old), re.sub(blanks, "", new)
    return old, new


def _typographic(plain: str, text: str) -> str:
    """Plain quotes as the file writes them."""
    for quote, kinds in (('"', ("\u201c\u201d", "\u201e\u201c")), ("'", ("\u2018\u2019",))):
        used = next((marks for marks in kinds if marks[1] in text), None)
        if used is not None:
            plain = re.sub(rf"(^|[\s(\[{{=\u2014]){quote}", rf"\1{used[0]}", plain, flags=re.MULTILINE)
            plain = plain.replace(quote, used[1])
    return plain


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


def merge_lines(
    found: str, old: str, new: str, keys: Keys, fold: Fold, *, text: str = "", newline: str = "\n"
) -> str | None:
    """Three-way merge by lines: what the model changed from `old` to `new`, done to `found`.

    Lines count as equal when their keys are. Lines that the model left alone stay byte for
    byte as the file has them; the others are written in the file's manner. What the model moves in or out
    moves with all that stands between.

    Args:
        found: the file's lines, without the last line ending.
        old: what the model believed to stand there.
        new: what it wants instead.
        keys: one comparison key a line.
        fold: how characters inside a line are compared.
        text: the whole file.
        newline: the ending of lines that are new.

    Returns:
        The merged lines, without the last line ending; None where the model changes a line
        that differs from what it believed, or where a line's indentation cannot be told.
    """
    old, new = file_style(found, old, new, text or found)
    try:
        return _Merge(found, old, new, keys, fold, text or found, newline).merged()
    except UnclearStyle:
        return None


class _Merge:
    """One merge: the lines of the file, of the old and of the new text, and how they pair up."""

    def __init__(
        self, found: str, old: str, new: str, keys: Keys, fold: Fold, text: str, newline: str
    ) -> None:
        self._found, self._old, self._new = found.split("\n"), old.split("\n"), new.split("\n")
        self._keys = keys(found), keys(old), keys(new)
        self._to_found = _matched(self._keys[1], self._keys[0])
        self._to_new = _matched(self._keys[1], self._keys[2])
        pairs = sorted(self._to_found.items())
        self._indent = Reindent(
            [self._old[o] for o, _ in pairs],
            [self._found[f] for _, f in pairs],
            [*self._old, *self._new],
            text,
        )
        if lead := self._indent.lead:
            self._old[0], self._new[0] = lead + self._old[0], lead + self._new[0] if self._new[0] else ""
        self._fold = fold
        self._out = _Lines(self._found, newline)

    def merged(self) -> str:
        """The file's lines with the model's change; `UnclearStyle` where it cannot be made."""
        anchors = [o for o in sorted(self._to_found) if o in self._to_new]
        o = f = n = 0
        before: tuple[str, str] | None = None
        for anchor in [*anchors, len(self._old)]:
            f_end = self._to_found.get(anchor, len(self._found))
            n_end = self._to_new.get(anchor, len(self._new))
            after = None if anchor == len(self._old) else (self._old[anchor], self._new[n_end])
            self._gap(range(f, f_end), range(o, anchor), range(n, n_end), (before, after))
            if after is not None:
                self._keep(f_end, *after)
            o, f, n, before = anchor + 1, f_end + 1, n_end + 1, after
        return self._out.joined()

    def _gap(
        self,
        found: range,
        old: range,
        new: range,
        around: tuple[tuple[str, str] | None, tuple[str, str] | None],
    ) -> None:
        """The lines between two that are equal in all three."""
        there, was, wanted = (
            keys[r.start : r.stop] for keys, r in zip(self._keys, (found, old, new), strict=True)
        )
        if there == was:
            self._rewrite(found, old, new)
        elif len(there) == len(was) == len(wanted):
            # Neighbouring lines changed on both sides: decide each line alone.
            for f, o, n in zip(found, old, new, strict=True):
                if self._keys[0][f] == self._keys[1][o]:
                    self._rewrite(range(f, f + 1), range(o, o + 1), range(n, n + 1))
                elif self._keys[2][n] in (self._keys[1][o], self._keys[0][f]):
                    self._keep(f, self._old[o], self._new[n])
                else:
                    raise UnclearStyle
        elif wanted in (was, there):
            lines = list(zip((self._old[o] for o in old), (self._new[n] for n in new), strict=False))
            moves = {_move(*pair) for pair in [*lines, *filter(None, around)] if pair[0].strip()}
            if len(moves) > 1:
                raise UnclearStyle
            pair = next((pair for pair in [*lines, *filter(None, around)] if pair[0].strip()), ("", ""))
            for f in found:
                self._keep(f, *pair)
        else:
            raise UnclearStyle

    def _keep(self, f: int, old: str, new: str) -> None:
        """A line of the file, moved in or out as the model moved `old` to `new`."""
        line, was, wanted = self._found[f], indent_of(old), indent_of(new)
        if was == wanted or not line.strip() or not old.strip() or not new.strip():
            self._out.keep(f)
            return
        was, wanted, indent = self._indent(was), self._indent(wanted), indent_of(line)
        if wanted.startswith(was):
            self._out.keep(f, indent=indent + wanted[len(was) :])
        elif was.startswith(wanted) and indent.endswith(was[len(wanted) :]):
            self._out.keep(f, indent=indent.removesuffix(was[len(wanted) :]))
        else:
            raise UnclearStyle

    def _rewrite(self, found: range, old: range, new: range) -> None:
        there, was, wanted = (
            lines[r.start : r.stop] for lines, r in ((self._found, found), (self._old, old), (self._new, new))
        )
        self._out.add(rewrite(there, was, wanted, self._indent, self._fold))


def rewrite(
    found: Sequence[str], old: Sequence[str], new: Sequence[str], indent: Reindent, fold: Fold
) -> list[str]:
    """New lines in the file's indentation; where they pair up, with the file's characters in what stays.

    Raises:
        UnclearStyle: an indentation cannot be told.
    """
    paired = len(found) == len(old) == len(new)
    out: list[str] = []
    for index, wanted in enumerate(new):
        body = wanted.lstrip(" \t")
        if not body:
            out.append(wanted)
            continue
        if paired and indent_of(old[index]) == indent_of(wanted) and old[index].strip():
            moved = indent_of(found[index])
        else:
            moved = indent(indent_of(wanted))
        if paired:
            was, believed = found[index].strip(), old[index].strip()
            if fold(was).text == fold(believed).text:
                body = transfer(was, believed, body, fold)
            if old[index].rstrip() == old[index] and body.rstrip() == body:
                body += _blanks(found[index].removesuffix("\r"))
        out.append(moved + body)
    return out


def _blanks(line: str) -> str:
    """The blanks that a line ends with."""
    return line[len(line.rstrip(" \t")) :]


def _move(old: str, new: str) -> tuple[str, str]:
    """What an indentation loses and gets."""
    was, wanted = indent_of(old), indent_of(new)
    return was.removeprefix(wanted), wanted.removeprefix(was)


class _Lines:
    """Lines on their way out: kept ones have their own ending, new ones the given one."""

    def __init__(self, found: Sequence[str], newline: str) -> None:
        self._found = found
        self._newline = newline
        self._out: list[tuple[str, str]] = []

    def add(self, lines: Sequence[str]) -> None:
        """Put lines that are new."""
        self._out += [(line, self._newline) for line in lines]

    def keep(self, index: int, *, indent: str | None = None) -> None:
        """Put a line of the file, with another indentation if one is named."""
        line = self._found[index]
        ending = self._newline if index == len(self._found) - 1 else "\r\n" if line.endswith("\r") else "\n"
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
