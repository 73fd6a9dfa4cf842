"""Searches one open file for an expression, line by line, in bounded memory."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import AnyStr, Final

from pegboard.files.decoding import needs_decoding
from pegboard.files.regex import Expression
from pegboard.files.slices import HEAD_BYTES, line_end
from pegboard.textedit.encoding import bom_encoding, is_utf8

BINARY_BYTES: Final = 32 << 20
"""How much of a binary file is searched."""
_PIECE: Final = 16 << 20
_MAX_PIECE: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class LineHit:
    """One matching line: its 1-based number, and where in it (bytes of UTF-8) the first match starts."""

    line: int
    start: int


#: Bytes that are no UTF-8, as `surrogateescape` decodes them.
_BAD: Final = re.compile("[\udc80-\udcff]")


class _NeedsDecoding(Exception):
    """The file's bytes are no UTF-8, or its lines end in CR alone."""


class Scanner:
    """Searches one file after another for an expression."""

    def __init__(self, expression: Expression) -> None:
        self._wide = re.compile(expression.source, expression.flags())
        self._multiline = expression.multiline
        self._ascii_only = expression.ascii_only
        # UTF-8 is self-synchronising: a literal is found in bytes as it is in text.
        self._always_narrow = expression.literal is not None and not expression.ignore_case
        self._narrow: re.Pattern[bytes] | None = None
        if expression.literal is not None and self._always_narrow:
            self._narrow = re.compile(re.escape(os.fsencode(expression.literal)))
        elif expression.source.isascii():
            self._narrow = re.compile(expression.source.encode("ascii"), expression.flags())

    def plain(self, fd: int, most: int) -> list[LineHit] | None:
        """The first `most` (0 = all) matching lines of an open file, None where it is to be searched decoded."""
        if self._ascii_only:
            # Only where the bytes match can the text do so: most files need no look at their encoding.
            hits = self.raw(fd, most)
            return None if hits and needs_decoding(fd, os.pread(fd, HEAD_BYTES, 0)) else hits
        try:
            return self._first(_pieces(fd, self._piece, strict=True), most)
        except _NeedsDecoding:
            return None

    def raw(self, fd: int, most: int) -> list[LineHit]:
        """The same, whatever the file's bytes are; those that are no UTF-8 match nothing."""
        return self._first(_pieces(fd, self._piece, strict=False), most)

    def text(self, pieces: Iterator[bytes], most: int) -> list[LineHit]:
        """The same in the text that the bytes stand for, as `decoded` gives it."""
        return self._first(pieces, most)

    @property
    def _piece(self) -> int:
        return _MAX_PIECE if self._multiline else _PIECE

    def _first(self, pieces: Iterator[bytes], most: int) -> list[LineHit]:
        return list(islice(self._scan(pieces), most or None))

    def _scan(self, pieces: Iterator[bytes]) -> Iterator[LineHit]:
        """Hits piece by piece; in ASCII the byte pattern says the same as the text one."""
        line, dropped, last = 1, 0, 0
        for piece in pieces:
            for number, start in self._found(piece):
                if line + number == last:
                    continue
                last = line + number
                yield LineHit(last, start + (dropped if number == 0 else 0))
            line += piece.count(b"\n")
            # A line longer than a piece goes on in the next one.
            dropped = 0 if piece.endswith(b"\n") else dropped + len(piece) - (piece.rfind(b"\n") + 1)

    def _found(self, piece: bytes) -> Iterator[tuple[int, int]]:
        """`(line from 0, start)` in bytes of each matching line of a piece."""
        narrow, wide = self._narrow, self._wide
        if narrow is not None and (self._always_narrow or piece.isascii()):
            spans = _spans(narrow, piece, b"\n") if self._multiline else _lines(narrow, piece, b"\n", None)
            for number, begin, start in spans:
                yield number, start - begin
            return
        text = piece.decode("utf-8", "surrogateescape")
        reject = None if text.isascii() or not _BAD.search(text) else _BAD
        found = _spans(wide, text, "\n") if self._multiline else _lines(wide, text, "\n", reject)
        for number, begin, start in found:
            yield number, len(text[begin:start].encode("utf-8", "surrogateescape"))


