"""PostgresStore: a Store in a schema of a PostgreSQL database, for several machines.

One thread with an event loop of its own has the connections, so that any loop can ask. All writes that wait at once
share one transaction: what they build on is read first, each is checked and applied in memory, and the outcome is
written in a few statements. A conflict in one spoils none of the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pegboard.core.errors import Conflict
from pegboard.ports.store import Bodies, Put, Record, Row, Rows, StoreError
from pegboard.store.chain import Chain, Fault, check_next
from pegboard.store.history import StoreSize
from pegboard.store.seal import Seal, SealState, number_of

if TYPE_CHECKING:
    from pegboard.store.recovery import Recovery

T = TypeVar("T")

_MIGRATIONS: Final = (
    """
    CREATE TABLE {s}.entries (
        stream text COLLATE "C" NOT NULL, seq bigint NOT NULL, run text COLLATE "C" NOT NULL, type text NOT NULL,
        at double precision NOT NULL, digest text NOT NULL, mac text NOT NULL, body bytea, PRIMARY KEY (stream, seq)
    );
    CREATE INDEX entries_by_run ON {s}.entries (stream, run, seq);
    CREATE TABLE {s}.kept (
        tbl text COLLATE "C" NOT NULL, digest bytea NOT NULL, key text COLLATE "C" NOT NULL, value bytea NOT NULL,
        version bigint NOT NULL, mac text NOT NULL, PRIMARY KEY (tbl, digest)
    );
    CREATE INDEX kept_by_key ON {s}.kept (tbl, left(key, 300));
    CREATE TABLE {s}.store (
        id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL, changes bigint NOT NULL, total text NOT NULL,
        mac text NOT NULL
    );
    INSERT INTO {s}.store VALUES (1, 0, 0, '', '')
    """,
)
"""Numbered by position; `store.version` says how many have run. Never change one that was released.

