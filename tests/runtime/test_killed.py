"""A run killed at any point resumes with nothing lost and nothing done twice (ledger G-10, G-17, K-49)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pegboard.core.events import (
    CallFinished,
    CallStarted,
    ContextCompacted,
    Event,
    ModelReplied,
    PermissionRequested,
    RunFinished,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.result import ToolResult
from pegboard.dialects import dialect
from pegboard.runtime.fold import fold
from pegboard.runtime.replay import replay
from pegboard.store.chain import verify
from pegboard.store.log import decode_events
from tests.ledger import owes
from tests.runtime.killed import KEY, PARTS, SESSION, TURNS
from tests.sync_store import open_sqlite
from tests.transcript import assert_valid_transcript

ROOT = Path(__file__).parents[2]


def sweep(folder: Path, count: int, seed: int, kind: str = "anywhere") -> list[list[Event]]:
    """The streams of the runs, each checked."""
    print(f"seed {seed}, {count} kill points, {kind}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.killed", str(folder), str(count), str(seed), kind],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [line for line in lines if "crash" in line], lines
    assert len(lines) == count
    assert sum(line["kills"] for line in lines) >= count // 2, "the kills came too late to prove anything"
    return [check(Path(line["folder"]), line) for line in lines]


def check(folder: Path, line: dict[str, Any]) -> list[Event]:
    store = open_sqlite(folder / "history.sqlite")
    entries = store.read(SESSION)
    store.close()
    events = decode_events(entries)
    assert line["status"] == ("limit" if line["kind"] == "budget" else "done"), line
    assert line["rows"] == 1 or line["kills"], line
    assert verify(KEY, SESSION, entries) == []
    world_file = folder / "world.txt"
    world = Counter(world_file.read_text().split()) if world_file.exists() else Counter[str]()
    assert [w for w, n in world.items() if n > 1] == [], f"done twice: {world}, {line}"
    settle(events, world, line)
    if (safe := folder / "told.txt").exists():
        kept = {e.message.text for e in events if isinstance(e, UserTold)}
        assert set(safe.read_text().splitlines()) <= kept, "what had been kept is lost"
    transcript = [m for message in fold(events).messages for m in dialect("openai-chat").encode(message)]
    assert_valid_transcript(transcript)
    return events


def settle(events: list[Event], world: Counter[str], line: dict[str, Any]) -> None:
    """What the stream says of each call against what the world shows."""
    ended = [e.result for e in events if isinstance(e, CallFinished) and not waits(e.result)]
    finished = Counter(r.call_id for r in ended)
    assert [c for c, n in finished.items() if n > 1] == [], line
    started = {e.call_id for e in events if isinstance(e, CallStarted)}
    assert set(world) <= started, "something was done that nobody had written down"
    results = {r.call_id: r for r in ended}
    for n in range(TURNS[line["kind"]]):
        parts = [f"p{n}-{part}" for part in range(PARTS if line["kind"] == "parallel" else 0)]
        for call in (f"w{n}", f"r{n}", *([f"s{n}"] if n % 2 else []), *parts):
            result = results[call]
            if call[0] == "r":
                assert result.ok
            elif result.ok:
                assert world[call] == 1
            else:
                assert result.error is not None
                assert result.error.code == "interrupted"
                assert "unknown" in result.error.message
    assert isinstance(events[-1], RunFinished)
    assert events[-1].answer == ("all I have" if line["kind"] == "budget" else "all done")


FEW = 3
"""Kills that every run of the tests tries; the full run tries a hundred and more."""


def around_words(folder: Path, count: int) -> None:
    for events in sweep(folder, count, random.randrange(10**6), "told"):
        read = [e.message.text for e in events if isinstance(e, UserSaid)]
        told = [e.message.text for e in events if isinstance(e, UserTold)]
        assert told, "nothing was said, so nothing is proved"
        assert read == ["go", *told]
        assert fold(events).told == []
        assert asyncio.run(
            replay(events, next(e.run for e in events if isinstance(e, RunStarted)))
        ).events == len(events)


def replays(events: list[Event]) -> None:
    run = next(e.run for e in events if isinstance(e, RunStarted))
    assert asyncio.run(replay(events, run)).events == len(events)


def around_budget(folder: Path, count: int) -> None:
    for events in sweep(folder, count, random.randrange(10**6), "budget"):
        turns = [e.message for e in events if isinstance(e, ModelReplied)]
        assert len(turns) == TURNS["budget"] + 1, "a turn more or less than the budget and its last word"
        assert [m.text for m in turns if not m.calls] == ["all I have"]
        replays(events)


def around_fallback(folder: Path, count: int) -> None:
    for events in sweep(folder, count, random.randrange(10**6), "fallback"):
        answered = [e.message.model for e in events if isinstance(e, ModelReplied)]
        assert answered == ["counting"] * 2 + ["other:m"] * (TURNS["fallback"] - 1)
        replays(events)


def side_by_side(folder: Path, count: int) -> None:
    for events in sweep(folder, count, random.randrange(10**6), "parallel"):
        replays(events)


def waits(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == "suspended"


@pytest.mark.slow
@owes("G-10", "G-17", "K-49", "context-06")
def test_a_run_killed_anywhere_resumes_with_nothing_lost_and_nothing_done_twice(tmp_path: Path) -> None:
    sweep(tmp_path, 2 * FEW, random.randrange(10**6))


@pytest.mark.full
@pytest.mark.slow
@owes("G-10", "G-17")
def test_two_hundred_kill_points_resume_clean(tmp_path: Path) -> None:
    sweep(tmp_path, 200, random.randrange(10**6))


def around_compaction(folder: Path, count: int) -> None:
    for events in sweep(folder, count, random.randrange(10**6), "compaction"):
        shortened = [e for e in events if isinstance(e, ContextCompacted)]
        assert shortened, "nothing was shortened, so nothing is proved"
        again = asyncio.run(replay(events, next(e.run for e in events if isinstance(e, RunStarted))))
        assert again.events == len(events)


def around_approval(folder: Path, count: int) -> None:
    for events in sweep(folder, count, random.randrange(10**6), "approval"):
        asked = {e.call_id for e in events if isinstance(e, PermissionRequested)}
        for event in events:
            if isinstance(event, CallStarted) and event.tool != "look":
                # Whatever was killed in between: nothing began that nobody had been asked about.
                assert event.call_id in asked
                assert event.approver == ("bob" if event.tool == "send" else "ann")
        asyncio.run(replay(events, next(e.run for e in events if isinstance(e, RunStarted))))


@pytest.mark.slow
@owes("G-10", "K-73", "context-06")
def test_a_run_killed_around_a_compaction_resumes_and_replays(tmp_path: Path) -> None:
    around_compaction(tmp_path, FEW)


@pytest.mark.slow
@owes("G-10", "G-17", "K-25")
def test_a_run_killed_around_an_approval_does_nothing_unasked_and_nothing_twice(tmp_path: Path) -> None:
    around_approval(tmp_path, FEW)


@pytest.mark.slow
@owes("G-10", "K-52")
def test_a_run_killed_around_what_it_was_told_has_read_each_word_once(tmp_path: Path) -> None:
    around_words(tmp_path, FEW)


@pytest.mark.slow
@owes("G-10", "K-51", "G-09")
def test_a_run_killed_at_the_end_of_its_budget_has_one_last_word(tmp_path: Path) -> None:
    around_budget(tmp_path, FEW)


@pytest.mark.slow
@owes("G-10", "K-49")
def test_a_run_killed_around_a_model_that_fails_goes_on_with_the_other(tmp_path: Path) -> None:
    around_fallback(tmp_path, FEW)


@pytest.mark.slow
@owes("G-10", "G-17", "X-46")
def test_a_run_killed_in_calls_side_by_side_tells_each_for_itself(tmp_path: Path) -> None:
    side_by_side(tmp_path, FEW)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("around", [around_budget, around_fallback, side_by_side])
@owes("G-10", "G-17")
def test_a_hundred_kills_around_budgets_fallbacks_and_calls_side_by_side(tmp_path: Path, around: Any) -> None:
    around(tmp_path, 100)


@pytest.mark.full
@pytest.mark.slow
@owes("G-10", "K-52")
def test_a_hundred_kills_around_what_a_run_was_told(tmp_path: Path) -> None:
    around_words(tmp_path, 100)


@pytest.mark.full
@pytest.mark.slow
@owes("G-10", "K-73")
def test_a_hundred_kills_around_a_compaction(tmp_path: Path) -> None:
    around_compaction(tmp_path, 100)


@pytest.mark.full
@pytest.mark.slow
@owes("G-10", "G-17")
def test_a_hundred_kills_around_an_approval(tmp_path: Path) -> None:
    around_approval(tmp_path, 100)
