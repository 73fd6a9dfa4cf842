"""Waiting for what gives no event: another process's state, a file that somebody else writes, a port that opens.

What can be awaited (an event, a future, a line of output, `proc.wait()`) is awaited; this is for the rest. One
deadline that bounds a failure, and a reason in words: a test never passes or fails by how long a pause was.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LOOK_S = 0.01
"""Between two looks; what is waited for may take any time below the deadline."""


def until(true: Callable[[], T], what: str, *, within_s: float = 30.0) -> T:
    """What `true` gives once it is true.

    Raises:
        AssertionError: `what` did not come within the deadline.
    """
    deadline = time.monotonic() + within_s
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(_LOOK_S)
    return found


async def soon(true: Callable[[], T], what: str, *, within_s: float = 30.0) -> T:
    """`until`, while the event loop goes on."""
    deadline = time.monotonic() + within_s
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(_LOOK_S)
    return found


def listens(port: int) -> bool:
    """Whether something takes connections at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
