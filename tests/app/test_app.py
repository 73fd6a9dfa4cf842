"""The composition root: executors, wiring and the opened App."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pegboard import (
    PURE,
    Agent,
    BuildError,
    Effect,
    Executor,
    Policy,
    ReadPath,
    Rule,
    builtin,
    run_sync,
    tool,
)
from pegboard.app.app import App
from pegboard.app.ports import SuspendingPeople
from pegboard.app.shell import git_settings, in_thread, workspace_id
from pegboard.app.wiring import Wiring
from pegboard.config.environment import secrets_of
from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.core.events import RunFinished
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.toolkit import Toolkit
from pegboard.models import ScriptedModel
from pegboard.ports.people import Question
from pegboard.services.runtime import Interaction
from tests.ledger import owes


@tool(effects=PURE)
async def ok(text: str = "fine") -> str:
    """Say."""
    return text


@tool
def look(path: ReadPath) -> str:
    """Look at a path."""
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("alpha\n")
    return tmp_path / "w"


# -- the small doors --------------------------------------------------------------------------


def test_run_sync_runs_a_coroutine_and_refuses_inside_a_loop() -> None:
    assert str(run_sync(Executor([ok]).call("ok"))) == "fine"

    async def inside() -> None:
        work = Executor([ok]).call("ok")
        with pytest.raises(RuntimeError, match="await the coroutine"):
            run_sync(work)

    asyncio.run(inside())


def test_builtin_names_are_checked_with_the_nearest() -> None:
    assert builtin("grep").names == ("grep",)
    assert "read_file" in builtin().names
    with pytest.raises(BuildError, match="did you mean 'grep'"):
        builtin("grpe")
    with pytest.raises(BuildError, match="known: "):
        builtin("zzzzzz")


def test_a_pure_kit_takes_no_workspace_and_a_path_tool_the_named_one(folder: Path) -> None:
    assert Executor([ok]).context.workspace is None
    assert Executor([look], workspace=folder).context.workspace == folder.resolve()
    with pytest.raises(ConfigError, match="does not exist or is not a folder"):
        Executor([look], workspace=folder / "none")


@owes("X-25")
def test_the_current_folder_is_refused_where_nobody_named_it_and_it_is_no_place_for_tools(
    monkeypatch: pytest.MonkeyPatch, own_home: Path, folder: Path
) -> None:
    monkeypatch.chdir(own_home)
    with pytest.raises(ConfigError, match=r"home folder.*--workspace"):
        Executor([look])
    assert Executor([look], workspace=own_home).context.workspace == own_home.resolve()
    monkeypatch.chdir(folder)
    assert Executor([look]).context.workspace == folder.resolve()


async def test_paths_are_resolved_and_denied_by_rules_in_the_files_port_too(folder: Path) -> None:
    (folder / "secret").mkdir()
    (folder / "secret" / "k").write_text("alpha key\n")
    policy = Policy(rules=(Rule.parse("deny read:secret reason=private"),))

    async with Executor(builtin("read_file", "grep"), workspace=folder, policy=policy) as door:
        assert "alpha" in str(await door.call("read_file", {"path": "a.txt"}))
        refused = await door.call("read_file", {"path": "x/../secret/k"})
        found = await door.call("grep", {"pattern": "alpha"})

    assert not refused.ok
    assert "key" not in str(found)


@owes("K-37")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_file", {"path": "a.txt", "old_string": "alpha", "new_string": "beta"}),
        ("write_file", {"path": "a.txt", "content": "beta\n"}),
        (
            "apply_patch",
            {"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-alpha\n+beta\n*** End Patch"},
        ),
    ],
)
async def test_a_file_that_others_changed_since_it_was_read_is_not_written_over(
    folder: Path, name: str, arguments: dict[str, str]
) -> None:
    door = Executor(builtin("read_file", name), workspace=folder)
    await door.call("read_file", {"path": "a.txt"})
    (folder / "a.txt").write_text("alpha\nby hand\n")

    result = await door.call(name, arguments)

    assert result.error is not None
    assert result.error.code == "conflict"
    assert "+by hand" in result.error.message
    assert (folder / "a.txt").read_text() == "alpha\nby hand\n"
    await door.call("read_file", {"path": "a.txt"})
    assert (await door.call(name, arguments)).ok
    await door.aclose()


@owes("K-37")
async def test_a_state_folder_that_cannot_be_made_stops_changes_with_a_reason_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none/cache")
    door = Executor(builtin("read_file", "write_file", "exec"), workspace=folder)

    read = await door.call("read_file", {"path": "a.txt"})
    written = await door.call("write_file", {"path": "b.txt", "content": "x"})
    ran = await door.call("exec", {"command": "cat a.txt"})

    assert read.ok
    assert written.error is not None
    assert written.error.code == "unavailable"
    assert "XDG_STATE_HOME" in (written.error.hint or "")
    assert not (folder / "b.txt").exists()
    assert ran.ok
    assert "alpha" in str(ran)
    await door.aclose()


async def test_an_executor_that_is_let_go_keeps_no_descriptor(folder: Path) -> None:
    async def use() -> None:
        await Executor(builtin("read_file"), workspace=folder).call("read_file", {"path": "a.txt"})

    await use()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await use()
    gc.collect()

    assert len(os.listdir("/proc/self/fd")) == before


def test_policies_modes_and_home_rules() -> None:
    kit = Toolkit([ok])

    assert Wiring.of(kit, mode="ask").policy.mode == "ask"
    assert Wiring.of(kit, policy=Policy(mode="full")).policy.mode == "full"
    assert Wiring.of(kit, policy=["deny read:~/x"]).policy.home == str(Paths.of().home.resolve())
    assert Wiring.of(kit, policy=["deny read:x"]).policy.home == ""
    assert Wiring.of(kit, policy=Policy(home="/h", rules=(Rule.parse("deny read:~/x"),))).policy.home == "/h"
    with pytest.raises(ConfigError, match="unknown mode"):
        Wiring.of(kit, mode="yolo")


async def test_what_was_started_is_ended_last_first() -> None:
    order: list[str] = []
    wiring = Wiring.of(Toolkit([ok]))

    async def later() -> None:
        order.append("first started")

    wiring.closers += [later, lambda: order.append("last started")]
    async with Executor([ok], wiring=wiring):
        pass

    assert order == ["last started", "first started"]


async def test_an_answer_is_kept_for_the_session() -> None:
    asked: list[str] = []

    class ProtocolSession:
        async def decide(self, request: Any) -> str:
            asked.append(request.id)
            return "session"

    @tool(effects=[Effect("send", "x")])
    async def send() -> str:
        """Send."""
        return "sent"

    door = Executor([send], approver=ProtocolSession())
    assert (await door.call("send")).ok
    assert (await door.call("send")).ok
    assert len(asked) == 1


async def test_nobody_there_keeps_the_question() -> None:
    waiting = await SuspendingPeople().ask([Question(text="which?", options=("a", "b"))])

    assert (waiting.kind, waiting.detail) == ("question", {"question": "which?", "options": ["a", "b"]})


def test_secrets_are_known_by_their_names() -> None:
    found = secrets_of(
        {"API_KEY": "abcdefgh", "KEY": "short", "HOME": "/home/longer", "SSH_KEY": "/a/path/to/key"}
    )

    assert found == {"API_KEY": "abcdefgh"}


def test_a_workspace_has_an_identity_of_device_inode_and_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = workspace_id(tmp_path / "a")
    assert workspace_id(tmp_path / "a") == first
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").mkdir()

    assert workspace_id(tmp_path / "a") != first


def test_git_tells_who_the_user_is_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_settings(tmp_path, tmp_path) == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_settings(tmp_path / "..", tmp_path) == {}


def test_git_is_asked_again_when_a_file_that_it_reads_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    mine, taken = tmp_path / ".gitconfig", tmp_path / "taken"

    mine.write_text("[user]\n\tname = A\n")
    assert git_settings(tmp_path, tmp_path) == {"user.name": "A"}
    mine.write_text(f"[include]\n\tpath = {taken}\n")
    taken.write_text("[user]\n\tname = B\n")
    assert git_settings(tmp_path, tmp_path) == {"user.name": "B"}
    taken.write_text("[user]\n\tname = C\n")
    assert git_settings(tmp_path, tmp_path) == {"user.name": "C"}


async def test_a_coroutine_runs_in_a_thread_inside_a_loop_and_its_error_comes_back() -> None:
    async def fine() -> int:
        return 5

    async def bad() -> int:
        raise KeyError("x")

    assert in_thread(fine()) == 5
    with pytest.raises(KeyError):
        in_thread(bad())


# -- the opened App ---------------------------------------------------------------------------


def opened(folder: Path, **options: Any) -> App:
    return App.open(workspace=folder, **options)


def test_an_app_opens_by_the_settings_of_user_project_and_command_line(folder: Path, own_home: Path) -> None:
    config = own_home / ".config" / "pegboard"
    config.mkdir(parents=True)
    (config / "pegboard.toml").write_text('mode = "ask"\ntools = ["grep"]\nrules = ["deny read:x"]')
    (folder / "rules.txt").write_text("deny read:y\n")

    with opened(folder) as app:
        assert (app.policy.mode, app.toolkit.names) == ("ask", ("grep",))
        assert [str(r) for r in app.policy.rules] == ["deny read:x"]
    with opened(folder, mode="full", policy=folder / "rules.txt") as app:
        assert app.policy.mode == "full"
        assert [str(r) for r in app.policy.rules] == ["deny read:y"]
    with pytest.raises(ConfigError, match="does not exist or is not a folder"):
        opened(folder / "none")


@owes("X-56")
async def test_a_further_folder_that_is_missing_costs_only_itself(folder: Path, own_home: Path) -> None:
    config = own_home / ".config" / "pegboard"
    config.mkdir(parents=True)
    (own_home / "more").mkdir()
    (own_home / "more" / "c.txt").write_text("there")
    (config / "pegboard.toml").write_text(
        'allowed_dirs = ["/no/such", "~/more"]\nread_only_dirs = ["/nor/this"]'
    )

    with opened(folder) as app:
        async with app.executor(Interaction(approver=AllowOnce())) as executor:
            result = await executor.call("read_file", {"path": str(own_home / "more" / "c.txt")})

        assert "there" in str(result)
        assert app.config.ignored == (
            f"{config}/pegboard.toml: allowed_dirs: /no/such is not a folder that can be opened",
            f"{config}/pegboard.toml: read_only_dirs: /nor/this is not a folder that can be opened",
        )


@owes("G-05")
async def test_a_call_is_a_run_that_is_recorded_and_verified(folder: Path) -> None:
    with opened(folder) as app:
        app._offered._toolkit = builtin("read_file", "write_file")
        arguments = {"path": "b.txt", "content": "new"}
        preview = await app.calls.preview("write_file", arguments)
        outcome = await app.calls.call("write_file", arguments)
        out = outcome.to_dict()

        assert preview.decision == "allow"
        assert (out["ok"], out["decision"], out["changes"][0]["path"]) == (True, "allow", "b.txt")
        assert (folder / "b.txt").read_text() == "new"
        row = await app.runs.get(out["run"][:12])
        events = [event async for event in app.runs.events(row)]
        assert (row.status, await app.sessions.list()) == ("done", ["cli"])
        assert events[-1].type == "run.finished"
        assert await app.sessions.history("cli") == events
        assert await app.audit.verify("cli") == {"cli": []}
        with pytest.raises(ConfigError, match="no run with ID"):
            await app.runs.get("nope")
        with pytest.raises(ConfigError, match="no session"):
            await app.audit.verify("never")
        json.dumps(out)


async def test_a_denied_call_says_deny_and_policy_diff_finds_what_would_change(folder: Path) -> None:
    with opened(folder, mode="full") as app:
        app._offered._toolkit = builtin("write_file")
        await app.calls.call("write_file", {"path": "c.txt", "content": "x"})
    with opened(folder, mode="read-only") as app:
        app._offered._toolkit = builtin("write_file")
        outcome = await app.calls.call(
            "write_file", {"path": "d.txt", "content": "x"}, Interaction(approver=AllowOnce())
        )
        assert outcome.decision == "deny"
        changed = await app.policies.diff(3600)
        assert [(c["before"], c["now"]) for c in changed] == [("allow", "deny")]
        assert await app.policies.diff(-3600) == []


@owes("G-10")
async def test_a_run_of_the_app_is_kept_taken_up_and_shown_as_one_run(folder: Path) -> None:
    script = f"scripted:{folder / 's.jsonl'}"
    (folder / "s.jsonl").write_text('{"calls": [{"name": "ok"}]}\n{"text": "done"}\n')
    with opened(folder) as app:
        app._offered._toolkit = Toolkit([ok])
        async with app.executor(session="s") as door:
            assert app.agent(door, model=script, turns=5).limits.turns == 5
            assert app.agent(door, model=script).limits.turns == 40
        events = [e async for e in app.runs.start("go", session="s", model=script)]
        row = await app.runs.get(events[0].run)  # type: ignore[union-attr]
        assert row.status == "done"
        # The process had ended after its first call:
        cut = [e for e in await app.sessions.history("s") if e.type not in ("run.finished",)][:4]
        again = Agent(model=ScriptedModel([{"text": "done"}]), tools=[ok])
        async with app.history.log("t", run=row.id) as log:
            later = [e async for e in again.resume_events(row.id, cut, recorder=log)]
        assert isinstance(later[-1], RunFinished)
        assert {e.run async for e in app.history.records("t")} == {row.id}


async def test_a_home_rule_of_the_user_holds_in_the_app(folder: Path, own_home: Path) -> None:
    (own_home / "notes").mkdir()
    (own_home / "notes" / "n").write_text("private")
    (folder / "rules.txt").write_text("deny read:~/notes\n")

    with opened(folder, mode="full", policy=folder / "rules.txt") as app:
        app._offered._toolkit = builtin("read_file")
        outcome = await app.calls.call("read_file", {"path": str(own_home / "notes" / "n")})

    assert not outcome.result.ok
    assert "private" not in str(outcome.result)
    assert os.environ["HOME"] == str(own_home)


class Broken:
    """A tool source that cannot be opened."""

    revision = 0

    async def tools(self) -> list[Any]:
        raise Unavailable("server 'weather' could not be started", hint="Install it.")

    async def aclose(self) -> None:
        pass


async def test_tools_that_are_missing_because_a_source_is_down_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []
    async with Executor([Broken()]) as door:
        await door.call("weather", {})
        door.on_warning = said.append
        result = await door.call("weather", {})

    assert result.error is not None and result.error.code == "unknown_tool"
    assert said == ["its tools are missing: server 'weather' could not be started. Install it."]
    assert [r.message for r in caplog.records if r.name == "pegboard.sources"] == said


async def test_an_agent_is_ended_with_its_block_as_an_executor_is() -> None:
    closed: list[bool] = []

    class Source(Broken):
        async def aclose(self) -> None:
            closed.append(True)

    async with Agent(tools=[Source()], model=ScriptedModel([{"text": "Hi."}])) as agent:
        answer = await agent.run("Hello?")
        assert closed == []

    assert (answer.answer, closed) == ("Hi.", [True])


async def test_the_last_change_is_taken_back_and_made_again_and_without_files_there_is_none(
    folder: Path,
) -> None:
    before = (folder / "a.txt").read_text()
    async with Executor(builtin("write_file"), workspace=folder) as door:
        await door.call("write_file", {"path": "a.txt", "content": "changed"})
        undone = await door.undo()
        now = (folder / "a.txt").read_text()
        redone = await door.undo(redo=True)

    assert (undone.applied, now, redone.applied) == (True, before, True)
    assert (folder / "a.txt").read_text() == "changed"
    with pytest.raises(BuildError, match="no tools that work on files"):
        await Executor([]).undo()
