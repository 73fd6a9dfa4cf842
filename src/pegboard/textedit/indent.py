"""Re-indentation: new lines in the white space of the file that they go into."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import gcd


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
