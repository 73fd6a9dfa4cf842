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
from tests.runtime.killed_worker import JOBS

ROOT = Path(__file__).parents[2]


def sweep(folder: Path, count: int) -> list[dict[str, Any]]:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}, {count} scenarios")
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.killed_worker", str(folder), str(count), str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60 + 120 * count,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [line for line in lines if "crash" in line], lines
    assert len(lines) == count
    return lines


def check(line: dict[str, Any]) -> None:
    done = Counter[str](line["world"])
    assert [word for word, times in done.items() if times > 1] == [], f"done twice: {line}"
    numbers = range(JOBS)
    kinds = {"0": "first", "3": "last"}
    told = {f"sub-{id[3:-2]}" if id.startswith("sub") else f"{kinds[id[-1]]}-{id[3:-2]}" for id in line["ok"]}
    assert told <= set(done), f"told and not done: {line}"
    assert line["tasks"] == sorted(f"{kind} {n}" for kind in ("job", "sub") for n in numbers), line
    assert set(line["runs"]) == {"done"}, line
    assert line["children"] == ["done"] * JOBS, line
    assert (line["reports"], line["fired"], line["inbox"], line["faults"]) == (JOBS, JOBS, 0, []), line


@owes("G-17", "K-62")
def test_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    lines = sweep(tmp_path, 2)

    for line in lines:
        check(line)
    assert sum(line["kills"] for line in lines) >= 2, "the kills came too late to prove anything"


@pytest.mark.full
def test_three_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    lines = sweep(tmp_path, 40)

    for line in lines:
        check(line)
    assert sum(line["kills"] for line in lines) >= 300
