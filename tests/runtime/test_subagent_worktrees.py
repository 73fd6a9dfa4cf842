"""Subagents with `isolation = "worktree"`: each works on a branch of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard import Agent, builtin
from pegboard.config.agent_files import AgentFiles
from pegboard.config.agents import agents_of, read_agents
from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from pegboard.core.events import CallFinished
from pegboard.core.transcript import ResultsMessage
from pegboard.models.scripted import ModelRequest
from pegboard.ports.subagents import AgentSpec
from pegboard.services.worktrees import Worktrees
from tests.cli.test_worktrees import git, worktrees
from tests.runtime.test_subagents import calls, two_minds

ROOT = Path(__file__).parents[2]
SPEC = AgentSpec(name="writer", tools=("write_file", "exec", "read_file"), isolation="worktree")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def agent(
    repository: Path, *turns: object, tools: tuple[str, ...] = ("call_subagent", "write_file")
) -> Agent:
    left = {"writer": iter(turns)}

    def child(request: ModelRequest) -> object:
        return next(left["writer"])

    parent = [calls("call_subagent", agent_name="writer", instruction="Write"), {"text": "ok"}]
    model = two_minds(parent, child)  # type: ignore[arg-type]
    return Agent(tools=builtin(*tools), model=model, workspace=repository, subagents=[SPEC])


async def report(agent: Agent) -> CallFinished:
    answer = await agent.run("Go", session="main")
    await agent.aclose()
    return next(e for e in answer.events if isinstance(e, CallFinished))


async def test_its_changes_are_on_a_branch_that_the_result_names(repository: Path) -> None:
    made = await report(
        agent(repository, calls("write_file", path="new.txt", content="n\n"), {"text": "Written."})
    )

    assert str(made.result).startswith("Written.\n\n") and "new.txt | 1 +" in str(made.result)
    assert not (repository / "new.txt").exists() and git(repository, "status", "--porcelain") == ""
    branch = git(repository, "branch", "--list", "--format=%(refname:short)", "pegboard/*").strip()
    assert f"git merge {branch}" in str(made.result)
    git(repository, "merge", "--quiet", branch)
    assert (repository / "new.txt").read_text() == "n\n"


async def test_a_worktree_without_changes_is_removed(repository: Path) -> None:
    made = await report(agent(repository, {"text": "Nothing to do."}))

    assert str(made.result) == "Nothing to do."
    assert worktrees(repository) == [] and git(repository, "branch", "--list", "pegboard/*") == ""


async def test_it_has_no_tool_that_its_parent_does_not_have(repository: Path) -> None:
    made = await report(agent(repository, calls("exec", command="touch x"), {"text": "No exec here."}))

    assert made.result.data["answer"] == "No exec here."
    assert worktrees(repository) == [] and not (repository / "x").exists()


@pytest.mark.slow
async def test_its_commands_run_in_the_worktree_too(repository: Path) -> None:
    made = await report(
        agent(
            repository,
            calls("exec", command="rm a.txt"),
            {"text": "Removed."},
            tools=("call_subagent", "exec"),
        )
    )

    assert "a.txt | 1 -" in str(made.result), str(made.result)
    assert (repository / "a.txt").exists()


async def test_outside_a_repository_the_model_reads_why(tmp_path: Path, repository: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()

    made = await report(agent(plain, {"text": "never"}))

    assert made.result.error is not None and "git repository" in made.result.error.message


async def test_two_at_once_do_not_meet(repository: Path) -> None:
    def child(request: ModelRequest) -> dict[str, object]:
        if any(isinstance(m, ResultsMessage) for m in request.messages):
            return {"text": "done"}
        name = "one" if "one" in str(request.messages) else "two"
        return calls("write_file", path="same.txt", content=f"{name}\n")

    both = {"calls": [{"name": "spawn", "arguments": {"agent": "writer", "task": t}} for t in ("one", "two")]}
    model = two_minds([both, {"text": "waiting"}, {"text": "1"}, {"text": "2"}], child)
    main = Agent(tools=builtin("spawn", "write_file"), model=model, workspace=repository, subagents=[SPEC])
    await main.run("Go", session="main")
    await main.aclose()

    assert sorted((tree / "same.txt").read_text() for tree in worktrees(repository)) == ["one\n", "two\n"]


PROGRAM = """
import asyncio, os, signal, sys
from pegboard import Agent, PURE, builtin, tool
from pegboard.core.transcript import ResultsMessage
from pegboard.models import ScriptedModel
from pegboard.ports.subagents import AgentSpec
sys.path.insert(0, {root!r})
from tests.runtime.test_subagents import calls, is_child

