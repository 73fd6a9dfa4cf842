"""Globs that take linear time, whatever their pattern and text.

A glob written as a regular expression is tried in every way in which its stars can share the text:
`*a*a*a*a*b` against some dozen letters takes longer than anybody waits, and both sides come from strangers (an
untrusted project's rules, a model's arguments). Here a star takes as little as it can, and what stands
between two stars has a fixed length, so the first place where it fits is as good as any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from pegboard.core.wildmatch import NEVER, bracket

Matcher: TypeAlias = Callable[[str], bool]


@lru_cache(maxsize=4096)
def glob(pattern: str) -> Matcher:
    """A `*` and `?` glob over a whole text as a predicate."""
    pieces = [["." if char == "?" else re.escape(char) for char in piece] for piece in pattern.split("*")]
    return _between_stars(pieces)


@lru_cache(maxsize=4096)
def path_glob(pattern: str) -> Matcher:
    """A gitignore glob as a predicate on paths with `/`; a match of a folder covers all below it.

    A pattern without `/` but at its end fits at any depth. Brackets that never close, and a trailing
    backslash, stand for themselves: a rule that matches nothing would protect nothing.

    Raises:
        re.error: brackets that can match nothing, such as `[z-a]`.
    """
    body = pattern.rstrip("/") or "/"
    levels = _levels(body.lstrip("/"))
    if "/" not in body and levels[:1] != [_DEEP]:
        levels.insert(0, _DEEP)

    def matches(path: str) -> bool:
        if path.startswith("/") and _below(levels, path[1:].split("/")):
            return True
        return _below(levels, path.split("/"))

    return matches


@dataclass(frozen=True, slots=True)
class _Deep:
    """`**`: any number of folders; `last`: at least one name, and all that follows it."""

    last: bool = False


_Level: TypeAlias = Matcher | _Deep
_DEEP: Final = _Deep()
_REST: Final = _Deep(last=True)


def _below(levels: Sequence[_Level], names: Sequence[str]) -> bool:
    """Whether a path's first names fit all levels; with one way back, to the last `**`."""
    at = name = 0
    deep = mark = -1
    while at < len(levels):
        level = levels[at]
        if level is _REST and name < len(names):
            return True
        if level is _DEEP:
            deep, mark = at, name
            at += 1
        elif name < len(names) and not isinstance(level, _Deep) and level(names[name]):
            at += 1
            name += 1
        elif deep >= 0 and mark < len(names):
            mark += 1
            at, name = deep + 1, mark
        else:
            return False
    return True


def _levels(body: str) -> list[_Level]:
    """The pattern's parts between slashes."""
    levels: list[_Level] = []
    pieces: list[list[str]] = [[]]
    at, size = 0, len(body)
    while at < size:
        char = body[at]
        if char == "*":
            end = at
            while end < size and body[end] == "*":
                end += 1
            if end - at == 2 and (at == 0 or body[at - 1] == "/") and (end == size or body[end] == "/"):
                if end == size:
                    return [*levels, _REST]
                levels.append(_DEEP)
                at = end + 1
                continue
            pieces.append([])
            at = end
        elif char == "/" or body.startswith("\\/", at):
            levels.append(_between_stars(pieces))
            pieces = [[]]
            at += 1 if char == "/" else 2
        else:
            unit, at = _unit(body, at)
            pieces[-1].append(unit)
    return [*levels, _between_stars(pieces)]


def _unit(body: str, at: int) -> tuple[str, int]:
    """What fits one character, and where the pattern goes on."""
    char = body[at]
    if char == "\\":
        return re.escape(body[at + 1 : at + 2] or "\\"), at + 2
    if char == "?":
        return ".", at + 1
    if char == "[":
        found = bracket(body, at, escape=False, slash=False)
        if found is not None and NEVER in found[0]:
            raise re.error("its brackets match nothing", body)
        return found or ("\\[", at + 1)
    return re.escape(char), at + 1


def _between_stars(pieces: Sequence[Sequence[str]]) -> Matcher:
    """A text that begins with the first piece, ends with the last and has the others between, in order.

    Each element of a piece is a regular expression of exactly one character.
    """
    first, *between = (re.compile("".join(piece), re.DOTALL) for piece in pieces)
    if not between:
        return lambda text: first.fullmatch(text) is not None
    last = between.pop()
    head, tail = len(pieces[0]), len(pieces[-1])
    inner = [one for one, piece in zip(between, pieces[1:-1], strict=True) if piece]

    def matches(text: str) -> bool:
        at, end = head, len(text) - tail
        if at > end or first.match(text) is None or last.fullmatch(text, end) is None:
            return False
        for one in inner:
            found = one.search(text, at, end)
            if found is None:
                return False
            at = found.end()
        return True

    return matches
