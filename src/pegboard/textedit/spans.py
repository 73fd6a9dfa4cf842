"""Where two byte strings are the same at both ends, at memory speed."""

from __future__ import annotations

from typing import Final

_CHUNK: Final = 1 << 16


def common_prefix(a: bytes, b: bytes) -> int:
    """Length of the longest common prefix."""
    end = min(len(a), len(b))
    at = 0
    # startswith compares in place: one copy of a chunk instead of two.
    while at + _CHUNK <= end and a.startswith(b[at : at + _CHUNK], at):
        at += _CHUNK
    low, high = at, min(at + _CHUNK, end)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: bytes, b: bytes, most: int) -> int:
    """Length of the longest common suffix, at most `most`."""
    length = 0
    while length < most:
        step = min(_CHUNK, most - length)
        end_a, end_b = len(a) - length, len(b) - length
        if a.endswith(b[end_b - step : end_b], 0, end_a):
            length += step
            continue
        low, high = 0, step
        while low < high:
            middle = (low + high + 1) // 2
            if a[end_a - middle : end_a - low] == b[end_b - middle : end_b - low]:
                low = middle
            else:
                high = middle - 1
        return length + low
    return length


def common_ends(a: bytes, b: bytes) -> tuple[int, int]:
    """Lengths of the common prefix and of the common suffix behind it; they do not overlap."""
    prefix = common_prefix(a, b)
    return prefix, common_suffix(a, b, min(len(a), len(b)) - prefix)
