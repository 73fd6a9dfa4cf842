"""SessionRows: the list of a store's sessions, kept by the appends that change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from pegboard.core.errors import InvalidArguments, NotFound
from pegboard.core.events import ModelReplied, UserSaid
from pegboard.core.session_key import MAIN, SessionKey, check_session_key
from pegboard.ports.sessions import SessionRow
from pegboard.ports.store import Put, Store
from pegboard.store.children import Children
from pegboard.store.inbox import Inbox
from pegboard.store.leases import Leases
from pegboard.store.runs import ONE_CALLS, RunList, RunRow
from pegboard.store.table import Table

COUNTED: Final = (UserSaid.type, ModelReplied.type)
"""Types of the events that count as messages."""
_FILLED: Final = "filled"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What an append keeps. `messages` counts the records up to number `through`."""

    task: str = ""
    created: float = 0.0
    last_active: float = 0.0
    messages: int = 0
    through: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What people say about a session; no append changes it."""

    label: str = ""
    branched_from: str = ""
    deleted: bool = False


class SessionRows:
    """The sessions of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = Table[_Stored](store, "sessions", asdict, lambda value: _Stored(**value))
        self._names = Table[_Named](store, "session_names", asdict, lambda value: _Named(**value))

    async def put_of(
        self, session: str, runs: Iterable[RunRow], *, at: float, messages: int, last: int, count: int
    ) -> Put | None:
        """What an append changes; None where it is about single calls alone.

        Args:
            session: the stream.
            runs: those that it starts, resumes or ends.
            at: the time of its last event.
            messages: how many of its events are messages.
            last: number of the stream's last record before it.
            count: how many records it appends.
        """
        mine = [run for run in runs if run.agent not in ONE_CALLS]
        if not mine:
            return None
        before = await self._table.get(session) or _Stored()
        if not before.created:
            first = min(mine, key=lambda run: run.started)
            before = replace(before, task=first.task[:200], created=first.started)
        # Appends that start or end no run are counted here, not one by one.
        between = await self._count(session, before.through)
        return self._table.put_of(
            session,
            replace(before, last_active=at, messages=before.messages + between + messages, through=last + count),
        )  # fmt: skip

    async def list(self) -> list[SessionRow]:
        """All sessions, the last used first; those too that only have messages waiting."""
        await self._fill()
        stored, names = await self._table.scan(), await self._names.scan()
        inbox = await Inbox(self._store).all()
        waiting = Counter(m.session for m in inbox)
        for message in inbox:
            if message.session not in stored:
                stored[message.session] = _Stored(
                    task=message.content[:200], created=message.at, last_active=message.at
                )
        runs = [
            r for s in ("suspended", "running") for r in await RunList(self._store).list(status=s, limit=None)
        ]
        open_runs = {run.stream: run for run in sorted(runs, key=lambda r: r.started)}
        parents = {c.session: c.parent for c in await Children(self._store).all()}
        leases = Leases(self._store)
        rows: list[SessionRow] = []
        for key, one in stored.items():
            named = names.get(key, _Named())
            if named.deleted and not waiting[key] and one.messages == 0:
                continue
            status, messages = "idle", one.messages
            if (run := open_runs.get(key)) is not None:
                free = run.status == "running" and await leases.holder(key) is None
                status = "interrupted" if free else run.status
                messages += await self._count(key, one.through)
            rows.append(
                SessionRow(
                    key=key, label=named.label, agent=agent_of(key), task=one.task, messages=messages,
                    created=one.created, last_active=one.last_active, status=status, waiting=waiting[key],
                    parent=parents.get(key, ""), branched_from=named.branched_from,
                )
            )  # fmt: skip
        return sorted(rows, key=lambda r: (-r.last_active, r.key))

    async def rename(self, session: str, label: str) -> None:
        """Give a session a label; empty takes it away."""
        await self._names.change(session, lambda named: replace(named or _Named(), label=label))

    async def note_branch(self, session: str, source: str) -> None:
        """Note which session a session was branched from."""
        await self._names.put(session, _Named(branched_from=source))

    async def delete(self, session: str) -> None:
        """Take a session out of the list, with the messages that wait for it; a later run of it begins a new one."""
        (last,) = await self._store.read(session, last=1, bodies=False) or (None,)
        empty = _Stored(through=0 if last is None else last.seq)
        waiting = await Inbox(self._store).waiting(session)
        await Inbox(self._store).drop(waiting)
        await self._store.put(
            self._table.put_of(session, empty), self._names.put_of(session, _Named(deleted=True))
        )

    async def purge(self, session: str, *, before: float, instead: str) -> None:
        """Put another text in the place of the task of a session that began before a time."""

        def purged(row: _Stored | None) -> _Stored | None:
            return replace(row, task=instead) if row is not None and row.created < before else row

        await self._table.change(session, purged)

    async def _count(self, session: str, after: int) -> int:
        return len(await self._store.read(session, after=after, types=COUNTED, bodies=False))

    async def _fill(self) -> None:
        """Rows for the sessions of before there were any."""
        if await self._store.get("session_rows", _FILLED) is not None:
            return
        streams: dict[str, list[RunRow]] = {}
        for run in await RunList(self._store).list(limit=None):
            if run.agent not in ONE_CALLS:
                streams.setdefault(run.stream, []).append(run)
        for session, runs in streams.items():
            if await self._table.get(session) is None:
                row = _Stored(
                    task=runs[-1].task[:200], created=runs[-1].started,
                    last_active=max(max(r.started, r.ended) for r in runs),
                )  # fmt: skip
                records = await self._store.read(session, types=COUNTED, bodies=False)
                if records:
                    row = replace(row, messages=len(records), through=records[-1].seq)
                await self._table.put(session, row)
        await self._store.put(Put("session_rows", _FILLED, b"1"))


def agent_of(key: str) -> str:
    """The agent that works in a session."""
    parts = key.split(":", 2)
    return parts[1] if parts[0] == "agent" and len(parts) == 3 and parts[1] else MAIN


def find_session(rows: Sequence[SessionRow], wanted: str) -> SessionRow:
    """The session that a key, a short form of one, a label or `@label` means.

    Raises:
        NotFound: none of the rows.
        InvalidArguments: several of them, or the key cannot be one.
    """
    check_session_key(wanted)
    name = wanted.removeprefix("@").casefold()
    short = SessionKey.parse(wanted)
    ways = (
        [r for r in rows if r.key == wanted],
        [r for r in rows if r.label and r.label.casefold() == name],
        [r for r in rows if short.channel and short.matches(SessionKey.parse(r.key))],
        [r for r in rows if wanted.startswith("@") and SessionKey.parse(r.key).id.casefold() == name],
    )
    found = next((way for way in ways if way), ways[0])
    if not found:
        raise NotFound(f"no session {wanted!r}", hint="sessions_list shows those there are.")
    if len(found) > 1:
        keys = ", ".join(r.key for r in found[:5])
        raise InvalidArguments(
            f"{wanted!r} means {len(found)} sessions: {keys}{', …' if len(found) > 5 else ''}",
            hint="Give the whole key.",
        )
    return found[0]


__all__ = ["COUNTED", "SessionRows", "agent_of", "find_session"]
