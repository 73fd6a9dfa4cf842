"""When the old text is not in the file: what to do, or what to say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Final

from pegboard.core.errors import NotFound, ToolError
from pegboard.textedit import view
from pegboard.textedit.closest import Ranking, closest, overlap, rank
from pegboard.textedit.distance import edits, least_edits, similarity
from pegboard.textedit.match import (
    NUMBERED,
    Edit,
    EditText,
    MatchSpan,
    Spans,
    lines_to_spans,
    looks_numbered,
    newline_in,
)
from pegboard.textedit.merge import merge_lines
from pegboard.textedit.redaction_marks import marks_in

_FUZZY_SIMILARITY: Final = 0.9
_FUZZY_LINES: Final = 3
_FUZZY_CHARS: Final = 8_000
_FUZZY_MARGIN: Final = 0.05
_FUZZY_OVERLAP: Final = 0.4
_LONG_CHARS: Final = 2_000
_LAST_SIMILARITY: Final = 0.7
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
    at = source.trimmed.find("\n" + "\n".join(view.trimmed_keys(new)) + "\n")
    return None if at < 0 else source.trimmed.count("\n", 0, at + 1)


def _near(text: str, edit: Edit, ranking: Ranking) -> Spans | None:
    """The one place of whole lines that is nearly the old text and can take the change safely."""
    old = edit.old.removesuffix("\n")
    wanted = view.loose_keys(old)
    if sum(map(bool, wanted)) < _FUZZY_LINES or len(old) > _FUZZY_CHARS or marks_in(old):
        return None
    lead = len(edit.old) - len(edit.old.lstrip("\n"))
    lines = [max(0, line - lead) for line in ranking.lines]
    at = _Lines(text, ranking.starts)
    scored = sorted(_scores(at, lines, wanted), reverse=True)
    if not scored:
        return None
    score, line = scored[0]
    count = len(wanted)
    if not _last_is_alike(at, line, wanted):
        # A line more or less in the file moves only the end: try that for the best place alone.
        around = [(_alike(at, line, n, wanted), n) for n in (count - 1, count + 1)]
        score, count = max(
            (score, count), *around, key=lambda found: (found[0], -abs(found[1] - len(wanted)))
        )
    apart = [s for s, other in scored if abs(other - line) >= len(wanted)]
    if score < _FUZZY_SIMILARITY or (apart and max(apart) > score - _FUZZY_MARGIN):
        return None
    span = at.span(line, count, with_ending=edit.old.endswith("\n"))
    found = Spans(strategy="fuzzy", spans=(span,), old=edit.old, whole_lines=True)
    body = text[span.start : span.end].removesuffix("\n").removesuffix("\r")
    new = edit.new.removesuffix("\n")
    merged = merge_lines(body, old, new, view.loose_keys, view.loose, newline=newline_in(text, span))
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
        return view.loose_keys(self.text[span.start : span.end])


def _scores(at: _Lines, lines: Sequence[int], wanted: list[str]) -> list[tuple[float, int]]:
    """How alike each place is. Of a long text the two places with most words in common are compared.

    A third that is as near would have as many, so a rival shows among the two.
    """
    if sum(map(len, wanted)) > _LONG_CHARS:
        shared = [(overlap(wanted, at.keys(line, len(wanted))), line) for line in lines]
        lines = [line for _, line in sorted(shared, reverse=True)[:2]]
    return [(_alike(at, line, len(wanted), wanted), line) for line in lines]


def _last_is_alike(at: _Lines, line: int, wanted: list[str]) -> bool:
    keys = at.keys(line, len(wanted))
    return len(keys) == len(wanted) and similarity(wanted[-1], keys[-1]) > _LAST_SIMILARITY


def _alike(at: _Lines, line: int, count: int, wanted: list[str]) -> float:
    """How alike some lines of the text are to the wanted ones; 0 where a cheap look says: not at all."""
    keys = at.keys(line, count)
    sizes = sorted((sum(map(len, wanted)) + 1, sum(map(len, keys)) + 1))
    if sizes[0] < _FUZZY_SIMILARITY * sizes[1] or overlap(wanted, keys) < _FUZZY_OVERLAP:
        return 0.0
    one, two = "\n".join(wanted), "\n".join(keys)
    # What stays that far below is neither near enough nor a rival of what is.
    longer = max(len(one), len(two), 1)
    most = int(longer * (1 - _FUZZY_SIMILARITY + _FUZZY_MARGIN)) + 1
    if least_edits(one, two) > most:
        return 0.0
    apart = edits(one, two, most)
    return 1 - apart / longer if apart <= most else 0.0