A key may be longer than an index takes (2,704 bytes), so rows are found by its SHA-256 and ordered by its beginning."""

VERSION: Final = len(_MIGRATIONS)
_SCHEMA: Final = "pegboard"
_MOST: Final = 256
"""Writes that share one transaction."""
_CONNECTIONS: Final = 4
_CONNECT_S: Final = 10.0
_COMMAND_S: Final = 60.0
_AGAIN_S: Final = 30.0
"""Seconds for which a lost connection is opened anew: a server that starts again is back by then."""
_END_S: Final = 10.0
"""Seconds that letting go waits for what is under way."""

_BEGIN: Final = """
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL synchronous_commit = {durable};
SET LOCAL lock_timeout = '30s';
SET LOCAL idle_in_transaction_session_timeout = '10s'
"""
"""The last line ends a transaction whose process has stopped in the middle, so that it does not hold up all others."""


@dataclass(slots=True, eq=False)
class _Write:
    """Records and rows that are written together, or a range that is deleted, or all rows sealed anew."""

    stream: str = ""
    records: Sequence[Record] = ()
    puts: Sequence[Put] = ()
    power_loss: bool = False
    delete: Rows | Bodies | None = None
    reseal: bool = False
    done: Future[Any] = field(default_factory=Future[Any])

    @property
    def alone(self) -> bool:
        """Whether it has a transaction of its own."""
        return self.delete is not None or self.reseal


class PostgresStore:
    """One schema of a PostgreSQL database, connected at the first use; `PostgresStore.open` connects now.

    Args:
        url: `postgresql://USER@HOST:PORT/DATABASE`, with `?schema=NAME` where it is not `pegboard`; further
            parameters such as `sslmode` are libpq's.
        password: for the user; None = the one in the URL or in `~/.pgpass`.
        chain: gives what the rows are sealed with, at the first write; None = they are not.

    Raises:
        StoreError: the URL is none, or the schema's name is not made of a-z, 0-9 and _.
    """

    def __init__(
        self, url: str, *, password: str | None = None, chain: Callable[[], Chain] | None = None
    ) -> None:
        self._database = _Database(url, password, None if chain is None else Seal(chain))
        self._held: Any = None
        # Also when nobody closed it: thread and connections must not outlive the store.
        self._let_go = weakref.finalize(self, self._database.end)

    @classmethod
    async def open(cls, url: str, *, password: str | None = None) -> PostgresStore:
        """A store that is connected; see `connect`."""
        store = cls(url, password=password)
        try:
            await store.connect()
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def place(self) -> str:
        """Where it is, without the password."""
        return self._database.place

    @property
    def login(self) -> tuple[str, str]:
        """The database's URL with the password, if we were given one, and the schema: for another driver, not to show."""
        return self._database.login()

    async def connect(self) -> None:
        """Connect now. A schema that is missing is made; one of an older Pegboard is brought up to date.

        Raises:
            StoreError: the server does not let us in, or a newer Pegboard wrote the schema.
        """
        await self._rows("SELECT 1")

    async def append(
        self,
        stream: str,
        records: Sequence[Record],
        *,
        puts: Sequence[Put] = (),
        power_loss: bool = False,
    ) -> None:
        """See Store."""
        await self._database.write(_Write(stream=stream, records=records, puts=puts, power_loss=power_loss))

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
        where = "stream=$1 AND seq>$2"
        values: list[Any] = [stream, after, limit if last is None else last]
        if run is not None:
            values.append(run)
            where = f"{where} AND run=${len(values)}"
        if types:
            values.append(list(types))
            where = f"{where} AND type=ANY(${len(values)})"
        rows = await self._rows(
            f"SELECT seq, run, type, at, digest, mac, {'body' if bodies else 'NULL::bytea AS body'} FROM {{s}}.entries "
            f"WHERE {where} ORDER BY seq {'ASC' if last is None else 'DESC'} LIMIT $3",
            *values,
        )
        found = [Record(**row) for row in rows]
        return found if last is None else found[::-1][:limit]

    async def get(self, table: str, key: str) -> Row | None:
        """See Store."""
        rows = await self._rows(
            "SELECT key, value, version FROM {s}.kept WHERE tbl=$1 AND digest=$2", table, _digest(key)
        )
        return Row(**rows[0]) if rows else None

    async def put(self, *puts: Put) -> tuple[int, ...]:
        """See Store."""
        return await self._database.write(_Write(puts=puts))

    async def delete(self, what: Rows | Bodies) -> int:
        """See Store. PostgreSQL overwrites deleted content when it reuses the space, after a vacuum."""
        return await self._database.write(_Write(delete=what))

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
        order = "DESC" if reverse else "ASC"
        where, values = _range(table, start, end)
        if keys is not None:
            where = f"{where} AND digest = ANY(${len(values) + 1})"
            values = [*values, list(map(_digest, keys))]
        rows = await self._rows(
            f"SELECT key, value, version FROM {{s}}.kept WHERE {where} "
            f"ORDER BY left(key, 300) {order}, key {order} LIMIT ${len(values) + 1}",
            *values, limit,
        )  # fmt: skip
        return [Row(**row) for row in rows]

    async def close(self) -> None:
        """See Store."""
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """`close` for code that is not async."""
        self._let_go()

    # -- a machine's history: see HistoryStore ----------------------------------------------------

    async def streams(self) -> list[str]:
        """See HistoryStore."""
        # From one to the next in the index: a DISTINCT would read every record.
        rows = await self._rows(
            "WITH RECURSIVE s(stream) AS (SELECT min(stream) FROM {s}.entries UNION ALL "
            "SELECT (SELECT min(e.stream) FROM {s}.entries e WHERE e.stream > s.stream) FROM s WHERE s.stream IS NOT NULL) "
            "SELECT stream FROM s WHERE stream IS NOT NULL"
        )
        return [row["stream"] for row in rows]

    async def tables(self) -> list[str]:
        """See HistoryStore."""
        return [row["tbl"] for row in await self._rows("SELECT DISTINCT tbl FROM {s}.kept ORDER BY tbl")]

    async def seal(self) -> tuple[int, str] | None:
        """See HistoryStore."""
        state = _state((await self._rows("SELECT changes, total, mac FROM {s}.store"))[0])
        return None if state is None else (state.changes, state.mac)

    async def check_rows(self, ends: Mapping[str, tuple[int, str]]) -> list[Fault]:
        """See HistoryStore."""
        seal = self._database.seal
        if seal is None:
            return []
        # As a write: a store that was never sealed is sealed now.
        await self.put()
        async with self.snapshot() as now:
            rows = await now._rows("SELECT tbl, key, value, version, mac FROM {s}.kept")
            state = _state((await now._rows("SELECT changes, total, mac FROM {s}.store"))[0])
        return seal.faults(
            ((r["tbl"], Row(r["key"], r["value"], r["version"]), r["mac"]) for r in rows), state, ends
        )

    async def seal_rows(self) -> None:
        """See HistoryStore."""
        await self._database.write(_Write(reseal=True))

    async def check(self) -> str:
        """See HistoryStore. Whether each stream is numbered without gaps; PostgreSQL has checksums for its files."""
        rows = await self._rows(
            "SELECT stream, count(*) AS n, max(seq) AS last FROM {s}.entries GROUP BY stream HAVING count(*) <> max(seq)"
        )
        return "; ".join(f"the stream {r['stream']!r} has {r['n']} of {r['last']} records" for r in rows)

    async def size(self) -> StoreSize:
        """See HistoryStore."""
        streams = await self._rows(
            "SELECT stream, count(*) AS n, coalesce(sum(length(body)), 0)::bigint AS size FROM {s}.entries GROUP BY stream"
        )
        tables = await self._rows(
            "SELECT tbl, count(*) AS n, sum(length(value))::bigint AS size FROM {s}.kept GROUP BY tbl"
        )
        whole = await self._rows(
            "SELECT sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass))::bigint AS size "
            "FROM pg_tables WHERE schemaname=$1",
            self._database.schema,
        )
        return StoreSize(
            place=self.place,
            bytes_on_disk=whole[0]["size"],
            streams={r["stream"]: (r["n"], r["size"]) for r in streams},
            tables={r["tbl"]: (r["n"], r["size"]) for r in tables},
        )

    async def set_aside(self) -> str:
        """See HistoryStore. The schema gets another name."""
        return await self._database.ask("write", self._database.set_aside)

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[PostgresStore]:
        """See HistoryStore."""
        view = copy(self)
        view._held = await self._database.ask("read", self._database.hold)
        try:
            yield view
        finally:
            await self._database.ask("read", lambda: self._database.release(view._held))

    async def _rows(self, query: str, *values: Any) -> list[Any]:
        held, database = self._held, self._database
        return await database.ask("read", lambda: database.fetch(held, query.format(s=database.s), values))


