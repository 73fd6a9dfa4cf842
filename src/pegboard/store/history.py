"""HistoryStore: a Store as the record of a machine, with what audits, backups and reports need; and copying one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from pegboard.ports.store import Put, Store, StoreError
from pegboard.store.chain import Fault

_PAGE: Final = 256
LEASES: Final = "leases"
"""The table that is never copied: who works on what now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize:
    """How much a store holds.

    Attributes:
        place: the file, or the database's URL without its password.
        bytes_on_disk: with indexes and space that is free again.
        streams: number of records and bytes of their bodies, by stream.
        tables: number of rows and bytes of their values, by table.
    """

    place: str
    bytes_on_disk: int
    streams: Mapping[str, tuple[int, int]]
    tables: Mapping[str, tuple[int, int]]


class HistoryStore(Store, Protocol):
    """A Store that seals its rows and can be listed as a whole.

    Raises:
        StoreError: see Store.
    """

    @property
    def place(self) -> str:
        """The file, or the database's URL without its password."""
        ...

    async def connect(self) -> None:
        """Open it now, brought up to date; else that happens at the first use."""
        ...

    def end(self) -> None:
        """`close` for code that is not async."""
        ...

    async def streams(self) -> list[str]:
        """The keys of all streams."""
        ...

    async def tables(self) -> list[str]:
        """The names of all tables that have rows."""
        ...

    async def seal(self) -> tuple[int, str] | None:
        """How often rows were changed so far, and the mac over their present state; None without a seal."""
        ...

    async def check_rows(self, ends: Mapping[str, tuple[int, str]]) -> list[Fault]:
        """Every row that was changed, added or removed by anybody without the key.

        Args:
            ends: what `seal` gave earlier, by what says so.
        """
        ...

    async def seal_rows(self) -> None:
        """Seal the rows as they are, although `check_rows` finds faults."""
        ...

    async def check(self) -> str:
        """What is wrong with the store itself, empty if nothing."""
        ...

    async def size(self) -> StoreSize:
        """How much it holds; reads all of it."""
        ...

    async def set_aside(self) -> str:
        """Begin anew, empty; what there was stays under the name that is returned."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[HistoryStore]:
        """The store as it is now, for reading; what is written meanwhile is not in it."""
        ...


async def copy_store(source: HistoryStore, target: HistoryStore) -> None:
    """Copy all streams with their chains, and all rows but the leases, into an empty store.

    Versions of rows begin at 1 again, and rows are sealed with the target's key.

    Raises:
        StoreError: the target holds something already, or one of both cannot be used.
    """
    if await target.streams() or await target.tables():
        raise StoreError(f"cannot copy into {target.place}: it holds a history already")
    async with source.snapshot() as now:
        for stream in await now.streams():
            after = 0
            while records := await now.read(stream, after=after, limit=_PAGE):
                await target.append(stream, records)
                after = records[-1].seq
        for table in [t for t in await now.tables() if t != LEASES]:
            rows = await now.scan(table, limit=_PAGE)
            while rows:
                await target.put(*(Put(table, row.key, row.value, 0) for row in rows))
                # The last one again: no text stands between a key and its follower in every store.
                rows = (await now.scan(table, start=rows[-1].key, limit=_PAGE + 1))[1:]
