"""What all tests share: a home folder of their own, and no silent skips in CI."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replaying import replayed as replayed

_skipped: list[str] = []

# A suite that was started in the background of a script, or under nohup, has these ignored, and so would every command
# that a test starts and then sends one.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test has an empty home folder; nothing is written into the user's."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in [n for n in os.environ if n.startswith("XDG_")]:
        monkeypatch.delenv(name)
    yield home


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what was skipped, and why."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a test that was skipped for something missing is a failure."""
    if os.environ.get("PEGBOARD_NO_SKIPS") and not hasattr(session.config, "workerinput"):
        wrong = [s for s in _skipped if "cannot be had here" not in s]
        if wrong:
            print("\nskipped, which is not allowed here:")
            print("\n".join(wrong))
            session.exitstatus = 1
