"""Stop: a run is ended from outside, without its task being cancelled for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class StopWatch:
    """Cancels the running task once a run is to be stopped, and takes that back when the run has ended.

    Args:
        asked: returns once somebody wants the run to be stopped; None = nobody can.
    """

    def __init__(self, asked: Callable[[], Awaitable[None]] | None) -> None:
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._fired = False
        self._waiting = None if asked is None else asyncio.ensure_future(self._wait(asked))

    async def _wait(self, asked: Callable[[], Awaitable[None]]) -> None:
        await asked()
        self._fired = True
        if self._task is not None:
            self._task.cancel()

    def is_stopped(self) -> bool:
        """For whoever has caught a cancellation: whether it was this one alone. It is taken back then."""
        fired, self._fired = self._fired, False
        return fired and self._task is not None and self._task.uncancel() <= self._cancelling

    async def close(self) -> None:
        """Watch no more; a cancellation that came too late to be seen is taken back."""
        if self._waiting is not None:
            self._waiting.cancel()
        if self._fired:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not self.is_stopped():
                    raise
