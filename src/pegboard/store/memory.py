"""MemoryStore: a Store that ends with the process."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from pegboard.ports.store import Bodies, Put, Record, Row, Rows, StoreError
from pegboard.store.chain import check_next


class MemoryStore:
    """Everything in dicts, under one lock."""

    def __init__(self) -> None:
        self._streams: dict[str, list[Record]] = {}
        self._tables: dict[str, dict[str, Row]] = {}
        self._lock = threading.Lock()
        self._closed = False

    async def append(
        self,
        stream: str,
        records: Sequence[Record],
        *,
        puts: Sequence[Put] = (),
        power_loss: bool = False,
    ) -> None:
        """See Store."""
        with self._lock:
            self._check_open()
            check_next(stream, len(self._streams.get(stream, ())), records)
            self._put(puts)
            if records:
                self._streams.setdefault(stream, []).extend(records)

    async def read(
        self,
        stream: str,
        *,
        after: int = 0,
        last: int | None = None,
        run: str | None = None,
        types: Sequence[str] = (),
        bodies: bool = True,
        limit: int | None = None,
    ) -> list[Record]:
        """See Store."""
        with self._lock:
            self._check_open()
            records = self._streams.get(stream, [])[after:]
        out = [r for r in records if run in (None, r.run) and (not types or r.type in types)]
        if last is not None:
            out = out[-last:] if last else []
        out = out[:limit]
        return out if bodies else [replace(r, body=None) for r in out]

    async def get(self, table: str, key: str) -> Row | None:
        """See Store."""
        with self._lock:
            self._check_open()
            return self._tables.get(table, {}).get(key)

    async def put(self, *puts: Put) -> tuple[int, ...]:
        """See Store."""
        with self._lock:
            self._check_open()
            return self._put(puts)

    async def delete(self, what: Rows | Bodies) -> int:
        """See Store."""
        with self._lock:
            self._check_open()
            match what:
                case Rows(table, start, end):
                    rows = self._tables.get(table, {})
                    keys = _range(rows, start, end)
                    for key in keys:
                        del rows[key]
                    return len(keys)
                case Bodies(stream, through):
                    records = self._streams.get(stream, [])
                    old = [n for n, r in enumerate(records) if r.seq <= through and r.body is not None]
                    for n in old:
                        records[n] = replace(records[n], body=None)
                    return len(old)

    async def scan(
        self,
        table: str,
        *,
        start: str = "",
        end: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[Row]:
        """See Store."""
        with self._lock:
            self._check_open()
            rows = self._tables.get(table, {})
            found = _range(rows, start, end)
            if keys is not None:
                found = [key for key in found if key in set(keys)]
            return [rows[k] for k in (found[::-1] if reverse else found)[:limit]]

    async def close(self) -> None:
        """See Store."""
        self._closed = True

    def _put(self, puts: Sequence[Put]) -> tuple[int, ...]:
        changed: dict[tuple[str, str], Row | None] = {}
        versions: list[int] = []
        for put in puts:
            place = (put.table, put.key)
            row = changed[place] if place in changed else self._tables.get(put.table, {}).get(put.key)
            version = 0 if row is None else row.version
            put.check(version)
            changed[place] = None if put.value is None else Row(put.key, put.value, version + 1)
            versions.append(0 if put.value is None else version + 1)
        for (table, key), row in changed.items():
            if row is None:
                self._tables.get(table, {}).pop(key, None)
            else:
                self._tables.setdefault(table, {})[key] = row
        return tuple(versions)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("cannot use the store in memory: it is closed")


def _range(rows: dict[str, Row], start: str, end: str | None) -> list[str]:
    keys = sorted(rows)
    return keys[bisect_left(keys, start) : len(keys) if end is None else bisect_left(keys, end)]


async def open_memory(place: str = "", *, recovered: object = None) -> MemoryStore:
    """A store that ends with the process.

    Raises:
        StoreError: a place is named; memory has none.
    """
    if place:
        raise StoreError(f"a store in memory has no place, got {place!r}; write memory")
    return MemoryStore()
