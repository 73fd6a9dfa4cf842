"""The contract of every Store: streams of records, versioned rows, and what goes wrong."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pegboard.net.listening import stop_listening
from pegboard.ports.store import Bodies, Conflict, Put, Record, Row, Rows, Store, StoreError
from pegboard.store import STORES, open_store
from pegboard.store.chain import GENESIS, NewRecord, chain_records, verify
from pegboard.store.sqlite import SqliteStore
from tests.ledger import owes
from tests.postgres import PASSWORD, PostgresServer

KEY = b"k" * 32


def place(request: pytest.FixtureRequest) -> str:
    """A new store of the kind that the fixture's parameter names."""
    match request.param:
        case "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            return server.url()
        case "sqlite":
            folder: Path = request.getfixturevalue("tmp_path")
            return f"sqlite:{folder / 'h' / 'history'}"
        case kind:
            return kind


@pytest.fixture(params=[kind for kind in STORES if kind != "memory"])
def durable(request: pytest.FixtureRequest) -> str:
    return place(request)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    opened = await open_store(place(request))
    yield opened
    await opened.close()


def record(seq: int, text: str = "", *, run: str = "r1", type: str = "notice", at: float = 1.0) -> Record:
    body = (text or f"body {seq}").encode()
    return Record(seq=seq, run=run, type=type, at=at, digest="d" * 64, mac="m" * 64, body=body)


def test_a_store_has_seven_methods() -> None:
    methods = {name for name, thing in vars(Store).items() if callable(thing) and not name.startswith("_")}

    assert methods == {"append", "read", "get", "put", "delete", "scan", "close"}


# -- streams ----------------------------------------------------------------------------------


async def test_records_are_read_in_order_and_by_what_is_asked_for(store: Store) -> None:
    assert await store.read("s") == []
    await store.append("s", [record(1, "a"), record(2, "b", run="r2", type="call")])
    await store.append("s", [record(3, "c")], power_loss=True)
    await store.append("other", [record(1, "x")])

    assert await store.read("s") == [record(1, "a"), record(2, "b", run="r2", type="call"), record(3, "c")]
    assert [r.seq for r in await store.read("s", after=1)] == [2, 3]
    assert [r.seq for r in await store.read("s", run="r1")] == [1, 3]
    assert [r.seq for r in await store.read("s", types=("call", "none"))] == [2]
    assert [r.seq for r in await store.read("s", limit=2)] == [1, 2]
    assert [r.seq for r in await store.read("s", last=2)] == [2, 3]
    assert [r.seq for r in await store.read("s", last=1, run="r2")] == [2]
    assert [r.seq for r in await store.read("s", last=2, limit=1)] == [2]
    assert [(r.seq, r.body) for r in await store.read("s", last=1, bodies=False)] == [(3, None)]


async def test_appending_nothing_changes_nothing(store: Store) -> None:
    await store.append("s", [record(1)])

    await store.append("s", [])
    await store.append("s", [], power_loss=True)
    await store.append("empty", [])

    assert len(await store.read("s")) == 1


async def test_a_number_that_does_not_follow_is_a_conflict_and_writes_nothing(store: Store) -> None:
    await store.append("s", [record(1)])

    for wrong in (1, 3):
        with pytest.raises(Conflict, match="ends at record 1"):
            await store.append("s", [record(wrong)], puts=[Put("t", "k", b"v")])
    with pytest.raises(Conflict, match="ends at record 0"):
        await store.append("new", [record(2)])

    assert len(await store.read("s")) == 1
    assert await store.get("t", "k") is None


async def test_rows_are_written_with_the_records_or_not_at_all(store: Store) -> None:
    await store.append("s", [record(1)], puts=[Put("t", "a", b"1", expected=0), Put("t", "b", b"2")])

    with pytest.raises(Conflict):
        await store.append("s", [record(2)], puts=[Put("t", "b", b"3"), Put("t", "a", b"4", expected=0)])

    assert [r.seq for r in await store.read("s")] == [1]
    assert await store.scan("t") == [Row("a", b"1", 1), Row("b", b"2", 1)]


