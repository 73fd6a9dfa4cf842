"""`pegboard serve` as a process: its token, where it listens, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx2
import pytest


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pegboard.cli.main", "serve", "--port", "0", *words]


@contextmanager
def serving(
    folder: Path, *words: str, **variables: str
) -> Generator[tuple[str, IO[str], subprocess.Popen[str]]]:
    with subprocess.Popen(
        command(*words), cwd=folder, text=True, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            match = re.search(r"http://127\.0\.0\.1:\d+", first)
            assert match, first
            yield match[0], process.stderr, process
        finally:
            process.kill()


def get(url: str, token: str) -> int:
    with httpx2.Client(trust_env=False) as client:
        return client.get(f"{url}/api/runs", headers={"Authorization": f"Bearer {token}"}).status_code


@pytest.mark.slow
def test_a_token_is_made_and_printed_once_and_sigterm_ends_it(folder: Path) -> None:
    with serving(folder) as (url, errors, process):
        token = errors.readline().rsplit(" ", 1)[1].strip()
        console = errors.readline()
        status = get(url, token)
        process.send_signal(signal.SIGTERM)
        rest = errors.read()
        ended = process.wait(timeout=30)

    assert len(token) > 30 and status == 200
    assert console.endswith(f"{url}/#token={token}\n")
    assert ended == 0
    assert token not in rest and "Traceback" not in rest


@pytest.mark.slow
def test_the_token_of_the_environment_is_taken_and_not_printed(folder: Path) -> None:
    with serving(folder, PEGBOARD_TOKEN="of-the-environment") as (url, errors, process):
        statuses = get(url, "of-the-environment"), get(url, "another")
        process.send_signal(signal.SIGINT)
        rest = errors.read()

    assert statuses == (200, 401) and "of-the-environment" not in rest


@pytest.mark.slow
@pytest.mark.parametrize("token", ["", "short"])
def test_it_does_not_listen_for_other_machines_without_a_token(folder: Path, token: str) -> None:
    done = subprocess.run(
        command("--host", "0.0.0.0"), cwd=folder, text=True, capture_output=True, timeout=30, check=False,
        env={**os.environ, "PEGBOARD_TOKEN": token},
    )  # fmt: skip

    assert done.returncode == 2 and "PEGBOARD_TOKEN" in done.stderr


WAITS = {"calls": [{"name": "exec", "arguments": {"command": "sleep 1", "yield_ms": 60000}}]}
VARIABLES = {"PEGBOARD_TOKEN": "of-the-environment"}


@contextmanager
def client(url: str) -> Generator[httpx2.Client]:
    headers = {"Authorization": "Bearer of-the-environment"}
    with httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as opened:
        yield opened


def start(http: httpx2.Client, until: str) -> str:
    """A run that has come to an event of this type."""
    run: str = http.post("/api/runs", json={"task": "wait"}).json()["run"]
    with http.stream("GET", f"/api/runs/{run}/events") as events:
        assert any(line == f"event: {until}" for line in events.iter_lines())
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("number", "events"), [(signal.SIGTERM, 0), (signal.SIGKILL, 1)])
def test_a_run_ends_before_the_gateway_does_and_goes_on_after_a_crash(
    folder: Path, number: signal.Signals, events: int
) -> None:
    turns = folder.parent / "turns.jsonl"
    turns.write_text("\n".join(json.dumps(t) for t in (WAITS, {"text": "Over."})))
    words = ("--model", f"scripted:{turns}", "--mode", "full")

    with serving(folder, *words, **VARIABLES) as (url, _, process), client(url) as http:
        run = start(http, "call.started")
        process.send_signal(number)
        ended = process.wait(timeout=30)
    with serving(folder, *words, **VARIABLES) as (url, _, process), client(url) as http:
        with http.stream("GET", f"/api/runs/{run}/events") as stream:
            seen = [line for line in stream.iter_lines() if line.startswith("event: ")]
        shown = http.get(f"/api/runs/{run}").json()

    assert ended == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert seen.count("event: run.resumed") == events
    assert (shown["status"], shown["answer"]) == ("done", "Over.")
