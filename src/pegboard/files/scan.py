"""Searches one open file for an expression, line by line, in bounded memory."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import AnyStr, Final

from pegboard.files.regex import Expression
from pegboard.textedit.encoding import bom_encoding

BINARY_BYTES: Final = 32 << 20
"""How much of a binary file is searched."""
_FIRST: Final = 64 << 10
_PIECE: Final = 16 << 20
_MAX_PIECE: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Hit:
    """One matching line: its 1-based number, and where in it (bytes of UTF-8) the first match starts."""

    line: int
    start: int


#: Bytes that are no UTF-8, as `surrogateescape` decodes them.
_BAD: Final = re.compile("[\udc80-\udcff]")

Scan = Callable[[int], Iterator[Hit]]
"""Gives the matching lines of an open file in order."""


def compile_scan(expression: Expression) -> Scan:
    """The scanner of an expression.

    Raises:
        re.error: never for an expression that `parse_expression` gave.
    """
    wide = re.compile(expression.source, expression.flags())
    pure = expression.source.isascii()
    if expression.literal is not None and not expression.ignore_case:
        # UTF-8 is self-synchronising: a literal is found in bytes as it is in text.
        narrow: re.Pattern[bytes] | None = re.compile(re.escape(os.fsencode(expression.literal)))
        return lambda fd: _scan(fd, narrow, wide, always_narrow=True, multiline=expression.multiline)
    narrow = re.compile(expression.source.encode("ascii"), expression.flags()) if pure else None
    return lambda fd: _scan(fd, narrow, wide, always_narrow=False, multiline=expression.multiline)


def _scan(
    fd: int,
    narrow: re.Pattern[bytes] | None,
    wide: re.Pattern[str],
    *,
    always_narrow: bool,
    multiline: bool,
) -> Iterator[Hit]:
    """Hits of a file, piece by piece; in ASCII the byte pattern says the same as the text one."""
    line, dropped, last = 1, 0, 0
    for piece in _pieces(fd, _MAX_PIECE if multiline else _PIECE):
        for number, start in _found(piece, narrow, wide, always_narrow, multiline):
            if line + number == last:
                continue
            last = line + number
            yield Hit(last, start + (dropped if number == 0 else 0))
        line += piece.count(b"\n")
        # A line longer than a piece goes on in the next one.
        dropped = 0 if piece.endswith(b"\n") else dropped + len(piece) - (piece.rfind(b"\n") + 1)


def _found(
    piece: bytes,
    narrow: re.Pattern[bytes] | None,
    wide: re.Pattern[str],
    always_narrow: bool,
    multiline: bool,
) -> Iterator[tuple[int, int]]:
    """`(line from 0, start)` in bytes of each matching line of a piece."""
    if narrow is not None and (always_narrow or piece.isascii()):
        spans = _spans(narrow, piece, b"\n") if multiline else _lines(narrow, piece, b"\n", None)
        for number, begin, start in spans:
            yield number, start - begin
        return
    text = piece.decode("utf-8", "surrogateescape")
    reject = None if text.isascii() or not _BAD.search(text) else _BAD
    for number, begin, start in _spans(wide, text, "\n") if multiline else _lines(wide, text, "\n", reject):
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


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    """The file's content as UTF-8 without a byte order mark and with LF ends, cut at line ends."""
    held = b""
    for block in _content(fd, size):
        data = held + block if held else block
        cut = data.rfind(b"\n") + 1
        if cut == 0 and len(data) < size:
            held = data
            continue
        cut = cut or len(data)
        held = data[cut:]
        yield _unix(data[:cut] if held else data)
    if held:
        yield _unix(held).removesuffix(b"\r")


def _unix(piece: bytes) -> bytes:
    return piece.replace(b"\r\n", b"\n") if b"\r" in piece else piece


def _content(fd: int, size: int) -> Iterator[bytes]:
    # Most files are small, and a read allocates what it asks for.
    asked = _FIRST
    block = os.read(fd, asked)
    marked = bom_encoding(block[:4])
    if marked in (None, "utf-8-sig"):
        yield block[3:] if marked else block
        # Of a binary file only its name is told: a disk image is not read to its end for that.
        left = BINARY_BYTES if marked is None and b"\0" in block else None
        # A regular file that gave less than was asked for has ended.
        while len(block) == asked:
            asked = size
            block = os.read(fd, asked)
            yield block
            if left is not None:
                left -= len(block)
                if left <= 0:
                    return
        return
    decoder = codecs.getincrementaldecoder(marked)("replace")
    text = decoder.decode(block)[1:]
    while block:
        yield text.encode("utf-8", "surrogatepass")
        block = os.read(fd, size)
        text = decoder.decode(block)