async def test_a_write_that_fails_half_way_leaves_nothing_and_spoils_no_neighbour(durable: str) -> None:
    store = await open_store(durable)
    await store.append("s", [record(1)])

    done = await asyncio.gather(
        store.append("s", [record(2), record(3, run="\ud800")]),
        store.put(Put("t", "k", b"1")),
        return_exceptions=True,
    )

    assert [type(one) for one in done] == [StoreError, tuple]
    assert [r.seq for r in await store.read("s")] == [1]
    await store.close()


async def test_of_many_at_once_a_conflict_spoils_no_neighbour(store: Store) -> None:
    done = await asyncio.gather(
        store.append("s", [record(1)]),
        store.append("s", [record(1, "again")]),
        store.put(Put("t", "k", b"1", expected=0)),
        store.put(Put("t", "k", b"2", expected=0)),
        store.append("s", [record(2)]),
        return_exceptions=True,
    )

    assert [type(one) for one in done] == [type(None), Conflict, tuple, Conflict, type(None)]
    assert [r.body for r in await store.read("s")] == [b"body 1", b"body 2"]
    assert await store.get("t", "k") == Row("k", b"1", 1)


@owes("G-05")
async def test_deleted_bodies_leave_the_chain(store: Store) -> None:
    drafts = [NewRecord(run="r", type="notice", at=float(n), body=b"%d" % n) for n in range(6)]
    records = chain_records(KEY, "s", GENESIS, 0, drafts)
    await store.append("s", records)

    assert await store.delete(Bodies("s", 3)) == 3
    assert await store.delete(Bodies("s", 3)) == 0
    assert await store.delete(Bodies("none", 9)) == 0

    left = await store.read("s")
    assert [r.body is None for r in left] == [True, True, True, False, False, False]
    assert verify(KEY, "s", left, head=(6, records[-1].mac), purged=3) == []


# -- rows -------------------------------------------------------------------------------------


async def test_a_row_is_written_if_it_has_the_expected_version(store: Store) -> None:
    assert await store.get("t", "k") is None
    assert await store.put(Put("t", "k", b"1", expected=0)) == (1,)
    assert await store.put(Put("t", "k", b"2", expected=1)) == (2,)
    assert await store.put(Put("t", "k", b"3")) == (3,)

    for wrong in (0, 2, 4):
        with pytest.raises(Conflict, match="version"):
            await store.put(Put("t", "k", b"x", expected=wrong))
    with pytest.raises(Conflict, match="does not exist"):
        await store.put(Put("t", "none", b"x", expected=1))
    with pytest.raises(Conflict):
        await store.put(Put("t", "k", None, expected=2))

    assert await store.get("t", "k") == Row("k", b"3", 3)
    assert await store.put(Put("t", "k", None, expected=3)) == (0,)
    assert await store.get("t", "k") is None
    assert await store.put(Put("t", "k", None)) == (0,)


async def test_several_rows_are_written_together_or_not_at_all(store: Store) -> None:
    assert await store.put(Put("t", "a", b"1"), Put("u", "a", b"2"), Put("t", "a", b"3", expected=1)) == (
        1,
        1,
        2,
    )
    assert await store.put() == ()

    with pytest.raises(Conflict):
        await store.put(Put("t", "a", b"x"), Put("t", "b", b"x"), Put("u", "a", b"x", expected=7))

    assert await store.scan("t") == [Row("a", b"3", 2)]
    assert await store.scan("u") == [Row("a", b"2", 1)]


async def test_rows_are_scanned_in_the_order_of_their_keys(store: Store) -> None:
    keys = ["b", "a", "B", "é", "a/2", "a/10", "\U0001f9ed", "\uffff"]
    await store.put(*(Put("t", key, key.encode()) for key in keys), Put("u", "c", b""))
    # By code point, as Python compares text.
    ordered = sorted(keys)

    assert [r.key for r in await store.scan("t")] == ordered
    assert [r.key for r in await store.scan("t", reverse=True)] == ordered[::-1]
    assert [r.key for r in await store.scan("t", start="a/", end="a0")] == ["a/10", "a/2"]
    assert [r.key for r in await store.scan("t", start="a", reverse=True, limit=2)] == ordered[::-1][:2]
    assert [r.key for r in await store.scan("t", end="a")] == ["B"]
    assert await store.scan("t", start="z", end="b") == []
    assert [r.key for r in await store.scan("t", keys=["a/2", "B", "not there", "a/10"])] == [
        "B",
        "a/10",
        "a/2",
    ]
    assert [r.key for r in await store.scan("t", start="a", keys=["a/2", "B"], limit=1)] == ["a/2"]
    assert await store.scan("t", keys=[]) == []
    assert await store.scan("none") == []


