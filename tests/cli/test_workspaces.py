"""What is kept for all workspaces is shown for the one at hand, and the newest is called `last`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run, argv, environment


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "script.jsonl"
    turns = [
        {"calls": [{"name": "write_file", "arguments": {"path": "b.txt", "content": "new\n"}}]},
        {"text": "I wrote b.txt."},
    ]
    path.write_text("".join(json.dumps(t) + "\n" for t in turns), encoding="utf-8")
    return f"scripted:{path}"


@pytest.fixture
def other(workspace: Path) -> Path:
    folder = workspace.parent / "other"
    folder.mkdir()
    return folder


def tasks(done: str) -> list[str]:
    return [json.loads(line)["task"] for line in done.splitlines()]


def test_runs_and_usage_are_of_this_workspace_and_of_all_with_their_workspace(
    pegboard: Run, model: str, workspace: Path, other: Path
) -> None:
    pegboard("run", "--model", model, "here")
    pegboard("run", "--model", model, "--workspace", str(other), "there")

    assert tasks(pegboard("runs", "--json").out) == ["here"]
    assert tasks(pegboard("runs", "--json", "--workspace", str(other)).out) == ["there"]
    shown = pegboard("runs", "--all").out
    assert "workspace" in shown.splitlines()[0]
    assert str(workspace) in shown and str(other) in shown
    here, everywhere = (json.loads(pegboard("usage", "--json", *a).out) for a in ((), ("--all",)))
    assert (here["runs"], everywhere["runs"]) == (1, 2)
    assert set(everywhere["workspaces"]) == {str(workspace), str(other)}
    assert "1 run in this workspace" in pegboard("usage").out
    assert str(other) in pegboard("undo", "--list", "--all").out
    assert str(other) not in pegboard("undo", "--list").out


def test_a_workspace_without_runs_says_how_to_see_the_others(pegboard: Run, model: str, other: Path) -> None:
    before = pegboard("runs").out
    pegboard("run", "--model", model, "here")

    assert before == "no runs yet\n"
    assert "pegboard runs --all" in pegboard("runs", "--workspace", str(other)).out
    assert pegboard("runs", "show", "last", "--workspace", str(other)).status == 2


def test_last_is_the_newest_run_wherever_an_id_is_taken(
    pegboard: Run, model: str, workspace: Path, other: Path
) -> None:
    pegboard("run", "--model", model, "first")
    pegboard("run", "--model", model, "--workspace", str(other), "elsewhere")
    pegboard("call", "read_file", "path=a.txt")

    assert "call read_file" in pegboard("runs", "list", "--json").out.splitlines()[0]
    assert "read a.txt" in pegboard("runs", "show", "last").out
    assert pegboard("replay", "last").status == 0
    assert pegboard("undo", "last").status == 0
    assert not (workspace / "b.txt").exists()
    assert (other / "b.txt").exists()


def test_a_single_call_is_not_replayed_resumed_or_compared_and_that_is_said(
    pegboard: Run, model: str
) -> None:
    pegboard("run", "--model", model, "a task")
    pegboard("call", "read_file", "path=a.txt")
    call, run = (json.loads(line)["run"] for line in pegboard("runs", "--json").out.splitlines())

    for words in (
        ("replay", call),
        ("replay", call, "--now"),
        ("replay", call, "--against", run),
        ("runs", "resume", call),
        ("runs", "export", call, "--pytest"),
    ):
        done = pegboard(*words)
        assert done.status == 2, words
        assert f"{call} is a single call (call read_file); only runs can be " in done.err


def test_where_only_single_calls_were_made_there_is_no_last_run_of_an_agent(
    pegboard: Run, workspace: Path
) -> None:
    pegboard("call", "read_file", "path=a.txt")

    assert f"no runs of an agent in {workspace} yet" in pegboard("replay", "last").err
    assert pegboard("runs", "show", "last").status == 0


def test_undo_of_another_workspaces_run_says_where_it_was(pegboard: Run, model: str, other: Path) -> None:
    pegboard("run", "--model", model, "--workspace", str(other), "there")
    run = json.loads(pegboard("runs", "--all", "--json").out)["run"]

    done = pegboard("undo", run)

    assert done.status == 1 and (other / "b.txt").exists()
    assert f"pegboard undo {run} --workspace {other}" in done.err
    assert pegboard("undo", run, "--workspace", str(other)).status == 0
    assert not (other / "b.txt").exists()
    assert "undo --list" in pegboard("undo", "call_nosuch").err


def test_an_answer_is_shown_once(pegboard: Run, model: str) -> None:
    pegboard("run", "--model", model, "a task")

    assert pegboard("runs", "show", "last").out.count("I wrote b.txt.") == 1


def test_undo_without_an_argument_offers_the_last_change_at_a_terminal(
    pegboard: Run, model: str, workspace: Path
) -> None:
    pegboard("run", "--model", model, "a task")
    refused = pegboard("undo")

    said = _at_terminal("undo", cwd=workspace, typed="n\n")
    kept = (workspace / "b.txt").exists()
    undone = _at_terminal("undo", cwd=workspace, typed="y\n")

    assert refused.status == 2 and "--last" in refused.err
    assert "would be undone: 1 file change" in said and "nothing was changed" in said
    assert kept and not (workspace / "b.txt").exists()
    assert "undone: 1 file change" in undone


def _at_terminal(*words: str, cwd: Path, typed: str) -> str:
    """What a command prints at a terminal where a person has typed."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        argv(*words), cwd=cwd, env=environment(), stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    os.write(leader, typed.encode())
    out = b""
    try:
        while chunk := os.read(leader, 4096):
            out += chunk
    except OSError:
        pass  # The other end is closed.
    process.wait(timeout=60)
    os.close(leader)
    return out.decode()
