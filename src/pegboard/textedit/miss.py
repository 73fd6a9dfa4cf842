"""When the old text is not in the file: what to do, or what to say."""

from __future__ import annotations

from typing import Final

from pegboard.core.errors import NotFound, ToolError
from pegboard.textedit import view
from pegboard.textedit.closest import closest, rank
from pegboard.textedit.distance import similarity
from pegboard.textedit.marks import marks_in
from pegboard.textedit.match import NUMBERED, Edit, Spans, lines_to_spans, newline_in
from pegboard.textedit.merge import merge_lines

_FUZZY_SIMILARITY: Final = 0.9
_FUZZY_LINES: Final = 3
_FUZZY_CHARS: Final = 16_000
_FUZZY_MARGIN: Final = 0.05


class AlreadyApplied(ToolError):
    """The old text is not there and the new text is: the edit seems to have been made already."""

    default_code = "already_applied"


def place_or_error(text: str, edit: Edit, path: str) -> Spans:
    """An approximate place that is safe to merge into, else the error that says why there is none."""
    present = _line_of_new(text, edit)
    if present is not None:
        raise AlreadyApplied(
            f"old_string is not in {path}, but new text already present at line {present}: nothing was changed",
            hint="The edit seems to be made already; read the file before you try again.",
            details={"line": present},
        )
    near = _near(text, edit)
    if near is not None:
        return near
    plain = text.replace("\r\n", "\n")
    hint = closest(plain, edit.old, path)
    start = edit.old[:50].replace("\n", "\\n") + ("..." if len(edit.old) > 50 else "")
    if hint is None:
        raise NotFound(f"Text not found in {path}: {start}", hint="Read the file and copy the text exactly.")
    note = f"\n{hint.note}" if hint.note else ""
    number = " Remove the line-number prefix." if NUMBERED.match(edit.old) else ""
    raise NotFound(
        f"Text not found in {path}: {start}\n"
        f"The closest text begins at line {hint.line} ({hint.similarity:.0%} similar):\n{hint.diff}{note}\n",
        hint=f"Copy the lines as the file has them.{number}",
        details={"line": hint.line, "similarity": round(hint.similarity, 3), "diff": hint.diff},
    )


def _line_of_new(text: str, edit: Edit) -> int | None:
    """The line at which the new text stands as whole lines already, None where it does not or proves nothing."""
    new = edit.new.strip("\n")
    if not any(c.isalnum() for c in new) or new.strip() in edit.old:
        return None
    wanted = view.trimmed_keys(new)
    hay = "\n" + "\n".join(view.trimmed_keys(text)) + "\n"
    at = hay.find("\n" + "\n".join(wanted) + "\n")
    return None if at < 0 else hay.count("\n", 0, at + 1)


def _near(text: str, edit: Edit) -> Spans | None:
    """The one place of whole lines that is nearly the old text and can take the change safely."""
    old = edit.old.removesuffix("\n")
    wanted = view.loose_keys(old)
    if sum(map(bool, wanted)) < _FUZZY_LINES or len(old) > _FUZZY_CHARS or marks_in(old):
        return None
    scored: list[tuple[float, int, int]] = []
    for line in rank(text, old).lines:
        for count in (len(wanted), len(wanted) - 1, len(wanted) + 1):
            span = lines_to_spans(text, [line], count)[0]
            keys = view.loose_keys(text[span.start : span.end])
            scored.append((similarity("\n".join(wanted), "\n".join(keys)), line, count))
    if not scored:
        return None
    score, line, count = max(scored, key=lambda entry: (entry[0], -abs(entry[2] - len(wanted))))
    apart = [s for s, other, _ in scored if abs(other - line) >= len(wanted)]
    if score < _FUZZY_SIMILARITY or (apart and max(apart) > score - _FUZZY_MARGIN):
        return None
    span = lines_to_spans(text, [line], count, with_ending=edit.old.endswith("\n"))[0]
    newline = newline_in(text, span)
    found = Spans(strategy="fuzzy", spans=(span,), old=edit.old, whole_lines=True)
    source = text[span.start : span.end].removesuffix("\n").removesuffix("\r")
    merged = merge_lines(
        source, old, edit.new.removesuffix("\n"), view.loose_keys, view.loose, newline=newline
    )
    return None if merged is None or merged == source else found
