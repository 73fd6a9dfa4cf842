"""History: the sessions and runs that this machine has recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from pegboard.core.events import Event
from pegboard.ports.store import Bodies, Record, StoreError
from pegboard.store.chain import Chain, Fault, verify
from pegboard.store.encoding import Redact
from pegboard.store.leases import Leases
from pegboard.store.log import Log, active_s, history, iter_history
from pegboard.store.runs import RunList, RunRow
from pegboard.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pegboard.runtime.session import Session

ONE_CALLS: Final = frozenset({"cli", "mcp"})
"""Agents of runs that are single calls: no model's turn follows, so none is resumed."""
WAIT_S: Final = 2.0
"""Seconds that a command waits for another process that works on the same session."""


class History:
    """What the services know of past work. All their reading and writing of the store is here.

    Args:
        store: gives the store, at the first use.
        paths: where keys and heads lie.
        redact: takes secrets out of what is written.
    """

    def __init__(self, store: Callable[[], SqliteStore], paths: Paths, redact: Redact) -> None:
        self._store = store
        self._paths = paths
        self._redact = redact

    @property
    def file(self) -> Path:
        """The file that it lies in."""
        return self._paths.state / "history.sqlite"

    @property
    def store(self) -> SqliteStore:
        """The store; its file is opened when it is first read or written."""
        return self._store()

    @property
    def _chain(self) -> Chain:
        return Chain(key=self._paths.key(), heads=self._paths.config / "heads")

    # -- runs and sessions ------------------------------------------------------------------------

    async def runs(
        self, *, session: str | None = None, status: str | None = None, limit: int | None = None
    ) -> list[RunRow]:
        """The latest runs, newest first, as they are recorded; None = all."""
        return await RunList(self.store).list(session=session, status=status, limit=limit)

    async def run(self, prefix: str) -> RunRow:
        """A run by its id or the unique start of one.

        Raises:
            ConfigError: there is none, or several start so.
        """
        rows = await RunList(self.store).find(prefix)
        if len(rows) != 1:
            count = f"{len(rows)} runs start with" if rows else "no run with ID"
            raise ConfigError(f"{count} {prefix!r}; see: pegboard runs")
        return rows[0]

    async def save_run(self, row: RunRow) -> None:
        """Write a row of the list of runs."""
        await RunList(self.store).save(row)

    async def sessions(self) -> list[str]:
        """Keys of all sessions, newest first."""
        return list(dict.fromkeys(r.stream for r in await self.runs()))

    async def streams(self) -> list[str]:
        """Keys of all sessions that were ever recorded.

        The heads that are kept beside the store count too, so that a session that was removed whole is missed.
        """
        return list(dict.fromkeys([*await self.sessions(), *self._chain.streams()]))

    async def mark_interrupted(self, rows: Iterable[RunRow]) -> list[RunRow]:
        """The rows as they are: one that stands as running, and no process works on it, is `interrupted`.

        Args:
            rows: newest first, as the store gives them.
        """
        leases = Leases(self.store)
        out: list[RunRow] = []
        newer: set[str] = set()
        for row in rows:
            single = row.agent in ONE_CALLS
            # A session is held for its newest run: the one before it is over, however it stands.
            over = row.status == "running" and (
                (not single and row.stream in newer)
                or await leases.holder(row.id if single else row.stream) is None
            )
            out.append(replace(row, status="interrupted") if over else row)
            if not single:
                newer.add(row.stream)
        return out

    # -- events -----------------------------------------------------------------------------------

    async def events(self, session: str, *, run: str | None = None, types: Sequence[str] = ()) -> list[Event]:
        """The events of a session, or of one of its runs, oldest first; `types`: only those."""
        return await history(self.store, session, run=run, types=types)

    async def iter_events(self, row: RunRow) -> AsyncIterator[Event]:
        """The events of a run, oldest first, read as they are taken: a long run shows its beginning at once."""
        async for event in iter_history(self.store, row.stream, run=row.id):
            yield event

    async def active_s(self, row: RunRow) -> float:
        """Seconds that a run has taken so far, without what it waited for somebody."""
        return active_s(await self.store.read(row.stream, run=row.id))

    async def records(self, session: str) -> list[Record]:
        """The records of a session, with their chain."""
        return await self.store.read(session)

    async def verify(self, session: str) -> list[Fault]:
        """Every fault of a session's chain."""
        chain = self._chain
        return verify(chain.key, session, await self.records(session), head=chain.head(session))

    async def bodies(self, session: str, *, before: float) -> tuple[int, int, float | None]:
        """How many bodies older than a time a session holds, their bytes, and when the oldest was written."""
        held = [r for r in await self.records(session) if r.at < before and r.body is not None]
        return len(held), sum(len(r.body or b"") for r in held), min((r.at for r in held), default=None)

    async def delete_bodies(self, session: str, *, before: float) -> None:
        """Delete the bodies older than a time; the records stay, and their chain holds."""
        old = [r.seq for r in await self.store.read(session, bodies=False) if r.at < before]
        if old:
            await self.store.delete(Bodies(session, old[-1]))

    # -- writing ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def open_session(
        self, session: str, *, run: str = "", wait_s: float = WAIT_S
    ) -> AsyncGenerator[Session]:
        """See `pegboard.runtime.session.open_session`."""
        # Not at the top: a single call loads no part of an agent.
        from pegboard.runtime.session import Backing, open_session

        await self.store.connect()  # Before a key is made for what could not be kept.
        backing = Backing(store=self.store, chain=self._chain, redact=self._redact)
        async with open_session(backing, session, run=run, wait_s=wait_s) as opened:
            yield opened

    @asynccontextmanager
    async def log(self, session: str, *, run: str = "") -> AsyncGenerator[Log]:
        """Write to a stream that other processes write to as well; what is left is written when the block ends.

        Args:
            session: its key.
            run: the run that the events belong to; one that starts names itself.

        Raises:
            StoreError: the store cannot be read, or, at the end of the block, something could not be written.
        """
        log = await Log.open(
            self.store, session, chain=self._chain, fenced=False, redact=self._redact, run=run
        )
        try:
            yield log
        finally:
            await log.close()

    @asynccontextmanager
    async def single_call(self, run: str) -> AsyncGenerator[None]:
        """Work on a run that is a single call, until the block ends: others see that it goes on.

        Raises:
            StoreError: the store cannot be written.
        """
        lease = await Leases(self.store).acquire(run)
        try:
            yield
        finally:
            # The end of the run says the same.
            with suppress(StoreError):
                await lease.release(last=True)

    # -- the file ---------------------------------------------------------------------------------

    async def check(self) -> str:
        """What is wrong with the file, empty if nothing; it is recovered if that can be done."""
        return await self.store.check() if self.file.exists() else ""

    def damaged(self) -> list[Path]:
        """Copies of histories that were found damaged, as they were; oldest first."""
        copies = self.file.parent.glob(f"{self.file.name}.damaged-*")
        return sorted(p for p in copies if not p.name.endswith("-wal"))
