"""The output of a command: bounded capture of its head and tail, and its bytes as text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO, Final

from pegboard.core.secrets.clip import BEFORE, open_end

_FOLD: Final = 64


class HeadTailBuffer:
    """Keeps the first and the last bytes of a stream in bounded memory.

    Args:
        limit: bytes kept, half of them head and half tail.
        spill: a file that gets every byte, or None; the caller owns and closes it.
        spill_limit: bytes written to `spill` at most, 0 = no bound.

    A stream of at most `limit` bytes is kept whole. Memory never passes twice `limit`
    and one chunk.
    """

    __slots__ = ("_head", "_head_limit", "_spill", "_spill_left", "_tail", "_tail_limit",
                 "_tail_size", "total")  # fmt: skip

    def __init__(self, limit: int, *, spill: BinaryIO | None = None, spill_limit: int = 0) -> None:
        self._head_limit = (limit + 1) // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._spill = spill
        self._spill_left = spill_limit if spill_limit > 0 else -1
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        size = len(chunk)
        self.total += size
        if self._spill is not None:
            self._write_spill(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
            size = len(chunk)
        if not size:
            return
        if size >= self._tail_limit:
            self._tail.clear()
            kept = chunk[size - self._tail_limit :]
            self._tail.append(kept)
            self._tail_size = len(kept)
            return
        self._tail.append(chunk)
        self._tail_size += size
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())
        # Many one-byte chunks would cost an object each; fold them.
        if len(self._tail) > _FOLD and self._tail_size < len(self._tail) * 1024:
            self._tail = deque((b"".join(self._tail),))

    @property
    def dropped(self) -> int:
        """Bytes of the stream that are not kept."""
        return self.total - len(self._head) - min(self._tail_size, self._tail_limit)

    def parts(self) -> tuple[bytes, bytes]:
        """Head and tail. Nothing lies between them when `dropped` is 0."""
        tail = b"".join(self._tail)
        return bytes(self._head), tail[max(0, len(tail) - self._tail_limit) :]

    def since(self, offset: int) -> tuple[bytes, int]:
        """The kept bytes from stream position `offset` on, and how many before them are lost."""
        head, tail = self.parts()
        tail_start = self.total - len(tail)
        if offset >= tail_start:
            return tail[offset - tail_start :], 0
        if offset <= len(head):
            lost = tail_start - len(head)
            return head[offset:] + tail, lost
        return tail, tail_start - offset

    def before(self, offset: int) -> bytes:
        """Some kept bytes that stand right before stream position `offset`."""
        since, _ = self.since(offset)
        data, lost = self.since(max(0, offset - BEFORE))
        return b"" if lost else data[: len(data) - len(since)]

    def _write_spill(self, chunk: bytes) -> None:
        if self._spill is None or self._spill_left == 0:
            return
        if self._spill_left > 0:
            chunk = chunk[: self._spill_left]
            self._spill_left -= len(chunk)
        self._spill.write(chunk)


class LineReader:
    """Reads whole lines of a stream as they come, without what may be the first part of a secret.

    Args:
        ring: keeps the stream.
        fallbacks: charsets to try for output that is not UTF-8.
    """

    def __init__(self, ring: HeadTailBuffer, *, fallbacks: Sequence[str] = ()) -> None:
        self._ring = ring
        self._fallbacks = fallbacks
        self._read = 0

    def take(self, most_bytes: int) -> str:
        """The lines that came since the last time, the last `most_bytes` of them where there are more."""
        data, lost = self._ring.since(self._read)
        before = self._ring.before(self._read)
        whole = data[: data.rfind(b"\n") + 1]
        whole = whole[: max(0, len(whole) - open_bytes((before + whole)[-BEFORE:]))]
        whole = whole[: whole.rfind(b"\n") + 1]
        self._read += lost + len(whole)
        if len(whole) > most_bytes or lost:
            cut = whole.find(b"\n", max(0, len(whole) - most_bytes)) + 1
            shown = plain_text(decode_output(whole[cut:], fallbacks=self._fallbacks))
            return f"[… {lost + cut:,} bytes of output not shown …]\n{shown}"
        return plain_text(decode_output(whole, fallbacks=self._fallbacks))


# ECMA-48: CSI sequences, OSC/DCS/APC/PM/SOS strings, two-byte escapes, and the C1 forms of them.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
_ERASE_LINE: Final = re.compile(r"\x1b\[[0-2]?K")
_PLAIN_BYTES: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
# Below this many bytes a charset guess says nothing.
_GUESS_MIN_BYTES: Final = 64
_GUESS_MAX_BYTES: Final = 65_536
_FIRST_WORD: Final = re.compile(rb"[^ \t\r\n]{1,1024}(?=[ \t\r\n])")
_LAST_WORD: Final = re.compile(rb"(?<=[ \t\r\n])[^ \t\r\n]{1,1024}\Z")
_MAY_BE_SECRET: Final = re.compile(rb"[@:=]|[^ ]{16}")


def decode_output(data: bytes, *, fallbacks: Sequence[str] = ()) -> str:
    """Bytes of a program as text; never raises.

    Strict UTF-8 first, then UTF-16 where its zero bytes show, then `fallbacks` (the locale's
    code page), then a charset guess for longer text, else UTF-8 with U+FFFD for what is none.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_other(data, fallbacks)
    if "\x00" in text:
        return _decode_utf16(data) or text
    return text


