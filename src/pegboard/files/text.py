"""Reads some lines of a text file in bounded memory, and remembers where lines are."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.core.secrets.clip import clip
from pegboard.files.access_rules import hard_link_note
from pegboard.files.lineindex import LineIndex, LineOffsets
from pegboard.files.media import sniff_type
from pegboard.files.slices import (
    BLOCK,
    HEAD_BYTES,
    SLICE_BYTES,
    WHOLE_BYTES,
    Chunks,
    SliceRequest,
    fill,
    line_end,
)
from pegboard.files.widetext import wide_slice
from pegboard.ports.files import Slice
from pegboard.textedit.encoding import bom_encoding, is_utf8, name_of
from pegboard.textedit.invalid_bytes import bad_bytes, marked, shown_utf8

DEFAULT_LIMIT: Final = 2000
"""Lines of one slice where the caller names no limit."""

MAX_LINE: Final = 2000
"""Characters of one line; the rest of a longer line is left out and its number reported."""


_COUNT_BYTES: Final = 64 << 20


def read_slice(
    fd: int,
    *,
    offset: int = 1,
    limit: int | None = None,
    max_line: int = MAX_LINE,
    index: LineIndex | None = None,
    check_binary: bool = True,
) -> Slice:
    """Lines `offset` to `offset + limit - 1` of the open regular file `fd`, decoded.

    Lines end at LF or CRLF; at CR alone only where the file has no LF. Each keeps its ending as
    `\\n`, so consecutive slices joined are the file.

    Args:
        offset: 1-based; -N starts at the N-th last line.
        limit: lines at most, None = 2,000. A slice also ends before it exceeds 4 MiB.
        max_line: characters of one line.
        index: remembers what this call counted; a later slice then starts without a scan.
        check_binary: refuse a file whose type or NUL bytes say that it is no text.

    Memory stays under about 16 MiB whatever the file is. Files up to 4 MiB are read whole and hashed.

    Raises:
        InvalidArguments: offset 0, or a limit below 1.
        Unsupported: not a regular file, or binary; `details` has `binary`, `mime_type`, `size`.
    """
    if offset == 0 or (limit is not None and limit < 1):
        raise InvalidArguments(
            f"offset {offset} and limit {limit} name no line",
            hint="Lines count from 1; offset -N starts at the N-th last line; limit is at least 1.",
        )
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        raise Unsupported("not a regular file: a device, pipe, socket or folder has no lines to read")
    head = os.pread(fd, HEAD_BYTES, 0)
    marked = bom_encoding(head)
    wanted = SliceRequest(offset, DEFAULT_LIMIT if limit is None else limit, max_line, check_binary)
    if marked is not None and marked.startswith(("utf-16", "utf-32")):
        return wide_slice(fd, facts, marked, wanted)
    separator = line_end(fd, head)
    lines = (index or LineIndex()).lines_of(facts, separator)
    return _Reader(fd, facts, head, separator, lines).read(wanted)


def line_start(fd: int, number: int, index: LineIndex) -> int | None:
    """Offset of the first byte of a line that ends in LF, None where there is no such line."""
    facts = os.fstat(fd)
    return _Reader(fd, facts, b"", b"\n", index.lines_of(facts, b"\n")).start_of(number)


@dataclass(frozen=True, slots=True)
class _Reader:
    """One reading of one file in an encoding whose line ends are single bytes."""

    fd: int
    facts: os.stat_result
    head: bytes
    separator: bytes
    lines: LineOffsets

    def read(self, wanted: SliceRequest) -> Slice:
        size = self.facts.st_size
        whole = self._whole() if size <= WHOLE_BYTES else None
        total = self.total() if wanted.offset < 0 or size <= _COUNT_BYTES or self.lines.complete else None
        first = wanted.offset if wanted.offset > 0 else max(1, (total or 0) + wanted.offset + 1)
        start = self.start_of(first)
        raw, cut, ended = ([], [], True) if start is None else self._take(start, first, wanted)
        if ended:
            total = self.total()
        if wanted.check_binary:
            self._refuse_binary(raw)
        encoding = self._encoding(whole, raw)
        text = _decode(raw, cut, first, encoding, wanted.max_line, self.separator)
        if first == 1:
            text = text.removeprefix("\ufeff")
        return Slice(
            notes=_notes(text, raw, encoding, self.facts.st_nlink),
            text=text,
            first=first if raw else 0,
            last=first + len(raw) - 1 if raw else 0,
            total=total,
            encoding=encoding,
            newline=_newline(self.head if whole is None else whole, raw),
            sha256=hashlib.sha256(whole).hexdigest() if whole is not None else "",
            size=size,
            cut=tuple(cut),
        )

    def _whole(self) -> bytes:
        return b"".join(Chunks(self.fd, 0, self.facts.st_size))

    def total(self) -> int:
        """The number of lines; an unended last line counts."""
        size = self.facts.st_size
        if size == 0:
            return 0
        self._scan(None)
        ends = self.lines.ends[-1] if self.lines.ends else 0
        return ends + (os.pread(self.fd, 1, size - 1) != self.separator)

    def start_of(self, number: int) -> int | None:
        """Offset of the first byte of a line, None where there is no such line."""
        if number == 1:
            return 0 if self.facts.st_size else None
        self._scan(number - 1)
        ends = self.lines.ends
        block = bisect_left(ends, number - 1)
        if block == len(ends):
            return None
        before = ends[block - 1] if block else 0
        data = os.pread(self.fd, BLOCK, block * BLOCK)
        at = _nth(data, self.separator, number - 1 - before)
        start = block * BLOCK + at + 1
        return start if start < self.facts.st_size else None

    def _scan(self, ends_wanted: int | None) -> None:
        """Count on until `ends_wanted` line ends are known, or the whole file is."""
        lines = self.lines
        with lines.lock:
            known = lines.ends[-1] if lines.ends else 0
            if lines.complete or (ends_wanted is not None and known >= ends_wanted):
                return
            buffer = bytearray(BLOCK)
            count, separator = known, self.separator
            while True:
                got = fill(self.fd, buffer, len(lines.ends) * BLOCK)
                if got:
                    count += buffer.count(separator) if got == BLOCK else buffer.count(separator, 0, got)
                    if got == BLOCK:
                        lines.ends.append(count)
                if got < BLOCK:
                    lines.ends.append(count)
                    lines.complete = True
                    return
                if ends_wanted is not None and count >= ends_wanted:
                    return

    def _take(self, start: int, first: int, wanted: SliceRequest) -> tuple[list[bytes], list[int], bool]:
        """Raw lines with their ends, numbers of the cut ones, and whether the file ended."""
        keep = wanted.max_line * 4 + 4
        raw: list[bytes] = []
        cut: list[int] = []
        held = bytearray()
        budget = SLICE_BYTES
        long = False
        for chunk in Chunks(self.fd, start, self.facts.st_size):
            position = 0
            while position < len(chunk):
                end = chunk.find(self.separator, position)
                stop = len(chunk) if end < 0 else end + 1
                room = keep - len(held)
                held += chunk[position : min(stop, position + max(0, room))]
                long = long or stop - position > room
                position = stop
                if end < 0:
                    break
                _finish(raw, cut, held, long, first, self.separator)
                budget -= len(held)
                held, long = bytearray(), False
                if len(raw) >= wanted.limit or budget <= 0:
                    return raw, cut, False
        if held:
            _finish(raw, cut, held, long, first, b"")
        return raw, cut, True

    def _refuse_binary(self, raw: list[bytes]) -> None:
        kind = sniff_type(self.head)
        if kind is None and not any(b"\0" in line for line in raw):
            return
        kind = kind or "application/octet-stream"
        size = self.facts.st_size
        raise Unsupported(
            f"binary file ({kind}, {size} bytes): it has no lines to show",
            hint="Use a tool for its type, or look at its bytes with a command such as `xxd`.",
            details={"binary": True, "mime_type": kind, "size": size},
        )

    def _encoding(self, whole: bytes | None, raw: list[bytes]) -> str:
        if whole is not None:
            return name_of(whole)
        if self.head.startswith(codecs.BOM_UTF8):
            return "utf-8-sig"
        # In a large file only its head and the slice are judged: a slice must show true text.
        body = b"".join(line for line in raw)
        if is_utf8(self.head, whole=False) and is_utf8(body):
            return "utf-8"
        return name_of(self.head + body, whole=False)


def _finish(
    raw: list[bytes], cut: list[int], held: bytearray, long: bool, first: int, separator: bytes
) -> None:
    if long:
        cut.append(first + len(raw))
        held += separator
    raw.append(bytes(held))


def _nth(data: bytes, separator: bytes, number: int) -> int:
    """Index of the `number`-th separator (1-based) in `data`."""
    at = -1
    for _ in range(number):
        at = data.index(separator, at + 1)
    return at


def _decode(
    raw: list[bytes], cut: list[int], first: int, encoding: str, max_line: int, separator: bytes
) -> str:
    """The lines as text; every line end becomes `\\n`, long lines are cut at a character."""
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    shortened = set(cut)
    text: list[str] = []
    # What is no UTF-8 gets a mark that an edit turns back into its byte; U+FFFD would be written into the file.
    errors = "surrogateescape" if name == "utf-8" else "replace"
    for number, line in enumerate(raw, first):
        if number not in shortened and len(line) <= max_line:
            shown = shown_utf8(line) if name == "utf-8" else line.decode(name, errors)
            text.append(_ended(shown, separator))
            continue
        ended = line.endswith(separator)
        body = codecs.getincrementaldecoder(name)(errors).decode(line.rstrip(b"\r\n"), final=False)
        body = marked(body)
        if len(body) > max_line and number not in shortened:
            cut.append(number)
        text.append(clip(body, 0, max_line) + ("\n" if ended else ""))
    cut.sort()
    return "".join(text)


def _notes(text: str, raw: list[bytes], encoding: str, names: int) -> tuple[str, ...]:
    """What whoever reads the lines must know about the file."""
    out: list[str] = []
    if encoding.startswith("utf-8") and (bad := bad_bytes(text)) and not is_utf8(b"".join(raw)):
        out.append(
            f"bytes of these lines that are no UTF-8: {bad}, shown as U+EF80 to U+EFFF (U+EFE9 is the byte E9);"
            " edits keep them as they are"
        )
    return (*out, *hard_link_note(names))


def _ended(line: str, separator: bytes) -> str:
    if line.endswith("\r\n"):
        return line[:-2] + "\n"
    if separator == b"\r" and line.endswith("\r"):
        return line[:-1] + "\n"
    return line


def _newline(sample: bytes, raw: list[bytes]) -> str:
    """The line end that the file (as far as it was looked at) uses."""
    crlf = lf = cr = 0
    for data in (sample, b"".join(raw)):
        pairs = data.count(b"\r\n")
        crlf += pairs
        lf += data.count(b"\n") - pairs
        cr += data.count(b"\r") - pairs
    kinds = [name for name, count in (("\r\n", crlf), ("\n", lf), ("\r", cr)) if count]
    if len(kinds) > 1:
        # A lone CR inside an LF file (a progress bar in a log) is no line end there.
        return "mixed" if crlf and lf else ("\r\n" if crlf else "\n")
    return kinds[0] if kinds else "\n"
