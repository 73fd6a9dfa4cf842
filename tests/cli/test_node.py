"""`pegboard node` and `pegboard nodes` in processes of their own, beside a real `pegboard serve`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ledger import owes
from tests.waiting import until

pytestmark = pytest.mark.slow


def argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "pegboard.cli.main", *words]


@contextmanager
def running(home: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A command that goes on, and the file with what it prints."""
    home.mkdir(exist_ok=True)
    said = home / f"{words[0]}.txt"
    with said.open("w") as out:
        process = subprocess.Popen(
            argv(*words), env={**os.environ, "HOME": str(home)}, stderr=out, stdout=out, text=True
        )
    try:
        yield process, said
    finally:
        process.terminate()
        process.wait(30)


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(*words), env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, timeout=120, check=False,
        cwd=home,
    )  # fmt: skip


def found(file: Path, pattern: str) -> str:
    match = until(lambda: re.search(pattern, file.read_text()), f"{pattern} in {file.name}", within_s=60)
    return match[1]


@owes("X-51")
def test_a_second_machine_is_paired_notified_and_runs_what_its_own_policy_allows(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here / "w", there / "w"):
        folder.mkdir(parents=True)
    settings = there / ".config/pegboard"
    settings.mkdir(parents=True)
    (settings / "pegboard.toml").write_text('rules = ["allow exec:echo *"]\n')
    work = ("--workspace", str(here / "w"))

    with running(here, "serve", "--port", "0", *work) as (_, gateway):
        address = found(gateway, r"at (http://\S+);")
        with running(
            there, "node", "--gateway", address, "--name", "laptop", "--location", "52.5,13.4",
            "--workspace", str(there / "w"),
        ) as (process, node):  # fmt: skip
            code = found(node, r"pairing approve (\w+)")
            waiting = run(here, "pairing", "list")
            approved = run(here, "pairing", "approve", code)
            found(node, "connected to (.*)")
            listed = json.loads(run(here, "nodes", "--json", *work).stdout)
            asked = run(here, "call", "nodes", "action=location", *work)
            located = run(here, "call", "nodes", "action=location", "--yes", "--json", *work)
            notified = run(here, "call", "nodes", "action=notify", "text=Dinner is ready", "--yes", *work)
            echoed = run(
                here, "call", "nodes", "action=run", "command=echo from there", "--yes", "--json", *work
            )
            touched = run(here, "call", "nodes", "action=run", "command=touch x", "--yes", *work)
            history = run(there, "runs", "--workspace", str(there / "w"))
            removed = run(here, "nodes", "remove", "laptop", *work)
            until(lambda: node.read_text().count("pairing approve") == 2, "a new code")
            alive = process.poll() is None
        status = process.returncode
    shown = node.read_text()

    assert "laptop (machine, key " in waiting.stdout and approved.returncode == 0, approved.stderr
    assert [(n["name"], n["connected"], n["capabilities"]) for n in listed] == [
        ("laptop", True, ["notify", "location", "run"])
    ]
    assert asked.returncode == 3
    assert json.loads(located.stdout)["data"]["latitude"] == 52.5
    assert notified.returncode == 0 and "notice from the gateway: Dinner is ready" in shown
    assert "from there" in json.loads(echoed.stdout)["data"]["output"]
    assert (
        touched.returncode == 1 and "nobody is at the terminal of the node" in touched.stdout + touched.stderr
    )
    assert not (there / "w/x").exists() and not (here / "w/x").exists()
    assert "call exec" in history.stdout
    assert "laptop is removed" in removed.stdout and alive
    assert status == 0 and "stopped" in shown


def test_what_cannot_be_a_node_says_so(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    work = ("--workspace", str(tmp_path / "w"))
    plain = run(tmp_path, "node", "--gateway", "http://192.0.2.1:8770", *work)
    place = run(tmp_path, "node", "--gateway", "https://x.example", "--location", "north", *work)
    empty = run(tmp_path, "nodes", *work)
    unknown = run(tmp_path, "nodes", "remove", "tablet", *work)

    assert plain.returncode == 2 and "not encrypted" in plain.stderr
    assert place.returncode == 2 and "LAT,LON" in place.stderr
    assert empty.stdout == "no nodes\n"
    assert unknown.returncode != 0 and "no node is called 'tablet'" in unknown.stderr
