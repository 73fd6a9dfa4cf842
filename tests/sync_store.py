"""A Store for tests that cannot await."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pegboard.core.events import Event
from pegboard.ports.store import Bodies, Conflict, Put, Record, Store
from pegboard.store import log
from pegboard.store.chain import GENESIS, NewRecord, chain_records
from pegboard.store.runs import RunList, RunRow, row_puts
from pegboard.store.sqlite import SqliteStore
from pegboard.store.table import after_prefix

if TYPE_CHECKING:
    from pegboard.store.recovery import Recovery

T = TypeVar("T")


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """A loop in a thread of its own; a forked process has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="pegboard-blocking", daemon=True).start()
    return loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, run in a loop of its own while the caller waits."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())).result()


class BlockingStore:
    """The methods of a Store, for a test that waits in its thread.

    Attributes:
        store: the Store itself.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._runs = RunList(store)

    def append(
        self,
        stream: str,
        drafts: Sequence[NewRecord],
        *,
        key: bytes,
        power_loss: bool = False,
        rows: Sequence[RunRow] = (),
    ) -> str:
        """Chain and keep some records behind whoever wrote last, and rows of runs; the stream's new head mac."""
        puts = [put for row in rows for put in row_puts(row)]
        while True:
            seq, mac = self.head(stream)
            records = chain_records(key, stream, mac, seq, drafts)
            try:
                wait_for(self.store.append(stream, records, puts=puts, power_loss=power_loss))
            except Conflict:
                continue
            return records[-1].mac if records else mac

    def head(self, stream: str) -> tuple[int, str]:
        """Number and mac of the last record."""
        last = wait_for(self.store.read(stream, last=1, bodies=False))
        return (last[0].seq, last[0].mac) if last else (0, GENESIS)

    def read(self, stream: str, *, after: int = 0, run: str | None = None, limit: int = -1) -> list[Record]:
        """See Store."""
        return wait_for(self.store.read(stream, after=after, run=run, limit=_most(limit)))

    def bodies(
        self,
        stream: str,
        *,
        after: int = 0,
        run: str | None = None,
        types: Sequence[str] = (),
        limit: int = -1,
    ) -> list[tuple[int, bytes | None]]:
        """Number and body of each record."""
        work = self.store.read(stream, after=after, run=run, types=types, limit=_most(limit))
        return [(r.seq, r.body) for r in wait_for(work)]

    def purge(self, stream: str, *, before: float) -> int:
        """Delete bodies older than a time, keeping the chain; how many."""
        old = [r.seq for r in wait_for(self.store.read(stream, bodies=False)) if r.at < before]
        return wait_for(self.store.delete(Bodies(stream, old[-1]))) if old else 0

    def payloads(self, stream: str, *, before: float) -> tuple[int, int, float | None]:
        """How many bodies older than a time a stream holds, their bytes, and when the oldest was written."""
        held = [r for r in self.read(stream) if r.at < before and r.body is not None]
        return len(held), sum(len(r.body or b"") for r in held), min((r.at for r in held), default=None)

    def save_run(self, row: RunRow) -> None:
        """Add or replace a row of the list of runs."""
        wait_for(self._runs.save(row))

    def runs(self, *, limit: int = 50, stream: str | None = None, status: str | None = None) -> list[RunRow]:
        """The latest runs, newest first."""
        return wait_for(self._runs.list(limit=_most(limit), session=stream, status=status))

    def put(self, table: str, key: str, value: bytes) -> None:
        """Keep a value."""
        wait_for(self.store.put(Put(table, key, value)))

    def get(self, table: str, key: str) -> bytes | None:
        """The value, or None."""
        row = wait_for(self.store.get(table, key))
        return None if row is None else row.value

    def change(self, table: str, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Replace a value by what `change` makes of it; the new value."""
        while True:
            row = wait_for(self.store.get(table, key))
            value = change(None if row is None else row.value)
            try:
                wait_for(self.store.put(Put(table, key, value, 0 if row is None else row.version)))
            except Conflict:
                continue
            return value

    def delete(self, table: str, key: str) -> bool:
        """Delete a value; False if there was none."""
        there = self.get(table, key) is not None
        wait_for(self.store.put(Put(table, key, None)))
        return there

    def list(self, table: str, *, prefix: str = "") -> list[tuple[str, bytes]]:
        """Keys and values of a table in key order."""
        rows = wait_for(self.store.scan(table, start=prefix, end=after_prefix(prefix)))
        return [(r.key, r.value) for r in rows]

    def close(self) -> None:
        """See Store."""
        wait_for(self.store.close())


def history(
    store: BlockingStore, stream: str, *, run: str | None = None, types: Sequence[str] = ()
) -> list[Event]:
    """See `pegboard.store.log.history`."""
    return wait_for(log.history(store.store, stream, run=run, types=types))


def open_sqlite(path: Path, *, recovered: Callable[[Recovery], None] | None = None) -> BlockingStore:
    """See SqliteStore.open."""
    return BlockingStore(wait_for(SqliteStore.open(path, recovered=recovered)))


def _most(limit: int) -> int | None:
    return None if limit < 0 else limit
