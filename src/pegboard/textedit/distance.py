"""Edit distance by bit vectors (Myers 1999, Hyyrö 2003): one integer step a character."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Final

_NARROW: Final = 4
"""How many times as long as the band is wide a text must be for the band to be worth its shifting."""


@dataclass(frozen=True, slots=True)
class Distances:
    """Edit distance of a pattern to every prefix of a text: `(prefix length, distance)`, ascending."""

    prefixes: list[tuple[int, int]]

    @property
    def whole(self) -> int:
        """The distance to the whole text."""
        return self.prefixes[-1][1]


def distance(pattern: str, text: str) -> Distances:
    """The edit distance between `pattern` and each prefix of `text`, the empty one included."""
    return Distances([(0, len(pattern)), *_scan(pattern, text, anchored=True)])


def similarity(left: str, right: str) -> float:
    """1 - edit distance / the longer length; 1.0 for two empty texts."""
    longer = max(len(left), len(right))
    return 1.0 if not longer else 1 - edits(left, right) / longer


def edits(left: str, right: str, most: int | None = None) -> int:
    """The edit distance of two whole texts; what they share at both ends is not looked at.

    Args:
        most: more edits than this need not be told apart: what is returned is then only greater.
    """
    shorter = min(len(left), len(right))
    head = _shared(left, right, shorter)
    rest = shorter - head
    tail = _shared(left[: -rest - 1 : -1], right[: -rest - 1 : -1], rest) if rest else 0
    one, two = left[head : len(left) - tail], right[head : len(right) - tail]
    if most is None or _NARROW * most > min(len(one), len(two)):
        return _whole(one, two)
    return _banded(one, two, most) if len(one) > len(two) else _banded(two, one, most)


def least_edits(left: str, right: str) -> int:
    """No fewer edits than this lead from one to the other: each takes care of one character too many."""
    one, two = Counter(left), Counter(right)
    return max((one - two).total(), (two - one).total())


def _shared(left: str, right: str, most: int) -> int:
    """How many first characters are the same, at most `most`: by halves, each compared at once."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if left.startswith(right[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def ends_of(text: str, pattern: str, limit: int) -> list[tuple[int, int]]:
    """Where something within `limit` edits of `pattern` ends: `(offset, distance)`, ascending."""
    return [(at, score) for at, score in _scan(pattern, text, anchored=False) if score <= limit]


def _banded(longer: str, shorter: str, most: int) -> int:
    """The distance, or `most` + 1 where it is greater (Hyyrö 2003, section 4).

    Each step is about the rows of the table that are at most `most` from its diagonal.
    """
    if len(longer) - len(shorter) > most:
        return most + 1
    width = 2 * most + 2
    every = (1 << width) - 1
    where: dict[str, int] = {}
    for index, char in enumerate(longer):
        where[char] = where.get(char, 0) | (1 << index)
    plus, minus, score = every ^ ((1 << (width - most - 1)) - 1), 0, most
    diagonal, edge = 1 << (width - 1), 1 << (width - 2)
    along = len(longer) - most
    shift = most + 1 - width
    for at, char in enumerate(shorter):
        row = where.get(char, 0)
        equal = (row >> shift if shift >= 0 else row << -shift) & every
        shift += 1
        crossed = (((equal & plus) + plus) ^ plus) & every | equal | minus
        up = minus | (every & ~(crossed | plus))
        down = crossed & plus
        if at < along:
            score += not crossed & diagonal
        else:
            score += bool(up & edge) - bool(down & edge)
            edge >>= 1
        half = crossed >> 1
        plus = down | (every & ~(half | up))
        minus = half & up
    return min(score, most + 1)


def _whole(pattern: str, text: str) -> int:
    """The last distance that `_scan` would give, without all those before it."""
    size = len(pattern)
    if not size or not text:
        return size or len(text)
    where: dict[str, int] = {}
    for index, char in enumerate(pattern):
        where[char] = where.get(char, 0) | (1 << index)
    every, last = (1 << size) - 1, 1 << (size - 1)
    plus, minus, score = every, 0, size
    for equal in map(where.get, text, repeat(0)):
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | (every & ~(horizontal | plus))
        down = plus & horizontal
        if up & last:
            score += 1
        elif down & last:
            score -= 1
        up = (up << 1) | 1
        plus = every & ((down << 1) | ~(vertical | up))
        minus = up & vertical & every
    return score


def _scan(pattern: str, text: str, *, anchored: bool) -> Iterator[tuple[int, int]]:
    """After each character, the least distance of the pattern to what ends there."""
    size = len(pattern)
    if not size:
        yield from ((at, at if anchored else 0) for at in range(1, len(text) + 1))
        return
    where: dict[str, int] = {}
    for index, char in enumerate(pattern):
        where[char] = where.get(char, 0) | (1 << index)
    every, last = (1 << size) - 1, 1 << (size - 1)
    plus, minus, score = every, 0, size
    carry = 1 if anchored else 0
    for at, char in enumerate(text, 1):
        equal = where.get(char, 0)
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | (every & ~(horizontal | plus))
        down = plus & horizontal
        if up & last:
            score += 1
        elif down & last:
            score -= 1
        up = (up << 1) | carry
        plus = every & ((down << 1) | ~(vertical | up))
        minus = up & vertical & every
        yield at, score
