"""Where an old text stands in a file: exact first, then ever looser, each only when unique."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from typing import Final, Literal, TypeAlias

from pegboard.core.errors import NotFound, ToolError
from pegboard.textedit import style
from pegboard.textedit.closest import Ranking, closest, rank
from pegboard.textedit.redaction_marks import find_around, marks_in
from pegboard.textedit.style import Keys, merge_lines

Strategy: TypeAlias = Literal["exact", "shown", "hidden", "numbered", "trimmed", "normalized", "fuzzy"]

EXPLAINED: Final[dict[Strategy, str]] = {
    "exact": "",
    "shown": "matched ignoring control and invisible characters and line endings, which were kept",
    "hidden": "matched around hidden text, which was kept",
    "numbered": "matched after removing the line numbers pasted into old_string",
    "trimmed": "matched ignoring indentation and trailing spaces; the new text was re-indented",
    "normalized": "matched ignoring quote style, kinds of spaces, dashes and ellipses, and indentation",
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
class MatchSpan:
    """One place in the text, in characters; `hidden` is what marks stand for there, None without marks."""

    start: int
    end: int
    hidden: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Every place that one strategy found, ascending, not overlapping."""

    strategy: Strategy
    spans: tuple[MatchSpan, ...]
    old: str
    whole_lines: bool = False
    listing: LineNumbering | None = None


