"""`pegboard sessions`: what is listed and shown, and what a wrong request is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def talk(pegboard: Run, tmp_path: Path) -> Run:
    turns = tmp_path / "turns.jsonl"
    turns.write_text(json.dumps({"text": "A red \x1b[31mhouse\x1b[0m by the river."}))
    for session in ("telegram:user:1", "telegram:group:1"):
        done = pegboard("run", "Where is it?", "--model", f"scripted:{turns}", "--session", session)
        assert done.status == 0, done.err
    return pegboard


def test_sessions_are_listed_named_shown_searched_and_branched(talk: Run) -> None:
    rows = [json.loads(line) for line in talk("sessions", "--json").out.splitlines()]
    assert [(r["key"], r["messages"], r["status"]) for r in rows] == [
        ("telegram:group:1", 2, "idle"),
        ("telegram:user:1", 2, "idle"),
    ]
    assert len(talk("sessions", "list", "--limit", "1").out.splitlines()) == 2
    assert talk("sessions", "rename", "telegram:user:1", "ada").out == "telegram:user:1 is @ada\n"
    shown = talk("sessions", "show", "@ada").out
    assert shown.startswith("telegram:user:1  @ada  idle\n> Where is it?\n")
    assert "\x1b" not in shown and "by the river." in shown
    found = [json.loads(line) for line in talk("sessions", "search", "RED river", "--json").out.splitlines()]
    assert [f["session"] for f in found] == ["telegram:group:1", "telegram:user:1"]
    run = found[1]["run"]
    assert talk("sessions", "branch", "@ada", "trial", "--at", run[:12]).out == (
        "trial has the first 1 run of telegram:user:1\n"
    )
    trial = json.loads(talk("sessions", "show", "trial", "--json").out)
    assert (trial["branched_from"], trial["total"]) == ("telegram:user:1", 2)
    assert json.loads(talk("sessions", "delete", "trial", "--json").out) == {
        "session": "trial",
        "deleted": True,
    }
    assert "no message has 'blue'" in talk("sessions", "search", "blue").err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("dance",), "use list, show, search"),
        (("show",), "sessions show needs a session"),
        (("search",), "sessions search needs words"),
        (("branch", "telegram:user:1"), "needs a session and the key of the new one"),
        (("show", "telegram:1"), "means 2 sessions: telegram:group:1, telegram:user:1"),
        (("show", "nobody"), "no session 'nobody'; see: pegboard sessions"),
        (("show", "a\x07b"), "control characters"),
        (("list", "--at", "run_1"), "--at is for sessions branch"),
        (("branch", "telegram:user:1", "telegram:group:1"), "exists; give the branch another key"),
    ],
)
def test_a_request_that_cannot_be_met_says_why(talk: Run, arguments: tuple[str, ...], says: str) -> None:
    done = talk("sessions", *arguments)

    assert done.status == 2
    assert says in done.err
