"""Log: events are kept in order, numbered and chained, whoever records them and whatever goes wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pegboard.core.events import CallFinished, Notice, RunFinished, RunResumed, RunStarted, TextPiece
from pegboard.core.result import ToolResult
from pegboard.core.secrets.redact import Redactor
from pegboard.ports.store import Bodies, Put, Record, Store, StoreError
from pegboard.store import open_store
from pegboard.store.chain import Chain, verify
from pegboard.store.log import LeaseLost, Log, decode_events, history
from pegboard.store.memory import MemoryStore
from pegboard.store.runs import RunList
from tests.ledger import owes

KEY = b"k" * 32
CHAIN = Chain(key=KEY)
START = RunStarted(run="r1", session="s", agent="main", model="m", task="t")


class Full(MemoryStore):
    """A store whose disk is full for a while."""

    full = False

    def __init__(self) -> None:
        super().__init__()
        self.power: list[bool] = []

    async def append(
        self, stream: str, records: Sequence[Record], *, puts: Sequence[Put] = (), power_loss: bool = False
    ) -> None:
        if self.full:
            raise StoreError("disk full")
        self.power.append(power_loss)
        await super().append(stream, records, puts=puts, power_loss=power_loss)


async def texts(store: Store, stream: str = "s") -> list[str]:
    return [e.text for e in await history(store, stream) if isinstance(e, Notice)]


@owes("G-05")
async def test_events_are_kept_in_order_with_their_run_and_the_head_beside_them(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "h.sqlite")
    chain = Chain(key=KEY, heads=tmp_path / "heads")
    log = await Log.open(store, "s", chain=chain)
    end = RunFinished(run="r1", status="done", answer="a")
    for event in (START, TextPiece("not kept"), Notice(text="n"), end):
        log.record(event)

    assert await log.flush() == 3
    assert [e async for e in log.events()] == [START, Notice(text="n"), end]
    await log.close()

    records = await store.read("s")
    assert {r.run for r in records} == {"r1"}
    assert chain.head("s") == (3, records[-1].mac)
    assert chain.streams() == ["s"]
    assert verify(KEY, "s", records, head=chain.head("s")) == []
    assert [(r.id, r.status, r.task) for r in await RunList(store).list()] == [("r1", "done", "t")]
    await store.close()


async def test_a_log_that_is_opened_again_goes_on_with_its_run() -> None:
    store = MemoryStore()
    first = await Log.open(store, "s", chain=CHAIN)
    first.record(START)
    await first.close()
    second = await Log.open(store, "s", chain=CHAIN, run="r1")
    second.record(RunResumed(run="r1"))
    second.record(Notice(text="n"))
    await second.flush()
    assert [r.status for r in await RunList(store).list()] == ["running"]
    second.record(RunFinished(run="r1", status="limit", answer=""))
    await second.close()

    records = await store.read("s")
    assert [(r.seq, r.run) for r in records] == [(1, "r1"), (2, "r1"), (3, "r1"), (4, "r1")]
    assert verify(KEY, "s", records) == []
    assert [(r.status, r.task) for r in await RunList(store).list()] == [("limit", "t")]


async def test_a_fenced_log_writes_nothing_once_another_has_gone_on() -> None:
    store = MemoryStore()
    mine = await Log.open(store, "s", chain=CHAIN)
    theirs = await Log.open(store, "s", chain=CHAIN)
    theirs.record(Notice(text="theirs"))
    await theirs.flush()

    mine.record(Notice(text="mine"))
    with pytest.raises(LeaseLost, match="another process has gone on with the session 's'"):
        await mine.flush()
    mine.record(Notice(text="more"))
    with pytest.raises(LeaseLost):
        await mine.close()

    assert await texts(store) == ["theirs"]


@owes("G-05")
async def test_a_shared_log_goes_on_behind_what_others_wrote() -> None:
    store = MemoryStore()
    logs = [await Log.open(store, "cli", chain=CHAIN, fenced=False) for _ in range(3)]
    for number in range(10):
        for log in logs:
            log.record(Notice(text=f"{number}"))
        await asyncio.gather(*(log.flush() for log in logs))

    records = await store.read("cli")
    assert verify(KEY, "cli", records) == []
    assert await texts(store, "cli") == [f"{n}" for n in range(10) for _ in logs]


async def test_what_could_not_be_written_is_kept_and_tried_again() -> None:
    store = Full()
    log = await Log.open(store, "s", chain=CHAIN)
    store.full = True
    log.record(Notice(text="first"))
    for _ in range(2):
        with pytest.raises(StoreError, match="disk full"):
            await log.flush()
    store.full = False
    log.record(Notice(text="second"))
    await log.close()

    assert await texts(store) == ["first", "second"]


async def test_closing_tells_what_could_not_be_written() -> None:
    store = Full()
    store.full = True
    log = await Log.open(store, "s", chain=CHAIN)
    log.record(START)

    with pytest.raises(StoreError, match="disk full"):
        await log.close()


async def test_a_flush_against_power_loss_reaches_the_store_even_with_nothing_new() -> None:
    store = Full()
    log = await Log.open(store, "s", chain=CHAIN)
    assert await log.flush() == 0
    log.record(START)
    await log.flush()
    await log.flush(power_loss=True)
    log.record(Notice(text="n"))
    await log.flush(power_loss=True)

    assert store.power == [False, True, True]


async def test_a_flush_that_is_cancelled_does_not_end_the_log() -> None:
    store = MemoryStore()
    log = await Log.open(store, "s", chain=CHAIN)
    log.record(Notice(text="a"))
    work = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait([work])

    log.record(Notice(text="b"))
    await asyncio.wait_for(log.flush(), 5)
    assert await texts(store) == ["a", "b"]


async def test_events_recorded_in_threads_are_all_kept_in_the_order_of_each() -> None:
    store = MemoryStore()
    log = await Log.open(store, "s", chain=CHAIN)

    def work(name: str) -> None:
        for number in range(400):
            log.record(Notice(text=f"{name}{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    await log.close()

    kept = await texts(store)
    assert len(kept) == 1200
    for name in "abc":
        assert [t for t in kept if t[0] == name] == [f"{name}{n}" for n in range(400)]
    assert verify(KEY, "s", await store.read("s")) == []


async def test_values_that_cannot_be_written_do_not_take_other_records_with_them() -> None:
    store = MemoryStore()
    log = await Log.open(store, "s", chain=None)
    loop: list[Any] = []
    loop.append(loop)
    log.record(CallFinished(ToolResult(data=loop, call_id="c1")))
    log.record(Notice(text="n", detail={"loop": loop}))
    log.record(Notice(text="lone \ud800"))
    await log.flush()

    finished, notice, lone = await history(store, "s")
    assert isinstance(finished, CallFinished)
    assert (finished.result.call_id, finished.result.data) == ("c1", None)
    assert isinstance(notice, Notice)
    assert "not kept" in notice.text
    assert lone == Notice(text="lone \ufffd")
    assert {r.mac for r in await store.read("s")} == {"0" * 64}


@owes("G-11")
async def test_what_is_kept_and_listed_holds_no_secret() -> None:
    value = "kn0wn-secret-Value"
    store = MemoryStore()
    log = await Log.open(store, "s", chain=CHAIN, redact=Redactor({"k": value}).redact)
    log.record(replace(START, task=f"use {value}"))
    log.record(Notice(text=value))
    await log.close()

    bodies = [r.body or b"" for r in await store.read("s")]
    assert not [b for b in bodies if value.encode() in b]
    assert all(b"[redacted:" in b for b in bodies)
    assert [value in r.task for r in await RunList(store).list()] == [False]


@owes("agents-16")
async def test_a_damaged_record_is_told_in_its_place() -> None:
    def record(seq: int, body: bytes | None) -> Record:
        return Record(seq=seq, run="r", type="notice", at=1.0, digest="", mac="", body=body)

    good = b'{"type":"notice","text":"a","detail":{}}'

    events = decode_events([record(1, good), record(2, b'{"type":'), record(3, None), record(4, good)])

    assert [type(e) for e in events] == [Notice, Notice, Notice]
    assert [e.detail for e in events if isinstance(e, Notice)] == [{}, {"damaged": 2}, {}]


async def test_more_events_than_one_batch_are_all_kept() -> None:
    store = MemoryStore()
    log = await Log.open(store, "s", chain=CHAIN)
    for number in range(1300):
        log.record(Notice(text=str(number)))
    await log.close()

    assert await texts(store) == [str(n) for n in range(1300)]
    await store.delete(Bodies("s", 1300))
    assert await history(store, "s") == []