class EditText:
    """A file's text with what the strategies need of it, each computed once.

    Attributes:
        text: the whole file, line endings as they stand.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def quiet(self) -> bool:
        """Whether the text is what it looks like (see `style.quiet`)."""
        return style.quiet(self.text)

    @cached_property
    def trimmed(self) -> str:
        """The trimmed keys of all lines, each between newlines."""
        return "\n" + "\n".join(style.trimmed_keys(self.text)) + "\n"

    @cached_property
    def loose(self) -> str:
        """The loose keys of all lines, each between newlines."""
        return "\n" + "\n".join(style.loose_keys(self.text)) + "\n"


def search(source: EditText, old: str) -> Spans | None:
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


def _folded(text: str, old: str, fold: Callable[[str], style.FoldedText]) -> tuple[MatchSpan, ...]:
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


def _shown(source: EditText, old: str) -> Spans | None:
    if source.quiet and style.quiet(old):
        return None
    spans = _folded(source.text, old, style.shown)
    if not spans and "\x1b" in source.text:
        spans = _folded(source.text, old, style.shown_plain)
    return Spans(strategy="shown", spans=spans, old=old)


def _hidden(source: EditText, old: str) -> Spans | None:
    """Marks in `old` stand for hidden text; line endings must be `\n` for this one."""
    if not marks_in(old):
        return None
    spans = tuple(MatchSpan(at.start, at.end, at.hidden) for at in find_around(source.text, old))
    return Spans(strategy="hidden", spans=spans, old=old)


@dataclass(frozen=True, slots=True)
class LineNumbering:
    """How the lines of a listing begin.

    Attributes:
        prefix: the number and what divides it from the line.
        loose: lines of a file may well begin so, too: `12: text`, `12| text`. Such a listing shows whole lines.
    """

    prefix: re.Pattern[str]
    loose: bool

    def without(self, text: str) -> tuple[str, int] | None:
        """The text without the prefixes, and the first number; None where a line has none or a number is missing."""
        lines = text.removesuffix("\n").split("\n")
        prefixes = [self.prefix.match(line) for line in lines]
        numbers = [int(p.group(1)) for p in prefixes if p is not None]
        if len(numbers) != len(lines) or numbers != list(range(numbers[0], numbers[0] + len(lines))):
            return None
        plain = "\n".join(line[p.end() :] for line, p in zip(lines, prefixes, strict=True) if p is not None)
        return plain + ("\n" if text.endswith("\n") else ""), numbers[0]

    def find(self, text: str, plain: str, first: int) -> list[MatchSpan]:
        """Where the text without prefixes stands; at its own number, where it does so there."""
        body = r"\r?\n".join(map(re.escape, plain.split("\n")))
        found = _whole_lines(text, plain, body) if self.loose else list(re.finditer(body, text))
        spans = [MatchSpan(*m.span()) for m in found]
        # The number says which of several it is; a number that fits none leaves the choice open.
        named = [s for s in spans if text.count("\n", 0, s.start) + 1 == first]
        # One line in a loose form may be text that only looks like it: its number must be right.
        alone = self.loose and "\n" not in plain.removesuffix("\n")
        return named if alone else named or spans

    def new(self, text: str, old: str) -> str | None:
        """A new text without the prefixes that came with the old one; None where that cannot be told.

        Those with an arrow go wherever they stand. A number and a tab may be the file's own, and go only where every
        line has them; in a loose form no line or every line must have one.
        """
        lines = text.split("\n")
        found = [self.prefix.match(line) for line in lines]
        full = [number for number, line in zip(found, lines, strict=True) if line.strip()]
        every = all(full)
        if self.loose and not every:
            sent = {m[1] for line in old.split("\n") if (m := self.prefix.match(line))}
            return None if any(one is not None and one[1] in sent for one in full) else text
        return "\n".join(
            line[one.end() :] if one and (every or "→" in one[0]) else line
            for line, one in zip(lines, found, strict=True)
        )


def _whole_lines(text: str, plain: str, body: str) -> list[re.Match[str]]:
    """Where lines begin that fit; the search is for the text alone, which is fast, and then looks around it."""
    pattern = re.compile(body if plain.endswith("\n") else rf"{body}(?=\r?\n|\r?\Z)")
    found: list[re.Match[str]] = []
    one = pattern.search(text)
    while one is not None:
        whole = one.start() == 0 or text[one.start() - 1] == "\n"
        found += [one] if whole else []
        one = pattern.search(text, one.end() if whole else one.start() + 1)
    return found


_LISTINGS: Final = (
    LineNumbering(NUMBERED, loose=False),
    # With the space that divides them, then without: `12: text` of a listing, `12:text` of a search.
    *(
        LineNumbering(re.compile(rf" *(\d+){sign}{gap}"), loose=True)
        for sign in (":", r" ?\|")
        for gap in ("(?: |$)", "")
    ),
    LineNumbering(re.compile(r" *(\d+)→ "), loose=True),
)  # fmt: skip


def without_numbers(text: str) -> tuple[str, int] | None:
    """The text without the line-number prefixes of a reading, and the first number; None where a line has none."""
    return _LISTINGS[0].without(text)


def looks_numbered(text: str) -> bool:
    """Whether every line begins with a number as in some listing."""
    return any(listing.without(text) for listing in _LISTINGS)


def _numbered(source: EditText, old: str) -> Spans | None:
    for listing in _LISTINGS:
        stripped = listing.without(old)
        if stripped is None or not stripped[0].strip():
            continue
        if spans := listing.find(source.text, *stripped):
            return Spans(strategy="numbered", spans=tuple(spans), old=stripped[0], listing=listing)
    return None


def _trimmed(source: EditText, old: str) -> Spans:
    spans = _by_lines(source.text, source.trimmed, old, style.trimmed_keys)
    return Spans(strategy="trimmed", spans=spans, old=old, whole_lines=True)


def _normalized(source: EditText, old: str) -> Spans:
    # Where both are plain the loose fold shows what the exact search has seen already.
    spans = () if source.quiet and style.quiet(old) else _folded(source.text, old, style.loose)
    if spans:
        return Spans(strategy="normalized", spans=spans, old=old)
    spans = _by_lines(source.text, source.loose, old, style.loose_keys)
    return Spans(strategy="normalized", spans=spans, old=old, whole_lines=True)


def _by_lines(text: str, hay: str, old: str, keys: Keys) -> tuple[MatchSpan, ...]:
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
) -> tuple[MatchSpan, ...]:
    """The character spans of `count` lines from each 0-based line of `starts` (ascending).

    `offsets`: where each line of the text begins, if that is known.
    """
    spans: list[MatchSpan] = []
    offset = line = 0
    for start in starts:
        if offsets is None:
            offset = _skip(text, offset, start - line)
        else:
            offset = offsets[start] if start < len(offsets) else len(text)
        end = _skip(text, offset, count)
        if not with_ending and text.endswith("\n", offset, end):
            end -= 2 if text.endswith("\r\n", offset, end) else 1
        spans.append(MatchSpan(offset, end))
        line = start
    return tuple(spans)


def newline_in(text: str, span: MatchSpan) -> str:
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


def _spans(pairs: Iterator[tuple[int, int]] | Sequence[tuple[int, int]]) -> tuple[MatchSpan, ...]:
    return tuple(MatchSpan(start, end) for start, end in pairs)


_FUZZY_SIMILARITY: Final = 0.9
_FUZZY_LINES: Final = 3
_FUZZY_CHARS: Final = 8_000
_FUZZY_MARGIN: Final = 0.05
_ESCAPE: Final = re.compile(r"\\([ntr\"'\\])")
_MEANT: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}


class AlreadyApplied(ToolError):
    """The old text is not there and the new text is: the edit seems to have been made already."""

    default_code = "already_applied"


def place_or_error(source: EditText, edit: Edit, path: str) -> Spans:
    """An approximate place that is safe to merge into, else the error that says why there is none."""
    text = source.text
    present = _line_of_new(source, edit)
    if present is not None:
        raise AlreadyApplied(
            f"old_string is not in {path}, but new text already present at line {present}: nothing was changed",
            hint="The edit may already be done; read the file before trying again.",
            details={"line": present},
        )
    ranking = rank(text, edit.old.strip("\n"))
    near = _near(text, edit, ranking)
    if near is not None:
        return near
    hint = closest(text, edit.old, path, ranking)
    start = edit.old[:50].replace("\n", "\\n") + ("..." if len(edit.old) > 50 else "")
    escaped = _escaped(text, edit.old)
    if hint is None or escaped:
        advice = escaped or "Read the file and copy the text exactly."
        raise NotFound(f"Text not found in {path}: {start}", hint=advice)
    note = f"\n{hint.note}" if hint.note else ""
    numbered = NUMBERED.match(edit.old) or looks_numbered(edit.old)
    number = " Remove the line-number prefix." if numbered else ""
    raise NotFound(
        f"Text not found in {path}: {start}\n"
        f"The closest text begins at line {hint.line} ({hint.similarity:.0%} similar):\n{hint.diff}{note}\n",
        hint=f"Copy the lines exactly as they are in the file.{number}",
        details={"line": hint.line, "similarity": round(hint.similarity, 3), "diff": hint.diff},
    )


def _escaped(text: str, old: str) -> str:
    """What to say of a text that is in the file, but was sent escaped once too often; empty for none."""
    plain = _ESCAPE.sub(lambda found: _MEANT[found[1]], old)
    if plain != old and plain in text.replace("\r\n", "\n"):
        return 'The file has it with line breaks, tabs or quotes in place of \\n, \\t and \\": send it escaped once less.'
    plain = unescape(old)
    if plain != old and plain in text.replace("\r\n", "\n"):
        return (
            "The file has the characters themselves in place of entities such as &lt; and &amp;: send those."
        )
    return ""


def _line_of_new(source: EditText, edit: Edit) -> int | None:
    """The line at which the new text stands as whole lines already, None where it does not or proves nothing."""
    new = edit.new.strip("\n")
    if not any(c.isalnum() for c in new) or new.strip() in edit.old:
        return None
    at = source.trimmed.find("\n" + "\n".join(style.trimmed_keys(new)) + "\n")
    return None if at < 0 else source.trimmed.count("\n", 0, at + 1)


def _near(text: str, edit: Edit, ranking: Ranking) -> Spans | None:
    """The one place of whole lines that is nearly the old text and can take the change safely."""
    old = edit.old.removesuffix("\n")
    wanted = style.loose_keys(old)
    if sum(map(bool, wanted)) < _FUZZY_LINES or len(old) > _FUZZY_CHARS or marks_in(old):
        return None
    lead = len(edit.old) - len(edit.old.lstrip("\n"))
    lines = [max(0, line - lead) for line in ranking.lines]
    at = _Lines(text, ranking.starts)
    count = len(wanted)
    scored = sorted(((_alike(at, line, count, wanted), line) for line in lines), reverse=True)
    if not scored:
        return None
    score, line = scored[0]
    # A line more or less in the file moves only the end: try that for the best place alone.
    around = [(_alike(at, line, n, wanted), n) for n in (count - 1, count + 1)]
    score, count = max((score, count), *around, key=lambda found: (found[0], -abs(found[1] - len(wanted))))
    apart = [s for s, other in scored if abs(other - line) >= len(wanted)]
    if score < _FUZZY_SIMILARITY or (apart and max(apart) > score - _FUZZY_MARGIN):
        return None
    span = at.span(line, count, with_ending=edit.old.endswith("\n"))
    found = Spans(strategy="fuzzy", spans=(span,), old=edit.old, whole_lines=True)
    body = text[span.start : span.end].removesuffix("\n").removesuffix("\r")
    new = edit.new.removesuffix("\n")
    merged = merge_lines(
        body, old, new, style.loose_keys, style.loose, text=text, newline=newline_in(text, span)
    )
    return None if merged is None or merged == body else found


@dataclass(frozen=True, slots=True)
class _Lines:
    """A text and where its lines begin."""

    text: str
    starts: Sequence[int]

    def span(self, line: int, count: int, *, with_ending: bool = False) -> MatchSpan:
        return lines_to_spans(self.text, [line], count, with_ending=with_ending, offsets=self.starts)[0]

    def keys(self, line: int, count: int) -> list[str]:
        span = self.span(line, count)
        return style.loose_keys(self.text[span.start : span.end])


def _alike(at: _Lines, line: int, count: int, wanted: list[str]) -> float:
    """How alike some lines of the text are to the wanted ones; 0 for what is neither near nor a rival of what is."""
    from rapidfuzz.distance import Levenshtein

    one, two = "\n".join(wanted), "\n".join(at.keys(line, count))
    return Levenshtein.normalized_similarity(one, two, score_cutoff=_FUZZY_SIMILARITY - _FUZZY_MARGIN)
