"""A tiny process that outlives ours by a moment and ends what we started.

It runs as a program of its own, with the mark as its argument, imports nothing of ours, and waits on a
pipe that only our process holds open. When that closes, whatever carries the mark in its environment is
killed: a SIGKILL of our process would otherwise leave the children of wrappers (`sh -c`, `npx`) behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def watch(mark: str) -> None:
    """Wait for the end of standard input, then kill every process that carries `mark`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kill every process but this one that carries `mark`, and look again until none is left that was just started."""
    needle = f"PEGBOARD_EXEC={mark}".encode()
    for _ in range(20):
        found = False
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if not any(v.startswith(needle) for v in file.read().split(b"\0")):
                        continue
                os.kill(int(name), signal.SIGKILL)
                found = True
            except OSError:
                continue
        if not found:
            return


class Reaper:
    """The process that watches one mark; `close` ends it."""

    def __init__(self, mark: str) -> None:
        # In its own session: a signal to our whole group must not take it with us.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
            close_fds=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self, *, within_s: float = 5.0) -> None:
        """Close the pipe; it looks once more and ends, or is killed where it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


if __name__ == "__main__":
    watch(sys.argv[1])
