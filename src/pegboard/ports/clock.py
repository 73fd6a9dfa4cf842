"""Clock: time, injected."""

from __future__ import annotations

from pegboard.core.clock import Clock, SystemClock

__all__ = ["Clock", "SystemClock"]
