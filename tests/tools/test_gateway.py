"""The tool `gateway`: the settings change only with a person's yes and on top of what was read; a restart is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pegboard import Executor, builtin
from pegboard.app.app import App
from pegboard.core.policy.approval import AllowOnce, Approved
from pegboard.core.policy.policy import Policy
from pegboard.services.gateway_control import ServedGateway
from pegboard.services.settings import SettingsFiles
from pegboard.store.memory import MemoryStore
from tests.ledger import owes
from tests.waiting import until


@pytest.fixture
def settings(own_home: Path) -> Path:
    file = own_home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text('model = "local"\n')
    return file


class Person:
    """Says yes once, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def __call__(self, request: Any) -> Approved:
        self.asked.append(request)
        return Approved(by="ann")


@owes("X-52")
async def test_a_setting_is_changed_with_a_persons_yes_and_on_top_of_what_was_read(
    settings: Path, tmp_path: Path
) -> None:
    person = Person()
    async with Executor(builtin("gateway"), workspace=tmp_path, approver=person) as executor:
        status = await executor.call("gateway", {})
        schema = await executor.call("gateway", {"action": "config_schema"})
        got = await executor.call("gateway", {"action": "config_get"})
        assert got.ok, got.error
        patch = {"action": "config_patch", "baseHash": got.data["hash"], "set": {"model": "ollama:x"}}
        preview = await executor.preview("gateway", patch)
        done = await executor.call("gateway", patch)
        stale = await executor.call("gateway", patch)
        wrong = {**patch, "baseHash": done.data["hash"], "set": {"modle": "x"}}
        unknown = await executor.call("gateway", wrong)
        restart = await executor.call("gateway", {"action": "restart"})

    assert status.data["running"] is False and "mode" in schema.data["properties"]
    assert got.data["values"] == {"model": "local"}
    assert preview.decision == "ask"
    assert [(e.kind, e.target) for e in preview.effects] == [
        ("control", 'gateway:setting model = "ollama:x"'),
    ]
    assert settings.read_text() == 'model = "ollama:x"\n' and done.data["applies"] == "now"
    assert stale.error is not None and stale.error.code == "conflict"
    assert unknown.error is not None and unknown.error.code == "invalid_arguments"
    assert restart.error is not None and restart.error.code == "unavailable"
    assert len(person.asked) == 3


@pytest.mark.parametrize("mode", ["full", "workspace", "ask"])
async def test_no_mode_and_no_standing_yes_answers_for_a_person(
    settings: Path, tmp_path: Path, mode: Any
) -> None:
    """The settings file decides what the agent may do, so writing it asks as any protected file does."""
    policy = Policy.of(["allow control:**"], mode=mode)
    async with Executor(
        builtin("gateway"), workspace=tmp_path, policy=policy, approver=AllowOnce()
    ) as executor:
        patch = {"action": "config_patch", "base_hash": "x", "set": {"mode": "full"}}
        preview = await executor.preview("gateway", patch)
        done = await executor.call("gateway", patch)

    assert preview.decision == "ask"
    assert done.error is not None and done.error.code == "permission_denied"
    assert settings.read_text() == 'model = "local"\n'


async def test_in_mode_read_only_nothing_is_changed_or_restarted(settings: Path, tmp_path: Path) -> None:
    async with Executor(
        builtin("gateway"), workspace=tmp_path, mode="read-only", approver=Person()
    ) as executor:
        patch = {"action": "config_patch", "base_hash": "x", "set": {"mode": "full"}}
        decided = (await executor.preview("gateway", patch)).decision
        status = await executor.call("gateway", {"action": "status"})

    assert decided == "deny" and status.ok


@pytest.mark.parametrize(
    ("session", "origin"),
    [
        ("gateway:ann:s", {"channel": "gateway", "sender": "ann"}),
        ("agent:general:subagent:task:1", {"channel": "gateway", "sender": "owner"}),
        ("telegram:user:1", {"channel": "telegram", "sender": "1"}),
        ("s", {"channel": "webhook"}),
    ],
)
@pytest.mark.parametrize("action", ["restart", "config_get", "config_patch"])
async def test_only_the_owners_sessions_reach_it(
    settings: Path, tmp_path: Path, session: str, origin: dict[str, str], action: str
) -> None:
    restarted: list[int] = []
    store = MemoryStore()
    with App.open(workspace=tmp_path) as app:
        control = ServedGateway(
            SettingsFiles(app.paths, tmp_path), store=lambda: store, workspace="", allowed=lambda: True,
            restart=lambda: restarted.append(1),
        )  # fmt: skip
    async with Executor(
        builtin("gateway"),
        workspace=tmp_path,
        mode="full",
        approver=Person(),
        provide=[control],
        session=session,
    ) as executor:
        from dataclasses import replace

        from pegboard.core.content import ToolCall

        depth = int("subagent" in session)
        context = replace(executor.context, origin=origin, depth=depth)
        arguments = {"action": action, "base_hash": "x", "set": {"mode": "full"}}
        done = await executor.pipeline.call(ToolCall("c1", "gateway", arguments), context)

    assert done.error is not None and done.error.code == "permission_denied"
    assert restarted == [] and settings.read_text() == 'model = "local"\n'


TOKEN = "the-token-of-the-owner"


@pytest.fixture
def served(
    settings: Path, tmp_path: Path
) -> Generator[tuple[httpx2.Client, subprocess.Popen[str], list[str]]]:
    """`pegboard serve` in a process of its own, whose model asks for a restart once, then says what it was told."""
    folder = tmp_path / "w"
    folder.mkdir()
    turns = [
        {"calls": [{"name": "gateway", "arguments": {"action": "restart", "reason": "new tools"}}]}, {"text": "Asked."},
    ]  # fmt: skip
    (tmp_path / "turns.jsonl").write_text("\n".join(map(json.dumps, turns)))
    settings.write_text(
        'tools = ["gateway"]\nrules = ["allow control:gateway:restart"]\n[gateway]\nrestart = true\n'
    )
    log = tmp_path / "log"
    with log.open("w") as err:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "pegboard.cli.main", "serve", "--workspace", str(folder), "--port", "0",
                "--model", f"scripted:{tmp_path / 'turns.jsonl'}",
            ],
            env={**os.environ, "PEGBOARD_TOKEN": TOKEN}, stderr=err, text=True,
        )  # fmt: skip
    lines: list[str] = []
    try:
        yield log, process, lines  # pyright: ignore[reportReturnType]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@owes("M-39")
def test_the_gateway_starts_again_and_the_session_that_asked_is_told(
    served: tuple[Path, subprocess.Popen[str], list[str]], tmp_path: Path
) -> None:
    log, process, _ = served

    def addresses() -> list[str]:
        lines = log.read_text().splitlines()
        return [line.partition(" at ")[2].partition(";")[0] for line in lines if line.startswith("serving ")]

    (first,) = until(addresses, "the gateway serves", within_s=60)
    with httpx2.Client(trust_env=False, timeout=30, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        started = client.post(f"{first}/api/runs", json={"task": "Restart.", "session": "s"})
        assert started.status_code == 202, started.text
        second = until(lambda: addresses()[1:], "it serves again", within_s=60)[0]
        (tmp_path / "turns.jsonl").write_text(json.dumps({"text": "It is back."}))

        def tasks() -> list[str]:
            runs = client.get(f"{second}/api/sessions/s").json()["runs"]
            return [r["task"] for r in runs if "was restarted" in r["task"]]

        told = until(tasks, "the session is told", within_s=60)

    assert process.poll() is None
    assert "new tools" in told[0] and "starting again" in log.read_text()
