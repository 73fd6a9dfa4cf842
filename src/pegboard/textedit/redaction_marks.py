"""Redaction marks: what stands in place of a secret in everything that a model sees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import InvalidArguments

REDACTION_MARK: Final = re.compile(r"\[redacted:[0-9a-z-]+\]")

_MAX_MARKS: Final = 4
_ONE_LINE: Final = 2000
_MORE_LINES: Final = 8000


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """Where a text with marks stands, and the text that each mark hides there."""

    start: int
    end: int
    hidden: tuple[str, ...]


def marks_in(text: str) -> tuple[str, ...]:
    """Every mark in the text, in order, repeated ones too."""
    return tuple(REDACTION_MARK.findall(text))


def refuse_marks(new: str, before: str, path: str) -> None:
    """Refuse text that would write a mark where a secret stands.

    A mark that stands literally in `before` is text of the file like any other.

    Raises:
        InvalidArguments: `new` holds a mark that is not literally in `before`.
    """
    strange = [mark for mark in marks_in(new) if mark not in before]
    if strange:
        raise InvalidArguments(
            f"the new text for {path} contains {strange[0]}, which stands for a secret that was hidden from you",
            hint="Use edit_file on the lines around it; leave the hidden part out of old_string and new_string.",
            details={"marks": strange},
        )


def find_around(text: str, old: str) -> list[MarkedSpan]:
    """Every place of `old` with each mark standing for hidden text, ascending, not overlapping.

    Hidden text lies in one line; over several lines it is looked for only where that finds
    nothing and there is one mark. Each gap ends at the first fitting text, so that the work
    stays linear in the text whatever stands in it. Nothing is found for more than four marks,
    for two without text between them, and for marks alone.
    """
    parts = REDACTION_MARK.split(old)
    inner = parts[1:-1]
    if not 2 <= len(parts) <= _MAX_MARKS + 1 or not all(inner) or not any(part.strip() for part in parts):
        return []
    found = list(_walk(text, parts, _ONE_LINE, lines=False))
    return found if found or len(parts) > 2 else list(_walk(text, parts, _MORE_LINES, lines=True))


def _walk(text: str, parts: Sequence[str], most: int, *, lines: bool) -> Iterator[MarkedSpan]:
    at = 0
    while True:
        # Where the text begins with a mark, its hidden text is one character before the next part.
        first = parts[0] or parts[1]
        start = text.find(first, at if parts[0] else at + 1)
        if start < 0:
            return
        place = _from(text, parts, start if parts[0] else start - 1, most, lines=lines)
        at = start + 1 if place is None else place.end
        if place is not None:
            yield place


def _from(text: str, parts: Sequence[str], start: int, most: int, *, lines: bool) -> MarkedSpan | None:
    end = start + len(parts[0])
    hidden: list[str] = []
    for part in parts[1:]:
        at = text.find(part, end + 1, end + most + len(part)) if part else min(end + 1, len(text))
        gap = text[end:at] if at > end else ""
        if not gap or (not lines and "\n" in gap):
            return None
        hidden.append(gap)
        end = at + len(part)
    return MarkedSpan(start, end, tuple(hidden))


def around_line(line: str, pattern: str) -> tuple[str, ...] | None:
    """What the marks of a whole line hide in another; None where the line is another one."""
    parts = REDACTION_MARK.split(pattern)
    if len(parts) == 1:
        return () if line == pattern else None
    if not line.startswith(parts[0]) or not line.endswith(parts[-1]) or not all(parts[1:-1]):
        return None
    last = len(line) - len(parts[-1])
    end = len(parts[0])
    hidden: list[str] = []
    for part in parts[1:-1]:
        at = line.find(part, end + 1, last)
        if at < 0:
            return None
        hidden.append(line[end:at])
        end = at + len(part)
    return (*hidden, line[end:last]) if end < last else None


def put_back(hidden: Sequence[str], old: str, new: str, path: str) -> str:
    """`new` with every mark replaced by the text that it hides, unchanged and in its old order.

    Raises:
        InvalidArguments: a mark was added, doubled or reordered, or one was dropped at an end of
            `old`, where nobody can tell how far the hidden text reaches.
    """
    left = list(zip(marks_in(old), hidden, strict=True))
    parts = REDACTION_MARK.split(new)
    pieces = [parts[0]]
    for mark, part in zip(marks_in(new), parts[1:], strict=True):
        while left and left[0][0] != mark:
            left.pop(0)
        if not left:
            raise InvalidArguments(
                f"new_string for {path} has {mark} where old_string has it not, or in another order",
                hint="Keep each hidden part once and in its place.",
            )
        pieces += [left.pop(0)[1], part]
    dropped = len(marks_in(old)) - len(marks_in(new))
    if dropped and (REDACTION_MARK.match(old) or old.endswith(f"{marks_in(old)[-1]}")):
        raise InvalidArguments(
            f"new_string for {path} drops a hidden part at the end of old_string: nobody can tell how far it reaches",
            hint="Include the text on both sides of the hidden part in old_string.",
        )
    return "".join(pieces)
