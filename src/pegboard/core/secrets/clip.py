"""Clipping: a piece of a text in which no secret is shown in part.

What takes secrets out of results and records knows them by their whole value, or by what stands around them:
`user:word@host` behind a `://`, a key by its beginning. A piece that was cut through one, or away from what tells it,
would pass.
"""

from __future__ import annotations

from typing import Final

_AROUND: Final = 1024
"""Characters on both sides of an edge that are read for a secret that goes over it."""


def clip(text: str, start: int = 0, end: int | None = None) -> str:
    """`text[start:end]`, with a mark in the place of each secret that is told by what lies beyond an edge.

    Args:
        text: the whole.
        start, end: as of a slice; negative ones count from the end.
    """
    start, end, _ = slice(start, end).indices(len(text))
    if start >= end or (start == 0 and end == len(text)):
        return text[start:end]
    from pegboard.core.secrets.redact import finders, redaction_mark, secrets_in

    out, done = "", start
    for first, last in _edges(start, end, len(text)):
        part = text[first:last]
        spans = [(one.start, one.stop) for one in secrets_in(part)]
        for finder in finders():
            spans += finder.find(part)
        for begin, stop in sorted((begin + first, stop + first) for begin, stop in spans):
            if done < stop and begin < end:
                out += text[done : max(done, begin)] + redaction_mark(text[begin:stop])
                done = min(stop, end)
    return out + text[done:end]


def _edges(start: int, end: int, length: int) -> list[tuple[int, int]]:
    """The stretches around both edges; one where they meet."""
    first = (max(0, start - _AROUND), min(length, start + _AROUND))
    second = (max(0, end - _AROUND), min(length, end + _AROUND))
    if second[0] <= first[1]:
        return [(first[0], second[1])]
    return [first, second]
