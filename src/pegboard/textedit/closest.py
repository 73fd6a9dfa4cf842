"""The text closest to one that is not there: for a hint, and for an approximate edit."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

THRESHOLD: Final = 0.5
"""A fragment is shown when its similarity is greater."""

_MAX_ANCHORS: Final = 48
_SCAN_BUDGET: Final = 48_000_000
_MAX_HITS: Final = 200
_MAX_PLACES: Final = 8
_MAX_CHARS: Final = 32_000
_MAX_DIFF_LINES: Final = 60
_SHINGLES: Final = (4, 2)
_WORD: Final = re.compile(r"\w{3,}")
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Likely places, the likeliest first.

    Attributes:
        lines: 0-based lines at which the text would begin.
        offsets: the character offset of each.
        starts: the character offset of every line of the text.
        work: characters scanned and votes counted.
    """

    lines: tuple[int, ...]
    offsets: tuple[int, ...]
    starts: Sequence[int]
    work: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closest:
    """The closest fragment.

    Attributes:
        line: 1-based line at which it begins.
        text: the fragment, whole lines, line endings `\\n`.
        similarity: 0 to 1; greater than THRESHOLD.
        diff: unified diff from the wanted text to the fragment.
        note: what differs where no eye can see it, may be empty.
    """

    line: int
    text: str
    similarity: float
    diff: str
    note: str = ""


