"""Reading a history back: whole, quickly, and past a damaged record (case agents-16)."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, tool
from pegboard.core.codec import event_to_dict
from pegboard.core.content import Image, Text
from pegboard.core.effects import PURE
from pegboard.core.events import Event, Notice, RunFinished
from pegboard.core.result import ToolResult
from pegboard.models import ScriptedModel
from pegboard.runtime.fold import fold, interrupted_results
from pegboard.store.chain import Chain, verify
from pegboard.store.log import DAMAGED, Log, decode_events
from tests.ledger import owes
from tests.runtime.transcripts import valid
from tests.sync_store import BlockingStore, history, open_sqlite

KEY = b"k" * 32


@tool(effects=PURE)
async def odd(n: int) -> ToolResult:
    """Values that JSON readers get wrong."""
    data: dict[str, Any] = {
        "big": 2**70 + n,
        "small": 5e-324,
        "many": 0.1 + 0.2,
        "inf": float("inf"),
        "ü": "\U0001f9ed",
    }
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    picture = Image(data=b"\x89PNG", mime_type="image/png")
    return ToolResult(content=(Text("ok"), picture), data={**data, "deep": deep})


async def recorded(path: Path) -> tuple[BlockingStore, list[Event]]:
    """A session of two runs with parallel calls, in a store; and its events."""
    store = open_sqlite(path)
    log = await Log.open(store.store, "s", chain=Chain(key=KEY))
    calls = {"calls": [{"name": "odd", "arguments": {"n": n}} for n in range(2)], "text": "two at once"}
    script = [calls, calls, {"text": "one"}, {"text": "two"}]
    agent = Agent(tools=[odd], model=ScriptedModel(script), store="memory")
    await agent.run("first", session="s", recorder=log)
    await agent.run("second", session="s", recorder=log)
    await log.close()
    return store, agent.session("s")


def damage(path: Path, seq: int, body: object) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE payloads SET body=? WHERE seq=?", (body, seq))
    db.close()


@owes("agents-16")
async def test_what_is_read_back_in_pages_is_what_was_recorded(tmp_path: Path) -> None:
    store, events = await recorded(tmp_path / "h.sqlite")

    back = history(store, "s")
    runs = [r.id for r in store.runs()]

    assert list(map(event_to_dict, back)) == list(map(event_to_dict, events))
    assert sum(len(history(store, "s", run=run)) for run in runs) == len(events)
    only = history(store, "s", types=("call.finished",))
    assert [e.type for e in only] == ["call.finished"] * 4
    assert store.bodies("s", after=2, limit=3) == [(e.seq, e.body) for e in store.read("s")[2:5]]
    store.purge("s", before=1e12)
    assert history(store, "s") == []
    store.close()


BAD: dict[str, object] = {
    "half a record": b'{"type":"call.finished","result":{"call_id":"c',
    "bytes of something else": b"\x00\xff\xfe SQLite",
    "two values": b'{"type":"notice","text":"a","detail":{}},{"type":"notice","text":"b","detail":{}}',
    "nothing": b"",
    "JSON, but no event": b"[1, 2]",
    "an unknown type": b'{"type":"from.tomorrow"}',
    "text and no bytes": "{half",
    "a number": 5,
}


@owes("agents-16")
@pytest.mark.parametrize("kind", BAD)
async def test_a_damaged_record_is_told_and_the_others_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "h.sqlite"
    store, events = await recorded(path)
    body = BAD[kind]
    damage(path, 4, body)

    back = history(store, "s")

    assert len(back) == len(events)
    told = back[3]
    assert isinstance(told, Notice)
    assert told.detail == {DAMAGED: 4}
    assert "record 4 of this session is damaged" in told.text
    assert list(map(event_to_dict, back[:3] + back[4:])) == list(map(event_to_dict, events[:3] + events[4:]))
    # The copy for whoever can mend it: the row as it was found, which `pegboard audit verify` names.
    assert store.bodies("s")[3][1] == (body if isinstance(body, bytes) else str(body).encode())
    assert [f.seq for f in verify(KEY, "s", store.read("s"))] == [4]
    store.close()


@owes("agents-16", "context-06")
async def test_whichever_record_is_damaged_the_session_goes_on_with_a_valid_transcript(
    tmp_path: Path,
) -> None:
    store, events = await recorded(tmp_path / "h.sqlite")
    records = store.read("s")
    store.close()

    for place in range(len(records)):
        damaged = replace(records[place], body=b'{"type":')
        back = decode_events([*records[:place], damaged, *records[place + 1 :]])
        known = fold(back)
        valid([*known.messages, *([interrupted_results(known)] if known.open_calls else [])])
        agent = Agent(tools=[odd], model=ScriptedModel([{"text": "still here"}]), store="memory")
        agent.remember("s", back)
        answer = await agent.run("third", session="s")
        assert answer.answer == "still here"
        valid(fold(agent.session("s")).messages)
    assert isinstance(events[-1], RunFinished)
