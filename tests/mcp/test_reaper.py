"""The reaper: what we started does not outlive us, however we end (corpus mcp-10)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pegboard.mcp.reaper import Reaper, kill_marked
from tests.ledger import owes
from tests.waiting import until

SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
MARK = f"mcptest{os.getpid()}"


@contextmanager
def child(mark: str, code: str = SLEEP) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], env={"PEGBOARD_EXEC": mark} if mark else {})
    try:
        # Between fork and exec it still has our environment.
        until(lambda: b"python" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "it runs")
        yield process
    finally:
        process.kill()
        process.wait()


@owes("mcp-10")
def test_what_carries_the_mark_is_killed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    # We carry it ourselves and live on.
    with child(f"{MARK}.1") as marked, child(f"{MARK}.2", STUBBORN) as stubborn, child("") as plain:
        with child(f"other{MARK}") as other:
            kill_marked(MARK)

            assert marked.wait(10) == stubborn.wait(10) == -signal.SIGKILL
            assert other.poll() is None and plain.poll() is None


@owes("mcp-10")
def test_a_reaper_ends_what_carries_its_mark_once_it_is_let_go() -> None:
    with child(f"{MARK}g.1") as marked:
        reaper = Reaper(f"{MARK}g")
        before = marked.poll()

        reaper.close()

        assert before is None
        assert marked.wait(10) == -signal.SIGKILL


@owes("mcp-10")
def test_signals_to_our_group_do_not_take_the_reaper_with_them() -> None:
    with child(f"{MARK}s.1") as marked:
        reaper = Reaper(f"{MARK}s")
        ignored = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        until(lambda: set(ignored) <= _ignored(reaper.pid), "it ignores signals")
        for number in ignored:
            os.kill(reaper.pid, number)

        reaper.close()

        assert os.getsid(0) != reaper.pid
        assert marked.wait(10) == -signal.SIGKILL


def test_a_reaper_that_hangs_is_killed() -> None:
    reaper = Reaper(f"{MARK}h")
    os.kill(reaper.pid, signal.SIGSTOP)

    reaper.close(within_s=0.05)

    with pytest.raises(ProcessLookupError):
        os.kill(reaper.pid, 0)


@owes("mcp-10")
@pytest.mark.slow
def test_the_child_of_a_killed_process_of_ours_ends_too() -> None:
    code = f"""
import os, subprocess, sys
from pegboard.mcp.reaper import Reaper
reaper = Reaper({MARK + "k"!r})
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], env={{"PEGBOARD_EXEC": {MARK + "k.1"!r}}}, start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""
    ours = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert ours.stdout is not None and ours.stdin is not None
    pid = int(ours.stdout.readline())

    ours.kill()
    ours.wait()
    ours.stdout.close()
    ours.stdin.close()

    until(lambda: _is_gone(pid), f"process {pid} has ended")


def _is_gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def _ignored(pid: int) -> set[signal.Signals]:
    """The signals that a process ignores, as the system says (proc(5), SigIgn)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line.split()[1] for line in lines if line.startswith("SigIgn:")), 16)
    return {s for s in signal.Signals if mask >> (s - 1) & 1}
