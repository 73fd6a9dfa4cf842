"""The globs of the search tools as regular expressions: braces, `**` and classes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pegboard.core.errors import InvalidArguments
from pegboard.core.policy.patterns import INNER, SPAN, bounded, bracket
from pegboard.core.secrets.clip import clip

MAX_WAYS: Final = 10_000
"""Globs without braces that one with braces may stand for: a name that fits none is tried against each."""


class _GlobParser:
    """One pass over a glob; braces recurse."""

    def __init__(self, pattern: str, *, separator: bool, escape: bool, empty: bool) -> None:
        self.pattern = pattern
        self.separator = separator
        self.escape = escape
        self.empty = empty
        self.star = "[^/]*" if separator else "[\\s\\S]*"
        self.depth = 0
        self.ways = 1
        """How many globs without braces the part that was parsed last stands for."""

    def parse(self, i: int) -> tuple[str, int]:
        """The pieces from `i` up to the end, or to the `,` or `}` that closes an alternative."""
        pattern, n = self.pattern, len(self.pattern)
        out: list[str] = []
        start, ways = i, 1
        while i < n:
            char = pattern[i]
            if self.depth and char in ",}":
                break
            if char == "\\" and self.escape:
                if i + 1 == n:
                    raise _malformed(pattern, "ends in a backslash")
                out.append(re.escape(pattern[i + 1]))
                i += 2
            elif char == "?":
                out.append("[^/]" if self.separator else "[\\s\\S]")
                i += 1
            elif char == "*":
                piece, i = self.stars(i, start)
                if piece.startswith("(?:/") and out:
                    out.pop()
                out.append(piece)
            elif char == "[":
                found = bracket(pattern, i, escape=False, slash=True)
                if found is None:
                    raise _malformed(pattern, f"has a `[` at position {i + 1} that is never closed")
                out.append(found[0])
                i = found[1]
            elif char == "{":
                piece, i = self.braces(i)
                out.append(piece)
                ways *= self.ways
                if ways > MAX_WAYS:
                    raise _too_many(pattern)
            elif char == "}":
                raise _malformed(pattern, f"has a `}}` at position {i + 1} that nothing opened")
            else:
                out.append(re.escape(char))
                i += 1
        self.ways = ways
        return bounded(out, self.star), i

    def stars(self, i: int, start: int) -> tuple[str, int]:
        """`**` as a whole component spans folders; any other run of stars is one star."""
        pattern, n = self.pattern, len(self.pattern)
        end = i
        while end < n and pattern[end] == "*":
            end += 1
        star = self.star
        if end - i != 2:
            return star, end
        at_start = i == start
        after_slash = i > start and pattern[i - 1] == "/"
        at_end = end == n or (self.depth > 0 and pattern[end] in ",}")
        slash = end < n and pattern[end] == "/"
        if at_start and at_end:
            return "[\\s\\S]*", end
        if at_start and slash:
            return SPAN, end + 1
        if after_slash and slash:
            # The slash before `**` is taken back by the caller: `a/**/b` matches `a/b`.
            return INNER, end + 1
        if after_slash and at_end:
            return "(?:/[\\s\\S]*)", end
        return star, end

    def braces(self, i: int) -> tuple[str, int]:
        """The alternatives of the brace that opens at `i`."""
        opened = i
        self.depth += 1
        choices: list[str] = []
        ways = 0
        while True:
            piece, i = self.parse(i + 1)
            ways += self.ways
            if piece or self.empty:
                choices.append(piece)
            if i >= len(self.pattern):
                raise _malformed(self.pattern, f"has a `{{` at position {opened + 1} that is never closed")
            if self.pattern[i] == "}":
                break
        self.depth -= 1
        self.ways = ways
        return f"(?:{'|'.join(choices)})", i + 1


def _too_many(pattern: str) -> InvalidArguments:
    shown = pattern if len(pattern) <= 80 else f"{clip(pattern, 0, 80)}…"
    return InvalidArguments(
        f"the braces of the glob {shown!r} stand for more than {MAX_WAYS:,} patterns",
        hint="Use fewer alternatives, or a wildcard in place of some.",
    )


def _malformed(pattern: str, what: str) -> InvalidArguments:
    return InvalidArguments(
        f"the glob {pattern!r} {what}", hint="Close it, or put a backslash before a literal [ { } or \\."
    )


@lru_cache(maxsize=512)
def glob_regex(
    pattern: str,
    *,
    separator: bool = True,
    ignore_case: bool = False,
    escape: bool = True,
    empty_alternates: bool = True,
) -> re.Pattern[str]:
    """Compile a glob over a whole relative path; use with `fullmatch`.

    `*` and `?` stop at `/` (unless `separator` is False), `**` as a whole component spans
    folders and may be empty in front (`**/x` matches `x`), `[a-z]` and `[!a-z]` are classes,
    `{a,b{c,d}}` alternatives, a backslash makes the next character literal.

    Args:
        empty_alternates: whether `{,.txt}` may stand for nothing.

    Raises:
        InvalidArguments: an open bracket or brace, or a trailing backslash.
    """
    parser = _GlobParser(pattern, separator=separator, escape=escape, empty=empty_alternates)
    source, _ = parser.parse(0)
    return re.compile(source, re.IGNORECASE if ignore_case else 0)
