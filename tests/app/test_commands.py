"""Commands through the whole of the app: guard, confinement, snapshots and ending."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pegboard import Agent, Policy, Rule, ToolCall, builtin
from pegboard.app.commands import choose_backend
from pegboard.app.executor import Executor
from pegboard.app.snapshots import JournalSnapshots
from pegboard.app.wiring import Wiring
from pegboard.config.load import Config
from pegboard.config.paths import Paths
from pegboard.core.events import CallStarted, MemoryRecorder
from pegboard.files.journal import Journal
from pegboard.models import ScriptedModel
from tests.ledger import owes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


@pytest.mark.slow
@owes("G-01")
async def test_a_command_runs_confined_and_what_it_changed_is_its_change(folder: Path) -> None:
    async with Executor(builtin("exec", "process"), workspace=folder, mode="full") as door:
        result = await door.call("exec", {"command": "echo hi > new.txt"})
        assert door.policy.sandboxed is (door.wiring.banner == "" or "no sandbox" not in door.wiring.banner)

    assert result.ok, str(result)
    assert (folder / "new.txt").read_text() == "hi\n"
    assert [c["path"] for c in result.data["changes"]] == ["new.txt"]


def running(mark: str) -> list[str]:
    """Command lines of live processes that hold `mark`."""
    out: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if mark in line and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    out.append(line)
            except OSError:
                continue
    return out


@pytest.mark.slow
@owes("K-15")
async def test_a_cancelled_run_leaves_no_process_behind(folder: Path) -> None:
    mark = "271.828"
    model = ScriptedModel([{"calls": [{"name": "exec", "arguments": {"command": f"sleep {mark}"}}]}])
    agent = Agent(model=model, tools=[builtin("exec")], workspace=folder, mode="full")
    recorder = MemoryRecorder(keep=None)
    work = asyncio.ensure_future(agent.run("sleep", recorder=recorder))
    async with asyncio.timeout(30):
        while not running(f"sleep {mark}"):
            assert not work.done(), work.result()
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    async with asyncio.timeout(10):
        while running(f"sleep {mark}"):
            await asyncio.sleep(0.01)
    assert any(isinstance(e, CallStarted) for e in recorder.events)
    await agent.aclose()


@pytest.mark.slow
def test_paths_that_rules_deny_are_masked_inside_for_home_rules_too(folder: Path, own_home: Path) -> None:
    (own_home / "private").mkdir()
    rules = ["deny read:~/private", "deny write:/etc/motd", "deny write:src/gen", "deny read:*.pem"]
    wiring = Wiring.of(builtin("exec").without("exec"), policy=Policy(rules=tuple(map(Rule.parse, rules))))

    choice = choose_backend(wiring, folder, Paths.of(), Config(), backend="none")

    assert choice.backend.name == "none"


async def test_a_snapshot_outside_a_call_still_finds_the_changes(folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_text("1")
    snapshot = await JournalSnapshots(folder, Journal(tmp_path / "journal")).take()
    (folder / "a").write_text("22")
    (folder / "b").write_text("new")

    captured = await snapshot.changes()

    assert sorted((c.path, c.kind) for c in captured.changes.changes) == [("a", "modify"), ("b", "create")]


async def test_the_executor_explains_previews_turns_and_keeps_events(folder: Path) -> None:
    door = Executor(builtin("read_file"), workspace=folder, policy=["deny read:*.pem"])

    assert (await door.explain("read_file", {"path": "k.pem"}))["decision"] == "deny"
    assert "error" in await door.explain("read_file", {})
    assert (await door.preview("read_file", {"path": "k.pem"})).decision == "deny"
    results = await door.turn([ToolCall("1", "read_file", {"path": "k.pem"})])
    assert [r.ok for r in results] == [False]
    assert [e.type for e in door.events] == ["call.started", "call.finished"]
    await door.aclose()
