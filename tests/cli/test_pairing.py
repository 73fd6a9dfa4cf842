"""`pegboard pairing`: who asks, who is let in, and the answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from pegboard.app.app import App
from tests.cli.conftest import Run


def test_the_command_lists_approves_and_revokes(pegboard: Run, workspace: Path) -> None:
    async def ask(name: str) -> str:
        with App.open(workspace=workspace) as app:
            return await app.pairings.request("telegram", name, f"{name}\x1b[31m")

    empty = pegboard("pairing").out
    ann, bob = asyncio.run(ask("ann")), asyncio.run(ask("bob"))
    listed = pegboard("pairing", "list").out
    approved = pegboard("pairing", "approve", ann.lower()).out
    refused = pegboard("pairing", "refuse", bob).out
    wrong = pegboard("pairing", "approve", bob)
    after = json.loads(pegboard("pairing", "list", "--json").out)
    revoked = pegboard("pairing", "revoke", "telegram", "ann")
    twice = pegboard("pairing", "revoke", "telegram", "ann")

    assert empty == "nobody is paired\n"
    assert ann in listed and bob in listed and "\x1b" not in listed
    assert (approved, refused) == ("telegram ann is paired as user\n", "telegram bob was refused\n")
    assert wrong.status != 0 and "no request waits" in wrong.err
    assert after["pending"] == [] and [p["who"] for p in after["paired"]] == ["ann"]
    assert revoked.status == 0 and twice.status != 0
