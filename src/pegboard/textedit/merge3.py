"""Three-way merge of whole files by lines."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from pegboard.textedit.spans import common_prefix, common_suffix

_MOST_LINES: Final = 20_000  # lines between the common ends that are compared one with another


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge gave.

    Attributes:
        data: the merged bytes, None where both sides changed the same lines.
        conflicts: each such place with both versions and markers, as text for people.
    """

    data: bytes | None
    conflicts: tuple[str, ...] = ()


def merge3(base: bytes, mine: bytes, theirs: bytes) -> MergeResult:
    """Apply to `mine` what changed from `base` to `theirs`.

    Lines keep their endings; a change next to another without an unchanged line between them
    is a conflict, as in diff3(1). Binary content merges only where one side is unchanged.
    """
    if mine in (base, theirs):
        return MergeResult(theirs)
    if theirs == base:
        return MergeResult(mine)
    if b"\0" in base or b"\0" in mine or b"\0" in theirs:
        return MergeResult(None, ("binary content differs on both sides",))
    head, tail = _shared_ends(base, mine, theirs)
    cut = [side[head : len(side) - tail].splitlines(keepends=True) for side in (base, mine, theirs)]
    if max(map(len, cut)) > _MOST_LINES:
        return MergeResult(None, (f"over {_MOST_LINES} lines differ",))
    merged, conflicts = _weave(*cut)
    if conflicts:
        return MergeResult(None, tuple(conflicts))
    return MergeResult(base[:head] + b"".join(merged) + base[len(base) - tail :])


def _shared_ends(base: bytes, mine: bytes, theirs: bytes) -> tuple[int, int]:
    """Whole lines that all three have in common at both ends, in bytes, one line less each."""
    head = min(common_prefix(base, mine), common_prefix(base, theirs))
    # One shared line stays inside, so that a change right behind it is not taken for an adjacent one.
    head = base.rfind(b"\n", 0, max(base.rfind(b"\n", 0, head), 0)) + 1
    shortest = min(len(base), len(mine), len(theirs)) - head
    tail = min(common_suffix(base, mine, shortest), common_suffix(base, theirs, shortest))
    at = base.find(b"\n", len(base) - tail)
    at = base.find(b"\n", at + 1) if at >= 0 else -1
    return head, len(base) - at - 1 if at >= 0 else 0


def _weave(base: list[bytes], mine: list[bytes], theirs: list[bytes]) -> tuple[list[bytes], list[str]]:
    out: list[bytes] = []
    conflicts: list[str] = []
    at_base = at_mine = at_theirs = 0
    for sync_base, sync_mine, sync_theirs, length in _agreed(base, mine, theirs):
        old = base[at_base:sync_base]
        ours = mine[at_mine:sync_mine]
        new = theirs[at_theirs:sync_theirs]
        if ours in (old, new):
            out += new
        elif new == old:
            out += ours
        else:
            conflicts.append(_conflict(at_mine + 1, ours, new))
        out += base[sync_base : sync_base + length]
        at_base, at_mine, at_theirs = sync_base + length, sync_mine + length, sync_theirs + length
    return out, conflicts


def _agreed(base: list[bytes], mine: list[bytes], theirs: list[bytes]) -> list[tuple[int, int, int, int]]:
    """Runs of lines that all three share: start in each, and length; closed by an empty run at the ends."""
    ours = difflib.SequenceMatcher(None, base, mine, autojunk=False).get_matching_blocks()
    news = difflib.SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    runs: list[tuple[int, int, int, int]] = []
    i = j = 0
    while i < len(ours) and j < len(news):
        a, b = ours[i], news[j]
        start, stop = max(a.a, b.a), min(a.a + a.size, b.a + b.size)
        if start < stop:
            runs.append((start, a.b + start - a.a, b.b + start - b.a, stop - start))
        if a.a + a.size < b.a + b.size:
            i += 1
        else:
            j += 1
    runs.append((len(base), len(mine), len(theirs), 0))
    return runs


def _conflict(line: int, mine: list[bytes], theirs: list[bytes]) -> str:
    def text(lines: list[bytes]) -> str:
        joined = b"".join(lines).decode("utf-8", "backslashreplace")
        return joined if not joined or joined.endswith("\n") else joined + "\n"

    return f"line {line}:\n<<<<<<< the file now\n{text(mine)}=======\n{text(theirs)}>>>>>>> undone\n"
