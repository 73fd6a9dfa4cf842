"""Children start with signals as programs expect them, whatever we were started with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledger import owes

SRC = Path(__file__).resolve().parents[2] / "src"

_STARTS_A_CHILD = """
import asyncio, sys
from pegboard.process.child import run_small
status, out = asyncio.run(run_small(["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"], {"PATH": "/usr/bin:/bin"}))
sys.stdout.write(out.decode())
"""


def _signals_of_a_grandchild(disposition: str) -> dict[str, int]:
    """SigIgn and SigBlk (proc(5)) of a child started by a process that was started with `disposition`."""
    script = f"import signal\n{disposition}\n{_STARTS_A_CHILD}"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return {line.split(":")[0]: int(line.split()[1], 16) for line in done.stdout.splitlines()}


@owes("X-21")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"])
def test_a_signal_that_we_were_told_to_ignore_is_not_ignored_by_our_children(name: str) -> None:
    found = _signals_of_a_grandchild(f"signal.signal(signal.{name}, signal.SIG_IGN)")

    assert found["SigIgn"] & 1 << (signal.Signals[name] - 1) == 0


@pytest.mark.slow
def test_a_signal_that_we_block_is_not_blocked_in_our_children() -> None:
    found = _signals_of_a_grandchild("signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1,))")

    assert found["SigBlk"] == 0
