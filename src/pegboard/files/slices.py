"""What is asked of a file as a slice, and its bytes in pieces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

BLOCK: Final = 1 << 18

SLICE_BYTES: Final = 4 << 20
"""Bytes of one slice; a slice that would be larger ends earlier."""


WHOLE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
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
