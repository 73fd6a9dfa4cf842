"""Markdown that every reader writes alike: tables and cells."""

from __future__ import annotations

from collections.abc import Sequence


def cell(text: str) -> str:
    """One table cell: `|` escaped, line ends as `<br>`, empty stays empty."""
    return text.strip().replace("\\", "\\\\").replace("|", "\\|").replace("\r\n", "\n").replace("\n", "<br>")


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is the head; short rows are filled with empty cells."""
    if not rows:
        return ""
    width = max(len(row) for row in rows)
    lines = [_row(rows[0], width), "|" + " --- |" * width]
    lines += [_row(row, width) for row in rows[1:]]
    return "\n".join(lines)


def _row(row: Sequence[str], width: int) -> str:
    cells = [cell(text) for text in row] + [""] * (width - len(row))
    return "| " + " | ".join(cells) + " |"


def fence(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    longest, run = 2, 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{text.rstrip(chr(10))}\n{mark}"
