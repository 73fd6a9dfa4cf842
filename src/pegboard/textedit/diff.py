"""The unified diff that people read before they say yes, and three-way merge by lines."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from pegboard.core.secrets.clip import clip
from pegboard.textedit.encoding import UTF8, Encoding, NotText, decode, detect

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


def common_bytes(a: bytes, b: bytes) -> tuple[int, int]:
    """Lengths of the common prefix and of the common suffix behind it; they do not overlap."""
    prefix = common_prefix(a, b)
    return prefix, common_suffix(a, b, min(len(a), len(b)) - prefix)


MAX_DIFF_CHARS: Final = 20_000
"""A longer diff is cut; the change itself is never cut."""

MAX_DIFF_LINES: Final = 20_000
"""Lines of the two differing middles together up to which they are compared line by line."""

_MAX_LINE: Final = 2_000
_Op: TypeAlias = tuple[str, int, int, int, int]
"""As difflib gives it: tag, old from and to, new from and to."""
_CONTEXT: Final = 3


def unified(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    moved_to: str | None = None,
    max_chars: int = MAX_DIFF_CHARS,
    visible_returns: bool = False,
) -> str:
    """The change of one file as a unified diff (git headers `a/`, `b/`, `/dev/null`).

    Equal heads and tails are skipped before comparing, so that one edit in a large
    file costs one pass over it. Two files that differ nearly everywhere and are long
    are shown as one removed and one added block: comparing them line by line is quadratic.

    Args:
        path: the file's path as people know it.
        before: the whole file before, None where it did not exist.
        after: the whole file afterwards, None where it is deleted.
        moved_to: the new path of a move.
        max_chars: where the text is cut, on a line boundary, with a line that says so.
        visible_returns: show `\\r` as `␍` where lines end differently, and leave it out where all
            lines end in `\\r\\n`; git could not apply such a diff.

    Returns:
        The diff, ending in a newline; empty where nothing changes; one line that names
        sizes where a side is binary.
    """
    if before == after and moved_to is None:
        return ""
    head = f"rename from {path}\nrename to {moved_to}\n" if moved_to not in (None, path) else ""
    if before == after:
        return head
    try:
        old_encoding = UTF8 if before is None else detect(before)
        new_encoding = UTF8 if after is None else detect(after)
    except NotText:
        return head + _binary(path, before, after)
    old_name = "/dev/null" if before is None else f"a/{path}"
    new_name = "/dev/null" if after is None else f"b/{moved_to or path}"
    if before is None or after is None:
        old_encoding = new_encoding = old_encoding if after is None else new_encoding
    names = f"{head}--- {old_name}\n+++ {new_name}\n"
    if old_encoding == new_encoding and not old_encoding.wide:
        skipped, old_bytes, new_bytes = _middles(before or b"", after or b"")
        old_text, new_text = (_text(part, old_encoding) for part in (old_bytes, new_bytes))
    else:
        skipped, old_text, new_text = 0, decode(before or b"").text, decode(after or b"").text
    if old_text == new_text:
        return names + _invisible(before, after, old_encoding, new_encoding)
    old, new = _lines(old_text), _lines(new_text)
    if visible_returns and ("\r" in old_text or "\r" in new_text):
        old, new = _visible_returns(old, new)
    return _cut(chain([names], _render(old, new, skipped)), max_chars)


def _visible_returns(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    # The last line of a file may have no ending, which says nothing about the others.
    if len(old) + len(new) > 2 and all(line.endswith("\r\n") for line in old[:-1] + new[:-1]):
        old, new = ([line.replace("\r\n", "\n") for line in lines] for lines in (old, new))
    return [line.replace("\r", "␍") for line in old], [line.replace("\r", "␍") for line in new]


def _text(part: bytes, encoding: Encoding) -> str:
    """A piece that may begin with the byte order mark, which is no character."""
    return encoding.decode(part.removeprefix(encoding.bom))


def _middles(old: bytes, new: bytes) -> tuple[int, bytes, bytes]:
    """Whole lines around the difference, three equal lines on each side, and how many lines come before."""
    head, tail = common_bytes(old, new)
    start = head
    for _ in range(_CONTEXT + 1):
        start = old.rfind(b"\n", 0, start)
        if start < 0:
            break
    start += 1
    ends: list[int] = []
    for data in (old, new):
        end = len(data) - tail
        for _ in range(_CONTEXT + 1):
            found = data.find(b"\n", end)
            end = len(data) if found < 0 else found + 1
        ends.append(end)
    return old.count(b"\n", 0, start), old[start : ends[0]], new[start : ends[1]]


def _binary(path: str, before: bytes | None, after: bytes | None) -> str:
    old = "absent" if before is None else f"{len(before)} bytes"
    new = "absent" if after is None else f"{len(after)} bytes"
    return f"Binary file {path} differs: {old} -> {new}\n"


def _invisible(before: bytes | None, after: bytes | None, old: Encoding, new: Encoding) -> str:
    """Same characters, other bytes: a byte order mark, an encoding, or an empty file made or deleted."""
    if before is None or after is None:
        return "(empty file)\n"
    return f"(same text; encoding {old.label} -> {new.label})\n"


def _lines(text: str) -> list[str]:
    """Lines that end in `\\n` only; a lone `\\r` stays inside its line."""
    parts = text.split("\n")
    lines = [part + "\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def common_lines(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many equal lines both begin and end with, the two not overlapping; linear."""
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _render(old: list[str], new: list[str], skipped: int) -> Iterator[str]:
    if len(old) + len(new) > MAX_DIFF_LINES:
        yield from _as_blocks(old, new, skipped)
        return
    # Equal ends stay context: a matcher that may align them as it likes can use them up, and a hunk with
    # less context behind than before is taken by patch(1) for one at the end of the file.
    head, tail = common_lines(old, new)
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail])
    middle = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    opcodes = [("equal", 0, head, 0, head)] * bool(head) + middle
    opcodes += [("equal", len(old) - tail, len(old), len(new) - tail, len(new))] * bool(tail)
    for group in _groups(opcodes):
        yield from _hunk(group, old, new, skipped)


