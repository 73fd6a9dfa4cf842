"""What is asked of a file as a slice, and its bytes in pieces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

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
