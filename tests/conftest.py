"""What all tests share: a home folder of their own, and no silent skips in CI."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.postgres import postgres_server as postgres_server
from tests.replaying import replayed as replayed

SKIPPED = 6
"""Exit status for tests that were skipped; not pytest's 1, for running them again would change nothing."""

_skipped: list[str] = []

# A suite that was started in the background of a script, or under nohup, has these ignored, and so would every command
# that a test starts and then sends one.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for home folders; counted here, for pytest lists all its folders to number one."""
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test has an empty home folder; nothing is written into the user's."""
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in [n for n in os.environ if n.startswith("XDG_")]:
        monkeypatch.delenv(name)
    yield home
    shutil.rmtree(home, ignore_errors=True)


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
            session.exitstatus = SKIPPED
