"""The contract of every Store: chained streams, runs, values; and what a chain shows."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pegboard.ports.store import NewRecord, Record, RunRow, Store
from pegboard.store.chain import GENESIS, verify
from pegboard.store.memory import MemoryStore
from pegboard.store.sqlite import SqliteStore, StoreError
from tests.ledger import owes

KEY = b"k" * 32
STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda path: MemoryStore(),
    "sqlite": lambda path: SqliteStore(path / "h" / "history.sqlite"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = STORES[request.param](tmp_path)
    yield opened
    opened.close()


def draft(text: str, *, at: float = 1.0, run: str = "r1") -> NewRecord:
    return NewRecord(run=run, type="notice", at=at, body=text.encode())


def filled(store: Store, count: int = 6) -> list[Record]:
    for number in range(count):
        store.append("s", [draft(f"body {number}", at=float(number), run=f"r{number % 2}")], key=KEY)
    return store.read("s")


@owes("G-05")
def test_a_mac_is_the_hmac_of_the_mac_before_it_and_of_every_field(store: Store) -> None:
    body = b'{"type":"notice","text":"hi","detail":{}}'
    store.append("s", [NewRecord(run="r", type="notice", at=1.5, body=body)], key=b"k" * 32)

    [entry] = store.read("s")

    # printf '0…0\x1fs\x1f1\x1fr\x1fnotice\x1f1.5\x1fDIGEST' | openssl dgst -sha256 -hmac kk…k
    assert entry.digest == "67ef6b0cb46f695c1ef4225cf1daa3e0a634c1c1f1130cfa1cc68a919e5f3266"
    assert entry.mac == "e5a321e3f33a1d620f9c7da161e4d44e86d2230a6a378eb91d654ae040147408"


def test_records_are_numbered_from_one_and_read_in_order(store: Store) -> None:
    assert store.head("s") == (0, GENESIS)
    assert store.read("s") == []
    first = store.append("s", [draft("a"), draft("b", run="r2")], key=KEY)
    second = store.append("s", [draft("c")], key=KEY, power_loss=True)
    store.append("other", [draft("x")], key=KEY)

    assert [(e.seq, e.body) for e in store.read("s")] == [(1, b"a"), (2, b"b"), (3, b"c")]
    assert [e.seq for e in store.read("s", after=1)] == [2, 3]
    assert [e.seq for e in store.read("s", run="r1")] == [1, 3]
    assert [e.seq for e in store.read("s", limit=2)] == [1, 2]
    assert store.head("s") == (3, second)
    assert store.read("s")[1].mac == first


def test_appending_nothing_changes_nothing(store: Store) -> None:
    head = store.append("s", [draft("a")], key=KEY)

    assert store.append("s", [], key=KEY) == head
    assert store.append("s", [], key=KEY, power_loss=True) == head
    assert store.append("empty", [], key=KEY) == GENESIS


@owes("G-05")
def test_a_whole_chain_verifies(store: Store) -> None:
    entries = filled(store)

    assert verify(KEY, "s", entries, head=store.head("s")) == []
    assert verify(KEY, "s", []) == []


def test_a_time_given_as_a_whole_number_verifies(store: Store) -> None:
    store.append("s", [draft("a", at=5)], key=KEY)

    assert verify(KEY, "s", store.read("s")) == []


def edited(entries: list[Record]) -> list[Record]:
    return [*entries[:2], replace(entries[2], body=b"other"), *entries[3:]]


def relabelled(entries: list[Record]) -> list[Record]:
    return [*entries[:2], replace(entries[2], run="r9"), *entries[3:]]


def swapped(entries: list[Record]) -> list[Record]:
    a, b = entries[2], entries[3]
    return [*entries[:2], replace(b, seq=a.seq), replace(a, seq=b.seq), *entries[4:]]


@owes("G-05")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edited, "record 3: its payload was changed"),
        (relabelled, "record 3: it was changed, moved"),
        (swapped, "record 3: it was changed, moved"),
        (lambda e: [*e[:2], *e[3:]], "record 4: records 3 to 3 are missing"),
        (lambda e: e[1:], "record 2: records 1 to 1 are missing"),
        (lambda e: [*e[:3], e[2], *e[3:]], "it stands twice"),
        (lambda e: e[:-1], "record 6: the stream ends at 5: its tail was cut off"),
        (lambda e: [], "record 6: the stream ends at 0: its tail was cut off"),
    ],
    ids=["edit", "relabel", "reorder", "delete", "delete first", "repeat", "truncate", "delete all"],
)
def test_every_change_of_a_stream_is_found(store: Store, change: Any, said: str) -> None:
    entries = filled(store)

    faults = verify(KEY, "s", change(list(entries)), head=store.head("s"))

    assert any(said in str(f) for f in faults), [str(f) for f in faults]


@owes("G-05")
def test_a_stream_that_was_written_anew_or_under_another_name_or_key_is_found(store: Store) -> None:
    entries, head = filled(store), store.head("s")
    other = MemoryStore()
    rewritten = filled(other)
    other.append("t", [draft("z")], key=KEY)

    assert verify(b"x" * 32, "s", entries)
    assert verify(KEY, "t", entries)
    assert verify(KEY, "s", rewritten, head=head) == []
    forged = MemoryStore()
    for number in range(6):
        forged.append("s", [draft(f"forged {number}")], key=KEY)
    faults = verify(KEY, "s", forged.read("s"), head=head)
    assert [str(f) for f in faults] == [
        "record 6: the kept head names another record: the stream was rewritten"
    ]


@owes("G-05")
def test_purging_payloads_keeps_the_chain(store: Store) -> None:
    filled(store)

    assert store.purge("s", before=3.0) == 3
    assert store.purge("s", before=3.0) == 0
    entries = store.read("s")
    assert [e.body is None for e in entries] == [True, True, True, False, False, False]
    assert verify(KEY, "s", entries, head=store.head("s")) == []
    assert store.purge("none", before=9.0) == 0


def test_bodies_without_a_type_are_all_that_are_kept_of_other_types(store: Store) -> None:
    types = [
        "call.started",
        "call.starting",
        "call.finished",
        "call.started",
        "call.started!",
        "call.startedly",
    ]
    drafts = [
        NewRecord(run="r", type=kind, at=float(n), body=b'{"type":"%b","n":%d}' % (kind.encode(), n))
        for n, kind in enumerate(types)
    ]
    store.append("s", drafts, key=KEY)
    store.append("another", drafts, key=KEY)

    assert [n for n, _ in store.bodies("s", without="call.started")] == [2, 3, 5, 6]
    assert store.bodies("s", without="call.started", after=2, limit=2) == [
        (3, b'{"type":"call.finished","n":2}'),
        (5, b'{"type":"call.started!","n":4}'),
    ]
    store.purge("s", before=3.0)
    assert [n for n, _ in store.bodies("s", without="call.started")] == [5, 6]


def row(id: str, *, started: float, status: str = "done", stream: str = "s") -> RunRow:
    return RunRow(id=id, stream=stream, status=status, task="t", model="m", agent="a", started=started)


def test_runs_are_listed_newest_first_and_filtered(store: Store) -> None:
    for one in (row("a", started=1), row("b", started=3, status="running"), row("c", started=2, stream="x")):
        store.save_run(one)

    assert [r.id for r in store.runs()] == ["b", "c", "a"]
    assert [r.id for r in store.runs(limit=-1)] == ["b", "c", "a"]
    assert [r.id for r in store.runs(limit=1)] == ["b"]
    assert [r.id for r in store.runs(stream="s")] == ["b", "a"]
    assert [r.id for r in store.runs(status="running")] == ["b"]
    store.save_run(replace(row("b", started=3), ended=9.0))
    assert [(r.status, r.ended) for r in store.runs(limit=1)] == [("done", 9.0)]


def test_values_are_kept_replaced_listed_and_dropped(store: Store) -> None:
    for key, value in (("b/1", b"x"), ("a", b"y"), ("b/2", b"z"), ("a", b"new")):
        store.put("t", key, value)

    assert store.get("t", "a") == b"new"
    assert store.get("t", "none") is None
    assert store.get("u", "a") is None
    assert store.list("t") == [("a", b"new"), ("b/1", b"x"), ("b/2", b"z")]
    assert store.list("t", prefix="b/") == [("b/1", b"x"), ("b/2", b"z")]
    assert store.delete("t", "a")
    assert not store.delete("t", "a")


# -- one file, several processes --------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from pegboard.ports.store import Draft
from pegboard.store.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
for n in range(int(sys.argv[3])):
    store.append("s", [Draft(run=sys.argv[2], type="notice", at=float(n), body=b"x")], key=b"k" * 32)
    print(n, flush=True)
sys.stdin.read()
"""


