"""Clipping: a piece of a text in which no secret is shown in part.

What takes secrets out of results and records knows them by their whole value, or by what stands around them:
`user:word@host` behind a `://`, a key by its beginning. A piece that was cut through one, or away from what tells it,
would pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

AROUND: Final = 1024
"""Characters on both sides of an edge that are read for a secret that goes over it."""
BEFORE: Final = 16_384
"""Characters in front of a piece that are read for a secret of several lines."""
SEVERAL_LINES: Final = ("-----BEGIN ", "Private-Lines:")
"""One of these stands in front of every key block."""


def clip(text: str, start: int = 0, end: int | None = None) -> str:
    """`text[start:end]`, with marks for the secrets that are told by what lies beyond an edge or go over lines.

    A secret of several lines has a mark in each of them, so that line numbers stay.

    Args:
        text: the whole.
        start, end: as of a slice; negative ones count from the end.
    """
    start, end, _ = slice(start, end).indices(len(text))
    if start >= end:
        return ""
    whole = start == 0 and end == len(text)
    from pegboard.core.secrets.redact import finders, redaction_mark, secrets_in

    spans = set(_over_lines(text))
    for first, last in () if whole else _edges(start, end, len(text)):
        part = text[first:last]
        found = [(one.start, one.stop) for one in secrets_in(part)]
        for finder in finders():
            found += finder.find(part)
        spans.update((begin + first, stop + first) for begin, stop in found)
    out, done = "", start
    for begin, stop in sorted(spans):
        if done < stop and begin < end:
            out += text[done : max(done, begin)]
            mark = redaction_mark(text[begin:stop])
            lines = text[max(done, begin) : min(stop, end)].split("\n")
            out += "\n".join(mark if line.strip() else line for line in lines)
            done = min(stop, end)
    return out + text[done:end]


def _over_lines(text: str) -> Iterable[tuple[int, int]]:
    """Where key blocks stand, and known values that were broken over lines."""
    from pegboard.core.secrets.forms import key_blocks
    from pegboard.core.secrets.redact import finders

    for finder in finders():
        yield from finder.wrapped(text)
    if any(word in text for word in SEVERAL_LINES):
        yield from key_blocks(text)


def _edges(start: int, end: int, length: int) -> list[tuple[int, int]]:
    """The stretches around both edges; one where they meet."""
    first = (max(0, start - AROUND), min(length, start + AROUND))
    second = (max(0, end - AROUND), min(length, end + AROUND))
    if second[0] <= first[1]:
        return [(first[0], second[1])]
    return [first, second]


# What a secret that is not complete yet may end in: a long word with digits, what follows a word that announces one,
# or a password in an address.
_OPEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}\S*\Z"
    r"|(?i:key|token|secret|pass(?:word|wd|phrase)?|pwd|credentials?|sessionid|auth(?:orization)?|bearer|basic|cookie|login)"
    r"(?:[\"']?\s{0,4}[:=]\s{0,4}|\s{1,4})[\"']?(?P<value>(?![:=])\S[^\n]{0,4096})\Z"
    r"|://[^\s/@:]{0,100}:(?!\d{1,5}(?:/\S*)?\Z)(?P<password>[^\s@]+)\Z"
)


def open_end(text: str) -> int:
    """How many characters at the end of a text, of which more will come, may be the first part of a secret."""
    from pegboard.core.secrets.forms import begun
    from pegboard.core.secrets.redact import finders

    line = text[text.rfind("\n", -BEFORE) + 1 :][-BEFORE:]
    starts = [len(line) - begun(line), *(len(line) - finder.begun(text[-BEFORE:]) for finder in finders())]
    if found := _OPEN.search(line):
        starts.append(found.start(found.lastgroup or 0))
    return len(line) - min(starts)


# ---------------------------------------------------------------------- parts of keys that stand elsewhere

_KEY_PART: Final = re.compile(r"[A-Za-z0-9+/=]{6,}|^[A-Za-z0-9+/=]{1,5}$", re.MULTILINE)
_MAY_BE_KEY: Final = re.compile(
    r"(?=[A-Z0-9+]{0,60}[a-z])(?=[a-z0-9+]{0,60}[A-Z])(?=[A-Za-z+]{0,60}\d)[A-Za-z0-9+]{20}"
)
_BETWEEN: Final = re.compile(r"(?:\\+[nr]|\s)+")
_SHORTEST_KEY: Final = 48


def may_hold_key(text: str) -> bool:
    """Whether a text has letters that could be a part of a key."""
    return _MAY_BE_KEY.search(text) is not None


def keys_in(text: str) -> list[str]:
    """The letters of the keys whose blocks stand in a text, each without its line ends."""
    from pegboard.core.secrets.forms import key_blocks

    found: list[str] = []
    for start, end in key_blocks(text):
        parts = [part for part in _BETWEEN.split(text[start:end]) if _KEY_PART.fullmatch(part)]
        if len(key := "".join(parts)) >= _SHORTEST_KEY:
            found.append(key)
    return found


def without_parts(text: str, keys: Iterable[str]) -> str:
    """The text with marks for what is a part of one of the keys."""
    from pegboard.core.secrets.redact import redaction_mark

    known = [(key, redaction_mark(key)) for key in keys]

    def mark(part: re.Match[str]) -> str:
        return next((mark for key, mark in known if part[0] in key), part[0])

    return _KEY_PART.sub(mark, text) if known else text
