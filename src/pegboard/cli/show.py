"""Showing things on a terminal: escaped, plain where nobody looks."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import Any, Final, TextIO

from pegboard.cli.status import LINE
from pegboard.config.environment import environment
from pegboard.core.codec import event_to_dict
from pegboard.core.effects import Change, Effect
from pegboard.core.events import Event
from pegboard.core.hosts import host_note
from pegboard.core.result import to_jsonable
from pegboard.core.secrets.clip import clip
from pegboard.core.text import escape_invisible
from pegboard.services.redaction import Redact

_COLOURS: Final = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}
_LONG_WORD: Final = re.compile(r"\S{1000,}")
_LONG_LINE: Final = 4_000
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Joiners are Cf, yet Persian, Hindi and family emoji cannot be written without them.
_SHOWN: Final = frozenset("\n\t\u200c\u200d")


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person looks at a stream (standard output) that takes colours (https://no-color.org)."""
    return (
        (stream or sys.stdout).isatty()
        and not environment().get("NO_COLOR")
        and environment().get("TERM", "") != "dumb"
    )


def paint(text: str, colour: str, *, stream: TextIO | None = None) -> str:
    """The text in a colour where a person looks, else as it is."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if is_terminal(stream) else text


def wrapped(line: str, *, indent: str, stream: TextIO | None = None) -> str:
    """A line, indented; where a person looks, broken between words at the terminal's width."""
    if not is_terminal(stream):
        return indent + line
    width = max(shutil.get_terminal_size().columns, 20)
    return textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def escape_controls(text: str) -> str:
    """Text from elsewhere with control, invisible and direction characters made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in _SHOWN or unicodedata.category(c) not in _HIDDEN else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    number = ord(character)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
    )


def print_json(value: Any) -> None:
    """One JSON value on one line; ASCII where the output takes no UTF-8."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(to_jsonable(value), ensure_ascii=plain, default=str)
    # A file name that is no UTF-8 holds half characters; JSON can say them only escaped.
    print_line(_SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text))


def print_event(event: Event, redact: Redact | None = None) -> None:
    """One event of a run as a line of JSON; `redact` takes secrets out of one that no record has passed."""
    row = event_to_dict(event)
    if redact is not None:
        from pegboard.store.encoding import without_secrets

        row = without_secrets(row, redact)
    print_json(row)


def print_line(text: str = "") -> None:
    """A line on standard output."""
    LINE.clear()
    print(text, flush=True)


def print_note(text: str) -> None:
    """A line on standard error: progress, hints."""
    LINE.clear()
    print(text, file=sys.stderr, flush=True)


def note_of(text: str) -> None:
    """A sentence on standard error that a person should know, whatever it is part of."""
    print_note(f"note: {shorten_error(text)}")


def shorten_error(text: str) -> str:
    """An error's text, escaped, with what is too long to be read shortened: what a person typed, or a file held,
    stands in it whole."""
    words = _LONG_WORD.sub(lambda m: _middle_out(m[0], 200, 60), escape_controls(text))
    return "\n".join(
        _middle_out(line, 3_000, 500) if len(line) > _LONG_LINE else line for line in words.split("\n")
    )


def _middle_out(text: str, head: int, tail: int) -> str:
    return f"{clip(text, 0, head)}… ({len(text)} characters) …{clip(text, -tail)}"


def print_error(message: str, hint: str = "") -> None:
    """An error on standard error: what happened, then what to do."""
    print_note(paint(f"error: {shorten_error(message)}", "red", stream=sys.stderr))
    if hint:
        print_note(f"  {shorten_error(hint)}")


def effects_line(effects: Iterable[Effect]) -> str:
    """`read a.txt, write b.txt`, or `no effects`."""
    return ", ".join(_visible(str(e)) + _host_note(e.target) for e in effects) or "no effects"


def shown_target(target: str) -> str:
    """The target of an effect, with what acts on a terminal or cannot be seen made visible."""
    return _visible(target) + _host_note(target)


def _visible(text: str) -> str:
    return escape_controls(escape_invisible(text))


def _host_note(target: str) -> str:
    note = host_note(target)
    return f" ({escape_controls(note)})" if note else ""


def decision_text(decision: str, approver: str) -> str:
    """`allow`, `deny`, or who answered: `approved by you`, `approved by --yes`, `denied by you`."""
    if approver in ("", "nobody") or decision == "allow":
        return decision
    person = "you" if approver == "terminal" else escape_controls(approver)
    return f"{'denied' if decision == 'deny' else 'approved'} by {person}"


def print_changes(
    changes: Iterable[Change], *, most_lines: int | None = 200, stream: TextIO | None = None
) -> bool:
    """Each change: how much, and its diff, coloured where a person looks; whether lines were left out (None = never)."""
    cut = False
    LINE.clear()
    for change in changes:
        print(paint(change.summary(), "bold", stream=stream), file=stream, flush=True)
        lines = change.diff.splitlines()
        for line in lines[:most_lines]:
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            shown = escape_controls(line)
            shown = paint(shown, colour, stream=stream) if colour else shown
            print(shown, file=stream, flush=True)
        if most_lines is not None and len(lines) > most_lines:
            cut = True
            print(f"… {len(lines) - most_lines} more lines of this diff", file=stream, flush=True)
    return cut


def pluralise(number: int, noun: str) -> str:
    """`1 file change`, `2 file changes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(rows: list[tuple[str, ...]], *, head: tuple[str, ...] | None = None) -> None:
    """Columns, as wide as they need to be."""
    every = ([head] if head else []) + rows
    if not every:
        return
    widths = [max(_width(r[i]) for r in every) for i in range(len(every[0]))]
    for index, row in enumerate(every):
        cells = [cell + " " * (w - _width(cell)) for cell, w in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        print_line(paint(line, "bold") if head and index == 0 else line)


def _width(text: str) -> int:
    """Terminal columns: Chinese characters take two (Unicode Standard Annex 11)."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
