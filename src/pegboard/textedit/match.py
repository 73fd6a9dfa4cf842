"""Where an old text stands in a file: exact first, then ever looser, each only when unique."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

from pegboard.textedit import view
from pegboard.textedit.marks import find_around, marks_in
from pegboard.textedit.merge import Keys

Strategy: TypeAlias = Literal["exact", "shown", "hidden", "numbered", "trimmed", "normalized", "fuzzy"]

EXPLAINED: Final[dict[Strategy, str]] = {
    "exact": "",
    "shown": "matched ignoring control and invisible characters and line endings, which were kept",
    "hidden": "matched around hidden text, which was kept",
    "numbered": "matched after removing the line numbers pasted into old_string",
    "trimmed": "matched ignoring indentation and trailing spaces; the new text was re-indented",
    "normalized": "matched ignoring quote style, kinds of spaces and dashes, and indentation",
    "fuzzy": "matched approximately; lines that you did not change were kept as the file has them",
}

NUMBERED: Final = re.compile(r" *(\d+)(?:→|\t)")
"""The line-number prefix of a numbered reading."""

MAX_SPANS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement.

    Attributes:
        old: the text as the model saw it; may not be empty.
        new: what stands in its place.
        replace_all: replace every place.
        occurrence: which place, 1-based, where there are several.
        line_hint: 1-based line; the nearest place is meant.
        expected: how many places there must be; alone it means all of them.
    """

    old: str
    new: str
    replace_all: bool = False
    occurrence: int | None = None
    line_hint: int | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """One place in the text, in characters; `hidden` is what marks stand for there, None without marks."""

    start: int
    end: int
    hidden: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Every place that one strategy found, ascending, not overlapping."""

    strategy: Strategy
    spans: tuple[Span, ...]
    old: str
    whole_lines: bool = False


class Source:
    """A file's text with what the strategies need of it, each computed once.

    Attributes:
        text: the whole file, line endings as they stand.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def quiet(self) -> bool:
        """Whether the text is what it looks like (see `view.quiet`)."""
        return view.quiet(self.text)

    @cached_property
    def trimmed(self) -> str:
        """The trimmed keys of all lines, each between newlines."""
        return "\n" + "\n".join(view.trimmed_keys(self.text)) + "\n"

    @cached_property
    def loose(self) -> str:
        """The loose keys of all lines, each between newlines."""
        return "\n" + "\n".join(view.loose_keys(self.text)) + "\n"


def search(source: Source, old: str) -> Spans | None:
    """The places of the first strategy that finds any, behind exact and before fuzzy.

    Args:
        source: the file; `old` does not stand in it exactly.
        old: what to look for, line endings `\n`.

    Returns:
        None where no strategy finds anything.
    """
    for look in (_shown, _hidden, _numbered, _trimmed, _normalized):
        found = look(source, old)
        if found is not None and found.spans:
            return found
    return None


def exact_pattern(old: bytes) -> re.Pattern[bytes]:
    """Finds `old` where every `\\n` may stand as CRLF too."""
    return re.compile(rb"\r?\n".join(map(re.escape, old.split(b"\n"))))


def _folded(text: str, old: str, fold: Callable[[str], view.Folded]) -> tuple[Span, ...]:
    needle = fold(old).text
    if not needle.strip():
        return ()
    source = fold(text)
    out: list[tuple[int, int]] = []
    for at in _all(source.text, needle):
        start, end = source.start(at), source.end(at + len(needle))
        if start is not None and end is not None:
            out.append((start, end))
    return _spans(out)


def _shown(source: Source, old: str) -> Spans | None:
    if source.quiet and view.quiet(old):
        return None
    spans = _folded(source.text, old, view.shown)
    if not spans and "\x1b" in source.text:
        spans = _folded(source.text, old, view.shown_plain)
    return Spans(strategy="shown", spans=spans, old=old)


def _hidden(source: Source, old: str) -> Spans | None:
    """Marks in `old` stand for hidden text; line endings must be `\n` for this one."""
    if not marks_in(old):
        return None
    spans = tuple(Span(at.start, at.end, at.hidden) for at in find_around(source.text, old))
    return Spans(strategy="hidden", spans=spans, old=old)


