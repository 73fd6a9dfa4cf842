"""Leases: who works on a session, so that of two processes the second waits."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pegboard.core.errors import ConfigError
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.store import Conflict, Put, Store
from pegboard.store.table import Table

RENEW_S: Final = 10.0
"""Seconds between two renewals of a lease that is held."""
STALE_S: Final = 30.0
"""Seconds of the taker's clock after which a lease that nobody renews can be taken."""
_LOOK_S: Final = 0.1

_TABLE: Final = "leases"

T = TypeVar("T")


class SessionBusy(ConfigError):
    """Another process works on a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, so that another can tell whether it still lives.

    Attributes:
        machine: the host's name.
        boot: what tells this boot of the machine from others; a pid says nothing beyond it.
        namespace: the PID namespace in which `pid` counts.
        pid, started: the process, and its start time as the kernel has it.
    """

    machine: str
    boot: str
    namespace: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.machine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A lease's row; the owner is None while nobody holds it, and `turn` makes every renewal a new row."""

    owner: Owner | None
    turn: int = 0


class Lease:
    """The right to work on one key, renewed until it is released.

    Attributes:
        key: what it is for.
        lost: whether another process has taken it; then whatever is fenced by it must stop.
    """

    def __init__(self, leases: Leases, key: str, held: _Held, version: int) -> None:
        self.key = key
        self.lost = False
        self._leases = leases
        self._held = held
        self._version = version
        self._writing = asyncio.Lock()
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def release(self, *, last: bool = False) -> None:
        """Let go, so that another can have it at once, even if the caller is cancelled meanwhile.

        Args:
            last: nobody takes the key again, so its row goes too.
        """
        await _finish(asyncio.ensure_future(self._release(last)))

    async def _release(self, last: bool) -> None:
        async with self._writing:
            self._task.cancel()
            if not self.lost:
                with suppress(Conflict):
                    free = None if last else _Held(owner=None, turn=self._held.turn)
                    await self._leases.write(self.key, free, self._version)
        await asyncio.wait([self._task])

    async def renew(self) -> None:
        """Show that it is still held."""
        async with self._writing:
            held = _Held(owner=self._held.owner, turn=self._held.turn + 1)
            try:
                self._version = await self._leases.write(self.key, held, self._version)
                self._held = held
            except Conflict:
                self.lost = True

    async def _keep(self) -> None:
        while not self.lost:
            await asyncio.sleep(RENEW_S)
            await self.renew()


class Leases:
    """The leases of a store.

    Args:
        store: where they are.
        clock: decides how long a lease was not renewed.
        owner: this process; for tests.
        alive: whether a process still lives, None if that cannot be known from here; for tests.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        owner: Owner | None = None,
        alive: Callable[[Owner], bool | None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._owner = owner or this_process()
        self._alive = alive or is_alive
        self._table = Table(store, _TABLE, asdict, _held)
        self._seen: dict[str, tuple[int, float]] = {}

    async def acquire(self, key: str, wait_s: float = 0.0) -> Lease:
        """Take a lease, or wait for it.

        The lease of a process of this machine that has ended is taken at once, any other when it was not renewed for
        30 seconds. Whether a process of another machine or container lives can only be seen from its renewals, so for
        one of these it waits until it has seen one, whatever `wait_s` says. What `holder` saw before counts.

        Raises:
            SessionBusy: another process holds it; the message names that process.
        """
        end = self._clock.monotonic() + wait_s
        seen = self._seen.pop(key, None)
        renewed = False
        while True:
            row, version = await self._table.versioned(key)
            now = self._clock.monotonic()
            if seen is None or seen[0] != version:
                renewed = seen is not None
                seen = (version, now)
            owner = None if row is None else row.owner
            alive = owner is not None and self._alive(owner)
            if owner is None or alive is False or now - seen[1] >= STALE_S:
                held = _Held(owner=self._owner, turn=0 if row is None else row.turn + 1)
                taking = asyncio.ensure_future(self._take(key, held, version))
                try:
                    lease = await _finish(taking)
                except asyncio.CancelledError:
                    # The row may be written by now: nobody else would ever release it.
                    if taking.exception() is None and (written := taking.result()):
                        await written.release()
                    raise
                if lease is not None:
                    return lease
                continue
            if now >= end and (alive or renewed):
                raise SessionBusy(
                    f"another process is using session {key!r}: {owner}; wait until it has ended, or use "
                    "another session"
                )
            await asyncio.sleep(_LOOK_S)

    async def _take(self, key: str, held: _Held, version: int) -> Lease | None:
        """The lease, None if another process was faster."""
        with suppress(Conflict):
            return Lease(self, key, held, await self.write(key, held, version))
        return None

    async def drop_ended(self) -> None:
        """Forget the leases of processes that have ended: what they worked on may never be taken up again."""
        for key in await self._table.scan():
            held, version = await self._table.versioned(key)
            if held is not None and held.owner is not None and self._alive(held.owner) is False:
                with suppress(Conflict):
                    await self.write(key, None, version)

    async def holder(self, key: str) -> Owner | None:
        """Who holds a lease now, None if nobody does or its process has ended.

        A process of another machine or container has ended when its lease was the same for 30 seconds of asking.
        """
        return self._living(key, *await self._table.versioned(key))

    async def holders(self) -> dict[str, Owner]:
        """Who holds which lease now; without processes that have ended, see `holder`."""
        rows = await self._table.scan_versioned()
        living = {key: self._living(key, held, version) for key, (held, version) in rows.items()}
        return {key: owner for key, owner in living.items() if owner is not None}

    def _living(self, key: str, held: _Held | None, version: int) -> Owner | None:
        owner = None if held is None else held.owner
        if owner is None or (alive := self._alive(owner)) is False:
            self._seen.pop(key, None)
            return None
        if alive is None:
            now = self._clock.monotonic()
            seen = self._seen.get(key)
            if seen is None or seen[0] != version:
                self._seen[key] = seen = (version, now)
            if now - seen[1] >= STALE_S:
                return None
        return owner

    async def write(self, key: str, held: _Held | None, expected: int) -> int:
        """Write a lease's row, or delete it; its new version.

        Raises:
            Conflict: another process was faster.
        """
        put = (
            Put(_TABLE, key, None, expected)
            if held is None
            else self._table.put_of(key, held, expected=expected)
        )
        return (await self._store.put(put))[0]


async def _finish(work: asyncio.Future[T]) -> T:
    """The result of a task that runs to its end even if its caller is cancelled; the cancellation is raised then."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.result()


def this_process() -> Owner:
    """This process."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> Owner:
    """The owner that this process is; asked for with each look at a lease, and the same until it forks."""
    return Owner(
        machine=socket.gethostname(),
        boot=_boot(),
        namespace=_namespace(),
        pid=pid,
        started=_started(pid) or "",
    )


def is_alive(owner: Owner) -> bool | None:
    """Whether a process still lives; None for one of another machine or PID namespace."""
    here = this_process()
    if owner.machine != here.machine:
        return None
    if owner.boot != here.boot:
        return False
    if owner.namespace != here.namespace:
        return None
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # Its number may have been given to another process since.
    return _started(owner.pid) in (None, owner.started)


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _namespace() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _started(pid: int) -> str | None:
    """A process's start time in clock ticks since boot, None if the system does not tell; "" for a dead one (proc(5))."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything; what follows it is counted from field 3.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _held(value: dict[str, Any]) -> _Held:
    owner = value["owner"]
    return _Held(owner=None if owner is None else Owner(**owner), turn=value["turn"])
