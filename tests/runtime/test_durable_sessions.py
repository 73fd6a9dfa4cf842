"""Named sessions of a library agent: what a killed process leaves, and what another one makes of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard import Agent
from pegboard.core.errors import BuildError, ConfigError
from pegboard.models import ScriptedModel
from pegboard.store import open_store
from pegboard.store.leases import Leases
from tests.ledger import owes

PROGRAM = """
import asyncio, os, signal, sys
from pegboard import Agent, Effect, tool
from pegboard.models import ScriptedModel

@tool(effects=[Effect("send", "chat:1")])
async def send(text: str) -> str:
    "Send a text."
    with open(sys.argv[2], "a") as file:
        file.write(text)
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "sent"

turns = [{"calls": [{"name": "send", "arguments": {"text": "hello"}}]}, {"text": "never said"}]
if sys.argv[1] != "die":
    turns = [{"text": "I do not know whether it was sent."}, {"text": "You asked me to say hello."}]
model = ScriptedModel(turns)
agent = Agent(tools=[send], model=model, policy=["allow send:*"])
if sys.argv[1] == "die":
    agent.run_sync("say hello", session="s1")
answer = agent.resume_sync(sys.argv[3])
print(answer.status, answer.answer)
print(agent.run_sync("what did I ask?", session="s1").answer)
print([m.text for m in model.requests[-1].messages if type(m).__name__ == "UserMessage"])
"""


def python(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "my_agent.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)


def pegboard(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pegboard.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@owes("G-10")
def test_a_killed_library_run_is_listed_says_which_code_it_needs_and_resumes_elsewhere(
    tmp_path: Path,
) -> None:
    sent = tmp_path / "sent.txt"
    killed = python(tmp_path, "die", str(sent))
    assert killed.returncode == -signal.SIGKILL

    rows = [json.loads(line) for line in pegboard("runs", "--json").stdout.splitlines()]
    run = rows[0]["run"]
    told = pegboard("runs", "resume", run)
    resumed = python(tmp_path, "resume", str(sent), run)

    assert [(r["task"], r["status"]) for r in rows] == [("say hello", "interrupted")]
    assert told.returncode != 0
    assert "my_agent.py:send" in told.stderr + told.stdout
    assert f'agent.resume("{run}")' in told.stderr + told.stdout
    lines = resumed.stdout.splitlines()
    assert lines[:2] == ["done I do not know whether it was sent.", "You asked me to say hello."], (
        resumed.stderr
    )
    assert lines[2] == "['say hello', 'what did I ask?']"
    assert sent.read_text() == "hello"  # once


async def test_a_second_process_on_a_session_waits_and_is_told_who_holds_it(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "s.sqlite")
    lease = await Leases(store).acquire("s1")
    agent = Agent(model=ScriptedModel([{"text": "hi"}]), store=tmp_path / "s.sqlite", wait_s=0.1)

    with pytest.raises(ConfigError, match=f"process {os.getpid()}"):
        await agent.run("go", session="s1")
    patient = Agent(model=ScriptedModel([{"text": "hi"}]), store=tmp_path / "s.sqlite", wait_s=60)
    waiting = asyncio.ensure_future(patient.run("go", session="s1"))
    await asyncio.sleep(0)
    await lease.release()

    assert (await waiting).answer == "hi"
    await agent.aclose()
    await patient.aclose()
    await store.close()


async def test_a_session_in_memory_ends_with_its_agent_and_writes_nothing(own_home: Path) -> None:
    agent = Agent(model=ScriptedModel([{"text": "hi"}]), store="memory")

    answer = await agent.run("go", session="s1")

    assert answer.status == "done"
    assert not (own_home / ".local/state/pegboard").exists()
    assert (await agent.resume(answer.run_id)).answer == "hi"
    with pytest.raises(BuildError, match="no run"):
        await Agent(model=ScriptedModel([]), store="memory").resume("run_none")


async def test_a_session_goes_on_in_another_agent(tmp_path: Path) -> None:
    first = Agent(model=ScriptedModel([{"text": "Nice to meet you, Ann."}]), store=tmp_path / "s.sqlite")
    await first.run("I am Ann.", session="s1")
    await first.aclose()
    model = ScriptedModel([{"text": "Ann."}])
    second = Agent(model=model, store=tmp_path / "s.sqlite")

    answer = await second.run("Who am I?", session="s1")

    assert answer.answer == "Ann."
    assert [getattr(m, "text", "") for m in model.requests[0].messages] == [
        "I am Ann.", "Nice to meet you, Ann.", "Who am I?",
    ]  # fmt: skip
    await second.aclose()
