"""A home folder of its own, a real workspace, and the command in this process or in another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

SRC = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("XDG_", "PEGBOARD_")) or name.endswith(("_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("TERM", "xterm")
    return folder


@pytest.fixture
def workspace(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\nworld\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def pegboard(workspace: Path) -> Run:
    """The command in this process."""
    from pegboard.cli.main import app

    def run(*arguments: str, stdin: str | bytes = "") -> Done:
        result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="pegboard")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def command(workspace: Path) -> Run:
    """The command in a process of its own."""

    def run(*arguments: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None) -> Done:
        done = subprocess.run(
            argv(*arguments), cwd=workspace, input=stdin, capture_output=True, env=environment(env), timeout=60,
            check=False,
        )  # fmt: skip
        return Done(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    return run


def argv(*arguments: str | bytes) -> list[str | bytes]:
    return [sys.executable, "-m", "pegboard.cli.main", *arguments]


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC), **(more or {})}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