def rank(text: str, old: str) -> Ranking:
    """Where `old` most likely stands in `text`, at most eight places.

    One pass over the text for each of a bounded number of anchors; the number falls as the
    text grows, so that the whole stays linear with a fixed bound on passes.
    """
    starts = _line_starts(text)
    allowed = max(4, min(_MAX_ANCHORS, _SCAN_BUDGET // (len(text) + 1)))
    anchors = _anchors(old, allowed)
    counted = [(text.count(a), a, line) for a, line in anchors]
    found = [entry for entry in counted if entry[0]]
    work = len(text) * len(anchors)
    for size in _SHINGLES:
        if found:
            break
        shingles = _shingles(old, allowed, size)
        found = [entry for entry in ((text.count(a), a, line) for a, line in shingles) if entry[0]]
        work += len(text) * len(shingles)
    found.sort(key=lambda entry: entry[0])
    votes: Counter[int] = Counter()
    for count, anchor, line in found[: max(4, allowed // 2)]:
        weight = len(anchor) / min(count, _MAX_HITS)
        for start in _hit_lines(text, anchor, starts, min(count, _MAX_HITS)):
            votes[max(0, start - line)] += weight  # pyright: ignore[reportArgumentType]
            work += 1
        work += len(text)
    places = _peaks(votes)
    return Ranking(lines=tuple(places), offsets=tuple(starts[p] for p in places), starts=starts, work=work)


def closest(text: str, old: str, name: str, ranking: Ranking | None = None) -> Closest | None:
    """The fragment of `text` closest to `old`, None where nothing is closer than THRESHOLD.

    Args:
        text: the whole file, line endings `\\n`.
        old: what was looked for.
        name: the file's name for the diff.
    """
    wanted = old.strip("\n").split("\n")
    ranking = ranking or rank(text, old.strip("\n"))
    if not ranking.lines:
        return None
    fragments = [
        (line, _fragment(text, offset, len(wanted)))
        for line, offset in zip(ranking.lines, ranking.offsets, strict=True)
    ]
    by_words = sorted(((overlap(wanted, lines), -line) for line, lines in fragments), reverse=True)
    chosen = dict(fragments)
    score, line = max((_likeness(wanted, chosen[-line]), line) for _, line in by_words[:2])
    if score <= THRESHOLD:
        return None
    lines = chosen[-line]
    return Closest(
        line=1 - line,
        text="\n".join(lines),
        similarity=score,
        diff=_diff(wanted, lines, name, 1 - line),
        note=_unseen(wanted, lines, 1 - line),
    )


def _line_starts(text: str) -> list[int]:
    # By C alone: 20,000 lines are most of the files that an edit misses in.
    lengths = map(len, text.split("\n"))
    starts = list(accumulate(map((1).__add__, lengths), initial=0))
    starts.pop()
    return starts


def _anchors(old: str, allowed: int) -> list[tuple[str, int]]:
    """Lines and words of `old` with their line, spread over it, each only once."""
    lines = [(line.strip(), index) for index, line in enumerate(old.split("\n"))]
    lines = [(line, index) for line, index in lines if len(line) >= 3]
    chosen: dict[str, int] = {}
    for line, index in _spread(lines, max(1, allowed // 3)):
        chosen.setdefault(line, index)
    rows = [sorted(set(_WORD.findall(line)), key=len, reverse=True) for line, _ in lines]
    words = [
        (row[depth], index)
        for depth in range(4)
        for row, (_, index) in zip(rows, lines, strict=True)
        if depth < len(row)
    ]
    firsts = [w for w in words if w[0] not in chosen]
    for word, index in _spread(firsts, allowed - len(chosen)):
        chosen.setdefault(word, index)
    return list(chosen.items())


def _spread(items: Sequence[tuple[str, int]], count: int) -> Iterable[tuple[str, int]]:
    """At most `count` items at even distances."""
    if len(items) <= count:
        return items
    return [items[k * len(items) // count] for k in range(count)]


def _shingles(old: str, allowed: int, size: int) -> list[tuple[str, int]]:
    """So many characters at a time, for a text of which no whole word is found."""
    pieces = [
        (line[k : k + size], index)
        for index, line in enumerate(old.split("\n"))
        for k in range(0, len(line) - size + 1, size // 2)
        if len(line[k : k + size].strip()) > size - 2
    ]
    return list(dict(_spread(pieces, allowed)).items())


def _hit_lines(text: str, anchor: str, starts: Sequence[int], count: int) -> list[int]:
    """The 0-based lines of the first `count` hits of an anchor; it has as many, so the rest is not looked at."""
    hits: list[int] = []
    at, line = 0, 0
    for _ in range(count):
        at = text.find(anchor, at)
        line = bisect_right(starts, at, line) - 1
        hits.append(line)
        at += len(anchor)
    return hits


def _peaks(votes: Counter[int]) -> list[int]:
    """The places with most votes, those of their neighbours added, no two next to each other."""
    around = {at: own + 0.5 * (votes.get(at - 1, 0) + votes.get(at + 1, 0)) for at, own in votes.items()}
    chosen: list[int] = []
    for at in sorted(around, key=lambda place: (-around[place], place))[: 4 * _MAX_PLACES]:
        if all(abs(at - other) > 1 for other in chosen):
            chosen.append(at)
    return chosen[:_MAX_PLACES]


def _fragment(text: str, offset: int, lines: int) -> list[str]:
    end = offset
    for _ in range(lines):
        found = text.find("\n", end)
        if found < 0:
            end = len(text) + 1
            break
        end = found + 1
    return [line.removesuffix("\r") for line in text[offset : end - 1].split("\n")]


def overlap(wanted: Sequence[str], lines: Sequence[str]) -> float:
    """Shared words of two texts, order aside: 2 x shared / all."""
    words, other = (Counter(_TOKEN.findall("\n".join(part))) for part in (wanted, lines))
    total = words.total() + other.total()
    return 2 * (words & other).total() / total if total else 0.0


def _likeness(wanted: Sequence[str], lines: Sequence[str]) -> float:
    """The greatest of three likenesses: of words, of whole lines, of characters."""
    from rapidfuzz.distance import Indel, Levenshtein

    left, right = [w.strip() for w in wanted], [w.strip() for w in lines]
    one, two = "\n".join(left), "\n".join(right)
    by_lines = Indel.normalized_similarity(left, right)
    by_chars = Levenshtein.normalized_similarity(one, two) if len(one) <= _MAX_CHARS else 0.0
    return max(overlap(wanted, lines), by_lines, by_chars)


def _diff(wanted: Sequence[str], lines: Sequence[str], name: str, line: int) -> str:
    head = [f"--- old_string\n+++ {name} (line {line})\n"]
    body = list(difflib.unified_diff(list(wanted), list(lines), lineterm="", n=2))[2:]
    if len(body) > _MAX_DIFF_LINES:
        body = [*body[:_MAX_DIFF_LINES], f"[{len(body) - _MAX_DIFF_LINES} more lines]"]
    return "".join(head) + "\n".join(visible(row) for row in body)


def visible(text: str) -> str:
    """The text with tabs and characters that no eye can tell apart written as escapes."""
    return "".join(c if c == " " or (c.isprintable() and not c.isspace()) else _escape(c) for c in text)


def _escape(char: str) -> str:
    return "\\t" if char == "\t" else "\\r" if char == "\r" else f"\\u{ord(char):04x}"


def _unseen(wanted: Sequence[str], lines: Sequence[str], first: int) -> str:
    """Names the first characters of the fragment that differ only to a machine."""
    for number, (left, right) in enumerate(zip(wanted, lines, strict=False), first):
        if left != right and "".join(left.split()) == "".join(right.split()):
            odd = next(
                (i for i, c in enumerate(right) if not c.isprintable() or (c.isspace() and c != " ")), None
            )
            if odd is None:
                return f"Line {number} differs only in the number of spaces."
            return f"Line {number} has U+{ord(right[odd]):04X} in column {odd + 1}."
    return ""


NEAR: Final = 0.7
"""Least similarity of an approximate match in an artifact."""

MAX_DISTANCE: Final = 0.3
"""Greatest edit distance as a share of the old text's length."""

MAX_NEAR: Final = 8_000
"""Characters of a text that is looked for approximately."""


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


def find_near(text: str, old: str, *, threshold: float = NEAR) -> FuzzyMatch | None:
    """The part of `text` that is nearest to `old`, None where nothing is near enough.

    Looks around the likeliest places only, so that the work stays bounded.

    Args:
        text: where to look.
        old: what to look for, not empty.
        threshold: least similarity, 0 to 1.
    """
    if len(old) > MAX_NEAR:
        return None
    limit = int(len(old) * MAX_DISTANCE)
    found: list[tuple[int, int, int]] = []
    pending = _windows(text, old)
    while pending:
        begin, stop = pending.pop()
        near = _nearest(text, old, begin, stop, limit)
        if near is None:
            continue
        found.append(near)
        # Beside it there may be another as near.
        pending += [(a, b) for a, b in ((begin, near[1]), (near[2], stop)) if b - a >= len(old) - limit]
    if not found:
        return None
    distance, start, end = min(found)
    similarity = 1 - distance / max(len(old), end - start)
    if similarity < threshold:
        return None
    margin = distance + len(old) // 20
    rivals = sum(other <= margin for other, _, _ in found) - 1
    return FuzzyMatch(start=start, end=end, distance=distance, similarity=similarity, rivals=rivals)


def _windows(text: str, old: str) -> list[tuple[int, int]]:
    """Parts of the text in which `old` may stand, not overlapping."""
    windows: list[tuple[int, int]] = []
    for place in sorted(rank(text, old).offsets):
        line_end = text.find("\n", place) % (len(text) + 1)
        start, end = max(0, place - len(old)), max(place + 2 * len(old), min(line_end, place + MAX_NEAR)) + 1
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return [(start, min(end, len(text))) for start, end in windows]


def _nearest(text: str, old: str, begin: int, stop: int, limit: int) -> tuple[int, int, int] | None:
    """`(distance, start, end)` of what is nearest within a window, None for more than `limit` edits."""
    from rapidfuzz import fuzz
    from rapidfuzz.distance import Levenshtein

    window = text[begin:stop]
    rough = fuzz.partial_ratio_alignment(old, window) if len(window) >= len(old) else None
    start, end = (rough.dest_start, rough.dest_end) if rough is not None else (0, len(window))
    most = 2 * limit + 1

    def apart(start: int, end: int) -> tuple[int, int]:
        # Of equally near ones the longest, so that nothing of the old text stays behind.
        return Levenshtein.distance(old, window[start:end], score_cutoff=most), start - end

    for _ in range(2):
        start = min(
            range(max(0, start - limit - 1), min(start + limit + 2, end)),
            key=lambda at: apart(at, end),
            default=start,
        )
        end = min(
            range(max(start + 1, end - limit - 1), min(end + limit + 2, len(window) + 1)),
            key=lambda at: apart(start, at),
            default=end,
        )
    distance = apart(start, end)[0]
    return (distance, begin + start, begin + end) if distance <= limit else None
