"""SqliteStore: a Store in one file, WAL, safe for several processes (DESIGN 6)."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pegboard.ports.store import NewRecord, Record, RunRow
from pegboard.store.chain import GENESIS, chain_records
from pegboard.store.opening import (
    FAULTS,
    StoreError,
    identity,
    is_damage,
    migrate,
    open_database,
    recovery_hint,
)

if TYPE_CHECKING:
    from pegboard.store.salvage import SalvageResult

T = TypeVar("T")


class SqliteStore:
    """One SQLite file.

    Args:
        path: the file; its folder is made with mode 0700, the file with 0600.
        mended: told what was saved when the file turned out to be damaged, at once or later: then a new file
            with all that can be read stands in its place, and the damaged one is kept beside it. None = a
            damaged file is an error and is left as it is.

    Raises:
        StoreError: the file cannot be opened, or a newer Pegboard wrote it.
    """

    def __init__(self, path: Path, *, mended: Callable[[SalvageResult], None] | None = None) -> None:
        self._path = path
        self._mended = mended
        self._lock = threading.RLock()
        self._file: tuple[int, int] = (0, 0)
        with self._guard("open"):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                self._open()
            except FAULTS as error:
                if not self._repair(error):
                    raise

    def _open(self) -> None:
        self._db = open_database(self._path)
        try:
            migrate(self._db, self._path)
        except BaseException:
            self._db.close()
            raise
        self._file = identity(self._path)

    def check(self) -> str:
        """What SQLite finds wrong with the file, after it was mended where that could be done; empty where nothing is.

        Looks through the whole file: about two seconds for a gigabyte.
        """
        with self._guard("read"), self._lock:
            try:
                told = str(self._db.execute("PRAGMA integrity_check(1)").fetchone()[0])
            except FAULTS as error:
                told = str(error)
            if told == "ok":
                return ""
            self._repair(sqlite3.DatabaseError(f"malformed: {told}"))
            return told

    def _repair(self, error: sqlite3.DatabaseError | UnicodeDecodeError) -> bool:
        """Put what can be saved of a damaged file in its place; whether the store can be used again."""
        if self._mended is None or not is_damage(error):
            return False
        from pegboard.store.salvage import exclusive, salvage

        with exclusive(self._path):
            if self._file != (0, 0):
                self._db.close()
            done: SalvageResult | None = None
            # Whoever was here first may have mended it meanwhile.
            if self._file == identity(self._path) or not self._opens():
                done = salvage(self._path, self._fresh)
                if done is None:
                    return False
                self._open()
        if done is not None:
            self._mended(done)
        return True

    def _opens(self) -> bool:
        try:
            self._open()
        except FAULTS as error:
            if not is_damage(error):
                raise
            return False
        return True

    @staticmethod
    def _fresh(path: Path) -> sqlite3.Connection:
        SqliteStore(path).close()
        return open_database(path)

    def _current(self) -> None:
        """Another process may have mended the file: then this one goes on in the new one."""
        if self._mended is not None and identity(self._path) != self._file:
            self._db.close()
            self._open()

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
        if not drafts:
            if power_loss:
                self._sync()
            return self.head(stream)[1]

        def work() -> str:
            seq, head = self._head(stream)
            entries = chain_records(key, stream, head, seq, drafts)
            self._db.executemany(
                "INSERT INTO entries VALUES (?,?,?,?,?,?,?)",
                [(stream, e.seq, e.run, e.type, e.at, e.digest, e.mac) for e in entries],
            )
            self._db.executemany(
                "INSERT INTO payloads VALUES (?,?,?)", [(stream, e.seq, e.body) for e in entries]
            )
            for row in rows:
                self._save_run(row)
            return entries[-1].mac

        return self._written(work, full=power_loss)

    def head(self, stream: str) -> tuple[int, str]:
        """See Store."""
        return self._read(lambda: self._head(stream))

    def read(self, stream: str, *, after: int = 0, run: str | None = None, limit: int = -1) -> list[Record]:
        """See Store."""
        where, values = "e.stream=? AND e.seq>?", [stream, after]
        if run is not None:
            where, values = where + " AND e.run=?", [*values, run]
        rows = self._rows(
            "SELECT e.seq, e.run, e.type, e.at, e.digest, e.mac, p.body FROM entries e "
            f"LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq WHERE {where} ORDER BY e.seq LIMIT ?",
            *values,
            limit,
        )
        return [_entry(row) for row in rows]

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
        if without:
            begins = b'{"type":"%b' % without.encode()
            found = self._rows(
                "SELECT seq, body FROM payloads WHERE stream=? AND seq>? AND (body<? OR body>=?) ORDER BY seq LIMIT ?",
                stream, after, begins + b'"', begins + b"#", limit,
            )  # fmt: skip
            return cast("list[tuple[int, bytes | None]]", found)
        where, values = "e.stream=? AND e.seq>?", [stream, after]
        if run is not None:
            where, values = where + " AND e.run=?", [*values, run]
        if types:
            where, values = f"{where} AND e.type IN ({','.join('?' * len(types))})", [*values, *types]
        rows = self._rows(
            "SELECT e.seq, p.body FROM entries e LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq "
            f"WHERE {where} ORDER BY e.seq LIMIT ?",
            *values,
            limit,
        )
        return cast("list[tuple[int, bytes | None]]", rows)

    def purge(self, stream: str, *, before: float) -> int:
        """See Store."""
        return self._written(
            lambda: (
                self._db.execute(
                    "DELETE FROM payloads WHERE stream=? AND seq IN (SELECT seq FROM entries WHERE stream=? AND at<?)",
                    (stream, stream, before),
                ).rowcount
            )
        )

    def compact(self) -> None:
        """Write the file anew without what was purged: freed pages still hold it."""
        with self._guard("write"), self._lock:
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def payloads(self, stream: str, *, before: float) -> tuple[int, int, float | None]:
        """How many payloads older than a time a stream holds, their bytes, and when the oldest was written."""
        ((count, size, oldest),) = self._rows(
            "SELECT COUNT(*), TOTAL(LENGTH(p.body)), MIN(e.at) FROM payloads p "
            "JOIN entries e ON e.stream=p.stream AND e.seq=p.seq WHERE p.stream=? AND e.at<?",
            stream,
            before,
        )
        return count, int(size), oldest

    def save_run(self, row: RunRow) -> None:
        """See Store."""
        self._written(lambda: self._save_run(row))

    def runs(self, *, limit: int = 50, stream: str | None = None, status: str | None = None) -> list[RunRow]:
        """See Store."""
        rows = self._rows(
            "SELECT id, stream, status, task, model, agent, started, ended FROM runs "
            # By place and not by number: Python 3.12.0 to 3.12.3 take `?1` for a name and warn.
            "WHERE (? IS NULL OR stream=?) AND (? IS NULL OR status=?) "
            "ORDER BY started DESC, id DESC LIMIT ?",
            stream,
            stream,
            status,
            status,
            limit,
        )
        return [
            RunRow(
                id=r[0], stream=r[1], status=r[2], task=r[3], model=r[4], agent=r[5], started=r[6], ended=r[7]
            )
            for r in rows
        ]

    def put(self, table: str, key: str, value: bytes) -> None:
        """See Store."""
        self._written(
            lambda: self._db.execute("INSERT OR REPLACE INTO kept VALUES (?,?,?)", (table, key, value))
        )

    def get(self, table: str, key: str) -> bytes | None:
        """See Store."""
        rows = self._rows("SELECT value FROM kept WHERE tbl=? AND key=?", table, key)
        return rows[0][0] if rows else None

    def change(self, table: str, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """See Store."""

        def work() -> bytes:
            row = self._db.execute("SELECT value FROM kept WHERE tbl=? AND key=?", (table, key)).fetchone()
            value = change(row[0] if row else None)
            self._db.execute("INSERT OR REPLACE INTO kept VALUES (?,?,?)", (table, key, value))
            return value

        return self._written(work)

    def delete(self, table: str, key: str) -> bool:
        """See Store."""
        return self._written(
            lambda: self._db.execute("DELETE FROM kept WHERE tbl=? AND key=?", (table, key)).rowcount > 0
        )

    def list(self, table: str, *, prefix: str = "") -> list[tuple[str, bytes]]:
        """See Store."""
        rows = self._rows("SELECT key, value FROM kept WHERE tbl=? ORDER BY key", table)
        return [(r[0], r[1]) for r in rows if r[0].startswith(prefix)]

    def close(self) -> None:
        """See Store."""
        with self._lock:
            self._db.close()

    def _sync(self) -> None:
        """What was committed so far survives a power cut: an empty transaction would not make SQLite sync."""
        with self._guard("write"), self._lock:
            for file in (self._path.with_name(self._path.name + "-wal"), self._path):
                if file.exists():
                    descriptor = os.open(file, os.O_RDONLY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)

    def _save_run(self, row: RunRow) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?)",
            (row.id, row.stream, row.status, row.task, row.model, row.agent, row.started, row.ended),
        )

    # -- parts --------------------------------------------------------------------------------

    def _head(self, stream: str) -> tuple[int, str]:
        row = self._db.execute(
            "SELECT seq, mac FROM entries WHERE stream=? ORDER BY seq DESC LIMIT 1", (stream,)
        ).fetchone()
        return (row[0], row[1]) if row else (0, GENESIS)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._read(lambda: self._db.execute(query, values).fetchall())

    def _read(self, work: Callable[[], T]) -> T:
        """Read; once more where the file was damaged and has been mended."""
        with self._guard("read"), self._lock:
            self._current()
            try:
                return work()
            except FAULTS as error:
                if not self._repair(error):
                    raise
            return work()

    def _written(self, work: Callable[[], T], *, full: bool = False) -> T:
        """Write, all or nothing; once more where the file was damaged and has been mended."""
        with self._guard("write"), self._lock:
            self._current()
            try:
                with self._transaction(full=full):
                    return work()
            except FAULTS as error:
                if not self._repair(error):
                    raise
            with self._transaction(full=full):
                return work()

    @contextmanager
    def _transaction(self, *, full: bool = False) -> Generator[None]:
        """All or nothing, alone among the processes that share the file."""
        if full:
            self._db.execute("PRAGMA synchronous=FULL")
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                # A damaged file may have ended the transaction by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        finally:
            if full:
                self._db.execute("PRAGMA synchronous=NORMAL")

    @contextmanager
    def _guard(self, verb: str) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise StoreError(
                f"cannot {verb} the store {self._path}: {error}{recovery_hint(error)}"
            ) from error


def _entry(row: tuple[Any, ...]) -> Record:
    """A row as an entry. SQLite keeps what it is given whatever the column says; who changed the file may have
    left text where bytes were, and verifying must still name the record."""
    seq, run, kind, at, digest, mac, body = row
    return Record(
        seq=seq, run=str(run), type=str(kind), at=at, digest=str(digest), mac=str(mac),
        body=body if body is None or isinstance(body, bytes) else str(body).encode("utf-8", "replace"),
    )  # fmt: skip
