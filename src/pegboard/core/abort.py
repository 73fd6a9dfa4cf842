"""AbortSignal: how a four-argument tool learns that its caller has given up (ledger M-44, K-15)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pegboard.core.context import Context
from pegboard.core.errors import CallCancelled


class AbortSignal:
    """Set once, when the call is cancelled or its deadline has passed. Safe to read from any thread.

    Attributes:
        reason: why, empty while it is not set.
    """

    def __init__(self, context: Context | None = None) -> None:
        self.reason = ""
        self._context = context
        self._set = threading.Event()
        self._listeners: list[Callable[[], object]] = []

    @property
    def aborted(self) -> bool:
        """Whether the caller has given up."""
        cancelled = self._context.cancelled if self._context is not None else None
        return self._set.is_set() or (cancelled is not None and cancelled.is_set())

    def throw_if_aborted(self) -> None:
        """Raise where the caller has given up.

        Raises:
            CallCancelled: it has.
        """
        if self.aborted:
            raise CallCancelled(self.reason or "the call was cancelled")

    def add_event_listener(self, event: str, listener: Callable[[], object]) -> None:
        """Call `listener` when it is set; `event` is `abort`, there is no other."""
        if event != "abort":
            raise ValueError(f"an abort signal has the event 'abort', not {event!r}")
        if self.aborted:
            listener()
        else:
            self._listeners.append(listener)

    def abort(self, reason: str = "the call was cancelled") -> None:
        """Set it; listeners are called once."""
        if self._set.is_set():
            return
        self.reason = reason
        self._set.set()
        for listener in self._listeners:
            listener()
        self._listeners.clear()