def _groups(opcodes: list[_Op]) -> Iterator[list[_Op]]:
    """The operations of each hunk: changes that stand close, with their context."""
    group: list[_Op] = []
    for tag, a, b, c, d in opcodes:
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        if group:
            kept = min(_CONTEXT, b - a)
            if b - a <= 2 * _CONTEXT and b != opcodes[-1][2]:
                group.append((tag, a, b, c, d))
                continue
            yield [*group, (tag, a, a + kept, c, c + kept)]
        first = max(a, b - _CONTEXT)
        group = [(tag, first, b, d - (b - first), d)]
    if any(op[0] != "equal" for op in group):
        yield group


def _hunk(group: list[_Op], old: list[str], new: list[str], skipped: int) -> Iterator[str]:
    (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
    yield f"@@ -{_span(a, b, skipped)} +{_span(c, d, skipped)} @@\n"
    for tag, a, b, c, d in group:
        if tag == "equal":
            for line in old[a:b]:
                yield _show(" " + line)
            continue
        for line in old[a:b]:
            yield _show("-" + line)
        for line in new[c:d]:
            yield _show("+" + line)


def _span(start: int, stop: int, skipped: int) -> str:
    """`first,count` as diff writes it: one line has no count, an empty side counts the line before."""
    length = stop - start
    first = start + skipped + (1 if length else 0)
    return str(first) if length == 1 else f"{first},{length}"


def _as_blocks(old: list[str], new: list[str], skipped: int) -> Iterator[str]:
    head, tail = common_lines(old, new)
    first = max(0, head - _CONTEXT)
    last = max(0, tail - _CONTEXT)
    sizes = [len(lines) - last - first for lines in (old, new)]
    yield f"@@ -{skipped + first + 1},{sizes[0]} +{skipped + first + 1},{sizes[1]} @@\n"
    marked = [
        *((" ", line) for line in old[first:head]),
        *(("-", line) for line in old[head : len(old) - tail]),
        *(("+", line) for line in new[head : len(new) - tail]),
        *((" ", line) for line in old[len(old) - tail : len(old) - last]),
    ]
    for sign, line in marked:
        yield _show(sign + line)


def _show(line: str) -> str:
    """A diff line that ends in a newline, a missing one marked as git does, overlong ones cut."""
    body = line[:-1] if line.endswith("\n") else line
    if len(body) > _MAX_LINE:
        body = f"{clip(body, 0, _MAX_LINE)}… ({len(body) - 1} characters)"
    return body + "\n" if line.endswith("\n") else body + "\n\\ No newline at end of file\n"


def _cut(lines: Iterator[str], max_chars: int) -> str:
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > max_chars and len(kept) > 2:
            signs = Counter([line[0], *(rest[0] for rest in lines)])
            more = f"{signs.total()} more lines, +{signs['+']} -{signs['-']}"
            kept.append(f"[diff cut here: {more}]\n")
            break
        kept.append(line)
    return "".join(kept)


_MOST_LINES: Final = 20_000  # lines between the common ends that are compared one with another


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge gave.

    Attributes:
        data: the merged bytes, None where both sides changed the same or adjacent lines.
        conflicts: each such place with both versions and markers, as text for people.
    """

    data: bytes | None
    conflicts: tuple[str, ...] = ()


def merge3(base: bytes, mine: bytes, theirs: bytes) -> MergeResult:
    """Apply to `mine` what changed from `base` to `theirs`.

    Lines keep their endings; a change next to another without an unchanged line between them
    is a conflict, as in git-merge-file(1). Binary content merges only where one side is unchanged.
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
    merged, conflicts = _weave(*cut, before=base.count(b"\n", 0, head))
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


def _weave(
    base: list[bytes], mine: list[bytes], theirs: list[bytes], *, before: int
) -> tuple[list[bytes], list[str]]:
    """The merged lines and the conflicts; `before` lines of the file come before these."""
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
            conflicts.append(_conflict(before + at_mine + 1, ours, new))
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
