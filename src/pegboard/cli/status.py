"""StatusLine: what is going on right now, on standard error, only where a person looks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_EVERY_S: Final = 0.2
_PATIENCE_S: Final = 0.6
"""What is done sooner shows nothing: a flicker tells nobody anything."""


class StatusLine:
    """One line that a thread keeps moving, so that it moves while a blocking call runs too.

    Lines of output clear it first (`clear`); it comes back by itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""
        self._since = 0.0
        self._drawn = False
        self._stop: threading.Event | None = None

    @contextmanager
    def showing(self, text: str) -> Generator[None]:
        """Show `text` and the seconds that pass, until the block ends."""
        if not sys.stderr.isatty():
            yield
            return
        self.set(text)
        stop = self._stop = threading.Event()
        thread = threading.Thread(target=self._turn, args=(stop,), name="pegboard-status", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self._stop = None
            self.set("")

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Out of the way while a person is asked something."""
        before = self._text
        self.set("")
        try:
            yield
        finally:
            self.set(before)

    def set(self, text: str) -> None:
        """What is going on now; empty = nothing to show."""
        with self._lock:
            self._wipe()
            self._text = text
            self._since = time.monotonic()

    def clear(self) -> None:
        """Make place for a line of output."""
        if self._drawn:
            with self._lock:
                self._wipe()

    def _wipe(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = False

    def _turn(self, stop: threading.Event) -> None:
        turn = 0
        while not stop.wait(_EVERY_S):
            with self._lock:
                passed = time.monotonic() - self._since
                if self._text and passed >= _PATIENCE_S:
                    frame = _FRAMES[turn % len(_FRAMES)]
                    sys.stderr.write(f"\r\x1b[2K{frame} {self._text[:60]} {passed:.0f}s")
                    sys.stderr.flush()
                    self._drawn = True
            turn += 1


LINE: Final = StatusLine()
"""The line of this process: there is one terminal."""
