"""Every row of the path corpus, through both ways of opening, races included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.files.openat import KernelOpener, Opener, WalkOpener
from tests.files.path_rows import run_row
from tests.ledger import DATA, owes

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (DATA / "security/paths.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
OPENERS: list[type[Opener]] = [KernelOpener, WalkOpener]


@pytest.fixture
def base() -> Iterator[Path]:
    # Not tmp_path: its parents are closed to other users, and one row runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="pegboard-paths-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("opener", OPENERS, ids=lambda o: o.__name__)
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["id"])
@owes("N-32", "N-33", "K-30")
def test_each_corpus_path_gets_its_verdict(row: dict[str, Any], opener: type[Opener], base: Path) -> None:
    if row.get("skip_root") and os.geteuid() == 0:
        run_as_another_user(row, opener.__name__, base)
    else:
        run_row(row, opener(), base)


def run_as_another_user(row: dict[str, Any], opener: str, base: Path) -> None:
    """Root may read everything, so that row runs in a child that is nobody."""
    base.chmod(0o777)
    code = (
        "import json, os, sys, pathlib, tests.files.path_rows as rows, pegboard.files.openat as openat\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "rows.run_row(json.loads(sys.argv[1]), getattr(openat, sys.argv[2])(), pathlib.Path(sys.argv[3]))\n"
    )
    repo = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(row), opener, str(base)],
        cwd=repo, env={"PYTHONPATH": f"{repo}:{repo / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
