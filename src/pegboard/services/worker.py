"""Worker: runs sessions on the messages that wait for them, and takes up runs whose process has ended."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pegboard.core.call.call import new_id
from pegboard.core.errors import PegboardError
from pegboard.core.events import Event, RunFinished, RunStarted, UserTold
from pegboard.ports.messages import InboundMessage
from pegboard.services.history import History
from pegboard.services.runs import Runs
from pegboard.services.runtime import NOBODY, Interaction, Runtime
from pegboard.services.sessions import Sessions
from pegboard.store.inbox import Inbox
from pegboard.store.leases import SessionBusy
from pegboard.store.runs import RunRow

if TYPE_CHECKING:
    from pegboard.runtime.engine.dbos import DbosQueue

LOOK_S: Final = 0.5
"""Seconds between two looks at the store."""
_LOOK_SHARE: Final = 4
"""A look that takes long is followed by this many times as long without one."""
MOST: Final = 8
"""Sessions that one worker runs at once."""


class Duty(Protocol):
    """Something that a worker does beside its sessions: fire schedules, deliver messages."""

    async def tick(self) -> None:
        """Do what is due now, and return."""
        ...

    async def close(self) -> None:
        """Finish what is under way, or give it up."""
        ...


class OnAnswer(Protocol):
    """Hands on the answer to a message that wanted one."""

    async def __call__(self, message: InboundMessage, finished: RunFinished) -> None:
        """Keep the answer for whoever waits for it, under the message's id: it may be called again after a crash."""
        ...


class Watcher(Protocol):
    """Sees what a worker's runs do, as it happens."""

    async def on_resume(self, row: RunRow) -> None:
        """A run is about to be taken further."""
        ...

    def on_event(self, session: str, event: Event) -> None:
        """A run of the session did something."""
        ...

    def on_pause(self, session: str) -> None:
        """The worker has let go of the session; all that its run did is stored."""
        ...


