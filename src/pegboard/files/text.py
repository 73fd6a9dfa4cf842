"""Text files as lines: slices in bounded memory, and where lines begin in large files."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.core.secrets.clip import AROUND, BEFORE, SEVERAL_LINES, clip
from pegboard.files.roots import hard_link_note
from pegboard.ports.documents import OFFICE
from pegboard.ports.files import Slice
from pegboard.textedit.encoding import (
    bad_bytes,
    bom_encoding,
    bom_length,
    guess_note,
    is_binary,
    is_utf8,
    marked,
    name_of,
    named_codec,
    shown_utf8,
    wide_codec,
)

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-elf"),
    (b"\xcf\xfa\xed\xfe", "application/x-mach-binary"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"MZ\x90\x00", "application/vnd.microsoft.portable-executable"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x00asm", "application/wasm"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)

_OFFICE_PARTS: Final = (b"[Content_Types].xml", b"_rels/.rels")
"""What stands first in an Office file (ECMA-376 part 2), whichever program wrote it."""

_BRANDS: Final = {
    b"avif": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif",
    b"M4A ": "audio/mp4", b"qt  ": "video/quicktime",
}  # fmt: skip


def sniff_type(head: bytes) -> str | None:
    """The media type that the first bytes give away, None where they say nothing."""
    if head.startswith(b"RIFF") and len(head) >= 12:
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(head[8:12])
    if head.startswith(b"PK\x03\x04") and head[30:50].startswith(_OFFICE_PARTS):
        return OFFICE
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    if head.startswith(b"BM") and len(head) >= 14 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


BLOCK: Final = 1 << 18

SLICE_BYTES: Final = 4 << 20
"""Bytes of one slice; a slice that would be larger ends earlier."""


WHOLE_BYTES: Final = 4 << 20

HEAD_BYTES: Final = 64 << 10
"""How much of a file tells whether it is text."""


@dataclass(frozen=True, slots=True)
class SliceRequest:
    offset: int
    limit: int
    max_line: int
    check_binary: bool


@dataclass(slots=True)
class Chunks:
    """The file from `at` in blocks, up to the size it had when it was opened."""

    fd: int
    at: int
    size: int

    def __iter__(self) -> Chunks:
        return self

    def __next__(self) -> bytes:
        data = os.pread(self.fd, min(BLOCK, max(0, self.size - self.at)), self.at)
        if not data:
            raise StopIteration
        self.at += len(data)
        return data


def line_end(fd: int, head: bytes) -> bytes:
    """What ends the lines of a file: LF, or CR where its head and the next MiB have no LF."""
    if b"\n" in head or b"\r" not in head:
        return b"\n"
    further = len(head) == HEAD_BYTES and b"\n" in os.pread(fd, 1 << 20, len(head))
    return b"\n" if further else b"\r"


def fill(fd: int, buffer: bytearray, at: int) -> int:
    """Fill the buffer from `at` as far as the file goes; bytes read."""
    view = memoryview(buffer)
    got = 0
    while got < len(buffer):
        more = os.preadv(fd, [view[got:]], at + got)
        if more == 0:
            break
        got += more
    return got


@dataclass(slots=True)
class LineOffsets:
    """Where lines end in one file: `ends[i]` separators in the first `i + 1` blocks."""

    ends: array[int] = field(default_factory=lambda: array("Q"))
    complete: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class LineIndex:
    """Remembers line positions of files that were scanned: 8 bytes for each 256 KiB of file.

    Keyed by device, inode, size and both times, so a changed file is a new one. Thread-safe;
    holds at most `files` files.
    """

    def __init__(self, files: int = 64) -> None:
        self._limit = files
        self._known: OrderedDict[tuple[int | bytes, ...], LineOffsets] = OrderedDict()
        self._lock = threading.Lock()

    def lines_of(self, facts: os.stat_result, separator: bytes) -> LineOffsets:
        """The positions known of a file, empty ones where it is new."""
        key = (
            facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, separator,
        )  # fmt: skip
        with self._lock:
            found = self._known.setdefault(key, LineOffsets())
            self._known.move_to_end(key)
            while len(self._known) > self._limit:
                self._known.popitem(last=False)
            return found


def wide_slice(fd: int, facts: os.stat_result, encoding: str, wanted: SliceRequest) -> Slice:
    """A slice of UTF-16 or UTF-32: decoded from the start, since its line ends are no single bytes."""
    if wanted.offset < 0:
        total = wide_slice(fd, facts, encoding, SliceRequest(1 << 62, 1, 1, False)).total or 0
        wanted = replace(wanted, offset=max(1, total + wanted.offset + 1))
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    unit = bom_length(os.pread(fd, 4, 0))
    digest = hashlib.sha256()
    lines: list[str] = []
    cut: list[int] = []
    number, held, length, budget = 1, "", 0, SLICE_BYTES
    crlf = lf = 0
    chunks = Chunks(fd, 0, facts.st_size)
    skip = unit
    ahead, begun = "", False
    for chunk in chunks:
        digest.update(chunk)
        text = decoder.decode(chunk[skip:])
        skip = 0
        pieces = text.split("\n")
        for i, piece in enumerate(pieces):
            inside = wanted.offset <= number and len(lines) < wanted.limit and budget > 0
            if inside and not begun:
                begun = True
                ahead += "".join(before + "\n" for before in pieces[:i])
            if inside:
                held += piece[: max(0, wanted.max_line + 1 - len(held))]
                length += len(piece)
            if i == len(pieces) - 1:
                break
            ends_cr = piece.endswith("\r")
            crlf, lf = crlf + ends_cr, lf + (not ends_cr)
            if inside:
                if length - ends_cr > wanted.max_line:
                    cut.append(number)
                lines.append(held.removesuffix("\r")[: wanted.max_line] + "\n")
                budget -= len(held)
                held, length = "", 0
            number += 1
        if not begun:
            ahead = (ahead + text)[-BEFORE:]
    if held:
        if length > wanted.max_line:
            cut.append(number)
        lines.append(held[: wanted.max_line])
    total = number if _unended(fd, facts.st_size, encoding) else number - 1
    newline = "mixed" if crlf and lf else "\r\n" if crlf else "\n"
    return Slice(
        text=_masked("".join(lines), ahead),
        first=wanted.offset if lines else 0,
        last=wanted.offset + len(lines) - 1 if lines else 0,
        total=total,
        encoding=encoding,
        newline=newline,
        sha256=digest.hexdigest() if facts.st_size <= WHOLE_BYTES else "",
        size=facts.st_size,
        cut=tuple(cut),
        notes=(*_doubts("" if unit else encoding, b""), *hard_link_note(facts.st_nlink)),
    )


def _masked(text: str, ahead: str, behind: str = "") -> str:
    """The text between two others, with marks for what they together show to be secret."""
    if ahead or behind or any(word in text for word in SEVERAL_LINES):
        return clip(ahead + text + behind, len(ahead), len(ahead) + len(text))
    return text


def _unended(fd: int, size: int, encoding: str) -> bool:
    """Whether the last line lacks its line end (and is not empty)."""
    end = "\n".encode(encoding)
    mark = bom_length(os.pread(fd, 4, 0))
    return size > mark and os.pread(fd, len(end), size - len(end)) != end


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
    `\\n`, so consecutive slices joined are the file. Marks stand for secrets that go over lines, as the
    lines around the slice show; no line is lost.

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
    marked = bom_encoding(head) or wide_codec(head)
    wanted = SliceRequest(offset, DEFAULT_LIMIT if limit is None else limit, max_line, check_binary)
    if marked is not None and marked.startswith(("utf-16", "utf-32")):
        return wide_slice(fd, facts, marked, wanted)
    separator = line_end(fd, head)
    lines = (index or LineIndex()).lines_of(facts, separator)
    return _Reader(fd, facts, head, separator, lines).read(wanted)


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
        ahead, behind = ("", "") if start is None else self._around(start, raw, cut, encoding)
        return Slice(
            notes=_notes(text, raw, encoding, self.head, self.facts.st_nlink),
            text=_masked(text, ahead, behind).replace("\0", "\u2400"),
            first=first if raw else 0,
            last=first + len(raw) - 1 if raw else 0,
            total=total,
            encoding=encoding,
            newline=_newline(self.head if whole is None else whole, raw),
            sha256=hashlib.sha256(whole).hexdigest() if whole is not None else "",
            size=size,
            cut=tuple(cut),
        )

    def _around(self, start: int, raw: list[bytes], cut: list[int], encoding: str) -> tuple[str, str]:
        """Some text before and behind the lines, which may tell that a part of a secret stands in them."""
        ahead = os.pread(self.fd, min(start, BEFORE), max(0, start - BEFORE)) if start else b""
        end = start + sum(map(len, raw))
        behind = os.pread(self.fd, AROUND, end) if end < self.facts.st_size and not cut else b""
        return ahead.decode(encoding, "replace"), behind.decode(encoding, "replace")

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
        body = b"".join(raw)
        if kind is None and not (b"\0" in body and is_binary(self.head + body)):
            return
        padded = {"text": True} if kind is None and not is_binary(self.head, padded=True) else {}
        kind = kind or "application/octet-stream"
        size = self.facts.st_size
        raise Unsupported(
            f"binary file ({kind}, {size} bytes): it has no lines to show",
            hint="Use a tool for its type, or look at its bytes with a command such as `xxd`.",
            details={"binary": True, "mime_type": kind, "size": size, **padded},
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


def _notes(text: str, raw: list[bytes], encoding: str, head: bytes, names: int) -> tuple[str, ...]:
    """What whoever reads the lines must know about the file."""
    out: list[str] = []
    if encoding.startswith("utf-8") and (bad := bad_bytes(text)) and not is_utf8(b"".join(raw)):
        out.append(
            f"bytes of these lines that are no UTF-8: {bad}, shown as U+EF80 to U+EFFF (U+EFE9 is the byte E9);"
            " edits keep them as they are"
        )
    if nul := text.count("\0"):
        out.append(f"NUL bytes in these lines: {nul}, shown as \u2400; edits keep them as they are")
    return (*out, *_doubts(encoding, head), *hard_link_note(names))


def _doubts(encoding: str, head: bytes) -> tuple[str, ...]:
    """What to say of an encoding that neither a mark nor the text names and that is not UTF-8."""
    if not encoding or encoding.startswith("utf-8") or encoding == named_codec(head):
        return ()
    return (guess_note(encoding),)


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


_PIECE: Final = 16 << 20
_DECODED_WHOLE: Final = 64 << 20
BINARY_BYTES: Final = 32 << 20
"""How much of a binary file is searched: a disk image is not read to its end for its name."""


def reads_as_it_stands(fd: int, head: bytes) -> bool:
    """Whether a file's bytes are UTF-8 with lines that end in LF, as far as its head tells."""
    marked = bom_encoding(head)
    if marked is not None and marked != "utf-8-sig":
        return marked.startswith("utf-16")
    return b"\0" not in head and line_end(fd, head) == b"\n" and is_utf8(head, whole=len(head) < HEAD_BYTES)