async def test_a_range_of_rows_is_deleted(store: Store) -> None:
    await store.put(*(Put("t", key, b"") for key in "abcd"), Put("u", "b", b""))

    assert await store.delete(Rows("t", "b", "d")) == 2
    assert [r.key for r in await store.scan("t")] == ["a", "d"]
    assert await store.delete(Rows("t")) == 2
    assert await store.delete(Rows("t")) == 0
    assert [r.key for r in await store.scan("u")] == ["b"]


async def test_a_key_may_be_long_and_is_found_by_all_of_it(store: Store) -> None:
    # Not to be compressed: an index of PostgreSQL takes 2,704 bytes.
    long = "".join(sha256(b"%d" % n).hexdigest() for n in range(300))
    keys = [f"{long}{end}" for end in "cab"]
    await store.put(*(Put("t", key, key[-1:].encode()) for key in keys), Put("t", "a", b""))

    assert await store.get("t", keys[1]) == Row(keys[1], b"a", 1)
    assert [r.key for r in await store.scan("t", start=long)] == [*sorted(keys), "a"]
    assert [r.value for r in await store.scan("t", start=keys[1], end=keys[0], reverse=True)] == [b"b", b"a"]


# -- waiters ----------------------------------------------------------------------------------


async def test_a_waiter_that_is_cancelled_spoils_nothing(store: Store) -> None:
    waiter = asyncio.ensure_future(store.put(Put("t", "k", b"1")))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])

    await store.append("s", [record(1)])
    assert await store.get("t", "k") in (None, Row("k", b"1", 1))


