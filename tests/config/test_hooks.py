"""Hooks as files name them: Claude Code, Codex, goose, Deep Agents, and our own settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest import raises

from pegboard.config.hooks import read_hooks, scripts_of
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError
from pegboard.interop.hooks import Hook

GUARD = {"type": "command", "command": "guard.sh"}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(
        home=tmp_path / "home", config=tmp_path / "home/.config/pegboard", state=tmp_path / "s",
        data=tmp_path / "d", cache=tmp_path / "k",
    )  # fmt: skip
    made.config.mkdir(parents=True)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def written(file: Path, value: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


def test_the_settings_of_claude_code(tmp_path: Path) -> None:
    # As its reference shows it: groups with a matcher, each with hooks; other keys are its own.
    table = {
        "permissions": {"allow": ["Bash(ls)"]},
        "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [GUARD, {**GUARD, "timeout": 5}]}],
            "Stop": [{"hooks": [{**GUARD, "statusMessage": "checking"}]}],
        },
    }

    read = read_hooks(written(tmp_path / ".claude/settings.json", table))

    assert [(h.event, h.run, h.matcher, h.timeout_s) for h in read.hooks] == [
        ("PreToolUse", "guard.sh", "Bash", 60),
        ("PreToolUse", "guard.sh", "Bash", 5),
        ("Stop", "guard.sh", "", 60),
    ]
    assert all(h.foreign_names for h in read.hooks) and read.notes == ()


def test_a_plug_in_of_goose(tmp_path: Path) -> None:
    row = {"command": "${PLUGIN_ROOT}/x.sh", "timeout": 10, "on_failure": "block"}
    table = {"hooks": {"PreToolUse": [{"matcher": "developer__shell", "hooks": [row]}], "BeforeReadFile": []}}
    root = tmp_path / ".agents/plugins/mine"

    read = read_hooks(written(root / "hooks/hooks.json", table))

    (hook,) = read.hooks
    assert (hook.on_failure, hook.root, hook.blocks) == ("block", root, True)
    assert "BeforeReadFile" in read.notes[0]


def test_the_list_of_deep_agents(tmp_path: Path) -> None:
    table = {"hooks": [{"command": ["bash", "-c", "cat"], "events": ["session.start", "task.complete"]}]}

    read = read_hooks(written(tmp_path / ".deepagents/hooks.json", table))

    assert [(h.event, h.run) for h in read.hooks] == [
        ("SessionStart", ("bash", "-c", "cat")),
        ("Stop", ("bash", "-c", "cat")),
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"type": "prompt", "prompt": "Is it safe?"}, "type 'prompt'"),
        ({"type": "command"}, "no command"),
        ({**GUARD, "matcher": 3}, "its matcher"),
        ({**GUARD, "timeout": "soon"}, "number of seconds"),
        ({**GUARD, "on_failure": "stop"}, "on_failure"),
    ],
)
def test_a_hook_that_cannot_be_used_costs_only_itself(tmp_path: Path, row: Any, why: str) -> None:
    table = {"hooks": {"PreToolUse": [{"hooks": [row]}, {"hooks": [GUARD]}]}}

    read = read_hooks(written(tmp_path / "hooks.json", table))

    assert len(read.hooks) == 1
    assert len(read.notes) == 1 and why in read.notes[0] and "ignored" in read.notes[0]


def test_hooks_in_our_own_settings(paths: Paths, project: Path) -> None:
    written(paths.home / "mine.json", {"hooks": {"Stop": [{"hooks": [GUARD]}]}})
    (paths.config / "pegboard.toml").write_text(
        '[hooks]\nfiles = ["~/mine.json"]\non_failure = "block"\nenv = ["SLACK_URL"]\n'
        '[[hooks.PreToolUse]]\nmatcher = "exec"\ncommand = "check"\n'.replace("~", str(paths.home))
    )

    before, stop = load_config(paths, project).hooks

    assert (before.event, before.matcher, before.run, before.on_failure) == (
        "PreToolUse",
        "exec",
        "check",
        "block",
    )
    assert before.passed == ("SLACK_URL",) == stop.passed
    assert before.own and stop.event == "Stop" and not before.foreign_names


@pytest.mark.parametrize(
    "text",
    ["[hooks]\nfile = []\n", '[hooks]\non_failure = "stop"\n', '[[hooks.PreToolUse]]\nmatcher = "x"\n'],
)
def test_a_mistake_in_our_own_settings_is_an_error(paths: Paths, project: Path, text: str) -> None:
    (paths.config / "pegboard.toml").write_text(text)

    with raises(ConfigError, match="hooks"):
        load_config(paths, project)


def test_the_users_files_count_and_come_first(paths: Paths, project: Path) -> None:
    for place in (paths.config / "hooks.json", paths.home / ".agents/hooks.json"):
        written(place, {"hooks": {"Stop": [{"hooks": [{**GUARD, "command": str(place)}]}]}})

    config = load_config(paths, project)

    assert [h.run for h in config.hooks] == [
        str(paths.config / "hooks.json"),
        str(paths.home / ".agents/hooks.json"),
    ]
    assert all(h.own for h in config.hooks) and config.ignored == ()


def test_a_projects_hooks_count_when_they_and_their_scripts_are_trusted(paths: Paths, project: Path) -> None:
    command = 'sh "$CLAUDE_PROJECT_DIR"/scripts/check.sh --strict'
    file = written(
        project / ".claude/settings.json",
        {"hooks": {"PreToolUse": [{"hooks": [{**GUARD, "command": command}]}]}},
    )
    check = project / "scripts/check.sh"
    written(check, "true")
    trust = Trust(paths)

    def counted() -> int:
        config = load_config(paths, project)
        told = [i for i in config.ignored if "hooks file" in i]
        assert len(told) == (0 if config.hooks else 1)
        assert not told or told[0].endswith("is ignored until you run: pegboard trust .claude")
        return len(config.hooks)

    assert counted() == 0
    trust.add(file)
    assert counted() == 0
    trust.add(check)
    assert counted() == 1
    assert not load_config(paths, project).hooks[0].own
    written(check, "false")
    assert counted() == 0


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("$CLAUDE_PROJECT_DIR/check.sh >> $CLAUDE_PROJECT_DIR/log.txt 2>&1", ["check.sh"]),
        ("sh check.sh>log.txt", ["check.sh"]),
        ("sh check.sh &> log.txt", ["check.sh"]),
        ("(sh check.sh 2>| log.txt)", ["check.sh"]),
        ("date >> log.txt; sh check.sh; exit 0", ["check.sh"]),
        ("sh check.sh|tee log.txt", ["check.sh", "log.txt"]),
        ("sh < check.sh > log.txt", ["check.sh"]),
        ("echo x > log.txt && sh log.txt", ["log.txt"]),
        ("sh 'check.sh", []),
    ],
)
def test_the_files_that_a_command_runs_are_named_and_not_those_that_it_writes(
    project: Path, command: str, named: list[str]
) -> None:
    for name in ("check.sh", "log.txt"):
        (project / name).write_text("")

    assert [p.name for p in scripts_of([Hook(event="Stop", run=command)], project)] == named


def test_a_link_in_the_project_needs_trust_too(paths: Paths, project: Path, tmp_path: Path) -> None:
    written(tmp_path / "elsewhere/hooks.json", {"hooks": {"Stop": [{"hooks": [GUARD]}]}})
    (project / ".agents").symlink_to(tmp_path / "elsewhere")

    assert load_config(paths, project).hooks == ()


def test_a_project_that_the_settings_do_not_trust_brings_no_hooks(paths: Paths, project: Path) -> None:
    (project / "pegboard.toml").write_text('[[hooks.PreToolUse]]\ncommand = "true"\n')

    config = load_config(paths, project)

    assert config.hooks == () and "key 'hooks' is ignored" in config.ignored[0]
