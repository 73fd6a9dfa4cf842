"""Splitting a long text into parts that a channel takes: at lines, then at words, never inside a character.

A fence of Markdown (CommonMark 0.31 §4.5) that is cut is closed, and opened again with its language in the next part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from wcwidth import iter_graphemes

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$")


class _Fence(NamedTuple):
    """An open fence: the line that opened it, and the marker that closes it."""

    line: str
    marker: str


def split(text: str, limit: int, *, length: Callable[[str], int] = len) -> list[str]:
    """A text as parts, none of them longer than `limit`.

    Args:
        text: Markdown or plain text.
        limit: length of the longest part, at least 1; 0 = there is none.
        length: how the channel counts; the length of two texts must be that of both together.
    """
    if not limit or length(text) <= limit:
        return [text] if text.strip() else []
    parts = _Parts(limit, length)
    for line in text.split("\n"):
        parts.add(line)
    return parts.end()


class _Parts:
    def __init__(self, limit: int, length: Callable[[str], int]) -> None:
        self._limit = limit
        self._length = length
        self._done: list[str] = []
        self._lines: list[str] = []
        self._size = 0
        self._fence: _Fence | None = None
        self._opened_at = 0

    def add(self, line: str) -> None:
        after = self._after(line)
        if self._add_if_fits(line, after):
            return
        if self._fence is not None and after is None:
            # The end of the code, in a form too long for what is left: our own closes it.
            self._flush()
            self._fence, self._lines, self._size = None, [], 0
            return
        self._flush()
        if self._add_if_fits(line, after):
            return
        room = self._limit - self._size - self._closing(self._fence) - (1 if self._lines else 0)
        for number, piece in enumerate(
            _pieces(line, max(1, room), self._length, at_words=self._fence is None)
        ):
            if number:
                self._flush()
            if not self._add_if_fits(piece, self._fence):
                self._lines.append(piece)  # One character alone is over the limit.

    def end(self) -> list[str]:
        self._flush()
        return self._done

    def _after(self, line: str) -> _Fence | None:
        """The open fence behind a line."""
        found = _FENCE.match(line)
        if self._fence is None:
            fence = None if found is None else _Fence(line, found[1])
            # Where the fence itself would take half of each part, it is text like any other.
            return None if fence is None or self._overhead(fence) > self._limit // 2 else fence
        marker = self._fence.marker
        closes = found and found[1].startswith(marker) and not found[2].strip()
        return None if closes else self._fence

    def _overhead(self, fence: _Fence) -> int:
        return self._length(f"{fence.line}\n\n{fence.marker}")

    def _closing(self, fence: _Fence | None) -> int:
        return 0 if fence is None else self._length(f"\n{fence.marker}")

    def _add_if_fits(self, line: str, after: _Fence | None) -> bool:
        size = self._size + self._length(f"\n{line}" if self._lines else line)
        if size + self._closing(after) > self._limit:
            return False
        if self._fence is None and after is not None:
            self._opened_at = len(self._lines)
        self._lines.append(line)
        self._size, self._fence = size, after
        return True

    def _flush(self) -> None:
        """End the part; the next one begins with the open fence."""
        fence, lines = self._fence, self._lines
        if fence is None:
            self._lines, self._size = [], 0
        else:
            # Code that would begin at the very end of a part begins with the next one.
            lines = [*lines, fence.marker] if len(lines) > self._opened_at + 1 else lines[:-1]
            self._lines, self._size, self._opened_at = [fence.line], self._length(fence.line), 0
        text = "\n".join(lines).strip("\n")
        if text.strip():
            self._done.append(text)


def _pieces(line: str, room: int, length: Callable[[str], int], *, at_words: bool) -> Iterator[str]:
    """A line in pieces no longer than `room`."""
    while length(line) > room:
        size = end = space = 0
        for cluster in iter_graphemes(line):
            size += length(cluster)
            if size > room:
                break
            end += len(cluster)
            if cluster.isspace():
                space = end
        if not end:
            # A character that is longer than a whole part: what it is made of is all that can be kept.
            while end < len(line) and length(line[: end + 1]) <= room:
                end += 1
            end = max(1, end)
        elif at_words and not line[end : end + 1].isspace() and line[:space].strip():
            end = space
        yield line[:end].rstrip() if at_words else line[:end]
        line = line[end:].lstrip() if at_words else line[end:]
    yield line
