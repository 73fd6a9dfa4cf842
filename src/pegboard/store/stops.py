"""Stops: runs that somebody wants to be stopped, whichever process works on them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from pegboard.ports.store import Put, Store, StoreError

_TABLE: Final = "stops"
_LOOK_S: Final = 0.25


class Stops:
    """The requests to stop a run, of a store; each until the run has ended."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, run: str) -> None:
        """Ask for a run to be stopped; the process that works on it sees it within a quarter of a second."""
        await self._store.put(Put(_TABLE, run, b"1"))

    async def drop(self, run: str) -> None:
        """Ask no more."""
        if await self._store.get(_TABLE, run) is not None:
            await self._store.put(Put(_TABLE, run, None))

    async def wait(self, run: str) -> None:
        """Return once somebody has asked for a run to be stopped."""
        while True:
            await asyncio.sleep(_LOOK_S)
            # A store that is away for a while stops nothing.
            with suppress(StoreError):
                if await self._store.get(_TABLE, run) is not None:
                    return