async def test_each_loop_gets_its_own_answers(store: Store) -> None:
    async def write(number: int) -> None:
        await asyncio.gather(*(store.put(Put("t", f"{number}/{n}", b"")) for n in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(write(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])

    assert len(await store.scan("t")) == 80


async def test_a_closed_store_says_so(store: Store) -> None:
    await store.close()
    await store.close()

    with pytest.raises(StoreError, match="closed"):
        await store.read("s")
    with pytest.raises(StoreError, match="closed"):
        await store.put(Put("t", "k", b""))


async def test_stores_are_opened_by_name(tmp_path: Path) -> None:
    file = tmp_path / "d" / "s.sqlite"
    first = await open_store(f"sqlite:{file}")
    await first.put(Put("t", "k", b"v", expected=0))
    await first.close()

    for where in (file, str(file), f"sqlite:{file}"):
        again = await open_store(where)
        assert await again.get("t", "k") == Row("k", b"v", 1)
        await again.close()
    memory = await open_store("memory")
    assert await memory.scan("t") == []
    for wrong in ("mongodb://x/y", "sqlite:"):
        with pytest.raises(StoreError, match=r"known: memory, sqlite, postgresql|write sqlite:PATH"):
            await open_store(wrong)


# -- one store, several processes --------------------------------------------------------------

WRITER = """
import asyncio, sys
from pegboard.store import Conflict, Put, open_store
from pegboard.store.chain import GENESIS, NewRecord, chain_records

async def main(where, run, count):
    store = await open_store(where)
    for n in range(int(count)):
        draft = NewRecord(run=run, type="notice", at=float(n), body=b"x")
        while True:
            head = await store.read("s", last=1, bodies=False)
            seq, mac = (head[0].seq, head[0].mac) if head else (0, GENESIS)
            try:
                await store.append("s", chain_records(b"k" * 32, "s", mac, seq, [draft]), puts=[Put("n", run, str(n).encode())])
                break
            except Conflict:
                pass
        print(n, flush=True)
    sys.stdin.read()

asyncio.run(main(*sys.argv[1:]))
"""


def writer(where: str, run: str, count: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, where, run, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.slow
@owes("G-05")
async def test_two_processes_append_to_one_stream_and_the_chain_holds(durable: str) -> None:
    both = [writer(durable, run, 40) for run in ("a", "b")]
    for one in both:
        await asyncio.to_thread(one.communicate, timeout=60)
        assert one.returncode == 0

    store = await open_store(durable)
    records = await store.read("s")
    assert len(records) == 80
    assert {r.run for r in records} == {"a", "b"}
    assert verify(KEY, "s", records) == []
    assert await store.scan("n") == [Row("a", b"39", 40), Row("b", b"39", 40)]
    await store.close()


@pytest.mark.slow
@owes("G-05", "G-10")
async def test_a_killed_writer_loses_nothing_that_it_had_written(durable: str) -> None:
    one = writer(durable, "a", 1000)
    assert one.stdout is not None
    said = [one.stdout.readline() for _ in range(25)]
    one.send_signal(signal.SIGKILL)
    one.communicate(timeout=60)

    store = await open_store(durable)
    await holds(store, at_least=len(said))
    await store.close()


async def holds(store: Store, *, at_least: int) -> None:
    """Check what a writer left: all that it had said was written, each record with its row."""
    records = await store.read("s")
    row = await store.get("n", "a")
    assert len(records) >= at_least
    assert row is not None
    assert (int(row.value) + 1, row.version) == (len(records), len(records))
    assert verify(KEY, "s", records) == []


# -- what goes wrong with a server ------------------------------------------------------------


@pytest.mark.slow
async def test_a_server_that_is_killed_loses_nothing_and_the_writer_goes_on(
    postgres_server: PostgresServer,
) -> None:
    where = postgres_server.url()
    one = writer(where, "a", 150)
    assert one.stdout is not None
    said = [one.stdout.readline() for _ in range(40)]
    postgres_server.end(signal.SIGKILL)
    postgres_server.start()
    store = await open_store(where)
    assert len(await store.read("s")) >= len(said)
    await asyncio.to_thread(one.communicate, timeout=60)

    assert one.returncode == 0
    await holds(store, at_least=150)
    assert len(await store.read("s")) == 150
    await store.close()


class Cut:
    """A server between a client and PostgreSQL that ends the connection in the middle of the first COMMIT.

    Args:
        port: PostgreSQL's.
        forward: whether the COMMIT reaches it; nobody hears that it did.

    Attributes:
        armed: whether the next COMMIT is cut; then False again.
    """

    def __init__(self, port: int, *, forward: bool) -> None:
        self.armed = False
        self._port = port
        self._forward = forward
        self._serving: set[asyncio.Task[None]] = set()

    async def ended(self) -> None:
        """Return once no connection is served any more."""
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._serving.add(task)
        answers, requests = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.ensure_future(self._pass_on(answers, writer))
        while data := await reader.read(65_536):
            if b"COMMIT" in data and self.armed:
                self.armed = False
                back.cancel()
                await asyncio.wait([back])
                if self._forward:
                    requests.write(data)
                    # The answer to it: by then it is kept.
                    await answers.read(65_536)
                break
            requests.write(data)
        for one in (writer, requests):
            one.close()
            await one.wait_closed()

    @staticmethod
    async def _pass_on(answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await answers.read(65_536):
            writer.write(data)


@pytest.mark.parametrize("forward", [True, False])
@owes("G-10")
async def test_a_connection_that_is_lost_in_the_middle_of_a_commit_writes_once(
    postgres_server: PostgresServer, forward: bool
) -> None:
    cut = Cut(postgres_server.port, forward=forward)
    server = await asyncio.start_server(cut.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    direct = postgres_server.url()
    await (await open_store(direct)).close()
    store = await open_store(direct.replace(f":{postgres_server.port}/", f":{port}/"))

    cut.armed = True
    await store.append("s", [record(1)], puts=[Put("t", "k", b"v", expected=0)])

    assert not cut.armed
    assert await store.read("s") == [record(1)]
    assert await store.get("t", "k") == Row("k", b"v", 1)
    await store.close()
    await stop_listening(server)
    await cut.ended()


async def test_a_transaction_whose_process_has_stopped_does_not_hold_up_others_for_ever(
    postgres_server: PostgresServer,
) -> None:
    asyncpg: Any = import_module("asyncpg")
    where = postgres_server.url(schema="stopped")
    store = await open_store(where)
    await store.append("s", [record(1)])
    other = await asyncpg.connect(where.partition("?")[0])
    await other.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 200")
    await other.execute("UPDATE stopped.store SET changes = 0")

    await asyncio.wait_for(store.append("s", [record(2)]), 20)

    assert len(await store.read("s")) == 2
    other.terminate()
    await store.close()


async def test_each_schema_is_a_store_of_its_own(postgres_server: PostgresServer) -> None:
    first, second = [await open_store(postgres_server.url()) for _ in range(2)]
    await first.append("s", [record(1)], puts=[Put("t", "k", b"v")])

    assert await second.read("s") == []
    assert await second.get("t", "k") is None
    await first.close()
    await second.close()


async def test_what_is_wrong_with_a_server_is_said_without_the_password(
    postgres_server: PostgresServer,
) -> None:
    wrong = postgres_server.url(password="guess-4711", schema="x")
    missing = postgres_server.url().replace("/postgres?", "/nothing?")
    nobody = postgres_server.url().replace(f":{postgres_server.port}/", ":1/")
    for where, said in (
        (wrong, r"name the right password"),
        (missing, r'database "nothing" does not exist; make the database first'),
        (nobody, r"is the server running"),
        ("postgresql://host", r"write postgresql://USER@HOST:PORT/DATABASE"),
        (postgres_server.url(schema="a-b"), r"'a-b' is not a name"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            await open_store(where)
        assert "guess-4711" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
    with pytest.raises(
        StoreError, match=rf"postgresql://tester@127\.0\.0\.1:{postgres_server.port}/postgres\?schema=x"
    ):
        await open_store(wrong)


async def test_a_schema_that_a_newer_pegboard_wrote_is_left_alone(postgres_server: PostgresServer) -> None:
    asyncpg: Any = import_module("asyncpg")
    where = postgres_server.url(schema="newer")
    await (await open_store(where)).close()
    db = await asyncpg.connect(where.partition("?")[0])
    await db.execute("UPDATE newer.store SET version = 99")
    await db.close()

    with pytest.raises(StoreError, match="newer Pegboard"):
        await open_store(where)


async def test_many_processes_that_open_a_new_schema_at_once_make_it_once(
    postgres_server: PostgresServer,
) -> None:
    where = postgres_server.url()
    stores = await asyncio.gather(*(open_store(where) for _ in range(8)))

    await asyncio.gather(*(store.put(Put("t", str(n), b"")) for n, store in enumerate(stores)))

    assert len(await stores[0].scan("t")) == 8
    for store in stores:
        await store.close()


# -- what goes wrong with a file --------------------------------------------------------------


async def test_a_file_that_is_no_store_or_a_newer_ones_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"cannot read the store .*bad"):
        await SqliteStore.open(tmp_path / "bad")
    await (await SqliteStore.open(tmp_path / "new")).close()
    with closing(sqlite3.connect(tmp_path / "new")) as db, db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="newer Pegboard"):
        await SqliteStore.open(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot read"):
        await SqliteStore.open(tmp_path / "file" / "below")


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "d" / "h.sqlite")
    await store.append("s", [record(1)])

    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "d").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    await store.close()


async def test_a_store_that_nobody_closed_ends_its_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = await SqliteStore.open(tmp_path / "h.sqlite")
    threads = [t for t in threading.enumerate() if t.name == "pegboard-store" and t not in before]
    assert threads

    del store
    gc.collect()

    assert not any(t.is_alive() for t in threads)


async def test_deleted_content_is_in_no_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "h.sqlite")
    await store.append("s", [record(n, f"A-SECRET-PLAN {n}" * 200) for n in range(1, 9)])
    await store.put(Put("t", "k", b"A-SECRET-TASK"))
    before = (tmp_path / "h.sqlite-wal").read_bytes()
    assert b"A-SECRET-PLAN" in before

    await store.put(Put("t", "k", b"(purged)"))
    await store.delete(Bodies("s", 8))

    for file in tmp_path.iterdir():
        assert b"A-SECRET" not in file.read_bytes(), file
    await store.close()


@owes("G-10")
async def test_a_transaction_that_a_killed_server_has_forgotten_is_written_again(
    postgres_server: PostgresServer,
) -> None:
    from pegboard.store.postgres import _asyncpg, _is_committed  # pyright: ignore[reportPrivateUsage]

    db = await _asyncpg().connect(postgres_server.url().partition("?")[0])
    try:
        ended = await db.fetchval("SELECT pg_current_xact_id()::text")
        assert await _is_committed(db, ended)
        assert not await _is_committed(db, str(int(ended) + 10**6))
    finally:
        await db.close()
