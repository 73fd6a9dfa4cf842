"""Approximate matching in bounded time: edit distance, and where a text nearly stands (ledger U-03)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pegboard.textedit.closest import rank
from pegboard.textedit.distance import distance, ends_of

THRESHOLD: Final = 0.7
"""Least similarity of an approximate match in an artifact (ledger U-03)."""

MAX_DISTANCE: Final = 0.3
"""Greatest edit distance as a share of the old text's length (ledger U-03)."""

MAX_WORK: Final = 400_000
"""Steps of bit-parallel search for one request, in units of 1,024 pattern characters a text character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzyMatch:
    """An approximate match.

    Attributes:
        start, end: where it stands, in characters.
        distance: edit distance (insertions, deletions, substitutions) to the old text.
        similarity: 1 - distance / the longer length.
        rivals: other places that are about as near; the match is unique where it is 0.
    """

    start: int
    end: int
    distance: int
    similarity: float
    rivals: int = 0


def find_near(
    text: str, old: str, *, threshold: float = THRESHOLD, max_distance: float = MAX_DISTANCE
) -> FuzzyMatch | None:
    """The part of `text` that is nearest to `old`, None where nothing is near enough.

    Searches the whole text while that takes at most MAX_WORK steps, else only around the
    likeliest places.

    Args:
        text: where to look.
        old: what to look for, not empty.
        threshold: least similarity, 0 to 1.
        max_distance: greatest distance as a share of `len(old)`.
    """
    limit = int(len(old) * max_distance)
    found: list[tuple[int, int, int]] = []
    for start, end in _windows(text, old, limit):
        found += [(score, start + at, start) for at, score in ends_of(text[start:end], old, limit)]
    if not found:
        return None
    groups = _groups(sorted((at, score, start) for score, at, start in found), len(old))
    score, end, origin = min(groups)
    start = _start(text, old, max(origin, end - len(old) - limit), end)
    matched = text[start:end]
    similarity = 1 - score / max(len(old), len(matched))
    if similarity < threshold:
        return None
    margin = score + len(old) // 20
    rivals = sum(other <= margin for other, _, _ in groups) - 1
    return FuzzyMatch(start=start, end=end, distance=score, similarity=similarity, rivals=rivals)


def _windows(text: str, old: str, limit: int) -> list[tuple[int, int]]:
    """Parts of the text to search, so that the work stays bounded."""
    cost = 1 + len(old) / 1024
    if len(text) * cost <= MAX_WORK:
        return [(0, len(text))]
    size = 2 * (len(old) + limit)
    room = max(1, int(MAX_WORK / cost) // (2 * size))
    windows: list[tuple[int, int]] = []
    for place in sorted(rank(text, old).offsets[: min(room, 6)]):
        start, end = max(0, place - size // 2), min(len(text), place + size)
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    # One that is itself over the limit is not searched at all: bounded comes before found.
    return windows if size * cost <= MAX_WORK else []


def _groups(ends: list[tuple[int, int, int]], length: int) -> list[tuple[int, int, int]]:
    """The best end of each run of ends that lie within half a length of each other: (score, end, origin)."""
    groups: list[tuple[int, int, int]] = []
    last = -length
    for at, score, origin in ends:
        if groups and at - last <= length // 2:
            groups[-1] = min(groups[-1], (score, at, origin))
        else:
            groups.append((score, at, origin))
        last = at
    return groups


def _start(text: str, old: str, earliest: int, end: int) -> int:
    """The start of the best match that ends at `end`: the same search backwards, anchored there."""
    back = text[earliest:end][::-1]
    best = (len(old), 0)
    for at, score in distance(old[::-1], back).prefixes:
        # Of equally near starts the longest, so that nothing of the old text stays behind.
        if score <= best[0]:
            best = (score, at)
    return end - best[1]
