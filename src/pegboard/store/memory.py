"""MemoryStore: a Store that ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from pegboard.ports.store import NewRecord, Record, RunRow
from pegboard.store.chain import GENESIS, chain_records


class MemoryStore:
    """Everything in dicts, under one lock."""

    def __init__(self) -> None:
        self._streams: dict[str, list[Record]] = {}
        self._runs: dict[str, RunRow] = {}
        self._tables: dict[str, dict[str, bytes]] = {}
        self._lock = threading.RLock()

    def append(
        self,
        stream: str,
        drafts: Sequence[NewRecord],
        *,
        key: bytes,
        power_loss: bool = False,
        rows: Sequence[RunRow] = (),
    ) -> str:
        """See Store."""
        with self._lock:
            self._runs.update({row.id: row for row in rows})
            entries = self._streams.setdefault(stream, [])
            head = entries[-1].mac if entries else GENESIS
            new = chain_records(key, stream, head, len(entries), drafts)
            entries.extend(new)
            return new[-1].mac if new else head

    def head(self, stream: str) -> tuple[int, str]:
        """See Store."""
        with self._lock:
            entries = self._streams.get(stream, ())
            return (entries[-1].seq, entries[-1].mac) if entries else (0, GENESIS)

    def read(self, stream: str, *, after: int = 0, run: str | None = None, limit: int = -1) -> list[Record]:
        """See Store."""
        with self._lock:
            found = [e for e in self._streams.get(stream, ())[after:] if run is None or e.run == run]
        return found if limit < 0 else found[:limit]

    def bodies(
        self,
        stream: str,
        *,
        after: int = 0,
        run: str | None = None,
        types: Sequence[str] = (),
        without: str = "",
        limit: int = -1,
    ) -> list[tuple[int, bytes | None]]:
        """See Store."""
        found = [
            (e.seq, e.body)
            for e in self.read(stream, after=after, run=run)
            if (not types or e.type in types) and not (without and (e.type == without or e.body is None))
        ]
        return found if limit < 0 else found[:limit]

    def purge(self, stream: str, *, before: float) -> int:
        """See Store."""
        with self._lock:
            entries = self._streams.get(stream, [])
            old = [i for i, e in enumerate(entries) if e.at < before and e.body is not None]
            for index in old:
                entries[index] = replace(entries[index], body=None)
            return len(old)

    def save_run(self, row: RunRow) -> None:
        """See Store."""
        with self._lock:
            self._runs[row.id] = row

    def runs(self, *, limit: int = 50, stream: str | None = None, status: str | None = None) -> list[RunRow]:
        """See Store."""
        with self._lock:
            rows = sorted(self._runs.values(), key=lambda r: (r.started, r.id), reverse=True)
        return [r for r in rows if stream in (None, r.stream) and status in (None, r.status)][
            : None if limit < 0 else limit
        ]

    def put(self, table: str, key: str, value: bytes) -> None:
        """See Store."""
        with self._lock:
            self._tables.setdefault(table, {})[key] = value

    def get(self, table: str, key: str) -> bytes | None:
        """See Store."""
        with self._lock:
            return self._tables.get(table, {}).get(key)

    def change(self, table: str, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """See Store."""
        with self._lock:
            rows = self._tables.setdefault(table, {})
            rows[key] = change(rows.get(key))
            return rows[key]

    def delete(self, table: str, key: str) -> bool:
        """See Store."""
        with self._lock:
            return self._tables.get(table, {}).pop(key, None) is not None

    def list(self, table: str, *, prefix: str = "") -> list[tuple[str, bytes]]:
        """See Store."""
        with self._lock:
            return sorted((k, v) for k, v in self._tables.get(table, {}).items() if k.startswith(prefix))

    def close(self) -> None:
        """Nothing to let go."""
