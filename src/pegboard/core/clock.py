"""Clock: the two times that Pegboard reads, injected everywhere."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the epoch (wall clock)."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """`time.time()`."""
        return time.time()

    # The function itself: a method around it would be called twice in every call.
    monotonic = staticmethod(time.monotonic)
