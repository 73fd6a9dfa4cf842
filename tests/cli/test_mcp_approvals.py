"""Calls of MCP clients that ask: they wait for the owner, who answers from another process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_mcp import INIT, place, run
from tests.ledger import owes

__all__ = ["place"]

WRITE = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}},
}


def served(place: Path, *more: str) -> dict[str, Any]:
    lines = "".join(json.dumps(r) + "\n" for r in (INIT, WRITE))
    done = run(place, "mcp", "serve", "--mode", "ask", "--tools", "write_file", *more, stdin=lines)
    return next(r for line in done.stdout.splitlines() if (r := json.loads(line))["id"] == 2)["result"]


def waiting(place: Path) -> list[dict[str, Any]]:
    done = run(place, "approvals", "list", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


@owes("mcp-107", "K-81")
@pytest.mark.slow
def test_a_call_that_asks_waits_for_the_owner_and_runs_once_when_it_is_made_again(place: Path) -> None:
    first = served(place)
    again = served(place)
    (row,) = waiting(place)
    text = first["content"][0]["text"]
    assert first["isError"] and again["isError"]
    assert f"pegboard approvals approve {row['approval']}" in text and "allow write:new.txt" in text
    assert row["tool"] == "write_file" and row["effects"] == [{"kind": "write", "target": "new.txt"}]
    assert not (place / "ws/new.txt").exists()

    answered = run(place, "approvals", "approve", row["approval"])
    resumed = run(place, "runs", "resume")
    assert "next such call" in answered.stderr + answered.stdout
    assert "no unfinished runs" in resumed.stderr + resumed.stdout
    assert not (place / "ws/new.txt").exists()

    done = served(place)
    assert not done.get("isError")
    assert (place / "ws/new.txt").read_text() == "x"
    assert waiting(place) == []

    # The yes is used up: with the file gone the very same call waits again.
    (place / "ws/new.txt").unlink()
    assert served(place)["isError"]
    assert not (place / "ws/new.txt").exists()
    assert run(place, "audit", "verify").returncode == 0


@pytest.mark.slow
def test_a_denied_call_is_refused_with_the_reason_once(place: Path) -> None:
    served(place)
    (row,) = waiting(place)
    run(place, "approvals", "deny", row["approval"], "not on a Friday")

    refused = served(place)

    assert refused["isError"] and "not on a Friday" in refused["content"][0]["text"]
    assert waiting(place) == []
    assert not (place / "ws/new.txt").exists()


@pytest.mark.slow
def test_what_has_changed_since_the_yes_waits_again(place: Path) -> None:
    served(place)
    (row,) = waiting(place)
    run(place, "approvals", "approve", row["approval"])
    (place / "ws/new.txt").write_text("somebody else's")

    late = served(place)

    assert late["isError"]
    assert (place / "ws/new.txt").read_text() == "somebody else's"
