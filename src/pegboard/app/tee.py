"""Tee: the events of a run, to all who want them."""

from __future__ import annotations

from collections.abc import Callable

from pegboard.core.events import TRANSIENT, Event, Recorder, RunFinished


class Tee:
    """Hands each event to the session's list, another recorder and a listener."""

    def __init__(
        self, kept: list[Event], other: Recorder | None, listener: Callable[[Event], None] | None = None
    ) -> None:
        self.mine: list[Event] = []
        self._kept = kept
        self._others = [r for r in (other.record if other else None, listener) if r is not None]
        self._other = other

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Hand each event to one more listener from now on."""
        self._others.append(listener)

    @property
    def waits(self) -> bool:
        """Whether the run may be taken up again."""
        last = self.mine[-1] if self.mine else None
        return not (isinstance(last, RunFinished) and last.status in ("done", "limit"))

    def before(self) -> tuple[Event, ...]:
        """What the session holds when the run begins."""
        return tuple(self._kept)

    def record(self, event: Event) -> None:
        """See Recorder."""
        if event.type not in TRANSIENT:
            self.mine.append(event)
            self._kept.append(event)
        for other in self._others:
            other(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        if self._other is not None:
            await self._other.flush(power_loss=power_loss)
