"""SqliteStore: a Store in one SQLite file, safe for several processes.

One thread owns the connection. It commits all writes that wait at once in one transaction, with a savepoint each:
a conflict in one spoils none of the others.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pegboard.core.errors import PegboardError
from pegboard.ports.store import Bodies, Put, Record, Row, Rows, StoreError
from pegboard.store.chain import Chain, Fault, check_next
from pegboard.store.history import StoreSize
from pegboard.store.opening import DAMAGE, identity, is_damage, migrate, open_database, recovery_hint
from pegboard.store.seal import PURGED, Seal, SealState, number_of

if TYPE_CHECKING:
    from pegboard.store.recovery import Recovery

T = TypeVar("T")

_MOST: Final = 1024
"""Jobs that share one transaction."""
_END_S: Final = 10.0
"""Seconds that letting go waits for what is under way."""


@dataclass(slots=True, eq=False)
class _Job:
    """What the thread is to do: with the connection; `writes` belongs into a transaction."""

    work: Callable[[sqlite3.Connection], Any]
    writes: bool = False
    power_loss: bool = False
    done: Future[Any] = field(default_factory=Future[Any])


class SqliteStore:
    """One SQLite file in WAL mode, opened at the first use; `SqliteStore.open` opens it now.

    Args:
        path: the file. A new one is made with mode 0600 in a folder with mode 0700.
        recovered: called with what could be saved if the file turns out to be damaged, now or later. A new file
            with all that can be read then stands in its place, and the damaged one is kept beside it. None = a
            damaged file is an error and stays as it is.
        chain: gives what the rows are sealed with, at the first write; None = they are not.
    """

    def __init__(
        self,
        path: Path,
        *,
        recovered: Callable[[Recovery], None] | None = None,
        chain: Callable[[], Chain] | None = None,
    ) -> None:
        self._connection = _Connection(path, recovered, None if chain is None else Seal(chain))
        # Also when nobody closed it: the thread and the file must not outlive the store.
        self._let_go = weakref.finalize(self, self._connection.end)

    @classmethod
    async def open(cls, path: Path, *, recovered: Callable[[Recovery], None] | None = None) -> SqliteStore:
        """A store whose file is open; see `connect`."""
        store = cls(path, recovered=recovered)
        try:
            await store.connect()
        except BaseException:
            store.end()
            raise
        return store

    @property
    def place(self) -> str:
        """The file."""
        return str(self._connection.path)

    async def connect(self) -> None:
        """Open the file now. One of an older Pegboard is brought up to date, and a copy of it is kept beside it.

        Raises:
            StoreError: the file cannot be opened, or a newer Pegboard wrote it.
        """
        await self._connection.ask(_Job(lambda db: None))

    async def append(
        self,
        stream: str,
        records: Sequence[Record],
        *,
        puts: Sequence[Put] = (),
        power_loss: bool = False,
    ) -> None:
        """See Store."""

        def work(db: sqlite3.Connection) -> None:
            last = db.execute("SELECT MAX(seq) FROM entries WHERE stream=?", (stream,)).fetchone()[0]
            check_next(stream, last or 0, records)
            db.executemany(
                "INSERT INTO entries VALUES (?,?,?,?,?,?,?)",
                [(stream, r.seq, r.run, r.type, r.at, r.digest, r.mac) for r in records],
            )
            db.executemany(
                # A body without its record, left behind by damage, gives way.
                "INSERT OR REPLACE INTO payloads VALUES (?,?,?)",
                [(stream, r.seq, r.body) for r in records if r.body is not None],
            )
            _put(db, puts, self._connection.seal)

        await self._connection.ask(_Job(work, writes=True, power_loss=power_loss))

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
        where, values = "e.stream=? AND e.seq>?", [stream, after]
        if run is not None:
            where, values = f"{where} AND e.run=?", [*values, run]
        if types:
            where, values = f"{where} AND e.type IN ({','.join('?' * len(types))})", [*values, *types]
        body, join = "NULL", ""
        if bodies:
            body, join = "p.body", "LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq"
        order, most = ("ASC", limit) if last is None else ("DESC", last)
        query = (
            f"SELECT e.seq, e.run, e.type, e.at, e.digest, e.mac, {body} FROM entries e {join} "
            f"WHERE {where} ORDER BY e.seq {order} LIMIT ?"
        )
        rows = await self._rows(query, *values, -1 if most is None else most)
        found = [_record(row) for row in rows]
        return found if last is None else found[::-1][:limit]

    async def get(self, table: str, key: str) -> Row | None:
        """See Store."""
        rows = await self._rows("SELECT key, value, version FROM kept WHERE tbl=? AND key=?", table, key)
        return Row(*rows[0]) if rows else None

    async def put(self, *puts: Put) -> tuple[int, ...]:
        """See Store."""
        return await self._connection.ask(_Job(lambda db: _put(db, puts, self._connection.seal), writes=True))

    async def delete(self, what: Rows | Bodies) -> int:
        """See Store. Deleted content is overwritten in the file, and the file shrinks when the store is closed."""
        match what:
            case Rows(table, start, end):
                where, values = _range(table, start, end)
                keys = f"SELECT key FROM kept WHERE {where}"

                def work(db: sqlite3.Connection) -> int:
                    puts = [Put(table, key, None) for (key,) in db.execute(keys, values).fetchall()]
                    return len(_put(db, puts, self._connection.seal))

            case Bodies(stream, through):

                def work(db: sqlite3.Connection) -> int:
                    return db.execute(
                        "DELETE FROM payloads WHERE stream=? AND seq<=?", (stream, through)
                    ).rowcount

        count: int = await self._connection.ask(_Job(work, writes=True))
        if isinstance(what, Bodies) and count:
            self._connection.shrink = True
            # The log holds older pages as they were.
            await self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

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
        where, values = _range(table, start, end)
        if keys is not None:
            where, values = (
                f"{where} AND key IN (SELECT value FROM json_each(?))",
                [*values, json.dumps(keys)],
            )
        order = "DESC" if reverse else "ASC"
        query = f"SELECT key, value, version FROM kept WHERE {where} ORDER BY key {order} LIMIT ?"
        return [Row(*row) for row in await self._rows(query, *values, -1 if limit is None else limit)]

    async def close(self) -> None:
        """See Store."""
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """`close` for code that is not async."""
        self._let_go()

    # -- a machine's history: see HistoryStore ----------------------------------------------------

    async def streams(self) -> list[str]:
        """See HistoryStore."""
        return [
            str(row[0]) for row in await self._rows("SELECT DISTINCT stream FROM entries ORDER BY stream")
        ]

    async def tables(self) -> list[str]:
        """See HistoryStore."""
        return [str(row[0]) for row in await self._rows("SELECT DISTINCT tbl FROM kept ORDER BY tbl")]

    async def seal(self) -> tuple[int, str] | None:
        """See HistoryStore."""
        state = await self._connection.ask(_Job(_state))
        return None if state is None else (state.changes, state.mac)

    async def check_rows(self, ends: Mapping[str, tuple[int, str]]) -> list[Fault]:
        """See HistoryStore."""
        seal = self._connection.seal
        if seal is None:
            return []
        # As a write: a file that was never sealed is sealed now.
        return await self._connection.ask(
            _Job(lambda db: seal.faults(_sealed_rows(db), _state(db), ends), writes=True)
        )

    async def seal_rows(self) -> None:
        """See HistoryStore."""
        seal = self._connection.seal
        if seal is None:
            return

        def work(db: sqlite3.Connection) -> None:
            _write_state(db, seal.renew(_rewrite_macs(db, seal), _state(db)))

        await self._connection.ask(_Job(work, writes=True))

    async def check(self) -> str:
        """What SQLite finds wrong with the file, empty if nothing; it is recovered if that was asked for at `open`.

        Looks through the whole file: about two seconds for a gigabyte.
        """

        def work(db: sqlite3.Connection) -> str:
            try:
                return str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
            except DAMAGE as error:
                return str(error)

        fault: str = await self._connection.ask(_Job(work))
        if fault == "ok":
            return ""
        await self._connection.ask(_Job(lambda db: self._connection.recover(fault)))
        return fault

    async def size(self) -> StoreSize:
        """See HistoryStore."""
        streams = await self._rows(
            "SELECT e.stream, COUNT(*), TOTAL(LENGTH(p.body)) FROM entries e "
            "LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq GROUP BY e.stream"
        )
        tables = await self._rows("SELECT tbl, COUNT(*), TOTAL(LENGTH(value)) FROM kept GROUP BY tbl")
        path = self._connection.path
        files = [path, path.with_name(f"{path.name}-wal")]
        return StoreSize(
            place=self.place,
            bytes_on_disk=sum(file.stat().st_size for file in files if file.exists()),
            streams={str(stream): (count, int(size)) for stream, count, size in streams},
            tables={str(table): (count, int(size)) for table, count, size in tables},
        )

    async def set_aside(self) -> str:
        """See HistoryStore."""
        return await self._connection.ask(_Job(lambda db: self._connection.set_aside()))

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[SqliteStore]:
        """See HistoryStore."""
        view = SqliteStore(self._connection.path)
        try:
            # A transaction that has read sees the file as it is from then on.
            await view._rows("BEGIN")
            await view._rows("SELECT MAX(seq) FROM entries")
            yield view
        finally:
            await view.close()

    async def _rows(self, query: str, *values: Any) -> list[Any]:
        return await self._connection.ask(_Job(lambda db: db.execute(query, values).fetchall()))


class _Connection:
    """The file's connection and the one thread that uses it."""

    shrink = False

    def __init__(self, path: Path, recovered: Callable[[Recovery], None] | None, seal: Seal | None) -> None:
        self.seal = seal
        self.path = path
        self._recovered = recovered
        self._sealed = (0, 0)
        self._db: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._ended = False
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="pegboard-store", daemon=True)
        self._thread.start()

    async def ask(self, job: _Job) -> Any:
        """Do a job in the thread; its result, for the loop that asks."""
        with self._lock:
            if self._ended:
                raise StoreError(f"cannot {_verb(job)} the store {self.path}: it is closed")
            self._queue.put(job)
        return await asyncio.wrap_future(job.done)

    def end(self) -> None:
        """Do what waits, close the file and end the thread."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._queue.put(None)
        # What collects garbage may be this very thread.
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_S)

    # -- the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        going = True
        while going:
            jobs = [self._queue.get()]
            while jobs[-1] is not None and len(jobs) < _MOST and not self._queue.empty():
                jobs.append(self._queue.get())
            going = jobs[-1] is not None
            live = [j for j in jobs if j is not None and j.done.set_running_or_notify_cancel()]
            for writes, group in groupby(live, key=lambda job: job.writes):
                for some in [list(group)] if writes else ([job] for job in group):
                    self._do(some)
        if self._db is not None:
            self._close(self._db)

    def _do(self, jobs: list[_Job]) -> None:
        """Do some writes, or one read; once more if the file was damaged and has been recovered."""
        try:
            try:
                outcomes = self._outcomes(self._current(), jobs)
            except DAMAGE as error:
                if not is_damage(error) or not self.recover(str(error)):
                    raise
                outcomes = self._outcomes(self._current(), jobs)
        except BaseException as error:  # noqa: BLE001  The thread's boundary: who waits must hear of it.
            outcomes = [error] * len(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            match outcome:
                case sqlite3.Error() | UnicodeError() | OSError():
                    hint = recovery_hint(outcome)
                    error = StoreError(f"cannot {_verb(job)} the store {self.path}: {outcome}{hint}")
                    error.__cause__ = outcome
                    job.done.set_exception(error)
                case BaseException():
                    job.done.set_exception(outcome)
                case _:
                    job.done.set_result(outcome)
        if self.seal is not None:
            self.seal.keep()

    def _outcomes(self, db: sqlite3.Connection, jobs: list[_Job]) -> list[Any]:
        if not jobs[0].writes:
            return [jobs[0].work(db)]
        db.execute("BEGIN IMMEDIATE")
        try:
            if self.seal is not None and self._sealed != self._file:
                _open_seal(db, self.seal)
            outcomes = [self._alone(db, job) for job in jobs]
            db.execute("COMMIT")
            self._sealed = self._file
        except BaseException:
            # A full disk or a damaged file may have ended the transaction by itself.
            if db.in_transaction:
                db.execute("ROLLBACK")
            if self.seal is not None:
                self.seal.discard()
            raise
        if any(job.power_loss for job in jobs):
            self._sync()
        return outcomes

    @staticmethod
    def _alone(db: sqlite3.Connection, job: _Job) -> Any:
        """What a job gives, or its error; then nothing of it is in the transaction."""
        db.execute("SAVEPOINT job")
        try:
            outcome = job.work(db)
        except (sqlite3.Error, UnicodeError, PegboardError) as error:
            if not db.in_transaction or (isinstance(error, DAMAGE) and is_damage(error)):
                raise
            db.execute("ROLLBACK TO job")
            outcome = error
        db.execute("RELEASE job")
        return outcome

    def _sync(self) -> None:
        """Make all that was committed survive a power cut.

        Only the log: closing the file itself would let go of the locks that SQLite holds on it.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        if log.exists():
            descriptor = os.open(log, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _current(self) -> sqlite3.Connection:
        """The connection to the file that stands there now: another process may have recovered it meanwhile."""
        if self._db is not None and self._file != (0, 0) and identity(self.path) != self._file:
            self._db.close()
            self._db = None
        if self._db is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            db = open_database(self.path)
            try:
                migrate(db, self.path)
            except BaseException:
                db.close()
                raise
            self._db, self._file = db, identity(self.path)
        return self._db

    def set_aside(self) -> str:
        """Give the file another name; what comes next is written to a new one."""
        from pegboard.store.recovery import exclusive

        with exclusive(self.path):
            if self._db is not None:
                # Nothing may stay in the log: a log belongs to the file of its name.
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._db.close()
                self._db = None
            aside = self.path.with_name(f"{self.path.name}.before-{datetime.now(UTC):%Y%m%d-%H%M%S}")
            self.path.rename(aside)
            for log in ("-wal", "-shm"):
                self.path.with_name(f"{self.path.name}{log}").unlink(missing_ok=True)
        return str(aside)

    def recover(self, fault: str) -> bool:
        """Put what can be saved of the damaged file in its place; whether the store can be used again."""
        if self._recovered is None:
            return False
        from pegboard.store.recovery import exclusive, recover

        before, done = self._file, None
        if self._db is not None:
            self._db.close()
            self._db = None
        with exclusive(self.path):
            # Whoever was here first may have recovered it.
            if before == identity(self.path) or not self._opens():
                done = recover(self.path)
                if done is None:
                    return False
        if done is not None:
            self._recovered(done)
        return True

    def _opens(self) -> bool:
        try:
            self._current()
        except DAMAGE as error:
            if not is_damage(error):
                raise
            return False
        return True

    def _close(self, db: sqlite3.Connection) -> None:
        if self.shrink:
            # No room, or others use it: then it only stays larger.
            with suppress(sqlite3.Error):
                db.execute("VACUUM")
        db.close()


def _verb(job: _Job) -> str:
    return "write" if job.writes else "read"


def _put(db: sqlite3.Connection, puts: Sequence[Put], seal: Seal | None) -> tuple[int, ...]:
    versions: list[int] = []
    difference = 0
    for put in puts:
        place = (put.table, put.key)
        row = db.execute("SELECT version, mac FROM kept WHERE tbl=? AND key=?", place).fetchone()
        version: int = 0 if row is None else row[0]
        put.check(version)
        difference -= 0 if row is None else number_of(row[1])
        if put.value is None:
            db.execute("DELETE FROM kept WHERE tbl=? AND key=?", place)
            versions.append(0)
        else:
            mac = "" if seal is None else seal.mac(put.table, Row(put.key, put.value, version + 1))
            difference += number_of(mac)
            db.execute(
                "INSERT OR REPLACE INTO kept VALUES (?,?,?,?,?)", (*place, put.value, version + 1, mac)
            )
            versions.append(version + 1)
    if seal is not None and puts:
        _write_state(db, seal.next(_state(db), difference))
    return tuple(versions)


def _open_seal(db: sqlite3.Connection, seal: Seal) -> None:
    """Seal what an older Pegboard wrote, and what it had deleted by then."""
    if not seal.open(_state(db)):
        return
    db.execute(
        "INSERT OR REPLACE INTO kept SELECT ?, e.stream, CAST(MAX(e.seq) AS BLOB), 1, '' FROM entries e "
        "LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq WHERE p.seq IS NULL GROUP BY e.stream",
        (PURGED,),
    )
    _write_state(db, seal.first(_rewrite_macs(db, seal)))


def _rewrite_macs(db: sqlite3.Connection, seal: Seal) -> list[str]:
    """Give every row the mac that it should have; all of them."""
    rows = [(row.value, seal.mac(table, row), table, row.key) for table, row, _ in list(_sealed_rows(db))]
    db.executemany("UPDATE kept SET value=?, mac=? WHERE tbl=? AND key=?", rows)
    return [mac for _, mac, _, _ in rows]


def _sealed_rows(db: sqlite3.Connection) -> Iterator[tuple[str, Row, str]]:
    """Every row with its table and its mac."""
    for table, key, value, version, mac in db.execute("SELECT tbl, key, value, version, mac FROM kept"):
        row = Row(str(key), value if isinstance(value, bytes) else str(value).encode(), version)
        yield str(table), row, str(mac)


def _state(db: sqlite3.Connection) -> SealState | None:
    row = db.execute("SELECT changes, total, mac FROM seal").fetchone()
    return None if row is None else SealState(*row)


def _write_state(db: sqlite3.Connection, state: SealState | None) -> None:
    if state is not None:
        db.execute("INSERT OR REPLACE INTO seal VALUES (1, ?, ?, ?)", state)


def _range(table: str, start: str, end: str | None) -> tuple[str, list[Any]]:
    if end is None:
        return "tbl=? AND key>=?", [table, start]
    return "tbl=? AND key>=? AND key<?", [table, start, end]


def _record(row: tuple[Any, ...]) -> Record:
    """A row as a record. SQLite keeps what it is given whatever the column says: if somebody else wrote text
    where bytes belong, verifying must still name the record."""
    seq, run, kind, at, digest, mac, body = row
    return Record(
        seq=seq, run=str(run), type=str(kind), at=at, digest=str(digest), mac=str(mac),
        body=body if body is None or isinstance(body, bytes) else str(body).encode("utf-8", "replace"),
    )  # fmt: skip


async def open_sqlite(place: str, *, recovered: Callable[[Recovery], None] | None = None) -> SqliteStore:
    """The store in a file; `place` is its path.

    Raises:
        StoreError: no file is named, or it cannot be opened.
    """
    if not place:
        raise StoreError("the store sqlite: names no file; write sqlite:PATH")
    return await SqliteStore.open(Path(place).expanduser(), recovered=recovered)
