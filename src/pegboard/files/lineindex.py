"""Where the lines of large files begin, remembered."""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field


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
