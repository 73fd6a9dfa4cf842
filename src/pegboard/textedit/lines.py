"""Lines: their numbers, and the ending that new lines take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
