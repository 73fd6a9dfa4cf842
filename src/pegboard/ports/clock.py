"""Clock: time, injected."""

from __future__ import annotations

from pegboard.core.limits import Clock, SystemClock

__all__ = ["Clock", "SystemClock"]
