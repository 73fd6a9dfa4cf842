"""Diagnostics on the command line: the text behind a write, and what `pegboard doctor` finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.conftest import Run


def test_a_call_prints_what_it_broke_behind_what_it_did(pegboard: Run) -> None:
    done = pegboard("call", "write_file", "path=a.py", "content=def f(:")

    assert done.status == 0
    first, _, second, third = done.out.splitlines()[:1] + done.out.splitlines()[-3:]
    assert first == "Successfully wrote 7 bytes to a.py"
    assert second == "[The write is done. It brought 1 new problem:]"
    assert third.startswith("a.py:1:7: error: SyntaxError: invalid syntax")


def test_doctor_shows_the_checkers_that_are_there_and_those_that_are_missing(
    pegboard: Run, home: Path
) -> None:
    settings = home / ".config/pegboard/pegboard.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        f'path_prepend = ["{Path(sys.executable).parent}"]\n'
        '[diagnostics.files]\n"*.py" = ["ruff", { command = ["no-such-lint", "{file}"] }]\n'
    )

    report = json.loads(pegboard("doctor", "--json").out)["diagnostics"]
    page = pegboard("doctor").out

    assert report["enabled"] is True
    assert report["used"] == ["no-such-lint", "ruff"]
    assert report["programs"]["ruff"] == str(Path(sys.executable).parent / "ruff")
    assert report["programs"]["no-such-lint"] is None
    assert "\n  no-such-lint: missing, used after writes\n" in page
    assert pegboard("help", "diagnostics").out.split()[0] == "doctor"
