"""`pegboard run --worktree`: the run works on a branch of its own, and nothing changes where the person works."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Run


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(workspace: Path) -> Path:
    (workspace / "part").mkdir()
    (workspace / "part" / "b.txt").write_text("b\n")
    git(workspace, "init", "--quiet")
    git(workspace, "add", "--all")
    git(workspace, "commit", "--quiet", "-m", "first")
    (workspace / "a.txt").write_text("mine, not committed\n")
    return workspace


def worktrees(repository: Path) -> list[Path]:
    rows = git(repository, "worktree", "list", "--porcelain").splitlines()
    return [Path(r.removeprefix("worktree ")) for r in rows if r.startswith("worktree ")][1:]


def script(folder: Path, *calls: dict[str, object]) -> str:
    path = folder.parent / "script.jsonl"
    turns = [{"calls": list(calls)}, {"text": "done"}] if calls else [{"text": "done"}]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return f"scripted:{path}"


def write(path: str, content: str) -> dict[str, object]:
    return {"name": "write_file", "arguments": {"path": path, "content": content}}


def run(pegboard: Run, model: str, *more: str) -> Done:
    return pegboard("run", "work", "--model", model, "--worktree", *more)


def test_what_a_run_changes_stays_on_its_branch_and_is_named(pegboard: Run, repository: Path) -> None:
    done = run(pegboard, script(repository, write("new.txt", "n\n"), write("a.txt", "theirs\n")))

    assert done.status == 0, done.err
    (tree,) = worktrees(repository)
    assert (tree / "new.txt").read_text() == "n\n" and (tree / "a.txt").read_text() == "theirs\n"
    assert (repository / "a.txt").read_text() == "mine, not committed\n"
    assert git(repository, "status", "--porcelain").split() == ["M", "a.txt"]
    assert "2 files changed" in done.err and str(tree) in done.err
    assert "without your 1 uncommitted file" in done.err
    branch = git(tree, "branch", "--show-current").strip()
    assert f"git merge {branch}" in done.err


def test_a_worktree_without_changes_is_removed_with_its_branch(pegboard: Run, repository: Path) -> None:
    done = run(pegboard, script(repository, {"name": "read_file", "arguments": {"path": "a.txt"}}))

    assert done.status == 0 and "it is removed" in done.err
    assert "hello" in done.err  # As it was committed, not as it lies in the workspace.
    assert worktrees(repository) == []
    assert len(git(repository, "branch", "--list").splitlines()) == 1


def test_the_next_run_of_a_session_goes_on_in_its_worktree(pegboard: Run, repository: Path) -> None:
    run(pegboard, script(repository, write("new.txt", "one\n")), "--session", "s")
    done = run(pegboard, script(repository, {"name": "read_file", "arguments": {"path": "new.txt"}}), "--session", "s")  # fmt: skip

    assert "one" in done.err and len(worktrees(repository)) == 1


def test_what_was_committed_there_keeps_the_worktree(pegboard: Run, repository: Path) -> None:
    run(pegboard, script(repository, write("new.txt", "one\n")), "--session", "s")
    (tree,) = worktrees(repository)
    git(tree, "commit", "--quiet", "--all", "-m", "theirs")

    done = run(pegboard, script(repository), "--session", "s")
    assert worktrees(repository) == [tree] and "new.txt" in done.err

    git(repository, "stash")
    git(repository, "merge", "--quiet", git(tree, "branch", "--show-current").strip())
    assert (repository / "new.txt").exists()
    run(pegboard, script(repository), "--session", "s")  # All of it is merged: nothing is left to keep.
    assert worktrees(repository) == []


def test_a_subfolder_stays_the_workspace(pegboard: Run, repository: Path) -> None:
    part = repository / "part"
    model = script(repository, {"name": "read_file", "arguments": {"path": "b.txt"}}, {"name": "read_file", "arguments": {"path": "../a.txt"}})  # fmt: skip
    done = run(pegboard, model, "--workspace", str(part), "--json")

    results = [json.loads(line) for line in done.out.splitlines() if '"call.finished"' in line]
    assert [r["result"]["error"] is None for r in results] == [True, False]


def test_a_subfolder_of_which_nothing_is_committed_is_empty_there(pegboard: Run, repository: Path) -> None:
    (repository / "draft").mkdir()
    (repository / "draft" / "mine.txt").write_text("mine\n")

    done = run(
        pegboard, script(repository, write("new.txt", "n\n")), "--workspace", str(repository / "draft")
    )

    assert done.status == 0, done.err
    (tree,) = worktrees(repository)
    assert [p.name for p in (tree / "draft").iterdir()] == ["new.txt"]


def test_a_run_that_waits_keeps_its_worktree_and_goes_on_there(pegboard: Run, repository: Path) -> None:
    (repository.parent / "ask.toml").write_text('rules = ["ask write:**"]')
    policy = ("--policy", "../ask.toml")
    waiting = run(pegboard, script(repository, write("new.txt", "n\n")), *policy, "--on-ask", "suspend")

    assert waiting.status == 4
    (tree,) = worktrees(repository)
    assert f"--workspace {tree}" in waiting.err
    asked = json.loads(pegboard("approvals", "list", "--json").out)
    pegboard("approvals", "approve", asked["approval"])
    done = pegboard("runs", "resume", "--workspace", str(tree), *policy)
    assert done.status == 0, done.err
    assert (tree / "new.txt").read_text() == "n\n" and not (repository / "new.txt").exists()


def test_settings_that_are_trusted_hold_in_the_worktree(pegboard: Run, repository: Path) -> None:
    (repository / "pegboard.toml").write_text('rules = ["deny write:new.txt"]\n')
    git(repository, "add", "pegboard.toml")
    git(repository, "commit", "--quiet", "-m", "settings")
    pegboard("trust")
    done = run(pegboard, script(repository, write("new.txt", "n\n")))

    assert "[deny]" in done.err and worktrees(repository) == []
    assert pegboard("trust", "--list").out.count("pegboard.toml") == 1


def test_without_a_repository_it_says_what_to_do(pegboard: Run, workspace: Path) -> None:
    done = run(pegboard, script(workspace))
    assert done.status == 2 and "git init" in done.err


def test_without_a_commit_it_says_so(pegboard: Run, workspace: Path) -> None:
    git(workspace, "init", "--quiet")
    done = run(pegboard, script(workspace))
    assert done.status == 2 and "no commit" in done.err


def test_a_run_that_cannot_begin_leaves_no_worktree(pegboard: Run, repository: Path) -> None:
    done = run(pegboard, "scripted:/nowhere.jsonl")
    assert done.status != 0 and worktrees(repository) == []
    assert len(git(repository, "branch", "--list").splitlines()) == 1


@pytest.mark.slow
def test_where_the_worktree_belongs_to_is_not_changed_by_a_command(pegboard: Run, repository: Path) -> None:
    (repository / "make.py").write_text(
        "open('new.txt', 'w').write('n')\ntry:\n    open('.git', 'w').write('gitdir: /nowhere')\nexcept OSError as error:\n    print(error)\n"
    )
    git(repository, "add", "make.py")
    git(repository, "commit", "--quiet", "-m", "a script")
    evil: dict[str, object] = {"name": "exec", "arguments": {"command": "python3 make.py"}}
    done = run(pegboard, script(repository, evil), "--yes")
    (tree,) = worktrees(repository)
    assert (tree / "new.txt").exists(), done.err
    assert (tree / ".git").read_text().startswith(f"gitdir: {repository}/.git/worktrees/"), done.err


def test_a_chat_works_in_its_worktree_and_continues_there(command: Run, repository: Path) -> None:
    model = script(repository, write("new.txt", "n\n"))
    done = command("chat", "--worktree", "--session", "c", "--model", model, stdin=b"work\n")

    assert done.status == 0, done.err
    (tree,) = worktrees(repository)
    assert (tree / "new.txt").read_text() == "n\n" and not (repository / "new.txt").exists()
    assert "pegboard chat --worktree --session c" in done.err

    command("chat", "--worktree", "--session", "c", "--model", script(repository, write("two.txt", "n\n")), stdin=b"more\n")  # fmt: skip
    assert worktrees(repository) == [tree] and (tree / "two.txt").exists()
