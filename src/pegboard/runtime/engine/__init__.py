"""Engine: the one seam for what a run does. Every model request and every tool call is a step with an id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from pegboard.core.events import Event, Recorder

E = TypeVar("E", bound=Event)


class Engine(Protocol):
    """Carries out the steps of one run, each at most once, whatever happens to its process."""

    async def step(self, id: str, act: Callable[[], Awaitable[E]], *, idempotent: bool) -> E:
        """Carry out a step, or give the outcome that it had before.

        Args:
            id: names the step within its run: `turn:N`, `call:ID`.
            act: does it, and returns the event of its outcome, recorded.
            idempotent: whether it may be done again if a process ended while it ran.

        Returns:
            The event of its outcome, which survives SIGKILL from here on.

        Raises:
            Interrupted: it had begun when a process ended, and may not be repeated.
            StoreError: its outcome cannot be kept.
            Whatever `act` raises.
        """
        ...

    async def wait(self, key: str, *, deadline: float | None = None) -> Any | None:
        """The answer to what a call waits for; None = there is none yet, and the run ends as suspended.

        Args:
            key: as in the run's `pending`.
            deadline: seconds since the epoch until which it is worth waiting.
        """
        ...

    async def timer(self, id: str, at: float) -> None:
        """Return at a time, in seconds since the epoch."""
        ...


class EngineAround(Protocol):
    """Makes the engine of a queue's session from the one that knows what the session's events say."""

    @property
    def session(self) -> str:
        """Key of the session that it is for."""
        ...

    def __call__(self, inner: Engine, recorder: Recorder) -> Engine:
        """The engine around `inner`, whose events go to `recorder`."""
        ...


AROUND: Final[ContextVar[EngineAround | None]] = ContextVar("AROUND", default=None)
"""Set while a queue runs a session; None = the run belongs to this process alone."""


def engine_of(session: str, inner: Engine, recorder: Recorder) -> Engine:
    """The engine of a session's run: `inner`, or what the queue that runs the session makes of it."""
    around = AROUND.get()
    # A subagent that the session starts has a session of its own.
    return inner if around is None or around.session != session else around(inner, recorder)
