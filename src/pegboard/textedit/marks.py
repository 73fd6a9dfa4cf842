"""Redaction marks: what stands in place of a secret in everything that a model sees (decisions 16)."""

from __future__ import annotations

import re
from typing import Final

from pegboard.core.errors import InvalidArguments

REDACTION_MARK: Final = re.compile(r"\[redacted:[0-9a-z-]+\]")

_MAX_MARKS: Final = 4
_ONE_LINE: Final = r"([^\n]{1,2000}?)"
_MORE_LINES: Final = r"([\s\S]{1,8000}?)"


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


def pattern_of(old: str) -> re.Pattern[str] | None:
    """A pattern that finds `old` with every mark standing for hidden text.

    None where there is nothing to search for but marks, or more marks than can be searched
    in bounded time. Hidden text over several lines is looked for only where there is one mark.
    """
    marks = marks_in(old)
    parts = REDACTION_MARK.split(old)
    if not marks or len(marks) > _MAX_MARKS or not any(part.strip() for part in parts):
        return None
    hidden = _ONE_LINE if len(marks) > 1 else f"(?:{_ONE_LINE}|{_MORE_LINES})"
    body = re.escape(parts[0])
    for part in parts[1:]:
        body += hidden + re.escape(part)
    return re.compile(body)


def put_back(found: re.Match[str], old: str, new: str, path: str) -> str:
    """`new` with every mark replaced by the text that it hides, unchanged and in its old order.

    Raises:
        InvalidArguments: a mark was added, doubled or reordered, or one was dropped at an end of
            `old`, where nobody can tell how far the hidden text reaches.
    """
    hidden = [group for group in found.groups() if group is not None]
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