def _decode_other(data: bytes, fallbacks: Sequence[str]) -> str:
    wide = _decode_utf16(data)
    if wide is not None:
        return wide
    replaced = data.decode("utf-8", "replace")
    bad = replaced.count("\ufffd")
    # Valid multi-byte UTF-8 with a few broken bytes is damaged UTF-8, not another charset.
    if sum(1 for c in replaced if c > "\x7f" and c != "\ufffd") > bad:
        return replaced
    for name in fallbacks:
        try:
            return data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    if bad and len(data) >= _GUESS_MIN_BYTES:
        from charset_normalizer import from_bytes

        best = from_bytes(data[:_GUESS_MAX_BYTES]).best()
        if best is not None:
            return data.decode(best.encoding, "replace")
    return replaced


def _decode_utf16(data: bytes) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif len(data) >= 4 and data[1::2].count(0) * 10 >= len(data[1::2]) * 9 and 0 not in data[::2]:
        encoding = "utf-16-le"
    else:
        return None
    try:
        return data[: len(data) // 2 * 2].decode(encoding)
    except UnicodeDecodeError:
        return None


def plain_text(text: str) -> str:
    """What a person would see of terminal output: no escapes, no control characters.

    A carriage return writes over the line from its start, as a terminal does, so that a
    progress bar leaves its last state; a backspace steps back one character.
    """
    if text.isascii() and not _PLAIN_BYTES.search(text.encode("ascii")):
        return text
    text = text.replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(_overwrite(line) for line in text.split("\n"))
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def _overwrite(line: str) -> str:
    if "\r" not in line and "\b" not in line:
        return line
    shown = ""
    for piece in line.split("\r"):
        if not piece:
            continue
        erases = _ERASE_LINE.search(piece) is not None
        new = _ESCAPES.sub("", piece)
        while "\b" in new:
            at = new.index("\b")
            new = new[: max(0, at - 1)] + new[at + 1 :]
        shown = new if erases else new + shown[len(new) :]
    return shown


def trim_to_characters(data: bytes, *, start: bool = False, end: bool = False) -> bytes:
    """Drop the broken UTF-8 character that a cut left at the start or the end of `data`."""
    if start:
        at = 0
        while at < min(3, len(data)) and data[at] & 0xC0 == 0x80:
            at += 1
        data = data[at:]
    if end:
        for back in range(1, min(4, len(data)) + 1):
            byte = data[-back]
            if byte & 0xC0 == 0x80:
                continue
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            if needed > back:
                data = data[:-back]
            break
    return data


def open_bytes(data: bytes) -> int:
    """How many bytes at the end of a stream may be the first part of a secret of which more will come."""
    text = trim_to_characters(data, start=True).decode("utf-8", "replace")
    return min(len(text[len(text) - open_end(text) :].encode()), len(data))


def without_open_end(text: str, start: int = 0) -> str:
    """The text of a stream that was broken off, with a mark for what from `start` on may be the first part of a secret."""
    end = max(start, len(text) - open_end(text))
    if end == len(text):
        return text
    from pegboard.core.secrets.redact import redaction_mark

    return text[:end] + redaction_mark(text[end:])


def joined(head: bytes, tail: bytes, dropped: int, *, fallbacks: Sequence[str] = ()) -> str:
    """Head and tail of a capture as one text that says how much lies between them."""
    if dropped <= 0:
        return plain_text(decode_output(head + tail, fallbacks=fallbacks))
    # A word that was cut through may be an address without what tells that a password stands in it.
    cut, rest = _LAST_WORD.search(head), _FIRST_WORD.match(tail)
    if cut is not None and _MAY_BE_SECRET.search(cut[0]):
        head, dropped = head[: cut.start()], dropped + len(cut[0])
    if rest is not None and _MAY_BE_SECRET.search(rest[0]):
        tail, dropped = tail[rest.end() :], dropped + len(rest[0])
    first = plain_text(decode_output(trim_to_characters(head, end=True), fallbacks=fallbacks))
    last = plain_text(decode_output(trim_to_characters(tail, start=True), fallbacks=fallbacks))
    return f"{first}\n[… {dropped:,} bytes of output not kept …]\n{last}"
