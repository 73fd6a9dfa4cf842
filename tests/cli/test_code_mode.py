"""`pegboard run --code`: programs on the command line, also ones that wait for a person (ledger K-85)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.ledger import owes

CODE = """
page = await read_file("a.txt")
print(page["total"], "lines")
await write_file("b.txt", page["text"].upper())
"""


@pytest.mark.slow
@owes("K-85")
def test_a_program_that_waits_goes_on_with_runs_resume_and_replays(pegboard: Run, workspace: Path) -> None:
    turns = [
        {"calls": [{"id": "c1", "name": "run_code", "arguments": {"code": CODE}}]},
        {"text": "written"},
    ]
    script = workspace / "turns.jsonl"
    script.write_text("\n".join(map(json.dumps, turns)))
    words = ("--code", "--model", f"scripted:{script}", "--mode", "ask", "--on-ask", "suspend")

    first = pegboard("run", "go", *words, "--json")

    assert first.status == 4, first.err
    events = [json.loads(line) for line in first.out.splitlines()]
    assert [(e["call_id"], e.get("parent", "")) for e in events if e["type"] == "call.started"] == [
        ("c1", ""),
        ("c1/1", "c1"),
    ]
    (waiting,) = events[-1]["pending"]
    assert (waiting["call_id"], waiting["tool"]) == ("c1/2", "write_file")
    assert not (workspace / "b.txt").exists()
    assert pegboard("approvals", "approve", waiting["pending"]).status == 0
    run = events[-1]["run"]

    resumed = pegboard("runs", "resume", run)

    assert resumed.status == 0, resumed.err
    assert (workspace / "b.txt").read_text() == "HELLO\nWORLD\n"
    assert "2 lines" in resumed.err
    replayed = pegboard("replay", run)
    assert replayed.status == 0, replayed.err
    assert "replays exactly to its end" in replayed.out
    assert pegboard("audit", "verify").status == 0
    assert pegboard("undo", "c1/2").status == 0
    assert not (workspace / "b.txt").exists()


def test_one_call_of_run_code_has_all_tools(pegboard: Run) -> None:
    done = pegboard("call", "run_code", 'code=(await read_file("a.txt"))["text"]')

    assert done.status == 0, done.err
    assert done.out.rstrip("\n") == "hello\nworld"
