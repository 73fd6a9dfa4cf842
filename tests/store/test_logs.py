"""SessionLog, spills and shared grants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pegboard import Effect, ToolCall
from pegboard.core.content import Text
from pegboard.core.effects import Change
from pegboard.core.errors import NotFound
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    RunStarted,
    TextPiece,
    UserSaid,
)
from pegboard.core.result import ToolResult
from pegboard.core.secrets.redact import Redactor
from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.ports.store import StoreError
from pegboard.store.blocking import BlockingStore, open_sqlite
from pegboard.store.chain import NewRecord, verify
from pegboard.store.encoding import encode, encode_all
from pegboard.store.log import decode_events
from pegboard.store.logs import SessionLog
from pegboard.store.memory import MemoryStore
from pegboard.store.runs import RunRow
from pegboard.store.spills import KEEP_S, SpillFolder
from tests.ledger import owes

KEY = b"k" * 32
START = RunStarted(run="r1", session="s", agent="main", model="m", task="t")


class Full(BlockingStore):
    """A store whose disk is full for a while."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.full = False
        self.power: list[bool] = []

    def append(
        self,
        stream: str,
        drafts: Sequence[NewRecord],
        *,
        key: bytes,
        power_loss: bool = False,
        rows: Sequence[RunRow] = (),
    ) -> str:
        if self.full:
            raise StoreError("disk full")
        self.power.append(power_loss)
        return super().append(stream, drafts, key=key, power_loss=power_loss, rows=rows)


@owes("G-05")
async def test_events_are_kept_in_order_with_their_run_and_the_head_beside_them(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "h")
    log = SessionLog(store, "s", key=KEY, heads=tmp_path / "heads" / "x.json")
    end = RunFinished(run="r1", status="done", answer="a")
    for event in (START, TextPiece("not kept"), Notice(text="n"), end):
        log.record(event)
    await log.flush()
    log.close()

    entries = store.read("s")
    assert decode_events(entries) == [START, Notice(text="n"), end]
    assert {e.run for e in entries} == {"r1"}
    kept = json.loads((tmp_path / "heads" / "x.json").read_text())
    assert (kept["seq"], kept["mac"]) == store.head("s")
    assert verify(KEY, "s", entries, head=(kept["seq"], kept["mac"])) == []
    assert [(r.id, r.status, r.task) for r in store.runs()] == [("r1", "done", "t")]
    store.close()


async def test_a_run_that_is_taken_up_again_keeps_its_name_and_its_row() -> None:
    store = BlockingStore(MemoryStore())
    first = SessionLog(store, "s", key=KEY)
    first.record(START)
    first.close()
    second = SessionLog(store, "s", key=KEY, run="r1")
    second.record(Notice(text="again"))
    second.record(RunFinished(run="r1", status="done", answer=""))
    second.record(RunFinished(run="unknown", status="done", answer=""))
    await second.flush()
    second.close()

    assert [e.run for e in store.read("s")] == ["r1"] * 4
    assert [(r.id, r.status) for r in store.runs()] == [("r1", "done")]


async def test_what_could_not_be_written_is_told_by_flush_and_written_later() -> None:
    store = Full()
    store.full = True
    log = SessionLog(store, "s", key=KEY)
    log.record(START)

    with pytest.raises(StoreError, match="disk full"):
        await log.flush()
    store.full = False
    log.record(Notice(text="after"))
    await log.flush()

    assert decode_events(store.read("s")) == [START, Notice(text="after")]
    log.close()


async def test_closing_tells_what_could_not_be_written() -> None:
    store = Full()
    store.full = True
    log = SessionLog(store, "s", key=KEY)
    log.record(START)

    with pytest.raises(StoreError):
        log.close()
    log.close()


async def test_a_flush_against_power_loss_reaches_the_store_even_with_nothing_new() -> None:
    store = Full()
    log = SessionLog(store, "s", key=KEY)
    await log.flush()
    log.record(START)
    await log.flush()
    await log.flush(power_loss=True)

    assert store.power[-1] is True
    log.close()


async def test_a_flush_that_is_cancelled_does_not_end_the_log() -> None:
    store = BlockingStore(MemoryStore())
    log = SessionLog(store, "s", key=KEY)
    log.record(START)
    work = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait([work])

    log.record(Notice(text="n"))
    await asyncio.wait_for(log.flush(), 5)
    assert len(store.read("s")) == 2
    log.close()


async def test_values_that_cannot_be_written_do_not_take_other_records_with_them() -> None:
    store = BlockingStore(MemoryStore())
    log = SessionLog(store, "s", key=KEY)
    loop: list[Any] = []
    loop.append(loop)
    log.record(CallFinished(ToolResult(data=loop, call_id="c1")))
    log.record(Notice(text="n", detail={"loop": loop}))
    log.record(Notice(text="lone \ud800"))
    await log.flush()

    events = decode_events(store.read("s"))
    assert isinstance(events[0], CallFinished)
    assert (events[0].result.call_id, events[0].result.data) == ("c1", None)
    assert "RecursionError" in str(events[0].result.metadata["data"])
    assert isinstance(events[1], Notice)
    assert "not kept" in events[1].text
    assert events[2] == Notice(text="lone \ufffd")
    log.close()


