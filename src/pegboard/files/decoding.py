"""Files whose bytes are not read as they stand: no UTF-8, or lines that end in CR alone.

`read_file` shows them decoded, so a search is made in what it shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from pegboard.files.slices import HEAD_BYTES, line_end
from pegboard.textedit.encoding import bom_encoding, bom_length, is_utf8, name_of
from pegboard.textedit.invalid_bytes import shown_utf8

WHOLE_BYTES: Final = 64 << 20
"""Up to here the whole file decides on its encoding, beyond it each piece on its own."""

_PIECE: Final = 16 << 20


def needs_decoding(fd: int, head: bytes) -> bool:
    """Whether a file is to be searched decoded, as far as its first 64 KiB tell; a binary file is not."""
    marked = bom_encoding(head[:4])
    if marked not in (None, "utf-8-sig") or (marked is None and b"\0" in head):
        return False
    return line_end(fd, head) == b"\r" or not is_utf8(head, whole=len(head) < HEAD_BYTES)


def decoded(fd: int) -> Iterator[bytes]:
    """The open file's text in UTF-8 without a mark, every line end LF, in pieces that end with a line.

    A byte that is no text has the sign that `read_file` shows for it.
    """
    head = os.pread(fd, HEAD_BYTES, 0)
    at, end = bom_length(head), line_end(fd, head)
    if os.fstat(fd).st_size <= WHOLE_BYTES:
        data = b"".join(_blocks(fd, at))
        yield as_utf8(data, name_of(data), end)
        return
    held = b""
    for block in _blocks(fd, at):
        held += block
        cut = held.rfind(end) + 1 or len(held)
        yield as_utf8(held[:cut], name_of(held[:cut], whole=False), end)
        held = held[cut:]
    if held:
        yield as_utf8(held, name_of(held, whole=False), end)


def _blocks(fd: int, at: int) -> Iterator[bytes]:
    while block := os.pread(fd, _PIECE, at):
        at += len(block)
        yield block


def as_utf8(data: bytes, encoding: str, end: bytes) -> bytes:
    """Bytes of a named encoding as UTF-8 with LF for CRLF, and for `end`."""
    text = shown_utf8(data) if encoding.startswith("utf-8") else data.decode(encoding, "replace")
    text = text.replace("\r\n", "\n")
    if end == b"\r":
        text = text.replace("\r", "\n")
    return text.encode("utf-8", "replace")
