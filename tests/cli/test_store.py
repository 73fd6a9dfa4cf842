"""`pegboard store`: what is kept is shown, and purged without breaking chain, undo's honesty or open runs (decisions 17)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.limits import SystemClock
from pegboard.services.retention import Retention
from pegboard.store.runs import RunRow
from tests.cli.conftest import Run

DAY_S = 86_400.0


class At(SystemClock):
    """A clock that stands."""

    def __init__(self, now: float) -> None:
        self._at = now

    def now(self) -> float:
        return self._at


@pytest.fixture
def state(home: Path) -> Path:
    return home / ".local" / "state" / "pegboard"


@pytest.fixture
def worked(pegboard: Run, workspace: Path, tmp_path: Path) -> Run:
    """A call that changed a file, a long result, and a finished run."""
    script = tmp_path / "script.jsonl"
    script.write_text(
        json.dumps({"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]})
        + "\n"
        + json.dumps({"text": "A-SECRET-PLAN"})
        + "\n",
        encoding="utf-8",
    )
    (workspace / "long.txt").write_text("".join(f"line {n} PAGES\n" for n in range(3000)), encoding="utf-8")
    assert pegboard("call", "write_file", "path=a.txt", "content=after\n").status == 0
    assert pegboard("call", "exec", "command=cat long.txt", "--yes").status == 0
    assert pegboard("run", "tell me the PLAN-TASK", "--model", f"scripted:{script}").status == 0
    return pegboard


def rows(out: str) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in json.loads(out)}


def texts_below(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_what_is_kept_is_shown_with_how_much_and_since_when(worked: Run) -> None:
    shown = rows(worked("store", "--json").out)

    assert set(shown) == {"history", "images", "spills"}
    assert shown["images"]["count"] >= 1
    assert shown["spills"]["count"] == 1
    assert shown["spills"]["size_bytes"] >= 30_000
    assert all(abs(time.time() - row["oldest"]) < 600 for row in shown.values())


def test_a_purge_leaves_no_word_of_it_in_any_file_and_the_chain_whole(worked: Run, state: Path) -> None:
    before = texts_below(state)
    done = worked("store", "purge", "--all", "--yes")
    after = texts_below(state)
    verified = worked("audit", "verify")

    assert done.status == 0
    for word in (b"A-SECRET-PLAN", b"PLAN-TASK", b"line 2999 PAGES"):
        assert word in before
        assert word not in after
    assert b"hello\nworld\n" not in after
    assert verified.status == 0
    assert {row["count"] for row in rows(worked("store", "--json").out).values()} <= {0, 1}


def test_after_a_purge_undo_and_replay_say_that_nothing_is_left(worked: Run, workspace: Path) -> None:
    id = json.loads(worked("runs", "list", "--json").out.splitlines()[0])["run"]
    worked("store", "purge", "--all", "--yes")
    undone = worked("undo", "--last")
    replayed = worked("replay", id)
    listed = worked("runs")
    shown = worked("runs", "show", id)

    assert undone.status != 0
    assert (workspace / "a.txt").read_text() == "after\n"
    assert replayed.status != 0
    assert "purged" in replayed.err
    assert "(purged)" in listed.out
    assert "was purged" in shown.err
    assert "PLAN-TASK" not in listed.out


def test_without_a_yes_nothing_goes(worked: Run) -> None:
    before = rows(worked("store", "--json").out)
    refused = worked("store", "purge", "--all")
    previewed = worked("store", "purge", "--all", "--preview")

    assert (refused.status, previewed.status) == (3, 0)
    assert "--yes" in refused.err
    after = rows(worked("store", "--json").out)
    assert {k: r["count"] for k, r in after.items()} == {k: r["count"] for k, r in before.items()}


def test_what_is_younger_stays(worked: Run) -> None:
    done = worked("store", "purge", "--yes", "--json")

    assert {row["count"] for row in rows(done.out).values()} == {0}
    assert worked("undo", "--last").status == 0


def test_only_the_named_kind_goes(worked: Run) -> None:
    worked("store", "purge", "--all", "--only", "spills", "--yes")
    left = rows(worked("store", "--json").out)

    assert left["spills"]["count"] == 0
    assert left["images"]["count"] >= 1
    assert left["history"]["count"] > 1


def test_a_session_with_a_run_that_can_be_resumed_stays(
    pegboard: Run, workspace: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(
        json.dumps({"calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]})
        + "\n"
        + json.dumps({"text": "gone"})
        + "\n",
        encoding="utf-8",
    )
    asks = ("--model", f"scripted:{script}", "--mode", "ask")
    waits = pegboard("run", "delete it", *asks, "--on-ask", "suspend", "--json")
    last = json.loads(waits.out.splitlines()[-1])
    purged = pegboard("store", "purge", "--all", "--yes")
    pegboard("approvals", "approve", last["pending"][0]["pending"])
    resumed = pegboard("runs", "resume", last["run"], *asks)

    assert "can be resumed" in purged.err
    assert resumed.status == 0
    assert not (workspace / "a.txt").exists()


@pytest.mark.parametrize(
    "words", [["drop"], ["purge", "--only", "runs"], ["purge", "--older", "soon", "--yes"]]
)
def test_a_misspelt_purge_is_a_usage_error(pegboard: Run, words: list[str]) -> None:
    assert pegboard("store", *words).status == 2


def test_ages_are_counted_from_now_and_a_damaged_copy_goes_with_its_time(worked: Run, state: Path) -> None:
    copy = state / "history.sqlite.damaged-1"
    copy.write_bytes(b"A-SECRET-PLAN")
    old = time.time() - 40 * DAY_S
    os.utime(copy, (old, old))
    with App.open() as app:
        soon = Retention(app.history, app.paths, clock=At(time.time() + 29 * DAY_S))
        later = Retention(app.history, app.paths, clock=At(time.time() + 31 * DAY_S))

        assert [h.count for h in asyncio.run(soon.held(older_s=30 * DAY_S))] == [0, 0, 0]
        assert all(h.count for h in asyncio.run(later.held(older_s=30 * DAY_S)))
        asyncio.run(soon.purge(older_s=30 * DAY_S))
        assert not copy.exists()
        asyncio.run(later.purge(older_s=30 * DAY_S))
        assert [h.count for h in asyncio.run(later.held())] == [0, 0, 0]


def test_a_call_whose_process_was_killed_keeps_nothing_back(worked: Run) -> None:
    with App.open() as app:
        row = RunRow(
            id="run_k", stream="cli", status="running", task="call", model="", agent="cli", started=1.0
        )
        asyncio.run(app.history.save_run(row))
    purged = worked("store", "purge", "--all", "--yes", "--only", "history")

    assert "can be resumed" not in purged.err
    assert rows(worked("store", "--json").out)["history"]["count"] == 0
