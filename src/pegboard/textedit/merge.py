"""Putting a model's change into text that it saw a little differently, keeping what it did not change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Final

from pegboard.textedit.indent import Reindent, indent_of
from pegboard.textedit.view import SPACES, FoldedText

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
