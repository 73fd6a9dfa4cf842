"""A run killed at any point resumes with nothing lost and nothing done twice (ledger G-10, G-17, K-49)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pegboard.core.events import CallFinished, CallStarted, Event, RunFinished
from pegboard.dialects import dialect
from pegboard.runtime.transcripts import fold
from pegboard.store.chain import verify
from pegboard.store.logs import decode
from pegboard.store.sqlite import SqliteStore
from tests.ledger import owes
from tests.runtime.killed import KEY, SESSION, TURNS
from tests.transcript import assert_valid_transcript

ROOT = Path(__file__).parents[2]


def sweep(folder: Path, count: int, seed: int) -> None:
    print(f"seed {seed}, {count} kill points")
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.killed", str(folder), str(count), str(seed)],
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
    for line in lines:
        check(Path(line["folder"]), line)


def check(folder: Path, line: dict[str, object]) -> None:
    store = SqliteStore(folder / "history.sqlite")
    entries = store.read(SESSION)
    store.close()
    events = decode(entries)
    assert line["status"] == "done", line
    assert line["rows"] == 1 or line["kills"], line
    assert verify(KEY, SESSION, entries) == []
    world_file = folder / "world.txt"
    world = Counter(world_file.read_text().split()) if world_file.exists() else Counter[str]()
    assert [w for w, n in world.items() if n > 1] == [], f"done twice: {world}, {line}"
    settle(events, world, line)
    transcript = [m for message in fold(events).messages for m in dialect("openai-chat").encode(message)]
    assert_valid_transcript(transcript)


def settle(events: list[Event], world: Counter[str], line: dict[str, object]) -> None:
    """What the stream says of each call against what the world shows."""
    finished = Counter(e.result.call_id for e in events if isinstance(e, CallFinished))
    assert [c for c, n in finished.items() if n > 1] == [], line
    started = {e.call_id for e in events if isinstance(e, CallStarted)}
    assert set(world) <= started, "something was done that nobody had written down"
    results = {e.result.call_id: e.result for e in events if isinstance(e, CallFinished)}
    for n in range(TURNS):
        for call in (f"w{n}", f"r{n}", *([f"s{n}"] if n % 2 else [])):
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
    assert events[-1].answer == "all done"


@pytest.mark.slow
@owes("G-10", "G-17", "K-49", "context-06")
def test_a_run_killed_anywhere_resumes_with_nothing_lost_and_nothing_done_twice(tmp_path: Path) -> None:
    sweep(tmp_path, 12, random.randrange(10**6))


@pytest.mark.full
@pytest.mark.slow
@owes("G-10", "G-17")
def test_two_hundred_kill_points_resume_clean(tmp_path: Path) -> None:
    sweep(tmp_path, 200, random.randrange(10**6))
