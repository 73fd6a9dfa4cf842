"""The lines around grep's hits, read from an open file, long ones cut around the hit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from pegboard.core.secrets.clip import clip
from pegboard.files.decoding import WHOLE_BYTES, as_utf8
from pegboard.files.lineindex import LineIndex
from pegboard.files.scan import LineHit
from pegboard.files.slices import HEAD_BYTES, line_end
from pegboard.files.text import line_start, read_slice
from pegboard.ports.files import GrepMatch
from pegboard.textedit.encoding import bom_encoding, bom_length, is_utf8, name_of
from pegboard.textedit.invalid_bytes import bytes_of, shown_utf8

MAX_LINE: Final = 500
"""Characters of a line that is shown whole."""

AROUND: Final = 300
"""Characters that a longer line is cut to."""


def excerpts(fd: int, hits: Sequence[LineHit], *, before: int, after: int) -> Iterator[GrepMatch]:
    """The hits' lines with some lines before and after, each line once, in order; `path` is empty."""
    by_line = {hit.line: hit for hit in hits}
    lines = _whole(fd)
    if lines is None:
        yield from _from_large(fd, by_line, before, after)
        return
    for number in _numbers(by_line, before, after, len(lines)):
        hit = by_line.get(number)
        yield GrepMatch(
            path="",
            line=number,
            text=_shown(lines[number - 1], hit),
            is_match=hit is not None,
        )


def _numbers(by_line: dict[int, LineHit], before: int, after: int, total: int) -> list[int]:
    near = {n for line in by_line for n in range(line - before, line + after + 1)}
    return sorted(n for n in near if 1 <= n <= total)


def _whole(fd: int) -> list[bytes] | None:
    """The file's lines in UTF-8, None where it is too large for that."""
    size = os.fstat(fd).st_size
    if size > WHOLE_BYTES:
        return None
    data = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
    marked = bom_encoding(data[:4])
    if marked not in (None, "utf-8-sig"):
        data = data.decode(marked or "utf-8", "replace")[1:].encode("utf-8", "replace")
    elif (end := line_end(fd, data[:HEAD_BYTES])) == b"\r" or not is_utf8(data):
        data = as_utf8(data[bom_length(data) :], name_of(data), end)
    else:
        data = data[bom_length(data) :]
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _shown(line: bytes, hit: LineHit | None) -> str:
    """The line as text without its end; a long one is cut around its hit and says so."""
    line = line.removesuffix(b"\r")
    if len(line) <= MAX_LINE:
        return shown_utf8(line).replace("\0", "\u2400")
    start = 0 if hit is None else max(0, min(hit.start, len(line)) - AROUND // 2)
    piece = line[start : start + AROUND * 4]
    # Do not start inside a character.
    while piece and piece[0] & 0xC0 == 0x80:
        start, piece = start + 1, piece[1:]
    text = shown_utf8(piece)
    if start == 0 and len(line) <= AROUND * 4 and len(text) <= MAX_LINE:
        return text.replace("\0", "\u2400")
    after = len(line) - start - len(bytes_of(text[:AROUND]))
    ahead = shown_utf8(line[max(0, start - AROUND) : start])
    text = clip(ahead + text, len(ahead), len(ahead) + AROUND).replace("\0", "\u2400")
    before = f"[… {start} bytes] " if start else ""
    return f"{before}{text}" + (f" [{after} bytes …]" if after > 0 else "")


def _from_large(fd: int, by_line: dict[int, LineHit], before: int, after: int) -> Iterator[GrepMatch]:
    """The same from a file that is not held in memory: by slices, found by a line index."""
    index = LineIndex(1)
    shown = 0
    for line in sorted(by_line):
        first = max(1, line - before, shown + 1)
        wanted = line + after - first + 1
        if wanted < 1:
            continue
        piece = read_slice(fd, offset=first, limit=wanted, index=index, check_binary=False)
        for number, text in enumerate(piece.text.removesuffix("\n").split("\n"), piece.first):
            hit = by_line.get(number)
            shown = number
            body = text.encode("utf-8", "replace")
            if hit is not None and number in piece.cut:
                body = _far(fd, number, hit, index) or body
                hit = LineHit(hit.line, min(hit.start, AROUND))
            yield GrepMatch(path="", line=number, text=_shown(body, hit), is_match=number in by_line)


def _far(fd: int, number: int, hit: LineHit, index: LineIndex) -> bytes:
    """Bytes around a hit in a line too long for a slice."""
    start = line_start(fd, number, index)
    return b"" if start is None else os.pread(fd, AROUND * 8, start + max(0, hit.start - AROUND))
