"""git's wildmatch: one gitignore pattern as a regular expression (gitignore(5), wildmatch.c)."""

from __future__ import annotations

import re
from typing import Final

from pegboard.core.globcost import SPAN, bounded

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


def wildmatch(pattern: str, *, pathname: bool, forgiving: bool = False) -> str:
    """The regular expression of one gitignore pattern, to be used with `fullmatch`.

    Args:
        pattern: without `!`, anchoring slash and trailing slash.
        pathname: wildcards do not match `/` and `**` spans folders (git's WM_PATHNAME).
        forgiving: an open bracket and a trailing backslash stand for themselves, and a backslash in
            brackets is a member: for rules, where a pattern that matches nothing protects nothing.

    Otherwise a malformed pattern (open bracket, trailing backslash) matches nothing, as in git.
    """
    out: list[str] = []
    i, n = 0, len(pattern)
    anything = "[^/]" if pathname else "[\\s\\S]"
    star = f"{anything}*"
    while i < n:
        char = pattern[i]
        if char == "\\":
            if i + 1 == n:
                return bounded(out, star) + "\\\\" if forgiving else NEVER
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
            found = bracket(pattern, i, escape=not forgiving, slash=not pathname)
            if found is None and not forgiving:
                return NEVER
            piece, i = found or ("\\[", i + 1)
            out.append(piece)
        else:
            out.append(re.escape(char))
            i += 1
    return bounded(out, star)


def _stars(pattern: str, start: int, end: int, pathname: bool) -> tuple[str, int]:
    """The piece for a run of stars, and where the pattern goes on."""
    if not pathname:
        return "[\\s\\S]*", end
    alone = end - start == 2 and (start == 0 or pattern[start - 1] == "/")
    if alone and end == len(pattern):
        return "[\\s\\S]*", end
    if alone and pattern[end] == "/":
        return SPAN, end + 1
    return "[^/]*", end


def bracket(pattern: str, start: int, *, escape: bool, slash: bool) -> tuple[str, int] | None:
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