class Worker:
    """Works until it is cancelled, or until nothing is left to do.

    A session is run by one worker at a time: whoever holds its lease. A message is run on once, whatever happens to
    the process: the session's stream says which run has read it.

    Args:
        runtime: the workspace, its tools and its policy.
        history: where sessions are kept.
        sessions, runs: open and resume them.
        interaction: who answers; None = nobody, so that runs that ask are suspended or denied by the approver.
        duties: what else it does.
        on_answer: each is given the answer to a message that wanted one.
        watchers: see its runs' events.
        model: as `--model` takes it; None = the first that is found.
        most: sessions that it runs at once.
        queue: hands out the sessions, by its own limits in place of `most`; None = this worker takes what it finds.
    """

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        sessions: Sessions,
        runs: Runs,
        *,
        interaction: Interaction = NOBODY,
        duties: Sequence[Duty] = (),
        on_answer: Sequence[OnAnswer] = (),
        watchers: Sequence[Watcher] = (),
        model: str | None = None,
        most: int = MOST,
        queue: DbosQueue | None = None,
    ) -> None:
        self._runtime = runtime
        self._history = history
        self._sessions = sessions
        self._runs = runs
        self._interaction = interaction
        self._duties = duties
        self._on_answer = on_answer
        self._watchers = watchers
        self._model = model
        self._most = most
        self._queue = queue
        self._inbox = Inbox(history.store)
        self._working: dict[str, asyncio.Task[bool]] = {}
        self._failed: set[str] = set()
        self._found: deque[str] = deque()
        self._look_at = 0.0
        self._news = asyncio.Event()
        self._stopping = False

    async def work(self, *, until_idle: bool = False) -> None:
        """Work on what there is; look again every half second, and at once after `look_now`.

        Args:
            until_idle: return when no session can be taken further now.
        """
        queue = self._queue
        if queue is not None:
            await queue.open(new_id("worker"), self._serve)
        try:
            while True:
                busy = bool(self._working)
                if not self._stopping:
                    for duty in self._duties:
                        await duty.tick()
                    busy = await (self._take_sessions() if queue is None else self._put_sessions(queue))
                self._end_done()
                if (until_idle and not busy) or (self._stopping and not self._working):
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._one_ends()
        finally:
            for task in self._working.values():
                task.cancel()
            await asyncio.gather(*self._working.values(), return_exceptions=True)
            if queue is not None:
                await queue.close()
            for duty in self._duties:
                await duty.close()

    def stop(self) -> None:
        """Take no more sessions and do no more duties; `work` returns once those that it has are over."""
        self._stopping = True

    def look_now(self) -> None:
        """Something was stored that a session or a duty waits for."""
        self._news.set()

    async def serve(self, session: str, row: RunRow | None = None) -> None:
        """Take a session further: resume its run, then run it on the messages that wait, until none is left.

        Args:
            session: its key.
            row: its unfinished run, where that was just looked up.

        Raises:
            SessionBusy: another process works on it.
        """
        while (row := row or await self._runs.unfinished_in(session)) is not None:
            for watcher in self._watchers:
                await watcher.on_resume(row)
            await self._drain(session, self._runs.resume(row, self._interaction))
            row = None
        while (message := await self._next(session)) is not None:
            finished = (await self._read(session)).get(message.id) or await self._start(message)
            if finished is None or finished.status == "suspended":
                return
            for hand_on in self._on_answer if message.wants_answer or message.reply is not None else ():
                await hand_on(message, finished)
            await self._inbox.drop([message])

    # -- what there is --------------------------------------------------------------------------

    async def _take_sessions(self) -> bool:
        """Begin with what there is; whether this worker works on anything now."""
        self._end_done()
        # Where a thousand wait, not every end of one looks at all the others.
        looked = not self._found or time.monotonic() >= self._look_at
        if looked:
            await self._look()
        await self._begin()
        if not (looked or self._working):
            await self._look()
            await self._begin()
        return bool(self._working)

    async def _look(self) -> None:
        begun = time.monotonic()
        self._found = deque(await self._waiting_sessions())
        took = time.monotonic() - begun
        self._look_at = begun + took + max(LOOK_S, _LOOK_SHARE * took)

    async def _begin(self) -> None:
        """Begin with sessions that the last look has found, as many as this worker may run."""
        while self._found and len(self._working) < self._most:
            session = self._found.popleft()
            if session in self._working or session in self._failed:
                continue
            if (
                await self._history.holder(session) is None
                and (cause := await self._cause(session)) is not None
            ):
                row = cause if isinstance(cause, RunRow) else None
                self._working[session] = asyncio.create_task(self._serve(session, row))

    def _end_done(self) -> None:
        for key in [key for key, task in self._working.items() if task.done()]:
            self._working.pop(key)

    async def _put_sessions(self, queue: DbosQueue) -> bool:
        """Put what there is into the queue; whether any worker is to work on anything now."""
        await queue.take_over()
        active = await queue.active()
        for session in await self._waiting_sessions():
            if session in active or await self._history.holder(session) is not None:
                continue
            if (cause := await self._cause(session)) is not None and await queue.put(session, cause.id):
                active.add(session)
        return bool(active)

    async def _waiting_sessions(self) -> list[str]:
        waiting = [m.session for m in await self._inbox.all() if m.wake and self._is_here(m)]
        interrupted = [row.stream for row in await self._interrupted()]
        return list(dict.fromkeys((*interrupted, *waiting)))

    async def _serve(self, session: str, row: RunRow | None = None) -> bool:
        """Take a session further; False = it failed, and people were told why."""
        try:
            await self.serve(session, row)
        except SessionBusy:
            pass  # Another worker was faster.
        except Exception as error:  # noqa: BLE001  The worker's boundary: one session must not end the others.
            # The next worker tries it again; in this one it would fail again and again.
            self._failed.add(session)
            said = str(error) if isinstance(error, PegboardError) else f"{type(error).__name__}: {error}"
            self._interaction.notify(f"session {session} was not taken further: {said}")
            return False
        return True

    async def _one_ends(self) -> None:
        """Return when a session ends, or after `look_now`; a look follows."""
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([news, *self._working.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            self._news.clear()

    def _is_here(self, message: InboundMessage) -> bool:
        return not message.workspace or Path(message.workspace) == self._runtime.workspace

    async def _interrupted(self) -> list[RunRow]:
        rows = [r for r in await self._runs.list(limit=None, status="running") if r.status == "interrupted"]
        rows += [r for r in await self._runs.unfinished() if r.status == "suspended"]
        return [r for r in rows if not self._runs.is_single_call(r)]

    async def _cause(self, session: str) -> RunRow | InboundMessage | None:
        """The run to resume, or the message to start one with; None if only a suspended run will read what waits."""
        return await self._runs.unfinished_in(session) or await self._next(session)

    async def _next(self, session: str) -> InboundMessage | None:
        """The message that the session is to be run on, or whose answer is to be handed on, now."""
        waiting = [m for m in await self._inbox.waiting(session) if m.wake and self._is_here(m)]
        if not waiting:
            return None
        read = await self._read(session)
        rows = await self._history.runs(session=session, limit=1)
        suspended = bool(rows) and rows[0].status == "suspended"
        for message in waiting:
            if read.get(message.id) is not None:
                return message
            # What waits for a person is put aside by a person alone.
            if message.id not in read and (not suspended or message.by == "user"):
                return message
        return None

    async def _read(self, session: str) -> dict[str, RunFinished | None]:
        """Ids of the messages that runs have read, with the end of that run; None while it goes on or is suspended."""
        read: dict[str, RunFinished | None] = {}
        mine: list[str] = []
        kinds = (RunStarted.type, UserTold.type, RunFinished.type)
        for event in await self._history.events(session, types=kinds):
            match event:
                case RunStarted():
                    mine = [str(event.detail["source"])] if "source" in event.detail else []
                case UserTold() if event.source:
                    mine.append(event.source)
                case RunFinished() if event.status != "suspended":
                    read |= dict.fromkeys(mine, event)
                    mine = []
                case _:
                    pass
            read |= {id: None for id in mine if id not in read}
        return read

    # -- running --------------------------------------------------------------------------------

    async def _start(self, message: InboundMessage) -> RunFinished | None:
        model = str(message.metadata.get("model") or "") or self._model
        async with self._sessions.open(message.session, self._interaction, model=model) as talk:
            return await self._drain(message.session, talk.answer(message))

    async def _drain(self, session: str, events: AsyncGenerator[Event]) -> RunFinished | None:
        finished: RunFinished | None = None
        try:
            async with aclosing(events):
                async for event in events:
                    for watcher in self._watchers:
                        watcher.on_event(session, event)
                    if isinstance(event, RunFinished):
                        finished = event
        finally:
            for watcher in self._watchers:
                watcher.on_pause(session)
        return finished
