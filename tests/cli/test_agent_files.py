"""Hooks, skills and slash commands that people already have, on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pegboard.app.app import App
from pegboard.core.result import ToolResult
from tests.cli.conftest import Run

GUARD = """import json, sys
call = json.load(sys.stdin)
if "rm " in call["tool_input"].get("command", ""):
    print("use git rm", file=sys.stderr)
    sys.exit(2)
"""


@pytest.fixture
def guarded(workspace: Path) -> Path:
    """A project with a guard as Claude Code's settings name it, and a prompt."""
    hooks = workspace / ".claude/hooks"
    hooks.mkdir(parents=True)
    (hooks / "guard.py").write_text(GUARD)
    command = {"type": "command", "command": 'python3 "$CLAUDE_PROJECT_DIR/.claude/hooks/guard.py"'}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]}}
    (workspace / ".claude/settings.json").write_text(json.dumps(settings))
    (workspace / ".claude/commands").mkdir()
    (workspace / ".claude/commands/show.md").write_text("read $1")
    return workspace


def test_a_projects_hooks_count_after_one_command(guarded: Path, pegboard: Run) -> None:
    before = pegboard("call", "exec", "command=rm -f missing")
    assert before.status == 0, before.err
    assert (
        "note: 1 hooks file and 1 slash command of this project are ignored until you run: pegboard trust .claude"
        in (" ".join(before.err.split()))
    )

    trusted = pegboard("trust", ".claude")
    assert "guard.py is now trusted" in " ".join(trusted.out.split()) and "use git rm" in trusted.out

    after = pegboard("call", "exec", "command=rm a.txt", "--json")
    told = json.loads(after.out)
    assert after.status == 3 and told["decision"] == "deny"
    assert told["error"]["message"] == "exec was refused by hook guard.py: use git rm"
    assert (guarded / "a.txt").exists()
    assert pegboard("call", "exec", "command=echo hi").status == 0


def test_the_refusal_stands_in_the_record_with_the_hooks_name(guarded: Path, pegboard: Run) -> None:
    pegboard("trust", ".claude")
    pegboard("run", "--model", "local", "run `rm a.txt`")

    run = pegboard("runs").out.split("\n")[1].split()[0]

    assert "denied by hook guard.py" in pegboard("runs", "show", run).out


def test_what_a_hook_runs_is_changed_by_no_tool_unasked(guarded: Path, pegboard: Run) -> None:
    (guarded / "scripts").mkdir()
    (guarded / "scripts/check.sh").write_text("exit 0")
    hooks = {"hooks": {"PreToolUse": [{"hooks": [{"command": "sh scripts/check.sh"}]}]}}
    (guarded / ".claude/settings.json").write_text(json.dumps(hooks))
    pegboard("trust", ".claude")

    written = pegboard("call", "write_file", "path=scripts/check.sh", "content=exit 1", "--yes")

    assert written.status == 3 and "scripts/check.sh is protected" in " ".join(written.err.split())
    assert (guarded / "scripts/check.sh").read_text() == "exit 0"


def test_a_script_that_changes_during_a_session_lets_nothing_pass(guarded: Path, pegboard: Run) -> None:
    pegboard("trust", ".claude")

    async def two_calls() -> tuple[ToolResult, ToolResult]:
        with App.open(workspace=guarded) as app:
            async with app.executor() as executor:
                before = await executor.call("exec", {"command": "echo hi"})
                (guarded / ".claude/hooks/guard.py").write_text("print('anything')")
                return before, await executor.call("exec", {"command": "echo hi"})

    before, after = asyncio.run(two_calls())

    assert before.ok, before.text
    assert after.error is not None and "guard.py is not as you trusted it" in after.error.message
    # The next session leaves it out and says so.
    assert "ignored until you run" in pegboard("call", "exec", "command=echo hi").err


def test_a_prompt_from_a_file_is_sent_by_its_name(guarded: Path, pegboard: Run, command: Run) -> None:
    pegboard("trust", ".claude")

    chat = command("chat", "--model", "local", stdin=b"/help\n/show a.txt\n/nothing\n")

    assert "/show" in chat.out and "hello" in chat.out
    assert "unknown command /nothing" in chat.out


def test_skills_of_the_home_folder_are_there_without_settings(
    home: Path, workspace: Path, pegboard: Run
) -> None:
    folder = home / ".agents/skills/invoices"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: invoices\ndescription: Writes invoices.\n---\nUse the form.\n"
    )

    listed = pegboard("call", "list_skills")
    read = pegboard("call", "read_skill", "name=invoices")

    assert listed.out.strip() == "invoices: Writes invoices." and read.out.strip() == "Use the form."


def test_trust_is_taken_back_from_all_of_it(guarded: Path, pegboard: Run) -> None:
    pegboard("trust", ".claude")

    assert "no longer trusted" in pegboard("trust", "--remove", ".claude").out
    assert "nothing is trusted" in pegboard("trust", "--list").out
