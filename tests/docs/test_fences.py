"""Every Python fence and every pegboard command in README and docs runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

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
def test_pegboard_commands_run(commands: str, workspace: Path) -> None:
    lines = [line[2:] for line in commands.splitlines() if line.startswith("$ pegboard ")]
    assert lines

    for line in lines:
        words = shlex.split(line, comments=True)
        done = subprocess.run(
            [sys.executable, "-m", "pegboard.cli.main", *words[1:]], cwd=workspace, capture_output=True, text=True,
            timeout=60, check=False, stdin=subprocess.DEVNULL, env={**os.environ, **ENVIRONMENT},
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