def without_numbers(text: str) -> tuple[str, int] | None:
    """The text without line-number prefixes, and the first number; None where a line has none."""
    lines = text.removesuffix("\n").split("\n")
    prefixes = [NUMBERED.match(line) for line in lines]
    numbers = [int(p.group(1)) for p in prefixes if p is not None]
    if len(numbers) != len(lines) or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return None
    plain = "\n".join(line[p.end() :] for line, p in zip(lines, prefixes, strict=True) if p is not None)
    return plain + ("\n" if text.endswith("\n") else ""), numbers[0]


def without_prefixes(text: str) -> str:
    """A new text without the line numbers that came with the old one: those with the arrow, or where
    every line has one (a number and a tab may be the file's own)."""
    lines = text.split("\n")
    all_of_them = all(NUMBERED.match(line) for line in lines if line.strip())
    return "\n".join(
        line[found.end() :] if (found := NUMBERED.match(line)) and (all_of_them or "→" in found[0]) else line
        for line in lines
    )


def _numbered(source: Source, old: str) -> Spans | None:
    stripped = without_numbers(old)
    if stripped is None or not stripped[0].strip():
        return None
    plain, first = stripped
    pattern = re.compile(r"\r?\n".join(map(re.escape, plain.split("\n"))))
    found = [Span(*m.span()) for m in pattern.finditer(source.text)]
    # The number says which of several it is; a number that fits none leaves the choice open.
    named = [s for s in found if source.text.count("\n", 0, s.start) + 1 == first]
    return Spans(strategy="numbered", spans=tuple(named or found), old=plain)


def _trimmed(source: Source, old: str) -> Spans:
    spans = _by_lines(source.text, source.trimmed, old, view.trimmed_keys)
    return Spans(strategy="trimmed", spans=spans, old=old, whole_lines=True)


def _normalized(source: Source, old: str) -> Spans:
    # Where both are plain the loose fold shows what the exact search has seen already.
    spans = () if source.quiet and view.quiet(old) else _folded(source.text, old, view.loose)
    if spans:
        return Spans(strategy="normalized", spans=spans, old=old)
    spans = _by_lines(source.text, source.loose, old, view.loose_keys)
    return Spans(strategy="normalized", spans=spans, old=old, whole_lines=True)


def _by_lines(text: str, hay: str, old: str, keys: Keys) -> tuple[Span, ...]:
    """Whole lines whose keys equal those of `old`; `hay` holds the keys of the text."""
    wanted = keys(old.removesuffix("\n"))
    if not any(wanted):
        return ()
    needle = "\n" + "\n".join(wanted) + "\n"
    starts: list[int] = []
    at, line, done = hay.find(needle), 0, 0
    while at >= 0 and len(starts) < MAX_SPANS:
        line += hay.count("\n", done, at)
        done = at
        starts.append(line)
        at = hay.find(needle, at + len(needle) - 1)
    return lines_to_spans(text, starts, len(wanted), with_ending=old.endswith("\n"))


def lines_to_spans(
    text: str,
    starts: Sequence[int],
    count: int,
    *,
    with_ending: bool = False,
    offsets: Sequence[int] | None = None,
) -> tuple[Span, ...]:
    """The character spans of `count` lines from each 0-based line of `starts` (ascending).

    `offsets`: where each line of the text begins, if that is known.
    """
    spans: list[Span] = []
    offset = line = 0
    for start in starts:
        if offsets is None:
            offset = _skip(text, offset, start - line)
        else:
            offset = offsets[start] if start < len(offsets) else len(text)
        end = _skip(text, offset, count)
        if not with_ending and text.endswith("\n", offset, end):
            end -= 2 if text.endswith("\r\n", offset, end) else 1
        spans.append(Span(offset, end))
        line = start
    return tuple(spans)


def newline_in(text: str, span: Span) -> str:
    """The line ending that new lines in place of a span take (see `lines.newline_near`)."""
    at = text.find("\n", span.start, span.end)
    if at < 0:
        at = text.find("\n", span.end)
    if at < 0:
        at = text.rfind("\n", 0, span.start)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _skip(text: str, offset: int, lines: int) -> int:
    for _ in range(lines):
        found = text.find("\n", offset)
        if found < 0:
            return len(text)
        offset = found + 1
    return offset


def _all(text: str, needle: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + len(needle))


def _spans(pairs: Iterator[tuple[int, int]] | Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    return tuple(Span(start, end) for start, end in pairs)
