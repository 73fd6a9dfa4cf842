"""Globs whose matching costs little whatever the pattern: a run of `*x*y*z` cannot be tried in every way.

An ignore file comes with a repository and a pattern from a model; both may be made to backtrack without end. What
stands between two stars is best matched at the first place where it fits: whatever follows may then begin sooner, and
never fits only later. So each such part becomes an atomic group, written as a look-ahead that is captured and repeated
(CPython 3.11.2 matches its own atomic groups wrongly).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

_COUNT: Final = itertools.count()

SPAN: Final = "(?:[\\s\\S]*/)?"
"""`**/` at the start of a pattern or behind a slash."""

INNER: Final = "(?:/|/[\\s\\S]*/)"
"""`/**/`, slashes included."""

_LAZY: Final = {SPAN: "(?:[\\s\\S]*?/)??", INNER: "(?:/|/[\\s\\S]*?/)"}


def bounded(pieces: Sequence[str], star: str) -> str:
    """The regular expression of a glob's pieces.

    Args:
        pieces: in order; each is `star`, SPAN, INNER, or the expression of a single character; one that
            begins with `(?:` otherwise is anything, and nothing is assumed of it.
        star: the expression of `*`.
    """
    return "".join(_spans(_merge_stars(pieces, star)))


def _merge_stars(pieces: Sequence[str], star: str) -> list[str]:
    """`*x` before another `*` of the same component, as one atomic piece."""
    within = star.startswith("[^/]")
    out: list[str] = []
    at = 0
    while at < len(pieces):
        end = at + 1
        while end < len(pieces) and not (_wide(pieces[end], star) or (within and _takes_slash(pieces[end]))):
            end += 1
        if pieces[at] == star and end > at + 1 and end < len(pieces) and pieces[end] == star:
            out.append(_atomic(f"{star}?{''.join(pieces[at + 1 : end])}"))
            at = end
        else:
            out.append(pieces[at])
            at += 1
    return out


def _spans(pieces: Sequence[str]) -> list[str]:
    """`**/x/` before another `**/`, as one atomic piece."""
    out: list[str] = []
    at = 0
    while at < len(pieces):
        end = at + 1
        # A class may take a slash too (`[!a]`), and then a part has no fixed number of folders.
        while end < len(pieces) and not (
            pieces[end].startswith("(?:") or (pieces[end].startswith("[") and _takes_slash(pieces[end]))
        ):
            end += 1
        if pieces[at] in _LAZY and end < len(pieces) and pieces[end] in _LAZY:
            whole = "(?=/)" if pieces[end] == INNER else ""
            out.append(_atomic(f"{_LAZY[pieces[at]]}{''.join(pieces[at + 1 : end])}{whole}"))
            at = end
        else:
            out.append(pieces[at])
            at += 1
    return out


def _wide(piece: str, star: str) -> bool:
    return piece == star or piece.startswith("(?:")


def _takes_slash(piece: str) -> bool:
    return re.fullmatch(piece, "/") is not None


def _atomic(source: str) -> str:
    # Names, not numbers: expressions are joined with others. Unique in the process, so that they may be.
    name = f"glob{next(_COUNT)}"
    return f"(?=(?P<{name}>{source}))(?P={name})"
