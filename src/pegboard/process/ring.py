"""Ring: bounded capture of a byte stream, its head and its tail kept."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO, Final

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

    def _write_spill(self, chunk: bytes) -> None:
        if self._spill is None or self._spill_left == 0:
            return
        if self._spill_left > 0:
            chunk = chunk[: self._spill_left]
            self._spill_left -= len(chunk)
        self._spill.write(chunk)