def writer(path: Path, run: str, count: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), run, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.slow
@owes("G-05")
def test_two_processes_append_to_one_file_and_the_chain_holds(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    SqliteStore(path).close()
    both = [writer(path, run, 40) for run in ("a", "b")]
    for one in both:
        one.communicate(timeout=60)
        assert one.returncode == 0

    store = SqliteStore(path)
    entries = store.read("s")
    assert len(entries) == 80
    assert {e.run for e in entries} == {"a", "b"}
    assert verify(KEY, "s", entries, head=store.head("s")) == []
    store.close()


@pytest.mark.slow
@owes("G-05", "G-10")
def test_a_killed_writer_loses_nothing_that_it_had_written(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    one = writer(path, "a", 1000)
    assert one.stdout is not None
    said = [one.stdout.readline() for _ in range(25)]
    one.send_signal(signal.SIGKILL)
    one.communicate(timeout=60)

    store = SqliteStore(path)
    entries = store.read("s")
    assert len(entries) >= len(said)
    assert verify(KEY, "s", entries) == []
    store.close()


# -- what goes wrong --------------------------------------------------------------------------


def test_a_file_that_is_no_store_or_a_newer_ones_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"cannot open the store .*bad"):
        SqliteStore(tmp_path / "bad")
    SqliteStore(tmp_path / "new").close()
    with closing(sqlite3.connect(tmp_path / "new")) as db, db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="newer Pegboard"):
        SqliteStore(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open"):
        SqliteStore(tmp_path / "file" / "below")


def test_a_closed_store_says_what_it_could_not_do(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "h")
    store.close()

    with pytest.raises(StoreError, match=r"cannot read the store"):
        store.read("s")
    with pytest.raises(StoreError, match=r"cannot write the store"):
        store.put("t", "k", b"")


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "h")
    store.append("s", [draft("a")], key=KEY)

    with pytest.raises(StoreError):
        store.append("s", [draft("b"), NewRecord(run="\ud800", type="t", at=1.0, body=b"c")], key=KEY)

    assert [e.body for e in store.read("s")] == [b"a"]
    store.close()


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "d" / "h.sqlite")
    store.append("s", [draft("a")], key=KEY)

    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "d").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    store.close()
