"""Live runs: started by the gateway or taken further by its worker, and followed while they go on."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pegboard.core.call.call import new_id
from pegboard.core.errors import PegboardError, PermissionDenied
from pegboard.core.events import TRANSIENT, CallFinished, Event, ModelReplied, RunFinished, RunStarted
from pegboard.gateway.errors import TooBusy
from pegboard.models.resolve import names_place
from pegboard.ports.messages import InboundMessage
from pegboard.services.history import History
from pegboard.services.principals import CHANNEL, OWNER, Principal
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import Sessions
from pegboard.store.runs import RunRow

MAX_RUNS: Final = 32
"""Runs that were started over HTTP and go on at once."""
MAX_FOLLOWERS: Final = 2000
_MAX_KEPT: Final = 4096
_LOOK_S: Final = 0.5
"""Seconds between two looks at a run that another process may work on."""

Place: TypeAlias = tuple[int, int]
"""Where an event stands in its run: the number of stored events up to it, from 1, and for one that is not stored the
number of those since that one, else 0."""


@dataclass(slots=True)
class _Part:
    """What a run has done since this process works on it: the events behind its first `stored` ones."""

    stored: int
    events: list[tuple[Place, Event]] = field(default_factory=list[tuple[Place, Event]])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    last: Place = (0, 0)
    end: RunFinished | None = None
    over: bool = False

    def __post_init__(self) -> None:
        self.last = (self.stored, 0)

    def add(self, event: Event) -> None:
        if event.type in TRANSIENT:
            self.last = (self.last[0], self.last[1] + 1)
        else:
            # What was shown piece by piece is in the event that ends it.
            while self.events and self.events[-1][0][1]:
                self.events.pop()
            self.last = (self.last[0] + 1, 0)
        self.events.append((self.last, event))
        if len(self.events) > _MAX_KEPT:
            del self.events[: _MAX_KEPT // 2]
        self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def after(self, place: Place) -> list[tuple[Place, Event]]:
        return self.events[bisect_right(self.events, place, key=lambda kept: kept[0]) :]

    @property
    def first(self) -> int:
        """The number of stored events before those that are kept here."""
        number, piece = self.events[0][0] if self.events else self.last
        return number if piece or not self.events else number - 1


class LiveRuns:
    """Starts runs, and tells whoever follows one what it does; a Watcher of the worker.

    Args:
        sessions, history: the services.
        interaction: who answers; its approver suspends a run, which the worker takes further once it is answered.
        model: as `--model` takes it, for runs that name none.
    """

    def __init__(
        self, sessions: Sessions, history: History, interaction: Interaction, *, model: str | None
    ) -> None:
        self._sessions = sessions
        self._history = history
        self._interaction = interaction
        self.model = model
        self._parts: dict[str, _Part] = {}
        self._run_of: dict[str, str] = {}
        self._begun = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.before_run: Callable[[], Awaitable[None]] | None = None
        """Is awaited before a run starts: reads settings that were changed."""
        self.followers = 0
        self.counts: Counter[tuple[str, str]] = Counter()
        """What happened since the start, by the name of a metric and its label."""

    # -- starting -----------------------------------------------------------------------------------

    async def start(
        self,
        task: str,
        *,
        session: str | None = None,
        model: str | None = None,
        labels: tuple[str, ...] = (),
        by: Principal = OWNER,
    ) -> tuple[str, str]:
        """Start a run that goes on by itself; its id and its session's key.

        Args:
            task: what to do.
            session: a key; the conversation under it goes on. None = a fresh one.
            model: as `--model` takes it.
            labels: taint labels of the task.
            by: who starts it; the run's record names it, and the session is one of its own.

        Raises:
            TooBusy: too many runs go on, or the gateway is being stopped.
            PermissionDenied: the session is not the principal's, or it may not name such a model.
            ConfigError, ModelError, StoreError: see `Sessions.open`.
        """
        key = by.session(session)
        # What the run reads is sent there, with a key of the owner's.
        if model is not None and not by.may("administer") and names_place(model):
            raise PermissionDenied(
                f"the role {by.role} may not name a model by an address or a file",
                hint="Leave model out, or use PROVIDER:NAME.",
            )
        if self._stopping or len(self._tasks) >= MAX_RUNS:
            raise TooBusy(
                "the gateway is being stopped" if self._stopping else f"{MAX_RUNS} runs are going on",
                hint="Try again later.",
            )
        if self.before_run is not None:
            await self.before_run()
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        message = InboundMessage(
            session=key, content=task, id=new_id("in"), labels=labels, channel=CHANNEL, sender_id=by.name
        )
        work = asyncio.create_task(self._work(message, model, started))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        return await asyncio.shield(started), key

    async def _work(self, message: InboundMessage, model: str | None, started: asyncio.Future[str]) -> None:
        session = message.session
        try:
            async with self._sessions.open(session, self._interaction, model=model or self.model) as talk:
                events = talk.answer(message)
                async with aclosing(events):
                    async for event in events:
                        self.on_event(session, event)
                        if isinstance(event, RunStarted):
                            # Whoever is told of the run finds it in the history.
                            await talk.flush()
                            started.set_result(event.run)
        except PegboardError as error:
            if started.done():
                self._interaction.notify(f"a run of session {session} ended: {error}")
            else:
                started.set_exception(error)
        finally:
            if not started.done():
                started.set_exception(TooBusy("the run was cancelled before it started"))
            if session in self._run_of:
                self.on_pause(session)

    # -- watching the worker ------------------------------------------------------------------------

    async def on_resume(self, row: RunRow) -> None:
        """See Watcher."""
        self._open(row.stream, row.id, len(await self._history.events(row.stream, run=row.id)))

    def on_event(self, session: str, event: Event) -> None:
        """See Watcher."""
        if isinstance(event, RunStarted):
            self._open(session, event.run, 0)
        part = self._parts.get(self._run_of.get(session, ""))
        if part is not None and isinstance(event, RunFinished):
            # Told when it is stored: whoever hears of the end finds it, and what the run waits for, in the history.
            part.end = event
        elif part is not None:
            part.add(event)
        self._count(event)

    def on_pause(self, session: str) -> None:
        """See Watcher."""
        part = self._parts.pop(self._run_of.pop(session, ""), None)
        if part is not None:
            part.over = True
            if part.end is not None:
                part.add(part.end)
            part.wake()

    def _open(self, session: str, run: str, stored: int) -> None:
        self.on_pause(session)
        self._run_of[session] = run
        self._parts[run] = _Part(stored)
        self._wake_begun()

    def _wake_begun(self) -> None:
        self._begun.set()
        self._begun = asyncio.Event()

    def _count(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.counts["runs_started", ""] += 1
            case RunFinished():
                self.counts["runs_finished", event.status] += 1
            case CallFinished(result):
                code = "" if result.error is None else result.error.code
                self.counts["calls", code or "ok"] += 1
            case ModelReplied(message):
                self.counts["tokens", "input"] += message.usage.input_tokens
                self.counts["tokens", "output"] += message.usage.output_tokens
            case _:
                pass

    @property
    def going_on(self) -> int:
        """How many runs this process works on."""
        return len(self._parts)

    # -- following ----------------------------------------------------------------------------------

    async def follow(self, row: RunRow, after: Place = (0, 0)) -> AsyncIterator[tuple[Place, Event]]:
        """The events of a run behind a place, until it has ended for good or the gateway stops; it may be suspended
        and resumed in between.

        Raises:
            TooBusy: too many follow already.
        """
        if self.followers >= MAX_FOLLOWERS:
            raise TooBusy(f"{MAX_FOLLOWERS} clients are following runs", hint="Try again later.")
        self.followers += 1
        try:
            looked = ""
            while not self._stopping:
                part, begun = self._parts.get(row.id), self._begun
                if part is not None and after[0] >= part.first:
                    async for place, event in self._part(part, after):
                        after = place
                        yield place, event
                        if _is_end(event):
                            return
                    looked = ""
                    continue
                row = (await self._history.mark_interrupted([await self._history.run(row.id)]))[0]
                # A run that waits has nothing new to read.
                if part is not None or row.status == "running" or looked != row.status:
                    looked = row.status
                    events = await self._history.events(row.stream, run=row.id)
                    upto = len(events) if part is None else part.first
                    for number, event in list(enumerate(events, 1))[after[0] : upto]:
                        after = (number, 0)
                        yield after, event
                        if _is_end(event):
                            return
                    if part is not None:
                        after = max(after, (part.first, 0))
                        continue
                if row.status not in ("running", "suspended", "interrupted"):
                    return
                await _within(_LOOK_S, begun)
        finally:
            self.followers -= 1

    async def _part(self, part: _Part, after: Place) -> AsyncIterator[tuple[Place, Event]]:
        while not self._stopping:
            changed = part.changed
            for place, event in part.after(after):
                after = place
                yield place, event
            if part.over and part.last <= after:
                return
            if part.last <= after:
                await changed.wait()
            elif after[0] < part.first:
                return  # It fell behind what is kept; the history has the rest.

    # -- stopping -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Start no more runs and end what follows them."""
        self._stopping = True
        for part in self._parts.values():
            part.wake()
        self._wake_begun()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The runs that were started and have not ended."""
        return list(self._tasks)


def _is_end(event: Event) -> bool:
    return isinstance(event, RunFinished) and event.status != "suspended"


async def _within(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
