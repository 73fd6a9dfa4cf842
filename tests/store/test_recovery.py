"""A damaged history: found, kept as it was, and all that can be read is in a new one (case agents-16)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import threading
from collections import Counter
from pathlib import Path

import pytest

from pegboard import Agent, tool
from pegboard.core.codec import event_to_dict
from pegboard.core.effects import PURE
from pegboard.core.events import Notice, RunStarted
from pegboard.models import ScriptedModel
from pegboard.ports.store import Put, StoreError
from pegboard.runtime.fold import fold, interrupted_results
from pegboard.store.chain import Chain, NewRecord, verify
from pegboard.store.encoding import encode
from pegboard.store.log import DAMAGED, Log
from pegboard.store.memory import MemoryStore
from pegboard.store.recovery import Recovery, recover
from pegboard.store.runs import RunList, RunRow
from pegboard.store.sqlite import SqliteStore
from tests.ledger import owes
from tests.runtime.transcripts import valid
from tests.sync_store import BlockingStore, history, open_sqlite, wait_for

KEY = b"k" * 32
PAGE = 4096


@tool(effects=PURE)
async def look(n: int) -> str:
    """Look at something long."""
    return f"{n} " + "seen " * 200


async def recorded(path: Path, sessions: int = 4, *, open_log: bool = False) -> BlockingStore:
    """Some sessions with long results; whole in the file, or partly in its log."""
    store = open_sqlite(path)
    turn = {"calls": [{"name": "look", "arguments": {"n": n}} for n in range(3)], "text": "let me see"}
    for n in range(sessions):
        log = await Log.open(store.store, f"s{n}", chain=Chain(key=KEY))
        agent = Agent(tools=[look], model=ScriptedModel([turn, turn, turn, {"text": "done"}]), store="memory")
        await agent.run(f"task {n}", session=f"s{n}", recorder=log)
        await log.close()
    store.put("labels", "/work/a.txt", b"private")
    store.put("answers", "ap_1", b"approved")
    if not open_log:
        store.close()
    return store


def check(store: BlockingStore) -> str:
    assert isinstance(store.store, SqliteStore)
    return wait_for(store.store.check())


def bodies(path: Path, sessions: int = 4) -> dict[tuple[str, int], bytes]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {(s, n): b for s, n, b in db.execute("SELECT stream, seq, body FROM payloads")}


def overwrite(path: Path, page: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(content)


def pages_of(path: Path, name: str) -> list[int]:
    """Numbers, from 0, of the pages of a table or index, the root not counted: by SQLite's own header bytes."""
    raw = path.read_bytes()
    kinds = {"payloads": (0x0D,), "entries": (0x0A, 0x02)}[name]
    mark = {"payloads": b'{"type":', "entries": b"call.finished"}[name]
    return [
        n
        for n in range(1, len(raw) // PAGE)
        if raw[n * PAGE] in kinds and mark in raw[n * PAGE : (n + 1) * PAGE]
    ]


@owes("agents-16")
@pytest.mark.parametrize("table", ["payloads", "entries"])
async def test_a_lost_page_costs_what_stood_in_it_and_nothing_else(tmp_path: Path, table: str) -> None:
    path = tmp_path / "h.sqlite"
    await recorded(path)
    whole = bodies(path)
    page = pages_of(path, table)[3]
    overwrite(path, page, bytes(PAGE))
    damaged = path.read_bytes()
    told: list[Recovery] = []

    store = open_sqlite(path, recovered=told.append)
    for n in range(4):
        history(store, f"s{n}")

    [saved] = told
    assert saved.kept.read_bytes() == damaged
    assert oct(saved.kept.stat().st_mode)[-3:] == "600"
    assert saved.runs == 4
    there = bodies(path)
    assert there.keys() == whole.keys()
    lost = {k for k in whole if there[k] != whole[k]}
    # A page of bodies holds at most what fits into 4096 bytes; a page of the chain's rows costs no body at all.
    assert (1 <= len(lost) <= 40) if table == "payloads" else not lost
    assert sum(saved.lost.values()) == len(lost)
    faults = {(f"s{n}", f.seq) for n in range(4) for f in verify(KEY, f"s{n}", store.read(f"s{n}"))}
    assert lost <= faults
    if table == "payloads":
        assert {(s, n) for s, n in faults} == lost
    for n in range(4):
        back = history(store, f"s{n}")
        assert [e.detail[DAMAGED] for e in back if isinstance(e, Notice) and DAMAGED in e.detail] == sorted(
            seq for stream, seq in lost if stream == f"s{n}"
        )
        known = fold(back)
        valid([*known.messages, *([interrupted_results(known)] if known.open_calls else [])])
    assert (store.get("labels", "/work/a.txt"), store.get("answers", "ap_1")) == (b"private", b"approved")
    assert check(store) == ""
    store.close()


@owes("agents-16")
async def test_a_run_goes_on_while_its_history_is_mended_under_it(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    await recorded(path)
    told: list[Recovery] = []
    store = open_sqlite(path, recovered=told.append)
    other = open_sqlite(path, recovered=told.append)
    assert len(other.runs()) == 4
    for page in pages_of(path, "entries"):
        overwrite(path, page, bytes(PAGE))
    for connection in (store, other):
        # What is in a process's memory hides the damage; here both look at the file again.
        store_of = connection.store
        assert isinstance(store_of, SqliteStore)
        wait_for(store_of._rows("PRAGMA shrink_memory"))  # pyright: ignore[reportPrivateUsage]
    log = await Log.open(store.store, "later", chain=Chain(key=KEY))
    agent = Agent(
        tools=[look],
        model=ScriptedModel([{"calls": [{"name": "look", "arguments": {"n": 1}}]}, {"text": "ok"}]),
        store="memory",
    )

    answer = await agent.run("go", session="later", recorder=log)
    await log.close()

    assert answer.status == "done"
    assert len(told) == 1
    assert list(map(encode, history(store, "later"))) == list(map(encode, agent.session("later")))
    # The other process goes on in the new file, and does not write into the one that was put aside.
    other.put("t", "k", b"v")
    assert store.get("t", "k") == b"v"
    assert len(other.runs()) == 5
    store.close()
    other.close()


@owes("agents-16")
async def test_what_is_in_the_log_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    store = await recorded(path, open_log=True)
    whole = {(f"s{n}", seq): body for n in range(4) for seq, body in store.bodies(f"s{n}")}
    # As a kill leaves them: the log is not played into the file.
    raw, log = path.read_bytes(), path.with_name("h.sqlite-wal").read_bytes()
    store.close()
    assert len(log) > 10 * PAGE
    folder = tmp_path / "killed"
    folder.mkdir()
    path = folder / "h.sqlite"
    path.write_bytes(raw)
    path.with_name("h.sqlite-wal").write_bytes(log)

    done = recover(path)

    assert done is not None
    store = open_sqlite(path)
    assert {(f"s{n}", seq): body for n in range(4) for seq, body in store.bodies(f"s{n}")} == whole
    assert len(store.runs()) == 4
    assert all(verify(KEY, f"s{n}", store.read(f"s{n}")) == [] for n in range(4))
    store.close()


@owes("agents-16")
async def test_without_its_first_page_the_copy_from_before_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    await recorded(path)
    copy = path.with_name("h.sqlite.backup-1")
    copy.write_bytes(path.read_bytes())
    whole = bodies(path)
    overwrite(path, 0, bytes(PAGE))
    told: list[Recovery] = []

    store = open_sqlite(path, recovered=told.append)

    assert bodies(path) == whole
    assert [(t.runs, t.lost) for t in told] == [(4, {})]
    # What a person used up or took back since must not come back.
    assert store.get("answers", "ap_1") is None
    store.close()


async def test_what_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    await recorded(path)
    store = open_sqlite(path)
    store.purge("s0", before=1e12)
    store.delete("answers", "ap_1")
    gone = store.bodies("s0")
    store.close()
    overwrite(path, pages_of(path, "entries")[2], bytes(PAGE))

    store = open_sqlite(path, recovered=lambda _: None)
    check(store)

    assert {body for _, body in store.bodies("s0")} == {None}
    assert len(store.bodies("s0")) > len(gone) // 2
    assert store.get("answers", "ap_1") is None
    store.close()


def test_a_file_that_is_no_database_at_all_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(b"somebody's letter\n" * 1000)
    told: list[Recovery] = []

    with pytest.raises(StoreError, match="move it away"):
        open_sqlite(path, recovered=told.append)

    assert path.read_bytes() == b"somebody's letter\n" * 1000
    assert [p.name for p in tmp_path.iterdir() if "damaged" in p.name] == []
    assert told == []


@owes("agents-16")
async def test_several_at_once_mend_a_history_once(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    await recorded(path)
    path.with_name("h.sqlite.backup-1").write_bytes(path.read_bytes())
    overwrite(path, 0, bytes(PAGE))
    told: list[Recovery] = []
    wrong: list[BaseException] = []
    gate = threading.Barrier(6)

    def opened(n: int) -> None:
        try:
            gate.wait()
            store = open_sqlite(path, recovered=told.append)
            store.append("new", [NewRecord(run="r", type="notice", at=float(n), body=b"{}")], key=KEY)
            store.close()
        except BaseException as error:  # noqa: BLE001  (told by the test, whatever it was)
            wrong.append(error)

    threads = [threading.Thread(target=opened, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert len(told) == 1
    store = open_sqlite(path)
    assert store.head("new")[0] == 6
    assert len(store.runs()) == 4
    store.close()


@owes("agents-16")
def test_damage_that_sqlite_quotes_in_bytes_that_are_no_text_is_mended_too(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    store = open_sqlite(path)
    store.append("s", [NewRecord(run="r", type="notice", at=0.0, body=b"{}")], key=KEY)
    store.close()
    raw = bytearray(path.read_bytes())
    at = raw.index(b"CREATE TABLE entries")
    raw[at : at + 20] = b"CREATE \xf3TABL entries"[:20]
    path.write_bytes(raw)
    damaged = path.read_bytes()
    told: list[Recovery] = []

    store = open_sqlite(path, recovered=told.append)

    assert [t.kept.read_bytes() for t in told] == [damaged]
    assert store.read("s") == []
    store.close()


def sweep(folder: Path, share: float, seed: int) -> Counter[str]:
    """Every page damaged in three ways, or a share of them: each time all other pages' records are there."""
    chance = random.Random(seed)
    print(f"seed {seed}")
    source = folder / "source.sqlite"
    store = open_sqlite(source)
    for n in range(8):
        start = event_to_dict(RunStarted(run=f"r{n}", session=f"s{n}", agent="a", model="m", task="t"))
        drafts = [
            NewRecord(run=f"r{n}", type="run.started", at=0.0, body=json.dumps(start).encode()),
        ] + [
            NewRecord(run=f"r{n}", type="notice", at=float(i), body=json.dumps({"n": i, "x": "y" * chance.randrange(3000)}).encode())
            for i in range(59)
        ]  # fmt: skip
        row = RunRow(
            id=f"r{n}", stream=f"s{n}", status="running", task="t", model="m", agent="a", started=1.0
        )
        store.append(f"s{n}", drafts, key=KEY, rows=[row])
    store.close()
    raw = source.read_bytes()
    # The upper pages of a table lead to all others.
    upper = {n for n in range(len(raw) // PAGE) if raw[n * PAGE] in (0x02, 0x05)} | {0}
    seen: Counter[str] = Counter()
    for page in range(len(raw) // PAGE):
        for how in ("zeros", "noise", "flips"):
            if chance.random() > share:
                continue
            bad = bytearray(raw)
            start = page * PAGE
            if how == "flips":
                for _ in range(8):
                    bad[start + chance.randrange(PAGE)] ^= 1 << chance.randrange(8)
            else:
                bad[start : start + PAGE] = bytes(PAGE) if how == "zeros" else chance.randbytes(PAGE)
            path = folder / f"{page}-{how}.sqlite"
            path.write_bytes(bad)
            try:
                store = open_sqlite(path, recovered=lambda _: None)
            except StoreError as error:
                # A damaged version number cannot be told from a newer program's: the file is left alone.
                assert page == 0 and ("newer Pegboard" in str(error) or "move it away" in str(error))
                seen[how] += 1
                continue
            check(store)
            back = {(n, seq): body for n in range(8) for seq, body in store.bodies(f"s{n}")}
            known = {(n, e.seq) for n in range(8) for e in store.read(f"s{n}") if e.digest}
            whole = sum(key in known and body not in (b"", None) for key, body in back.items())
            # A page holds one row's head and a piece of another's tail, or a leaf of many small ones.
            if page not in upper:
                assert whole >= 480 - 40, (page, how, whole)
                # A damaged id is a run of its own beside the one that its records make again.
                assert len(store.runs()) >= 8, (page, how)
            seen[how] += 1
            store.close()
            for left in folder.glob(f"{page}-{how}*"):
                os.unlink(left)
    return seen


@pytest.mark.parametrize("value", [b'{"id": "r1", "t\xe1sk": "t"}', b'{"id": "r1", "tbsk": "t"}', b'{"id'])
async def test_a_run_whose_row_cannot_be_read_does_not_hide_the_others(value: bytes) -> None:
    store = MemoryStore()
    runs = RunList(store)
    for id in ("r0", "r1", "r2"):
        row = RunRow(id=id, stream="s", status="done", task="t", model="m", agent="a", started=1.0)
        await runs.save(row)
    await store.put(Put("runs", "r1", value))

    for listed in (await runs.list(), await runs.list(limit=None)):
        assert {row.id: row.status for row in listed} == {"r0": "done", "r1": "failed", "r2": "done"}
        assert "damaged" in next(row.task for row in listed if row.id == "r1")


@pytest.mark.slow
@owes("agents-16")
def test_whichever_page_is_damaged_the_records_of_all_others_are_there(tmp_path: Path) -> None:
    seen = sweep(tmp_path, 0.08, random.randrange(10**6))
    assert min(seen.values()) >= 5


@pytest.mark.full
@pytest.mark.slow
@owes("agents-16")
def test_every_page_damaged_in_three_ways(tmp_path: Path) -> None:
    seen = sweep(tmp_path, 1.0, random.randrange(10**6))
    assert min(seen.values()) >= 100