async def test_more_events_than_one_batch_are_all_kept() -> None:
    store = BlockingStore(MemoryStore())
    log = SessionLog(store, "s", key=KEY)
    for number in range(1300):
        log.record(Notice(text=str(number)))
    await log.flush()

    assert [e.text for e in decode_events(store.read("s"))] == [str(n) for n in range(1300)]  # type: ignore[union-attr]
    store.purge("s", before=1e12)
    assert decode_events(store.read("s")) == []
    log.close()


# -- spills -----------------------------------------------------------------------------------


@dataclass
class At:
    """A clock that is set by hand."""

    time: float = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


@owes("K-48")
def test_a_spill_is_kept_whole_private_and_for_seven_days(tmp_path: Path) -> None:
    clock = At()
    folder = SpillFolder(tmp_path / "spills", clock=clock)
    name = folder.save("a\r\nb", call_id="c", labels=frozenset({"untrusted"}))

    assert folder.read(name) == "a\r\nb"
    assert folder.labels(name) == {"untrusted"}
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in (tmp_path / "spills").iterdir())
    clock.time += KEEP_S
    assert folder.prune() == 0
    clock.time += 1
    assert folder.prune() == 1
    assert list((tmp_path / "spills").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["spill:000000000000", "spill:../../etc/passwd", "/etc/passwd", "", "spill:"]
)
def test_what_is_no_spill_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound):
        SpillFolder(tmp_path).read(name)


@owes("G-11")
async def test_what_is_kept_of_calls_questions_and_words_holds_no_secret(tmp_path: Path) -> None:
    value, token = "kn0wn-secret-Value", "gh" + "p_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3d"
    store = BlockingStore(MemoryStore())
    log = SessionLog(store, "s", key=KEY, redact=Redactor({"k": value}).redact)
    effect = Effect("exec", f"echo {value}", ("echo", value))
    change = Change(path=f"a/{value}", kind="create", before=None, after=None, diff=f"+{token}")
    events: list[Event] = [
        RunStarted(run="r", session="s", agent="a", model="m", task=f"use {token}"),
        UserSaid(UserMessage.of(f"my key is {token}")),
        ModelReplied(
            AssistantMessage(
                content=(Text(value), ToolCall("c", "exec", {"command": f"echo {value}", token: 1}))
            )
        ),
        PermissionRequested(
            approval="ap",
            call_id="c",
            tool="exec",
            effects=(effect,),
            changes=(change,),
            reason=f"why {value}",
        ),
        CallStarted(
            call_id="c",
            tool="exec",
            arguments={"command": f"echo {value}"},
            effects=(effect,),
            changes=(change,),
        ),
        Notice(text=f"a\n{value}", detail={"x": [token]}),
        RunFinished(run="r", status="done", answer=token),
    ]
    for event in events:
        log.record(event)
    await log.flush()
    log.close()

    bodies = [e.body or b"" for e in store.read("s")]
    assert len(bodies) == len(events)
    assert not [b for b in bodies if value.encode() in b or token.encode() in b]
    assert [type(e) for e in decode_events(store.read("s"))] == [type(e) for e in events]
    assert all(b"[redacted:" in b for b in bodies)


def test_an_event_without_a_secret_is_kept_as_it_is() -> None:
    event = CallStarted(call_id="c", tool="t", arguments={"path": "a.py", "n": [1, None, 2.5, True]})

    assert encode(event, Redactor({"k": "kn0wn-secret-Value"}).redact) == encode(event)


@owes("G-11")
def test_a_secret_anywhere_in_a_batch_is_found_and_changes_no_other_record() -> None:
    value = "kn0wn-secret-Value"
    held: dict[str, Any] = {}
    held["itself"] = held
    events: list[Event] = [Notice(text=f"n{n}") for n in range(200)]
    events[0] = Notice(text="first", detail={value: 1})
    events[70] = UserSaid(UserMessage.of(f"a {value} b"))
    events[130] = Notice(text=f"\ud800 {value}", detail=held)
    events[140] = Notice(text="\ud800")
    events[199] = Notice(text=value[:9] + value[9:])

    bodies = encode_all(events, Redactor({"k": value}).redact)

    for n in set(range(200)) - {0, 70, 130, 140, 199}:
        assert bodies[n] == b'{"type":"notice","text":"n%d","detail":{}}' % n
    assert not [b for b in bodies if value.encode() in b]
    for n in (0, 70, 199):
        assert b"[redacted:" in bodies[n]
    assert b"not kept: RecursionError" in bodies[130]
    assert bodies[140] == '{"type":"notice","text":"\ufffd","detail":{}}'.encode()
