"""The output of a child process line by line, under a deadline, and its end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Final

from pegboard.files.engine import EngineFailed, timed_out

_LOOK_S: Final = 0.5
_IDLE_TICKS: Final = 5
"""Of about fifty that one thread can use between two looks."""


def lines_of(
    child: subprocess.Popen[bytes], deadline: float, complaints: bytearray, *, gives_up: bool = False
) -> Iterator[bytes]:
    """Lines of the child's output; its complaints are gathered beside, so that neither pipe fills up.

    Args:
        child: the process.
        deadline: `time.monotonic()` at which it is given up.
        complaints: where its standard error goes.
        gives_up: a child that does next to nothing for two looks, half a second apart, is given up: it waits
            for somebody to open the other end of a pipe, which nobody does.

    Raises:
        TimedOut: the deadline passed.
        EngineFailed: it does nothing.
    """
    before: int | None = None
    assert child.stdout is not None
    assert child.stderr is not None
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, True)
        selector.register(child.stderr, selectors.EVENT_READ, False)
        while selector.get_map():
            left = max(0.0, deadline - time.monotonic())
            ready = selector.select(min(left, _LOOK_S) if gives_up else left)
            if not ready and gives_up and time.monotonic() < deadline:
                now = _asleep(child.pid)
                if now is not None and before is not None and now - before <= _IDLE_TICKS:
                    raise EngineFailed("it waits for a pipe that nobody writes to")
                before = now
                continue
            before = None
            # Output that never stops coming is no reason to go on either.
            if not ready or time.monotonic() >= deadline:
                raise timed_out()
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fileobj)
                elif not key.data:
                    complaints += block[: max(0, (1 << 20) - len(complaints))]
                else:
                    *lines, held = (held + block).split(b"\n") if b"\n" in block else (held + block,)
                    yield from lines
    if held:
        yield held


def _asleep(pid: int) -> int | None:
    """What a process has used of the processor, in ticks; None where it works or waits for a disk (proc_pid_stat).

    ripgrep's threads that have nothing to do wake up every millisecond, so one of them may be seen at it.
    """
    used, awake = 0, 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                # State, then ten fields to the times in user and in system mode.
                fields = file.read().rpartition(")")[2].split()
            awake += fields[0] == "R"
            if fields[0] == "D" or awake > 1:
                return None
            used += int(fields[11]) + int(fields[12])
    except (OSError, IndexError):
        return None
    return used


def end_child(child: subprocess.Popen[bytes]) -> None:
    """End the child with its group, and reap it."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
