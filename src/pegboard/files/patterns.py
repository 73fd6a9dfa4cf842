"""Glob patterns as regular expressions: git's wildmatch and the globs of the search tools."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pegboard.core.errors import InvalidArguments

#: Character classes in brackets, ASCII as in git's C locale and in POSIX.
POSIX_CLASSES: Final[dict[str, str]] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

#: Matches nothing: what git makes of a malformed pattern.
NEVER: Final = r"(?!)"


def wildmatch(pattern: str, *, pathname: bool) -> str:
    """The regular expression of one gitignore pattern, to be used with `fullmatch`.

    Args:
        pattern: without `!`, anchoring slash and trailing slash.
        pathname: wildcards do not match `/` and `**` spans folders (git's WM_PATHNAME).

    A malformed pattern (open bracket, trailing backslash) matches nothing, as in git.
    """
    out: list[str] = []
    i, n = 0, len(pattern)
    anything = "[^/]" if pathname else "[\\s\\S]"
    while i < n:
        char = pattern[i]
        if char == "\\":
            if i + 1 == n:
                return NEVER
            out.append(re.escape(pattern[i + 1]))
            i += 2
        elif char == "?":
            out.append(anything)
            i += 1
        elif char == "*":
            end = i
            while end < n and pattern[end] == "*":
                end += 1
            piece, i = _stars(pattern, i, end, pathname)
            out.append(piece)
        elif char == "[":
            found = _bracket(pattern, i, escape=True, slash=not pathname)
            if found is None:
                return NEVER
            out.append(found[0])
            i = found[1]
        else:
            out.append(re.escape(char))
            i += 1
    return "".join(out)


def _stars(pattern: str, start: int, end: int, pathname: bool) -> tuple[str, int]:
    """The piece for a run of stars, and where the pattern goes on."""
    if not pathname:
        return "[\\s\\S]*", end
    alone = end - start == 2 and (start == 0 or pattern[start - 1] == "/")
    if alone and end == len(pattern):
        return "[\\s\\S]*", end
    if alone and pattern[end] == "/":
        return "(?:[\\s\\S]*/)?", end + 1
    return "[^/]*", end


def _bracket(pattern: str, start: int, *, escape: bool, slash: bool) -> tuple[str, int] | None:
    """The class that opens at `start` and the index behind it; None where it never closes.

    Args:
        escape: a backslash makes the next character literal.
        slash: whether `/` may be matched by the class.
    """
    i, n = start + 1, len(pattern)
    negated = i < n and pattern[i] in "!^"
    i += negated
    first = i
    items: list[str] = []
    while i < n and (pattern[i] != "]" or i == first):
        if pattern.startswith("[:", i):
            close = pattern.find(":]", i + 2)
            name = pattern[i + 2 : close] if close > 0 else ""
            if close > 0 and name.isalpha():
                if name not in POSIX_CLASSES:
                    return None
                items.append(POSIX_CLASSES[name])
                i = close + 2
                continue
        low, i = _member(pattern, i, escape)
        if i + 1 < n and pattern[i] == "-" and pattern[i + 1] != "]":
            high, i = _member(pattern, i + 1, escape)
            if low <= high:
                items.append(f"{_class_char(low)}-{_class_char(high)}")
        else:
            items.append(_class_char(low))
    if i >= n:
        return None
    guard = "" if slash else "(?!/)"
    body = "".join(items)
    if not body:
        return guard + ("[\\s\\S]" if negated else NEVER), i + 1
    return f"{guard}[{'^' if negated else ''}{body}]", i + 1


def _member(pattern: str, i: int, escape: bool) -> tuple[str, int]:
    if escape and pattern[i] == "\\" and i + 1 < len(pattern):
        return pattern[i + 1], i + 2
    return pattern[i], i + 1


def _class_char(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


class _GlobParser:
    """One pass over a glob; braces recurse."""

    def __init__(self, pattern: str, *, separator: bool, escape: bool, empty: bool) -> None:
        self.pattern = pattern
        self.separator = separator
        self.escape = escape
        self.empty = empty
        self.depth = 0

    def parse(self, i: int) -> tuple[str, int]:
        """The pieces from `i` up to the end, or to the `,` or `}` that closes an alternative."""
        pattern, n = self.pattern, len(self.pattern)
        out: list[str] = []
        start = i
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
                found = _bracket(pattern, i, escape=False, slash=True)
                if found is None:
                    raise _malformed(pattern, f"has a `[` at position {i + 1} that is never closed")
                out.append(found[0])
                i = found[1]
            elif char == "{":
                piece, i = self.braces(i)
                out.append(piece)
            elif char == "}":
                raise _malformed(pattern, f"has a `}}` at position {i + 1} that nothing opened")
            else:
                out.append(re.escape(char))
                i += 1
        return "".join(out), i

    def stars(self, i: int, start: int) -> tuple[str, int]:
        """`**` as a whole component spans folders; any other run of stars is one star."""
        pattern, n = self.pattern, len(self.pattern)
        end = i
        while end < n and pattern[end] == "*":
            end += 1
        star = "[^/]*" if self.separator else "[\\s\\S]*"
        if end - i != 2:
            return star, end
        at_start = i == start
        after_slash = i > start and pattern[i - 1] == "/"
        at_end = end == n or (self.depth > 0 and pattern[end] in ",}")
        slash = end < n and pattern[end] == "/"
        if at_start and at_end:
            return "[\\s\\S]*", end
        if at_start and slash:
            return "(?:[\\s\\S]*/)?", end + 1
        if after_slash and slash:
            # The slash before `**` is taken back by the caller: `a/**/b` matches `a/b`.
            return "(?:/|/[\\s\\S]*/)", end + 1
        if after_slash and at_end:
            return "(?:/[\\s\\S]*)", end
        return star, end

    def braces(self, i: int) -> tuple[str, int]:
        """The alternatives of the brace that opens at `i`."""
        opened = i
        self.depth += 1
        choices: list[str] = []
        while True:
            piece, i = self.parse(i + 1)
            if piece or self.empty:
                choices.append(piece)
            if i >= len(self.pattern):
                raise _malformed(self.pattern, f"has a `{{` at position {opened + 1} that is never closed")
            if self.pattern[i] == "}":
                break
        self.depth -= 1
        return f"(?:{'|'.join(choices)})", i + 1


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