def _lines(
    pattern: re.Pattern[AnyStr], data: AnyStr, feed: AnyStr, reject: re.Pattern[AnyStr] | None
) -> Iterator[tuple[int, int, int]]:
    """`(line from 0, its begin, start)` of the first match in each matching line.

    The whole piece is searched at once; a hit is then tried again within its line, because
    classes such as `\\s` and `[^x]` may have run over the line's end. A match that holds what
    `reject` finds (bytes that are no UTF-8, which ripgrep's `.` does not match) is none.
    """
    position, number, counted, size = 0, 0, 0, len(data)
    while position < size:
        found = pattern.search(data, position)
        # Behind the last line end there is no line; at the end of an unended line there is one.
        if found is None or (found.start() == size and data.endswith(feed)):
            return
        begin = data.rfind(feed, position, found.start()) + 1 or position
        end = data.find(feed, found.start())
        end = size if end < 0 else end
        if found.end() > end:
            found = pattern.search(data, begin, end)
        while found is not None and reject is not None and reject.search(data, found.start(), found.end()):
            found = pattern.search(data, found.start() + 1, end)
        if found is not None:
            number += data.count(feed, counted, begin)
            counted = begin
            yield number, begin, found.start()
        position = end + 1


def _spans(pattern: re.Pattern[AnyStr], data: AnyStr, feed: AnyStr) -> Iterator[tuple[int, int, int]]:
    """The same for matches over several lines: every line that a match touches is one."""
    number, counted, size = 0, 0, len(data)
    for found in pattern.finditer(data):
        start, end = found.span()
        if start >= size:
            return
        at = data.rfind(feed, 0, start) + 1
        number += data.count(feed, counted, at)
        counted = at
        inner = number
        while True:
            stop = data.find(feed, at)
            stop = size if stop < 0 else stop
            yield inner, at, max(start, at)
            at, inner = stop + 1, inner + 1
            if at >= end or at >= size:
                break


def _pieces(fd: int, size: int, *, strict: bool) -> Iterator[bytes]:
    """The file's content as UTF-8 without a byte order mark and with LF ends, cut at line ends.

    Raises:
        _NeedsDecoding: `strict`, and its bytes are other text than that.
    """
    # Most files are small, and a read allocates what it asks for.
    head = os.read(fd, HEAD_BYTES)
    marked = bom_encoding(head[:4])
    binary = marked is None and b"\0" in head
    if marked not in (None, "utf-8-sig"):
        content, strict = _from_wide(fd, head, size, marked), False
    else:
        content, strict = (
            _from_bytes(fd, head[3:] if marked else head, head, size, binary),
            strict and not binary,
        )
    if strict and line_end(fd, head) == b"\r":
        raise _NeedsDecoding
    for piece in _cut(content, size):
        # A piece of full size without a line end may stop inside a character.
        if strict and not is_utf8(piece, whole=len(piece) < size or piece.endswith(b"\n")):
            raise _NeedsDecoding
        yield _unix(piece)


def _cut(content: Iterator[bytes], size: int) -> Iterator[bytes]:
    held = b""
    for block in content:
        data = held + block if held else block
        cut = data.rfind(b"\n") + 1
        if cut == 0 and len(data) < size:
            held = data
            continue
        cut = cut or len(data)
        held = data[cut:]
        yield data[:cut] if held else data
    if held:
        yield held.removesuffix(b"\r")


def _unix(piece: bytes) -> bytes:
    return piece.replace(b"\r\n", b"\n") if b"\r" in piece else piece


def _from_bytes(fd: int, block: bytes, head: bytes, size: int, binary: bool) -> Iterator[bytes]:
    yield block
    # Of a binary file only its name is told: a disk image is not read to its end for that.
    left = BINARY_BYTES if binary else None
    asked, got = HEAD_BYTES, len(head)
    # A regular file that gave less than was asked for has ended.
    while got == asked:
        asked = size
        block = os.read(fd, asked)
        got = len(block)
        yield block
        if left is not None:
            left -= got
            if left <= 0:
                return


def _from_wide(fd: int, block: bytes, size: int, encoding: str | None) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace")
    text = decoder.decode(block)[1:]
    while block:
        yield text.encode("utf-8", "surrogatepass")
        block = os.read(fd, size)
        text = decoder.decode(block)
