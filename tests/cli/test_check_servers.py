"""`pegboard check SERVER` on real servers: each check runs on the server, or says why it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.runtime.checks import CHECKS
from pegboard.runtime.checks.samples import UNICODE
from tests.cli.test_mcp import environment, place, run
from tests.ledger import owes

__all__ = ["place"]

SERVER = str(Path(__file__).with_name("checked.py"))


@pytest.fixture(params=["stdio", "http"])
def server(request: Any, place: Path) -> Iterator[Path]:
    """Configures the server as `it`; the log of what reached it."""
    log = place / "log"
    if request.param == "stdio":
        run(place, "mcp", "add", "it", "--", sys.executable, SERVER, "stdio", "0", str(log))
        yield log
        return
    process = subprocess.Popen(
        [sys.executable, SERVER, "streamable-http", "0", str(log)],
        env=environment(place),
        stdout=subprocess.PIPE,
    )
    try:
        # It says its port when it is bound: connections wait in its queue from then on.
        assert process.stdout is not None
        port = int(process.stdout.readline())
        run(place, "mcp", "add", "it", "--url", f"http://127.0.0.1:{port}/mcp")
        yield log
    finally:
        process.kill()
        process.communicate(timeout=10)


def checked(place: Path, *words: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    done = run(place, "check", "it", "--seed", "1", "--json", *words)
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, {(f["tool"], f["check"]): f for f in findings}


@owes("G-19")
@pytest.mark.slow
def test_each_check_really_runs_on_the_server_and_finds_what_is_wrong(server: Path, place: Path) -> None:
    status, found = checked(place, "--yes")

    good = {check: found["mcp_it_repeat", check] for check in ("schema", *CHECKS)}
    assert {c: f["status"] for c, f in good.items()} == dict.fromkeys(good, "pass"), good
    assert "answer of" in good["huge output"]["message"]
    assert "ended, and the next call answers" in good["timeout"]["message"]
    labels_of_result = server.read_text(encoding="utf-8")
    assert all(f"repeat {text}" in labels_of_result for text in UNICODE)
    assert int(good["fuzz"]["message"].split(" run")[0].rsplit(" ", 1)[1]) >= 10
    assert found["mcp_it_flaky", "idempotence"]["status"] == "fail"
    assert "was ended" not in found["mcp_it_flaky", "unicode"]["message"]
    assert found["mcp_it_flaky", "huge output"]["status"] == "skip"
    assert "too few to be cut" in found["mcp_it_flaky", "huge output"]["message"]
    assert status == 1


@owes("G-19")
@pytest.mark.slow
def test_without_a_yes_nothing_reaches_the_server_and_each_line_says_why(server: Path, place: Path) -> None:
    done = run(place, "check", "it", "--seed", "1")

    assert not server.exists()
    lines = [line for line in done.stdout.splitlines() if "n/a" in line]
    assert len(lines) >= 2 * 6
    assert all("skipped:" in line for line in lines)
    assert any("--yes runs what asks" in line for line in lines)
    assert done.returncode == 0


@pytest.mark.slow
def test_a_server_that_does_not_start_is_named(place: Path) -> None:
    run(place, "mcp", "add", "it", "--", "/nonexistent")

    done = run(place, "check", "it")

    assert done.returncode == 2
    assert "'it'" in done.stderr
