"""Progress: what a server says of its progress, as often as anybody reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pegboard.mcp.text_warnings import sanitise

FREE: Final = 100
"""Notices of one call that all pass."""
EVERY_S: Final = 0.5
"""Seconds between two of the later ones: each is a record that is kept, and a server may send any number."""


class ProgressReporter:
    """Passes on what one call's server says.

    Args:
        emit: gets each notice that passes.
        clock: monotonic seconds.
    """

    def __init__(self, emit: Callable[[Any], None], clock: Callable[[], float]) -> None:
        self._emit = emit
        self._clock = clock
        self._passed = 0
        self._last = 0.0

    def said(self, done: float, total: float | None, message: str | None) -> None:
        """One notice."""
        now = self._clock()
        if self._passed >= FREE and now - self._last < EVERY_S:
            return
        self._passed += 1
        self._last = now
        self._emit({"progress": done, "total": total, "message": sanitise(message or "")[:500]})
