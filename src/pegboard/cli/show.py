"""Showing things on a terminal: escaped, plain where nobody looks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from pegboard.core.effects import Change, Effect
from pegboard.core.shaping import to_data

_COLOURS = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


def is_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def paint(text: str, colour: str) -> str:
    """The text in a colour where a person looks, else as it is."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if is_terminal() else text


def safe(text: str) -> str:
    """Text from elsewhere with every control character but newline and tab made visible."""
    return "".join(c if c in "\n\t" or (c.isprintable()) else f"\\x{ord(c):02x}" for c in text)


def print_json(value: Any) -> None:
    """One JSON value on one line."""
    print(json.dumps(to_data(value), ensure_ascii=False, default=str), flush=True)


def say(text: str = "") -> None:
    """A line on standard output."""
    print(text, flush=True)


def note(text: str) -> None:
    """A line on standard error: progress, hints."""
    print(text, file=sys.stderr, flush=True)


def effects_line(effects: Iterable[Effect]) -> str:
    """`read a.txt, write b.txt`, or `no effects`."""
    return ", ".join(safe(str(e)) for e in effects) or "no effects"


def print_changes(changes: Iterable[Change], *, most_lines: int = 200) -> None:
    """The diffs, coloured where a person looks."""
    for change in changes:
        lines = (change.diff or f"{change.kind} {change.path}").splitlines()
        for line in lines[:most_lines]:
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            shown = safe(line)
            say(paint(shown, colour) if colour else shown)
        if len(lines) > most_lines:
            say(f"… {len(lines) - most_lines} more lines of this diff")


def table(rows: list[tuple[str, ...]], *, head: tuple[str, ...] | None = None) -> None:
    """Columns, as wide as they need to be."""
    every = ([head] if head else []) + rows
    if not every:
        return
    widths = [max(len(r[i]) for r in every) for i in range(len(every[0]))]
    for index, row in enumerate(every):
        line = "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        say(paint(line, "bold") if head and index == 0 else line)