def text_pieces(fd: int, on_guess: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """The file's text as `read_slice` shows it, every line end `\n`, in pieces that end with a line.

    A file up to 64 MiB is one piece. Of a larger one the first 16 MiB decide on the encoding, and a line that is
    longer than that is divided. Of a binary file only the first 32 MiB are given. `on_guess` is told the name of an
    encoding that is a guess.
    """
    head = os.pread(fd, HEAD_BYTES, 0)
    if len(head) < HEAD_BYTES and head.isascii() and b"\r" not in head and b"\0" not in head:
        # Most files of most trees: nothing to find out, one read (the whole search takes half as long).
        yield from [head.decode("ascii")] if head else []
        return
    size = os.fstat(fd).st_size
    binary = is_binary(head)
    if binary:
        size = min(size, BINARY_BYTES)
    end = line_end(fd, head)
    at = bom_length(head)
    first = _pread(fd, size if size <= _DECODED_WHOLE else _PIECE, 0)
    encoding = "utf-8" if binary else name_of(first, whole=len(first) == size)
    if not at and not encoding.startswith("utf-8") and encoding != named_codec(first):
        on_guess(encoding)
    decoder = codecs.getincrementaldecoder("utf-8" if encoding.startswith("utf-8") else encoding)(
        "surrogateescape" if encoding.startswith("utf-8") else "replace"
    )
    held, block, at = "", first[at:], len(first)
    while block:
        following = _pread(fd, min(_PIECE, size - at), at) if at < size else b""
        at += len(following)
        text = held + decoder.decode(block, final=not following)
        if end == b"\r":
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        cut = len(text) if not following else text.rfind("\n") + 1 or len(text)
        held = text[cut:]
        if cut:
            piece = text[:cut].replace("\r\n", "\n")
            yield piece if binary else marked(piece)
        block = following


def _pread(fd: int, size: int, at: int) -> bytes:
    """So many bytes, fewer only at the file's end."""
    data = os.pread(fd, size, at)
    while data and len(data) < size and (more := os.pread(fd, size - len(data), at + len(data))):
        data += more
    return data
