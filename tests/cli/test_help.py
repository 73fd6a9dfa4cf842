"""Help pages, `pegboard help`, suggestions for what was mistyped, and completion in shells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command

from pegboard.cli.main import COMMANDS, app
from tests.cli.conftest import Run, argv, environment


def pages() -> Iterator[tuple[tuple[str, ...], Any]]:
    root = cast("Any", get_command(app))
    for name, command in root.commands.items():
        yield (name,), command
        for inner, one in getattr(command, "commands", {}).items():
            yield (name, inner), one


@pytest.mark.parametrize(("words", "command"), [pytest.param(w, c, id=" ".join(w)) for w, c in pages()])
def test_a_help_page_has_a_line_for_each_argument_and_no_type_names(
    pegboard: Run, words: tuple[str, ...], command: Any
) -> None:
    page = pegboard(*words, "--help").out

    assert [p.name for p in command.params if not p.help] == []
    assert not re.search(r"<\w|(?<!\$)\{\w|\[\[|\[required\]|\[default", page), page
    assert [line for line in page.splitlines() if len(line) > 80] == []


def test_no_summary_is_cut_at_80_columns(pegboard: Run) -> None:
    root, mcp = pegboard("--help").out, pegboard("mcp", "--help").out

    assert "..." not in mcp.split("Commands:")[1]
    for name, command in COMMANDS.items():
        assert len(command.help) < 60, name
        assert re.search(rf"^  {name} +{re.escape(command.help)}$", root, re.MULTILINE), name


def test_help_shows_a_commands_page_or_the_commands_with_a_word(pegboard: Run) -> None:
    assert pegboard("help").out == pegboard("--help").out
    assert pegboard("help", "undo").out == pegboard("undo", "--help").out
    assert pegboard("help", "mcp", "serve").out == pegboard("mcp", "serve", "--help").out
    found = pegboard("help", "approvals").out
    assert found == pegboard("approvals", "--help").out
    assert [line.split()[0] for line in pegboard("help", "offline").out.splitlines()] == ["replay"]
    assert "pegboard tools grep" in pegboard("help", "grep").err


def test_help_finds_the_words_of_actions_and_options(pegboard: Run) -> None:
    assert pegboard("help", "config", "set").out == pegboard("config", "--help").out
    assert pegboard("help", "runs", "resume").out == pegboard("runs", "--help").out
    assert [line.split()[0] for line in pegboard("help", "worktree").out.splitlines()] == ["run", "chat"]
    assert pegboard("help", "mcp", "nosuch").status == pegboard("help", "nosuch", "word").status == 2


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("rnu",), "run"),
        (("mcp", "serv"), "serve"),
        (("call", "read_file", "--previw"), "--preview"),
        (("help", "undoo"), "undo"),
        (("config", "set", "modle", "x"), "model"),
        (("tools", "read_fil"), "read_file"),
    ],
)
def test_what_was_mistyped_gets_the_nearest_name(pegboard: Run, words: tuple[str, ...], meant: str) -> None:
    done = pegboard(*words)

    assert done.status == 2
    assert re.search(rf"(?<![\w-]){meant}(?!\w)", done.err), done.err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ru", {"run", "runs"}),
        ("call read_f", {"read_file"}),
        ("mcp ser", {"serve"}),
        ("undo --pre", {"--preview"}),
    ],
)
def test_bash_completes_commands_tools_and_options(workspace: Path, typed: str, offered: set[str]) -> None:
    words = f"pegboard {typed}"
    done = subprocess.run(
        argv(), cwd=workspace, timeout=60, capture_output=True, text=True, check=True,
        env=environment(
            {"_PEGBOARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        ),
    )  # fmt: skip

    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_one(command: Run, tmp_path: Path, shell: str) -> None:
    script = tmp_path / "completion"
    script.write_text(command(env={"_PEGBOARD_COMPLETE": f"source_{shell}"}).out, encoding="utf-8")

    assert "_PEGBOARD_COMPLETE=complete_" in script.read_text(encoding="utf-8")
    if program := shutil.which(shell):
        subprocess.run([program, "-n", str(script)], check=True, timeout=60)


def test_a_shell_that_loads_the_script_completes(workspace: Path, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "pegboard"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pegboard.cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = (
        'eval "$(_PEGBOARD_COMPLETE=source_bash pegboard)"; COMP_WORDS=(pegboard rep); COMP_CWORD=1; '
        '_pegboard_completion pegboard; echo "${COMPREPLY[@]}"'
    )

    done = subprocess.run(
        [bash, "-c", script], cwd=workspace, timeout=60, capture_output=True, text=True, check=True,
        env=environment({"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}),
    )  # fmt: skip

    assert done.stdout.split() == ["replay"]
