"""History: the sessions and runs that this machine has recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from pegboard.core.events import Event
from pegboard.ports.store import Bodies, Record, Store
from pegboard.services.at_work import AtWork
from pegboard.store.blocking import BlockingStore
from pegboard.store.chain import Fault, verify
from pegboard.store.encoding import Redact
from pegboard.store.log import active_s, history, iter_history
from pegboard.store.logs import SessionLog
from pegboard.store.runs import RunList, RunRow
from pegboard.store.sqlite import SqliteStore


class History:
    """What the services know of past work. All their reading and writing of the store is here.

    Args:
        store: opens the store at the first use.
        paths: where keys, heads and locks lie.
        redact: takes secrets out of what is written.
    """

    def __init__(self, store: Callable[[], BlockingStore], paths: Paths, redact: Redact) -> None:
        self._open = store
        self._paths = paths
        self._redact = redact

    @property
    def file(self) -> Path:
        """The file that it lies in."""
        return self._paths.state / "history.sqlite"

    @property
    def store(self) -> Store:
        """The store.

        Raises:
            StoreError: it cannot be opened.
        """
        return self._open().store

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
        keys = dict.fromkeys(await self.sessions())
        for file in sorted((self._paths.config / "heads").glob("*.json")):
            keys[str(json.loads(file.read_text(encoding="utf-8"))["stream"])] = None
        return list(keys)

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
        head: tuple[int, str] | None = None
        try:
            row = json.loads(self._head(session).read_text(encoding="utf-8"))
            head = (int(row["seq"]), str(row["mac"]))
        except FileNotFoundError:
            pass
        return verify(self._paths.key(), session, await self.records(session), head=head)

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

    def log(self, session: str, *, run: str = "") -> SessionLog:
        """The writer of a session; `run` names one that is resumed."""
        return SessionLog(
            self._open(), session, key=self._paths.key(), heads=self._head(session), run=run, redact=self._redact
        )  # fmt: skip

    @property
    def at_work(self) -> AtWork:
        """Who works on which session and call now."""
        return AtWork(self._paths.state / "sessions")

    @contextmanager
    def lock_session(self, session: str) -> Generator[None]:
        """Be the one process that works on a session, until the block ends.

        Raises:
            ConfigError: another process works on it now.
        """
        with self.at_work.session(session):
            yield

    # -- the file ---------------------------------------------------------------------------------

    async def check(self) -> str:
        """What is wrong with the file, empty if nothing; it is recovered if that can be done."""
        return await cast(SqliteStore, self.store).check() if self.file.exists() else ""

    def damaged(self) -> list[Path]:
        """Copies of histories that were found damaged, as they were; oldest first."""
        copies = self.file.parent.glob(f"{self.file.name}.damaged-*")
        return sorted(p for p in copies if not p.name.endswith("-wal"))

    def _head(self, session: str) -> Path:
        name = hashlib.sha256(session.encode()).hexdigest()[:24]
        return self._paths.config / "heads" / f"{name}.json"
