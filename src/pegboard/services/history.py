"""History: the sessions and runs that this machine has recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard.config.paths import Paths
from pegboard.config.store import StoreSettings
from pegboard.core.errors import ConfigError
from pegboard.core.events import Event, PayloadsPurged
from pegboard.ports.store import Bodies, Put, Record, StoreError
from pegboard.store.chain import GENESIS, ROWS, Chain, Fault, Verification
from pegboard.store.encoding import Redact
from pegboard.store.history import HistoryStore
from pegboard.store.leases import Leases, Owner
from pegboard.store.log import FOLDED, Log, active_s, decode_events, history, iter_history
from pegboard.store.runs import ONE_CALLS, RUN_EVENTS, RunList, RunRow
from pegboard.store.seal import PURGED

if TYPE_CHECKING:
    from pegboard.runtime.session import Session

LAST: Final = "last"
"""Stands for the newest run where an id is taken."""
GONE: Final = "(purged)"
"""Stands in the list of runs where the task stood."""
_PAGE: Final = 256
_SCAN_FROM: Final = 20
"""Runs that stand as running from which their leases are read at once."""
WAIT_S: Final = 2.0
"""Seconds that a command waits for another process that works on the same session."""


class History:
    """What the services know of past work. All their reading and writing of the store is here.

    Args:
        store: gives the store, at the first use.
        paths: where keys and heads lie.
        redact: takes secrets out of what is written.
        settings: which store it is.
    """

    def __init__(
        self, store: Callable[[], HistoryStore], paths: Paths, redact: Redact, *, settings: StoreSettings
    ) -> None:
        self._store = store
        self._paths = paths
        self._redact = redact
        self._settings = settings

    @property
    def file(self) -> Path | None:
        """The file that it lies in; None where it is on a server."""
        return self._settings.file(self._paths)

    @property
    def place(self) -> str:
        """The file, or the server's URL without the password."""
        return self._settings.place(self._paths)

    @property
    def exists(self) -> bool:
        """Whether there may be something: False where the file was not made yet."""
        return self.file is None or self.file.exists()

    @property
    def store(self) -> HistoryStore:
        """The store; it is opened when it is first read or written."""
        return self._store()

    @cached_property
    def leases(self) -> Leases:
        """Who works on which session. It remembers what it has seen of other machines' processes."""
        return Leases(self.store)

    @property
    def chain(self) -> Chain:
        """What its records and rows are chained with."""
        return self._settings.chain(self._paths)

    # -- runs and sessions ------------------------------------------------------------------------

    async def runs(
        self,
        *,
        session: str | None = None,
        status: str | None = None,
        workspace: str | None = None,
        limit: int | None = None,
        prefix: str = "",
    ) -> list[RunRow]:
        """The latest runs, newest first, as they are recorded; None = all. `prefix`: of sessions whose keys begin so."""
        return await RunList(self.store).list(
            session=session, status=status, workspace=workspace, limit=limit, prefix=prefix
        )

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
        recorded = [*await self.sessions(), *await self.store.streams(), *self.chain.streams()]
        return list(dict.fromkeys(recorded))

    async def holder(self, session: str) -> Owner | None:
        """The process that works on a session now, None if there is none."""
        return await self.leases.holder(session)

    async def mark_interrupted(self, rows: Iterable[RunRow]) -> list[RunRow]:
        """The rows as they are: one that stands as running, and no process works on it, is `interrupted`.

        Args:
            rows: newest first, as the store gives them.
        """
        rows = list(rows)
        held = None
        if sum(row.status == "running" for row in rows) > _SCAN_FROM:
            # One look at all of them, in place of one at each.
            held = await self.leases.holders()

        async def is_held(key: str) -> bool:
            return key in held if held is not None else await self.leases.holder(key) is not None

        out: list[RunRow] = []
        newer: set[str] = set()
        for row in rows:
            single = row.agent in ONE_CALLS
            # A session is held for its newest run: the one before it is over, however it stands.
            over = row.status == "running" and (
                (not single and row.stream in newer) or not await is_held(row.id if single else row.stream)
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

    async def times(self, row: RunRow) -> list[float]:
        """When each of a run's events was recorded, in seconds since the epoch, oldest first."""
        return [record.at for record in await self.store.read(row.stream, run=row.id, bodies=False)]

    async def active_s(self, row: RunRow) -> float:
        """Seconds that a run has taken so far, without what it waited for somebody."""
        return active_s(await self.store.read(row.stream, run=row.id))

    async def records(self, session: str, *, types: Sequence[str] = ()) -> AsyncIterator[Record]:
        """The records of a session, with their chain, read page by page; `types`: only those."""
        after = 0
        while page := await self.store.read(session, after=after, types=types, limit=_PAGE):
            for record in page:
                yield record
            after = page[-1].seq

    async def ends(self) -> dict[str, tuple[int, str]]:
        """Number and mac of the last record of each session, and of the last change of the tables under ""."""
        out: dict[str, tuple[int, str]] = {}
        for session in await self.store.streams():
            (last,) = await self.store.read(session, last=1, bodies=False)
            out[session] = (last.seq, last.mac)
        return out if (seal := await self.store.seal()) is None else {**out, ROWS: seal}

    async def verify(self, session: str, *, anchor: tuple[int, str] | None = None) -> list[Fault]:
        """Every fault of a session: of its chain, its end and its runs in the list of runs.

        Args:
            session: its key.
            anchor: number and mac of a record that was its last once.
        """
        chain = self.chain
        head = chain.head(session)
        before = await self.store.get(PURGED, session)
        found = Verification(
            chain.key, session, ends=_known({"the kept head": head, "the anchor": anchor}),
            purged=0 if before is None else int(before.value),
        )  # fmt: skip
        events: list[tuple[float, Event]] = []
        unread: set[str] = set()
        async for record in self.records(session):
            found.add(record)
            if record.type in RUN_EVENTS:
                if record.body is None:
                    unread.add(record.run)
                events += [(record.at, event) for event in decode_events([record])]
        faults = found.faults()
        # What only other machines have written to a shared store has no end here.
        if head is None and found.last and self.file is not None:
            problem = f"its head in {chain.heads} is missing: a tail that was cut off would not be missed"
            faults.append(Fault(seq=found.last, problem=problem))
        return [*faults, *await self._verify_runs(session, events, unread)]

    async def _verify_runs(
        self, session: str, events: list[tuple[float, Event]], unread: set[str]
    ) -> list[Fault]:
        """What the list of runs says otherwise than the records of a session.

        Args:
            unread: runs of which some record has no payload.
        """
        runs = RunList(self.store)
        known: dict[str, RunRow] = {}
        await runs.puts(session, events, known)
        problems: list[str] = []
        for row in await runs.list(session=session, limit=None):
            recorded = known.pop(row.id, None)
            if row.id in unread:
                continue
            if recorded is None:
                problems.append(f"the list of runs shows {row.id}, which has no record")
                continue
            for name, value in asdict(recorded).items():
                # Rows of before workspaces were listed have none.
                if (
                    (name, row.workspace) != ("workspace", "")
                    and value != getattr(row, name)
                    and (name, row.task) != ("task", GONE)
                ):
                    problems.append(f"the list of runs shows another {name} of {row.id} than its records")
        problems += [f"the run {run} is missing in the list of runs" for run in known if run not in unread]
        return [Fault(seq=0, problem=problem) for problem in problems]

    async def verify_rows(self, *, anchor: tuple[int, str] | None = None) -> list[Fault]:
        """Every fault of the tables beside the streams: grants, labels, budgets, artifacts and the like."""
        ends = _known({"the kept seal": self.chain.head(ROWS), "the anchor": anchor})
        return await self.store.check_rows(ends)

    async def accept(self, session: str) -> None:
        """Take the end that a session has now for its end: what was cut off is not missed any more."""
        last = await self.store.read(session, last=1, bodies=False)
        self.chain.keep_head(session, *((last[0].seq, last[0].mac) if last else (0, GENESIS)))

    async def bodies(self, session: str, *, before: float) -> tuple[int, int, float | None]:
        """How many bodies older than a time a session holds, their bytes, and when the oldest was written."""
        held = [(r.at, len(r.body)) async for r in self.records(session) if _goes(r, before) and r.body]
        return len(held), sum(size for _, size in held), min((at for at, _ in held), default=None)

    async def delete_bodies(self, session: str, *, before: float) -> None:
        """Delete the bodies older than a time; the records stay, and one more says that this was a purge.

        Raises:
            ConfigError: another process works on the session.
        """
        old = [r.seq async for r in self.records(session) if _goes(r, before) and r.body is not None]
        if not old:
            return
        lease = await Leases(self.store).acquire(session)
        try:
            # First: bodies that are missing without it would be a fault.
            async with self.log(session) as log:
                log.record(PayloadsPurged(old[-1]))
            await self.store.put(Put(FOLDED, session, None))
            await self.store.delete(Bodies(session, old[-1]))
        finally:
            await lease.release()

    # -- writing ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def open_session(
        self, session: str, *, run: str = "", wait_s: float = WAIT_S
    ) -> AsyncGenerator[Session]:
        """See `pegboard.runtime.session.open_session`."""
        # Not at the top: a single call loads no part of an agent.
        from pegboard.runtime.session import Backing, open_session

        await self.store.connect()  # Before a key is made for what could not be kept.
        backing = Backing(store=self.store, chain=self.chain, redact=self._redact, leases=self.leases)
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
            self.store, session, chain=self.chain, fenced=False, redact=self._redact, run=run
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
        leases = Leases(self.store)
        await leases.drop_ended()
        lease = await leases.acquire(run)
        try:
            yield
        finally:
            # The end of the run says the same.
            with suppress(StoreError):
                await lease.release(last=True)

    # -- the file ---------------------------------------------------------------------------------

    async def check(self) -> str:
        """What is wrong with the store, empty if nothing; a file is recovered if that can be done."""
        return await self.store.check() if self.exists else ""

    def damaged(self) -> list[Path]:
        """Copies of histories that were found damaged, as they were; oldest first."""
        if self.file is None:
            return []
        copies = self.file.parent.glob(f"{self.file.name}.damaged-*")
        return sorted(p for p in copies if not p.name.endswith("-wal"))


def _known(ends: Mapping[str, tuple[int, str] | None]) -> dict[str, tuple[int, str]]:
    return {what: end for what, end in ends.items() if end is not None}


def _goes(record: Record, before: float) -> bool:
    """Whether a purge of what is older than a time may delete a record's body; not what proves an earlier one."""
    return record.at < before and record.type != PayloadsPurged.type
