"""Tee: the events of a run, to all who want them."""

from __future__ import annotations

from collections.abc import Callable

from pegboard.core.events import TRANSIENT, Event, Recorder, RunFinished


class Tee:
    """Hands each event to the session's list, to recorders and to listeners.

    Args:
        events: what the session holds; grows by each event that is kept.
        recorder: receives every event; None = nobody does.
        listener: called with every event; None = nobody is.

    Attributes:
        mine: the events of this run.
    """

    def __init__(
        self, events: list[Event], recorder: Recorder | None, listener: Callable[[Event], None] | None = None
    ) -> None:
        self.mine: list[Event] = []
        self._events = events
        self._recorders: list[Recorder] = [] if recorder is None else [recorder]
        self._listeners = [] if listener is None else [listener]

    def attach(self, events: list[Event], recorder: Recorder) -> None:
        """Go on in a session that was opened: its events, and its log."""
        self._events = events
        self._recorders.insert(0, recorder)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Hand each event to one more listener from now on."""
        self._listeners.append(listener)

    @property
    def resumable(self) -> bool:
        """Whether the run may be resumed."""
        last = self.mine[-1] if self.mine else None
        return not (isinstance(last, RunFinished) and last.status in ("done", "limit"))

    def before(self) -> tuple[Event, ...]:
        """What the session holds when the run begins."""
        return tuple(self._events)

    def record(self, event: Event) -> None:
        """See Recorder."""
        if event.type not in TRANSIENT:
            self.mine.append(event)
            self._events.append(event)
        for recorder in self._recorders:
            recorder.record(event)
        for listener in self._listeners:
            listener(event)

    async def flush(self, *, power_loss: bool = False) -> object:
        """See Recorder; what the first of the recorders gives: for a kept session the number of its last record."""
        flushed = [await recorder.flush(power_loss=power_loss) for recorder in self._recorders]
        return flushed[0] if flushed else None
