"""The output of a child process line by line, under a deadline, and its end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator

from pegboard.files.search_engine import timed_out


def lines_of(child: subprocess.Popen[bytes], deadline: float, complaints: bytearray) -> Iterator[bytes]:
    """Lines of the child's output; its complaints are gathered beside, so that neither pipe fills up."""
    assert child.stdout is not None
    assert child.stderr is not None
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, True)
        selector.register(child.stderr, selectors.EVENT_READ, False)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
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
