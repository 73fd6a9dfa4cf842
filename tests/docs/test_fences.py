"""Every Python fence and every pegboard command in README and docs runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pegboard

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "src")}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(language: str) -> list[object]:
    """All fences of one language, with page and number as id."""
    found = [
        pytest.param(match[2], id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), 1)
        if match[1] == language
    ]
    return list(found)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with what the pages talk about."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("The release is on Friday.\n", encoding="utf-8")
    (folder / "a.txt").write_text("one two three\n", encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("code", fences("python"))
def test_python_fences_run(code: str, workspace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("commands", fences("console"))
def test_pegboard_commands_run_and_print_what_the_page_shows(
    commands: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process: a new interpreter for each would take most of the time. `own_home` gives a history of its own.
    from pegboard.cli.main import app

    monkeypatch.chdir(workspace)
    steps = [step.splitlines() for step in re.split(r"^\$ ", commands, flags=re.MULTILINE) if step]
    assert steps

    for line, *shown in steps:
        program, *words = shlex.split(line, comments=True)
        assert program == "pegboard"
        done = CliRunner().invoke(app, words, prog_name=program)
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
        printed = (done.stdout + done.stderr).splitlines()
        assert [s for s in shown if s not in printed] == [], f"{line}\n{done.output}"


def test_every_public_name_stands_in_code_that_runs() -> None:
    code = "\n".join(
        match[2]
        for page in PAGES
        for match in FENCE.finditer(page.read_text(encoding="utf-8"))
        if match[1] == "python"
    )

    assert [name for name in pegboard.__all__ if not re.search(rf"\b{name}\b", code)] == []
    table = (ROOT / "docs/guides/names.md").read_text(encoding="utf-8")
    assert [name for name in pegboard.__all__ if f"`{name}`" not in table] == []


def test_every_guide_is_reached_from_the_first_page() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")

    assert [p.name for p in (ROOT / "docs/guides").glob("*.md") if f"(guides/{p.name})" not in index] == []
