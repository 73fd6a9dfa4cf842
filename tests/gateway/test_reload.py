"""A changed settings file holds for the next run; one that goes on keeps its own, and a wrong file changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.gateway.conftest import Serve, calls, events
from tests.ledger import owes
from tests.waiting import soon


@pytest.fixture
def settings(own_home: Path) -> Path:
    file = own_home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text("")
    return file


async def _calls(client: object, run: str) -> list[str]:
    seen = await events(client, run)  # pyright: ignore[reportArgumentType]
    return [e["decision"] for _, e in seen if e["type"] == "call.started"]


@owes("K-90")
async def test_the_next_run_goes_by_the_new_rules_and_the_one_that_goes_on_by_its_own(
    serve: Serve, settings: Path, folder: Path
) -> None:
    gate = folder / "gate"
    waits = calls("exec", command="while [ ! -e gate ]; do sleep 0.05; done")
    turns = (waits, calls("exec", command="touch b.txt"), {"text": "Done."})
    async with serve(*turns) as client:
        first = (await client.post("/api/runs", json={"task": "x"})).json()["run"]
        await events(client, first, until="call.started")
        base = (await client.get("/api/config")).json()["hash"]
        patch = {"base": base, "set": {"rules": ["deny exec:touch **"]}}
        patched = (await client.patch("/api/config", json=patch)).json()
        gate.touch()
        second = (await client.post("/api/runs", json={"task": "x"})).json()["run"]
        by_first, by_second = await _calls(client, first), await _calls(client, second)

    assert patched["applies"] == "now" and patched["error"] == ""
    assert (by_first, by_second) == (["allow", "allow"], ["allow", "deny"])


async def test_a_file_that_is_edited_by_hand_holds_for_the_next_run(serve: Serve, settings: Path) -> None:
    async with serve(calls("exec", command="touch b.txt"), {"text": "Done."}) as client:
        settings.write_text('mode = "read-only"\n')
        run = (await client.post("/api/runs", json={"task": "x"})).json()["run"]
        decided = await _calls(client, run)

    assert decided == ["deny"]


async def test_wrong_settings_change_nothing_and_are_told_until_they_are_right(
    serve: Serve, settings: Path
) -> None:
    notes: list[str] = []
    write = calls("exec", command="touch b.txt")
    settings.write_text('rules = ["deny exec:touch **"]\n')
    async with serve(write, {"text": "Done."}, notes=notes) as client:
        settings.write_text('rules = ["maybe exec:touch **"]\n')
        run = (await client.post("/api/runs", json={"task": "x"})).json()["run"]
        decided = await _calls(client, run)
        wrong = (await client.get("/api/config")).json()
        settings.write_text('store = "sqlite:elsewhere.db"\n')
        await soon(lambda: any("after a restart only: store" in n for n in notes), "the note")
        right = (await client.get("/api/config")).json()
        run = (await client.post("/api/runs", json={"task": "x"})).json()["run"]
        after = await _calls(client, run)

    assert decided == ["deny"] and after == ["allow"]
    assert "maybe" in wrong["error"] and any("do not hold" in note for note in notes)
    assert (right["error"], right["after_restart"]) == ("", ["store"])


async def test_two_changes_at_once_are_read_once(serve: Serve, settings: Path) -> None:
    notes: list[str] = []
    async with serve({"text": "Done."}, notes=notes) as client:
        settings.write_text('mode = "ask"\n')
        await asyncio.gather(*(client.post("/api/runs", json={"task": "x"}) for _ in range(3)))

    assert sum("were read again" in note for note in notes) == 1
