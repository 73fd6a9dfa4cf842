"""Deadlines: ends calls that take too long, with one timer for all of them.

A timer a call would stand on the path of every call, and a thousand calls would leave a thousand
cancelled timers in the event loop's heap. Most calls end long before their deadline, so far ones are
only written down and looked at once a second; near ones get a timer of their own.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Final

NEAR_S: Final = 10.0
"""Below this many seconds a deadline has a timer of its own; above, it is kept to within SWEEP_S."""

SWEEP_S: Final = 1.0


class Deadline:
    """Something under a deadline: a call on its way is its own watch, so that none is made beside it.

    Attributes:
        task: cancelled when the time comes.
        limit: seconds that it has.
        at: event-loop time of the deadline.
        fired: whether that has happened.
        timer: fires it, where the deadline is near.
    """

    task: asyncio.Task[Any]
    limit: float
    at: float
    expired: bool = False
    timer: asyncio.TimerHandle | None = None

    def expire(self) -> None:
        """The time has come."""
        self.expired = True
        self.task.cancel()


class Deadlines:
    """The calls under way that have a deadline, of one event loop at a time."""

    __slots__ = ("_far", "_loop", "_sweeping")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._far: set[Deadline] = set()
        self._sweeping = False

    def start(self, watch: Deadline, task: asyncio.Task[Any] | None, limit_s: float | None) -> None:
        """Watch a task of the running loop; give the watch to `end` whatever happens.

        No task, no limit and one of 0 or less all mean that there is no deadline.
        """
        if limit_s is None or limit_s <= 0 or task is None:
            return
        loop = task.get_loop()
        watch.task, watch.limit = task, limit_s
        if limit_s < NEAR_S:
            # In an empty context, as below: a cancelled timer stays in the loop's heap until its time.
            watch.timer = loop.call_later(limit_s, watch.expire, context=contextvars.Context())
            return
        watch.at = loop.time() + limit_s
        if loop is not self._loop:
            # Another event loop than before: what the old one left behind can never fire.
            self._loop, self._far, self._sweeping = loop, set(), False
        self._far.add(watch)
        if not self._sweeping:
            self._sweeping = True
            # In an empty context: the timer would else keep the call's context, and all ports, alive.
            loop.call_later(SWEEP_S, self._sweep, loop, context=contextvars.Context())

    def end(self, watch: Deadline) -> bool:
        """The call has ended; whether that was its deadline."""
        if watch in self._far:
            self._far.remove(watch)
            return False
        if watch.timer is not None:
            watch.timer.cancel()
        return watch.expired

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        now = loop.time()
        late = [w for w in self._far if w.at <= now]
        for watch in late:
            self._far.discard(watch)
            watch.expire()
        self._sweeping = bool(self._far)
        if self._sweeping:
            # In an empty context: the timer would else keep the call's context, and all ports, alive.
            loop.call_later(SWEEP_S, self._sweep, loop, context=contextvars.Context())