@tool(effects=PURE, idempotent=True)
async def pause() -> str:
    "Wait."
    if sys.argv[1] == "first":
        print("paused", file=sys.stderr, flush=True)
        await asyncio.sleep(600)
    return "went on"

def turn(request):
    seen = [str(r) for m in request.messages if isinstance(m, ResultsMessage) for r in m.results]
    if is_child(request):
        return ([calls("write_file", path="new.txt", content="n"), calls("pause"), {{"text": "Written."}}])[len(seen)]
    return {{"text": seen[-1]}} if seen else calls("call_subagent", agent_name="writer", instruction="Write")

spec = AgentSpec(name="writer", tools=("write_file", "pause"), isolation="worktree")
agent = Agent(tools=[*builtin("call_subagent", "write_file"), pause], model=ScriptedModel([turn] * 20),
              workspace={work!r}, subagents=[spec], store={store!r})

async def main():
    if sys.argv[1] == "first":
        async for event in agent.stream("Go", session="main"):
            if event.type == "run.started":
                print(event.run, flush=True)
    else:
        print((await agent.resume(sys.argv[1])).answer)
asyncio.run(main())
"""


async def test_after_a_kill_it_goes_on_in_the_same_worktree(tmp_path: Path, repository: Path) -> None:
    program = tmp_path / "program.py"
    store = tmp_path / "s.sqlite"
    program.write_text(PROGRAM.format(root=str(ROOT), work=str(repository), store=str(store)))
    first = subprocess.Popen(
        [sys.executable, str(program), "first"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert first.stdout is not None and first.stderr is not None
    run = first.stdout.readline().strip()
    assert first.stderr.readline() == "paused\n"
    (tree,) = worktrees(repository)
    assert (tree / "new.txt").read_text() == "n"
    first.send_signal(signal.SIGKILL)
    first.communicate()

    second = subprocess.run(
        [sys.executable, str(program), run], capture_output=True, text=True, timeout=60, check=False
    )

    assert "new.txt | 1 +" in second.stdout, second.stderr
    assert worktrees(repository) == [tree]


async def test_what_a_killed_process_left_unchanged_is_removed_by_the_next_one(
    tmp_path: Path, repository: Path
) -> None:
    paths = Paths.of()
    left = await Worktrees(paths, repository, os.environ).open("left")
    used = Worktrees(paths, repository, os.environ)
    in_use = await used.open("in use")
    os.close(left.lock)  # As the end of a process does.

    await Worktrees(paths, repository, os.environ).open("next")

    assert not left.root.exists() and in_use.root.exists()
    assert left.branch not in git(repository, "branch", "--list", "pegboard/*")


async def test_an_agent_file_and_the_settings_ask_for_a_worktree(tmp_path: Path) -> None:
    file = tmp_path / "writer.md"
    file.write_text("---\nname: writer\ndescription: Writes.\nisolation: worktree\n---\nWrite.\n")
    (described,) = agents_of(AgentFiles(agents=(file,)))
    (configured,) = read_agents({"writer": {"isolation": "worktree"}}, tmp_path / "pegboard.toml")

    assert described.isolation == configured.isolation == "worktree"
    with pytest.raises(ConfigError, match="isolation = 'container' is unknown"):
        read_agents({"writer": {"isolation": "container"}}, tmp_path / "pegboard.toml")
