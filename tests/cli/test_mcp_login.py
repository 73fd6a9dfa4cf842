"""`pegboard mcp login` against a real authorisation server on loopback; a small program stands for the browser."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_mcp import environment, place, run
from tests.ledger import owes
from tests.waiting import listens, until

__all__ = ["place"]

GUARDED = str(Path(__file__).with_name("guarded.py"))
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()"


@pytest.fixture
def guarded(place: Path) -> Iterator[str]:
    """Its address; configured as `web`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, GUARDED, str(port), str(place / "log")], env=environment(place)
    )
    try:
        until(lambda: listens(port), "the server listens")
        url = f"http://127.0.0.1:{port}/mcp"
        assert run(place, "mcp", "add", "web", "--url", url).returncode == 0
        (place / "browser.py").write_text(BROWSER)
        yield url
    finally:
        process.kill()
        process.wait(10)


@owes("K-79")
@pytest.mark.slow
def test_a_login_keeps_tokens_for_this_user_and_later_commands_use_them(guarded: str, place: Path) -> None:
    before = run(place, "mcp", "test", "web")
    login = run(place, "mcp", "login", "web", BROWSER=f"{sys.executable} {place / 'browser.py'} %s")
    after = run(place, "mcp", "test", "web", "--json")
    called = run(place, "call", "mcp_web_whoami", "--yes")

    assert before.returncode == 1
    assert "pegboard mcp login web" in before.stdout
    assert login.returncode == 0, login.stdout + login.stderr
    assert "logged in to web" in login.stdout
    assert json.loads(after.stdout)[0]["tools"] == ["mcp_web_whoami"]
    assert called.stdout.strip() == "you"
    (kept,) = (place / ".local/state/pegboard/mcp").glob("tokens-*.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    token = json.loads(kept.read_text())["tokens"]["access_token"]
    shown = (login, after, called, run(place, "mcp", "list"), run(place, "runs", "list"))
    assert all(token not in done.stdout + done.stderr for done in shown)


@owes("K-79")
@pytest.mark.slow
def test_a_person_may_take_longer_for_a_login_than_a_server_has_for_its_start(
    guarded: str, place: Path
) -> None:
    # Nothing marks that a limit has passed, so the person takes several times as long. That the probe has no limit of
    # its own meanwhile is tests/mcp/test_session.py's, which need not wait.
    (place / "slow.py").write_text(f"import time; time.sleep(0.5)\n{BROWSER}")
    settings = place / ".config/pegboard/mcp.json"
    known = json.loads(settings.read_text())
    known["mcpServers"]["web"]["start_s"] = 0.1
    settings.write_text(json.dumps(known))

    login = run(place, "mcp", "login", "web", BROWSER=f"{sys.executable} {place / 'slow.py'} %s")

    assert login.returncode == 0, login.stdout + login.stderr
    assert login.stdout.count("open this address") == 1


@owes("K-79")
@pytest.mark.slow
def test_a_token_that_is_no_longer_taken_is_renewed_without_a_browser(guarded: str, place: Path) -> None:
    run(place, "mcp", "login", "web", BROWSER=f"{sys.executable} {place / 'browser.py'} %s")
    (kept,) = (place / ".local/state/pegboard/mcp").glob("tokens-*.json")
    held = json.loads(kept.read_text())
    held["tokens"]["access_token"] = "stale"
    kept.write_text(json.dumps({**held, "expires_at": time.time() - 10}))
    (place / "log").unlink()

    done = run(place, "mcp", "test", "web")
    log = (place / "log").read_text()
    kept.write_text(json.dumps({**held, "expires_at": time.time() + 3600}))
    refused = run(place, "mcp", "test", "web")
    out = run(place, "mcp", "login", "web", "--logout")

    assert done.returncode == 0, done.stdout
    assert log.startswith("POST /token 200") and "/authorize" not in log
    # Taken back by the server before its time: only a person can log in again, and is told how.
    assert refused.returncode == 1
    assert "pegboard mcp login web" in refused.stdout
    assert out.returncode == 0 and not kept.exists()
