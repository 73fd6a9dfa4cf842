"""Workers that are killed at any point lose nothing and do nothing twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.ledger import owes
from tests.postgres import PostgresServer
from tests.runtime.killed_worker import JOBS

ROOT = Path(__file__).parents[2]


def sweep(folder: Path, kills: int, store: str = "") -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}, {kills} kills")
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.runtime.killed_worker", str(folder), str(kills), str(seed),
            *([store] if store else []),
        ],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}, capture_output=True, text=True,
        timeout=120 + 30 * kills,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [line for line in lines if "crash" in line], lines
    for line in lines:
        check(line)
    killed, posts = (sum(line[what] for line in lines) for what in ("kills", "posts"))
    print(
        f"{killed} kills in {len(lines)} scenarios, {posts - JOBS * len(lines)} posts repeated under their key"
    )
    assert killed >= kills


def check(line: dict[str, Any]) -> None:
    done = Counter[str](line["world"])
    assert [word for word, times in done.items() if times > 1] == [], f"done twice: {line}"
    numbers = range(JOBS)
    kinds = {"0": "first", "5": "last"}
    told = {f"sub-{id[3:-2]}" if id.startswith("sub") else f"{kinds[id[-1]]}-{id[3:-2]}" for id in line["ok"]}
    assert told <= set(done), f"told and not done: {line}"
    assert line["tasks"] == sorted(f"{kind} {n}" for kind in ("job", "sub") for n in numbers), line
    assert set(line["runs"]) == {"done"}, line
    assert line["children"] == ["done"] * JOBS, line
    # Whatever was repeated, it was under the same key.
    assert [content for content, _ in line["hook"]] == [f"hook {n}" for n in numbers], line
    assert line["posts"] <= JOBS + line["kills"], line
    assert line["file"] == sorted(f"{text}" for n in numbers for text in (f"file {n}", f"job {n} is over")), (
        line
    )
    assert line["outbox"] == ["sent"] * 3 * JOBS, line
    assert (line["reports"], line["fired"], line["inbox"], line["faults"]) == (JOBS, JOBS, 0, []), line


@owes("G-17", "K-62")
def test_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    sweep(tmp_path, 10)


@owes("G-17", "K-62")
def test_two_workers_on_postgresql_that_are_killed_lose_nothing(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    sweep(tmp_path, 3, postgres_server.url().partition("?")[0])


@pytest.mark.full
def test_three_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    sweep(tmp_path, 300)


@pytest.mark.full
def test_three_hundred_kills_of_two_workers_on_postgresql_lose_nothing(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    sweep(tmp_path, 300, postgres_server.url().partition("?")[0])
