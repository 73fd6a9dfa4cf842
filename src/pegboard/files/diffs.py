"""Unified diffs of whole files for people, in time and size that do not follow the file's."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterator
from typing import Final

from pegboard.files.names import shown
from pegboard.files.spans import common_ends

CONTEXT_LINES: Final = 3
_MOST_LINES: Final = 10_000  # changed lines on one side that difflib is given
_MOST_CHARS: Final = 200_000
_SNIFF_BYTES: Final = 8192
_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"


def unified(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    moved_to: str | None = None,
    mode: int | None = None,
) -> str:
    """The diff of one file; one line for binary content, links and unchanged moves.

    Args:
        path: as shown in the header.
        before, after: whole contents, None where the file is not there.
        moved_to: the new path of a move.
        mode: the new mode; a link's content is its target.
    """
    old = f"a/{shown(path)}" if before is not None else "/dev/null"
    new = f"b/{shown(moved_to or path)}" if after is not None else "/dev/null"
    if before != after and mode is not None and stat.S_ISLNK(mode):
        return f"Symbolic link {shown(path)}: {_link(before)} -> {_link(after)}\n"
    if before == after:
        if moved_to is not None:
            return f"rename {shown(path)} => {shown(moved_to)}\n"
        return f"mode {shown(path)} => {stat.S_IMODE(mode or 0):o}\n"
    a, b = before or b"", after or b""
    if _is_binary(a) or _is_binary(b):
        return f"Binary files {old} ({len(a)} bytes) and {new} ({len(b)} bytes) differ\n"
    if not a and not b:
        return f"--- {old}\n+++ {new}\n"
    body = "".join(_hunks(a, b))
    if len(body) > _MOST_CHARS:
        left_out = body.count("\n", _MOST_CHARS)
        body = body[:_MOST_CHARS] + f"\n… {left_out} more lines of this diff are not shown\n"
    return f"--- {old}\n+++ {new}\n{body}"


def _link(target: bytes | None) -> str:
    return "none" if target is None else shown(target.decode("utf-8", "backslashreplace"))


def _is_binary(data: bytes) -> bool:
    head = data[:_SNIFF_BYTES]
    return b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))


def _hunks(a: bytes, b: bytes) -> Iterator[str]:
    encoding = next((name for mark, name in _BOMS if a.startswith(mark) or b.startswith(mark)), "utf-8")
    skipped, cut_a, cut_b = 0, a, b
    if encoding != "utf-16":
        skipped, cut_a, cut_b = _middle(a, b)
    old, new = _lines(cut_a, encoding), _lines(cut_b, encoding)
    if all(line.endswith("\r\n") for line in old[:-1] + new[:-1]) and len(old) + len(new) > 2:
        old, new = [_strip(line) for line in old], [_strip(line) for line in new]
    if max(len(old), len(new)) > _MOST_LINES:
        yield f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@\n"
        yield from (_shown("-", line) for line in old)
        yield from (_shown("+", line) for line in new)
        return
    matcher = difflib.SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        yield (f"@@ -{_range(first[1], last[2], skipped)} +{_range(first[3], last[4], skipped)} @@\n")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_shown(" ", line) for line in old[i1:i2])
                continue
            yield from (_shown("-", line) for line in old[i1:i2])
            yield from (_shown("+", line) for line in new[j1:j2])


def _middle(a: bytes, b: bytes) -> tuple[int, bytes, bytes]:
    """The lines that differ with some context around: how many lines come before, and both middles."""
    prefix, suffix = common_ends(a, b)
    start = prefix
    for _ in range(CONTEXT_LINES + 1):
        start = a.rfind(b"\n", 0, start)
        if start < 0:
            break
    start = max(start + 1, 0) if start >= 0 else 0
    end = len(a) - suffix
    for _ in range(CONTEXT_LINES + 1):
        found = a.find(b"\n", end)
        end = len(a) if found < 0 else found + 1
    behind = len(a) - end
    return a.count(b"\n", 0, start), a[start:end], b[start : len(b) - behind]


def _lines(data: bytes, encoding: str) -> list[str]:
    text = data.decode(encoding, "backslashreplace")
    lines = text.split("\n")
    last = lines.pop()
    out = [line + "\n" for line in lines]
    return [*out, last] if last else out


def _strip(line: str) -> str:
    return line[:-2] + "\n" if line.endswith("\r\n") else line


def _shown(mark: str, line: str) -> str:
    line = line.replace("\r", "␍")
    return mark + line if line.endswith("\n") else mark + line + _NO_NEWLINE


def _range(start: int, stop: int, skipped: int) -> str:
    """A hunk's range as GNU diff writes it."""
    first, length = start + skipped + 1, stop - start
    if length == 1:
        return str(first)
    return f"{first if length else first - 1},{length}"