class _Database:
    """The connections, and the one thread and loop that use them."""

    def __init__(self, url: str, password: str | None, seal: Seal | None) -> None:
        self.url, self.schema, self.place = _parts(url)
        self.seal = seal
        self.s = f'"{self.schema}"'
        self._password = password
        self._pool: Any = None
        self._opening: asyncio.Lock | None = None
        self._unsealed = True
        self._writes: deque[_Write] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        self._lock = threading.Lock()

    def login(self) -> tuple[str, str]:
        """See PostgresStore."""
        parts = urlsplit(self.url)
        if self._password is None:
            return self.url, self.schema
        user, _, host = parts.netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}:{quote(self._password, safe='')}@{host}"
        return parts._replace(netloc=netloc).geturl(), self.schema

    async def ask(self, verb: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something in the thread; its result, for the loop that asks.

        Raises:
            StoreError: it failed, or the store is closed.
        """
        with self._lock:
            loop = self._running(verb)
            future = asyncio.run_coroutine_threadsafe(self._named(verb, work), loop)
        return await asyncio.wrap_future(future)

    async def write(self, job: _Write) -> Any:
        """Write something behind all that waits; what it gives."""
        with self._lock:
            loop = self._running("write")
            self._writes.append(job)
            loop.call_soon_threadsafe(self._write_soon)
        return await asyncio.wrap_future(job.done)

    def end(self) -> None:
        """Do what waits, close the connections and end the thread."""
        with self._lock:
            ended, self._ended = self._ended, True
            loop, thread = self._loop, self._thread
            if loop is None or thread is None or ended:
                return
            asyncio.run_coroutine_threadsafe(self._close(loop), loop)
        # What collects garbage may be this very thread.
        if threading.current_thread() is not thread:
            thread.join(_END_S)

    def _running(self, verb: str) -> asyncio.AbstractEventLoop:
        """The loop of the thread; with the lock held."""
        if self._ended:
            raise StoreError(f"cannot {verb} the store {self.place}: it is closed")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="pegboard-store", daemon=True
            )
            self._thread.start()
        return self._loop

    # -- the thread -------------------------------------------------------------------------------

    async def _named(self, verb: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await work()
        except Exception as error:
            if isinstance(error, _failures()):
                raise self._error(verb, error) from error
            raise

    def _error(self, verb: str, error: Exception) -> StoreError:
        said = str(error).strip() or type(error).__name__
        return StoreError(f"cannot {verb} the store {self.place}: {said}{_hint(error)}")

    async def pool(self) -> Any:
        """The connections; the first one brings the schema up to date."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                asyncpg = _asyncpg()

                async def nothing(_: Any) -> None:
                    """A connection comes back as it went: every setting of ours ends with its transaction."""

                pool = await asyncpg.create_pool(
                    self.url, password=self._password, min_size=0, max_size=_CONNECTIONS, timeout=_CONNECT_S,
                    command_timeout=_COMMAND_S, reset=nothing, max_inactive_connection_lifetime=60.0,
                )  # fmt: skip
                try:
                    async with pool.acquire() as db:
                        await _migrate(db, self.schema, self.place)
                except BaseException:
                    pool.terminate()
                    raise
                self._pool = pool
        return self._pool

    async def fetch(self, held: Any, query: str, values: tuple[Any, ...]) -> list[Any]:
        """What a query finds: by a connection that is held, or by any; then once more where it was lost."""
        if held is not None:
            return await held.fetch(query, *values)

        async def find(db: Any) -> list[Any]:
            return await db.fetch(query, *values)

        return await self._connected(find)

    async def hold(self) -> Any:
        """A connection whose transaction sees the database as it is now."""
        db = await (await self.pool()).acquire()
        await db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1")
        return db

    async def release(self, db: Any) -> None:
        """Give back a connection that was held."""
        with suppress(*_failures()):
            await db.execute("ROLLBACK")
        await self._pool.release(db)

    async def set_aside(self) -> str:
        """Give the schema another name, and make a new one."""
        name = f"{self.schema[:40]}_before_{datetime.now(UTC):%Y%m%d_%H%M%S}"
        async with (await self.pool()).acquire() as db:
            async with db.transaction():
                await db.execute(f"SELECT 1 FROM {self.s}.store FOR UPDATE")
                await db.execute(f'ALTER SCHEMA {self.s} RENAME TO "{name}"')
            await _migrate(db, self.schema, self.place)
        self._unsealed = True
        return f"the schema {name} of {self.place}"

    async def _connected(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with a connection; again for some seconds while it is lost and the server is away."""
        end = asyncio.get_running_loop().time() + _AGAIN_S
        known = self._pool is not None
        while True:
            try:
                pool = await self.pool()
                async with pool.acquire() as db:
                    try:
                        return await work(db)
                    except BaseException:
                        # What went wrong may have been the connection; its transaction goes with it.
                        with suppress(_asyncpg().InterfaceError):
                            db.terminate()
                        raise
            except _lost():
                # One that was never there is a wrong address: nobody waits for that.
                if not known or asyncio.get_running_loop().time() >= end:
                    raise
                await asyncio.sleep(0.1)

    def _write_soon(self) -> None:
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._writes:
            group: list[_Write] = []
            while self._writes and len(group) < _MOST:
                job = self._writes[0]
                if job.alone and group:
                    break
                self._writes.popleft()
                if job.done.set_running_or_notify_cancel():
                    group.append(job)
                if job.alone:
                    break
            if group:
                await self._write_group(group)

    async def _write_group(self, group: list[_Write]) -> None:
        try:
            outcomes: list[Any] = await self._transaction(group)
        except Exception as error:  # noqa: BLE001  The thread's boundary: who waits must hear of it.
            if len(group) > 1 and not isinstance(error, _lost()):
                # One of them cannot be written, and the server does not say which.
                for job in group:
                    await self._write_group([job])
                return
            failed = self._error("write", error) if isinstance(error, _failures()) else error
            failed.__cause__ = None if failed is error else error
            outcomes = [failed] * len(group)
        for job, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                job.done.set_exception(outcome)
            else:
                job.done.set_result(outcome)
        if self.seal is not None:
            self.seal.keep()

    async def _transaction(self, group: list[_Write]) -> list[Any]:
        """What some writes give, each its versions or its Conflict, once they are kept."""
        durable = "on" if any(job.power_loss for job in group) else "local"
        ticket: list[str] = []
        outcomes: list[Any] = []

        async def work(db: Any) -> list[Any]:
            # The connection may have been lost while the transaction was being ended.
            if ticket and await _is_committed(db, ticket.pop()):
                return outcomes
            await db.execute(_BEGIN.format(durable=durable))
            try:
                # The row is locked: there is one writer at a time, and streams and seal have no gaps.
                head = await db.fetchrow(
                    f"SELECT changes, total, mac, pg_current_xact_id()::text AS id FROM {self.s}.store FOR UPDATE"
                )
                changes = _Changes(db, self.s, self.seal, _state(head))
                if self.seal is not None and self._unsealed:
                    await changes.open_seal()
                job = group[0]
                if job.reseal:
                    outcomes[:] = [await changes.renew_seal()]
                else:
                    outcomes[:] = (
                        [await changes.delete(job.delete)] if job.delete else await changes.apply(group)
                    )
                await changes.write()
                ticket.append(head["id"])
                await db.execute("COMMIT")
            except BaseException:
                if self.seal is not None:
                    self.seal.discard()
                raise
            self._unsealed = False
            return outcomes

        return await self._connected(work)

    async def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._writer is not None:
            await asyncio.wait([self._writer])
        self._write_soon()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        if self._pool is not None:
            with suppress(TimeoutError, *_failures()):
                await asyncio.wait_for(self._pool.close(), _END_S / 2)
            self._pool.terminate()
        loop.stop()


class _Changes:
    """What a transaction does to streams and rows: applied in memory first, then written."""

    def __init__(self, db: Any, s: str, seal: Seal | None, state: SealState | None) -> None:
        self._db = db
        self._s = s
        self._seal = seal
        self._state = state
        self._last: dict[str, int] = {}
        self._rows: dict[tuple[str, str], tuple[int, str]] = {}
        """Version and mac by table and key; version 0 = there is none."""
        self._records: list[tuple[str, Record]] = []
        self._values: dict[tuple[str, str], bytes | None] = {}
        self._difference = 0

    async def open_seal(self) -> None:
        """Seal rows that were written without a seal."""
        assert self._seal is not None
        if not self._seal.open(self._state):
            return
        self._state = self._seal.first(await self._rewrite_macs(self._seal))
        await self._write_state(self._state)

    async def renew_seal(self) -> None:
        """Seal the rows as they are."""
        if self._seal is not None:
            self._state = self._seal.renew(await self._rewrite_macs(self._seal), self._state)
            await self._write_state(self._state)

    async def _rewrite_macs(self, seal: Seal) -> list[str]:
        """Give every row the mac that it should have; all of them."""
        rows = await self._db.fetch(f"SELECT tbl, digest, key, value, version FROM {self._s}.kept")
        macs = [seal.mac(r["tbl"], Row(r["key"], r["value"], r["version"])) for r in rows]
        await self._db.execute(
            f"UPDATE {self._s}.kept k SET mac=w.m FROM unnest($1::text[], $2::bytea[], $3::text[]) w(t, d, m) "
            "WHERE k.tbl=w.t AND k.digest=w.d",
            [r["tbl"] for r in rows], [r["digest"] for r in rows], macs,
        )  # fmt: skip
        return macs

    async def apply(self, group: list[_Write]) -> list[Any]:
        """The versions that each write gives, or its Conflict; then nothing of it is among the changes."""
        streams = list({job.stream for job in group if job.records})
        if streams:
            query = f"SELECT w.s, (SELECT max(seq) FROM {self._s}.entries WHERE stream=w.s) FROM unnest($1::text[]) w(s)"
            self._last = {stream: last or 0 for stream, last in await self._db.fetch(query, streams)}
        places = list({(put.table, put.key) for job in group for put in job.puts})
        await self._read(places)
        outcomes: list[Any] = []
        for job in group:
            try:
                outcomes.append(self._apply(job))
            except Conflict as conflict:
                outcomes.append(conflict)
        return outcomes

    async def delete(self, what: Rows | Bodies) -> int:
        """Delete a range; how many there were."""
        if isinstance(what, Bodies):
            query = f"UPDATE {self._s}.entries SET body=NULL WHERE stream=$1 AND seq<=$2 AND body IS NOT NULL"
            return int((await self._db.execute(query, what.stream, what.through)).split()[-1])
        where, values = _range(what.table, what.start, what.end)
        rows = await self._db.fetch(f"SELECT key FROM {self._s}.kept WHERE {where}", *values)
        puts = [Put(what.table, row["key"], None) for row in rows]
        await self._read([(put.table, put.key) for put in puts])
        return len(self._apply(_Write(puts=puts)))

    async def write(self) -> None:
        """Write all changes."""
        if self._records:
            columns = zip(
                *((s, r.seq, r.run, r.type, r.at, r.digest, r.mac, r.body) for s, r in self._records), strict=True
            )  # fmt: skip
            await self._db.execute(
                f"INSERT INTO {self._s}.entries SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], "
                "$5::double precision[], $6::text[], $7::text[], $8::bytea[])",
                *columns,
            )
        gone = [place for place, value in self._values.items() if value is None]
        if gone:
            await self._db.execute(
                f"DELETE FROM {self._s}.kept k USING unnest($1::text[], $2::bytea[]) w(t, d) "
                "WHERE k.tbl=w.t AND k.digest=w.d",
                [table for table, _ in gone], [_digest(key) for _, key in gone],
            )  # fmt: skip
        kept = [
            (*place, value, *self._rows[place]) for place, value in self._values.items() if value is not None
        ]
        if kept:
            await self._db.execute(
                f"INSERT INTO {self._s}.kept SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[], "
                "$5::bigint[], $6::text[]) ON CONFLICT (tbl, digest) DO UPDATE "
                "SET value=excluded.value, version=excluded.version, mac=excluded.mac",
                *zip(*((t, _digest(key), key, value, n, mac) for t, key, value, n, mac in kept), strict=True),
            )
        if self._seal is not None and self._values:
            await self._write_state(self._seal.next(self._state, self._difference))

    async def _read(self, places: list[tuple[str, str]]) -> None:
        if not places:
            return
        self._rows = dict.fromkeys(places, (0, ""))
        rows = await self._db.fetch(
            f"SELECT k.tbl, k.key, k.version, k.mac FROM unnest($1::text[], $2::bytea[]) w(t, d) "
            f"JOIN {self._s}.kept k ON k.tbl=w.t AND k.digest=w.d",
            [table for table, _ in places], [_digest(key) for _, key in places],
        )  # fmt: skip
        self._rows |= {(r["tbl"], r["key"]): (r["version"], r["mac"]) for r in rows}

    def _apply(self, job: _Write) -> tuple[int, ...]:
        if job.records:
            check_next(job.stream, self._last[job.stream], job.records)
        rows: dict[tuple[str, str], tuple[int, str]] = {}
        values: dict[tuple[str, str], bytes | None] = {}
        versions: list[int] = []
        difference = 0
        for put in job.puts:
            place = (put.table, put.key)
            version, mac = rows[place] if place in rows else self._rows[place]
            put.check(version)
            difference -= number_of(mac)
            if put.value is None:
                rows[place] = (0, "")
            else:
                new = Row(put.key, put.value, version + 1)
                rows[place] = (new.version, "" if self._seal is None else self._seal.mac(put.table, new))
                difference += number_of(rows[place][1])
            values[place] = put.value
            versions.append(rows[place][0])
        self._rows |= rows
        self._values |= values
        self._difference += difference
        self._records += [(job.stream, record) for record in job.records]
        if job.records:
            self._last[job.stream] = job.records[-1].seq
        return tuple(versions)

    async def _write_state(self, state: SealState | None) -> None:
        if state is not None:
            await self._db.execute(f"UPDATE {self._s}.store SET changes=$1, total=$2, mac=$3", *state)


async def _migrate(db: Any, schema: str, place: str) -> None:
    """Bring a schema to what this Pegboard knows, one process at a time.

    Raises:
        StoreError: a newer Pegboard wrote it, or the database keeps texts in another encoding than UTF-8.
    """
    s = f'"{schema}"'
    async with db.transaction():
        if (encoding := await db.fetchval("SELECT current_setting('server_encoding')")) != "UTF8":
            raise StoreError(
                f"cannot use the database of {place}: its encoding is {encoding}; make one with ENCODING 'UTF8'"
            )
        if await _version(db, schema) == VERSION:
            return
        # Looked at again under the lock: another process may have been faster.
        await db.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"pegboard {schema}")
        version = await _version(db, schema)
        if version > VERSION:
            raise StoreError(
                f"the store {place} was written by a newer Pegboard (version {version}, this one knows {VERSION}); "
                "upgrade Pegboard or name another schema"
            )
        if not await db.fetchval("SELECT 1 FROM pg_namespace WHERE nspname=$1", schema):
            await db.execute(f"CREATE SCHEMA {s}")
        for number in range(version, VERSION):
            await db.execute(_MIGRATIONS[number].replace("{s}", s))
            await db.execute(f"UPDATE {s}.store SET version=$1", number + 1)


async def _version(db: Any, schema: str) -> int:
    # From the catalogue: a name that was looked up before the lock may be remembered as missing.
    query = "SELECT 1 FROM pg_tables WHERE schemaname=$1 AND tablename='store'"
    if await db.fetchval(query, schema) is None:
        return 0
    return await db.fetchval(f'SELECT version FROM "{schema}".store')


def shown_url(url: str) -> str:
    """A store's URL without password and parameters, its schema apart."""
    return _parts(url)[2]


def _parts(url: str) -> tuple[str, str, str]:
    """A URL as the driver takes it, the schema that it names, and the URL to show: without password and parameters."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in query if name == "schema"), _SCHEMA)
    if parts.scheme != "postgresql" or not parts.path.strip("/"):
        raise StoreError(
            "a PostgreSQL store needs user, host and database; write postgresql://USER@HOST:PORT/DATABASE"
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise StoreError(f"the schema {schema!r} is not a name of a-z, 0-9 and _")
    rest = urlencode([pair for pair in query if pair[0] != "schema"], quote_via=quote)
    at = parts.netloc.rpartition("@")
    user = at[0].partition(":")[0]
    shown = parts._replace(
        netloc=f"{user}{at[1]}{at[2]}", query="" if schema == _SCHEMA else f"schema={schema}", fragment=""
    )
    return parts._replace(query=rest).geturl(), schema, shown.geturl()


def _range(table: str, start: str, end: str | None) -> tuple[str, list[Any]]:
    """The condition for a range of keys: by their beginnings, which the index has, and then whole."""
    where, values = "tbl=$1 AND left(key, 300) >= left($2, 300) AND key >= $2", [table, start]
    if end is None:
        return where, values
    return f"{where} AND left(key, 300) <= left($3, 300) AND key < $3", [*values, end]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _state(row: Any) -> SealState | None:
    return SealState(row["changes"], row["total"], row["mac"]) if row["mac"] else None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _is_committed(db: Any, id: str) -> bool:
    """Whether a transaction whose end nobody heard of was committed."""
    try:
        return await db.fetchval("SELECT pg_xact_status($1::text::xid8)", id) == "committed"
    except _asyncpg().InvalidParameterValueError:
        # "in the future": the server was killed before it had kept anything of that transaction.
        return False


def _asyncpg() -> Any:
    try:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise StoreError(
            "asyncpg, which a PostgreSQL store needs, is not installed; install it with: pip install 'pegboard[postgres]'"
        ) from error
    return asyncpg


def _failures() -> tuple[type[Exception], ...]:
    """What the driver raises when something cannot be done."""
    asyncpg = _asyncpg()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, UnicodeError, *_lost())


def _lost() -> tuple[type[Exception], ...]:
    """What the driver raises when the server has gone, or is not there yet; the last for one that left in silence."""
    asyncpg = _asyncpg()
    return (
        asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError,
        asyncpg.CannotConnectNowError, ConnectionError, asyncpg.InternalClientError,
    )  # fmt: skip


def _hint(error: Exception) -> str:
    """What a person can do."""
    asyncpg = _asyncpg()
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return "; name the right password with password under [store], or in ~/.pgpass"
        case asyncpg.InvalidCatalogNameError():
            return "; make the database first, with createdb"
        case asyncpg.InsufficientPrivilegeError():
            return "; its user needs CREATE on the database once, and all rights in the schema"
        case OSError():
            return "; is the server running, and does it accept connections from here?"
        case _:
            return ""


async def open_postgres(place: str, *, recovered: Callable[[Recovery], None] | None = None) -> PostgresStore:
    """The store in a database; `place` is its URL behind the first colon.

    Raises:
        StoreError: it cannot be opened.
    """
    return await PostgresStore.open(f"postgresql:{place}")
