"""A long session opens without its earlier runs: what they came to stands in their place and says the same."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pegboard import Agent
from pegboard.app.app import App
from pegboard.config.paths import Paths
from pegboard.core.codec import event_from_dict, event_to_dict, message_to_dict
from pegboard.core.content import Text, ToolCall
from pegboard.core.errors import ToolError
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    ContextCompacted,
    Event,
    HistoryFolded,
    ModelReplied,
    RunFinished,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Usage, UserMessage
from pegboard.models import ScriptedModel
from pegboard.ports.store import Put
from pegboard.runtime import session as sessions
from pegboard.runtime.fold import IMPORTED, fold, folded, user_messages
from pegboard.runtime.session import Backing, open_session
from pegboard.store import STORES, open_store
from pegboard.store.log import FOLDED, Log, history
from tests.postgres import PostgresServer


def stream(seed: int) -> list[Event]:
    """Some runs as they may come: with open and failed calls, messages in between, and compactions."""
    of = random.Random(seed)
    out: list[Event] = []
    for run in range(6):
        detail = {"mark": f"m{run}"} | ({IMPORTED: "x.jsonl"} if of.random() < 0.1 else {})
        out.append(
            RunStarted(run=f"r{run}", session="s", agent="main", model="m", task=f"task {run}", detail=detail)
        )
        out.append(UserSaid(UserMessage.of(f"task {run}")))
        for turn in range(of.randrange(1, 8)):
            ids = [f"c{run}.{turn}.{n}" for n in range(of.randrange(3))]
            calls = tuple(ToolCall(id=i, name="grep", arguments='{"pattern": "x"}') for i in ids)
            said = Text(f"turn {turn} " * of.randrange(1, 40))
            reply = AssistantMessage(content=(said, *calls), usage=Usage(input_tokens=of.randrange(99)))
            out.append(ModelReplied(message=reply))
            for i in ids:
                if of.random() < 0.9:
                    out.append(CallStarted(call_id=i, tool="grep", arguments={}))
                if of.random() < 0.8:
                    done = ToolResult(content=(Text(f"found {i} " * 20),))
                    if of.random() < 0.2:
                        done = ToolResult.failed(ToolError(f"{i} went wrong"))
                    out.append(CallFinished(result=replace(done, call_id=i, tool="grep")))
            if of.random() < 0.2:
                out.append(UserTold(UserMessage.of(f"and {turn}")))
            if of.random() < 0.2:
                out.append(ContextCompacted(budget_tokens=1200, before_tokens=1300, after_tokens=1200))
        if of.random() < 0.7:
            out.append(RunFinished(run=f"r{run}", status="done", answer="x"))
    return out


def again(event: Event) -> Event:
    return event_from_dict(json.loads(json.dumps(event_to_dict(event))))


def told(events: Sequence[Event]) -> tuple[list[dict[str, Any]], str]:
    """What a fold says, comparable: errors are compared by what they say."""
    done = fold(events)
    return [message_to_dict(m) for m in done.messages], repr(
        replace(done, messages=[], labels=set(), call_ids=set())
    ) + repr((sorted(done.call_ids), sorted(done.labels)))


@pytest.mark.parametrize("seed", range(30))
def test_what_stands_for_the_earlier_runs_says_the_same_as_they(seed: int) -> None:
    events = [again(event) for event in stream(seed)]
    starts = [n for n, event in enumerate(events) if isinstance(event, RunStarted)]
    # Folded twice, as a session that goes on and on is.
    first = again(folded(events[: starts[2] + 1], starts[2]))
    second = again(folded([first, *events[starts[2] : starts[-1] + 1]], starts[-1]))

    shorter = [second, *events[starts[-1] :]]

    assert told(shorter) == told(events)
    texts = [event.message.text for event in user_messages(events)]
    assert set(texts) == {event.message.text for event in user_messages(shorter)}


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.url()
    return f"sqlite:{tmp_path / 's'}" if request.param == "sqlite" else request.param


async def test_a_long_session_is_opened_without_its_earlier_runs(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "FOLD_EVERY", 20)
    store = await open_store(place)
    backing = Backing(store=store, redact=lambda text: (text.replace("task 0", "(secret)"), "task 0" in text))
    shorter = 0
    for _ in range(4):
        for event in stream(1):
            async with open_session(backing, "s") as opened:
                opened.log.record(event)
        async with open_session(backing, "s") as opened:
            every = await history(store, "s")
            shorter += isinstance(opened.events[0], HistoryFolded)
            assert told(opened.events) == told(every)
            assert len(opened.events) < 60
    row = await store.get(FOLDED, "s")

    assert shorter >= 3
    assert row is not None
    assert b"(secret)" in row.value
    assert b"task 0" not in row.value
    await store.close()


@pytest.mark.parametrize("damage", [b"no json", b'{"mac": "x", "event": {"type": "history.folded"}}', b"{}"])
async def test_what_cannot_be_read_or_belongs_to_another_stream_is_not_used(damage: bytes) -> None:
    store = await open_store("memory")
    log = await Log.open(store, "s", chain=None)
    for event in stream(2):
        log.record(event)
    await log.close()
    foreign = json.dumps({"mac": "x", "event": event_to_dict(HistoryFolded(through=3))}).encode()
    for value in (damage, foreign):
        await store.put(Put(FOLDED, "s", value))

        async with open_session(Backing(store=store), "s") as opened:
            assert list(map(event_to_dict, opened.events)) == list(
                map(event_to_dict, await history(store, "s"))
            )


async def test_an_agent_goes_on_with_a_folded_session_and_a_purge_takes_its_content(
    monkeypatch: pytest.MonkeyPatch, own_home: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(sessions, "FOLD_EVERY", 4)
    asked: list[list[str]] = []
    for number in range(4):
        model = ScriptedModel(
            [
                lambda request, number=number: (
                    asked.append([m.text for m in request.messages if isinstance(m, UserMessage)])
                    or {"text": f"answer {number}"}
                )
            ]
        )
        agent = Agent(model=model)
        assert (await agent.run(f"question {number}", session="s")).answer == f"answer {number}"
        await agent.aclose()

    assert asked[-1] == [f"question {number}" for number in range(4)]
    with App.open(workspace=tmp_path, paths=Paths.of()) as app:
        row = await app.store.get(FOLDED, "s")
        assert b"question 1" in cast(bytes, row and row.value)
        await app.retention.purge(["history"])
        assert await app.store.get(FOLDED, "s") is None
