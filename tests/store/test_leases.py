"""Leases: one process works on a session; a dead one's is taken at once, a silent one's after 30 seconds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from pegboard.core.errors import ConfigError
from pegboard.core.events import Notice
from pegboard.ports.store import Put, Store
from pegboard.store import STORES, open_store
from pegboard.store.leases import Leases, Owner, is_alive, this_process
from pegboard.store.log import Log
from pegboard.store.memory import MemoryStore
from tests.postgres import PostgresServer

OTHER = Owner(machine="elsewhere", boot="b", namespace="n", pid=7, started="1")


class Ticking:
    """A clock that goes on by some seconds whenever somebody looks."""

    def __init__(self, step_s: float = 10.0) -> None:
        self.at = 0.0
        self._step_s = step_s

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        self.at += self._step_s
        return self.at


class Slow(MemoryStore):
    """A store whose every write takes two turns of the event loop: one before it is there, one after."""

    async def put(self, *puts: Put) -> tuple[int, ...]:
        # As with a database's thread: what was handed over is written, whether its caller still waits or not.
        return await asyncio.shield(asyncio.ensure_future(self._later(*puts)))

    async def _later(self, *puts: Put) -> tuple[int, ...]:
        await asyncio.sleep(0)
        versions = await super().put(*puts)
        await asyncio.sleep(0)
        return versions


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> str:
    """A new store of each kind."""
    match request.param:
        case "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            return server.url()
        case "sqlite":
            folder: Path = request.getfixturevalue("tmp_path")
            return f"sqlite:{folder / 's.sqlite'}"
        case kind:
            return kind


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    opened = await open_store(place)
    yield opened
    await opened.close()


async def test_a_second_taker_hears_who_holds_the_lease_until_it_is_released(store: Store) -> None:
    lease = await Leases(store, owner=OTHER).acquire("s")

    with pytest.raises(ConfigError, match="session 's': process 7 on elsewhere"):
        await Leases(store, alive=lambda _: True).acquire("s")
    assert await Leases(store).holder("s") == OTHER
    await lease.release()

    assert await Leases(store).holder("s") is None
    await (await Leases(store).acquire("s")).release()


async def test_a_taker_that_waits_gets_it_when_it_is_released(store: Store) -> None:
    lease = await Leases(store, owner=OTHER).acquire("s")
    taker = asyncio.ensure_future(Leases(store).acquire("s", wait_s=30))
    await asyncio.sleep(0)
    await lease.release()

    taken = await asyncio.wait_for(taker, 10)

    assert await Leases(store).holder("s") == this_process()
    await taken.release()


async def test_a_lease_that_nobody_renews_is_taken_after_thirty_seconds(store: Store) -> None:
    lost = await Leases(store, owner=OTHER).acquire("s")
    clock = Ticking()

    # Nobody can tell from here whether its process lives, so this taker's own patience does not end it.
    taken = await Leases(store, clock=clock).acquire("s", wait_s=0)

    # First seen at 10, still the same at 40.
    assert clock.at == pytest.approx(50, abs=10)
    await lost.renew()
    assert lost.lost
    await lost.release()
    assert await Leases(store).holder("s") == this_process()
    await taken.release()


async def test_who_looks_at_a_lease_for_thirty_seconds_sees_that_its_process_has_ended(store: Store) -> None:
    lost = await Leases(store, owner=OTHER).acquire("s")
    clock = Ticking(step_s=14)
    leases = Leases(store, clock=clock)

    assert [await leases.holder("s") for _ in range(3)] == [OTHER] * 3  # Seen at 14, 28 and 42.
    await lost.renew()
    assert [await leases.holder("s") for _ in range(4)] == [OTHER, OTHER, OTHER, None]
    # What was seen counts for the taker too.
    taken = await leases.acquire("s")

    assert clock.at < 14 * 10
    assert await leases.holder("s") == this_process()
    await taken.release()
    await lost.release()


async def test_a_lease_that_is_renewed_is_not_taken(store: Store) -> None:
    held = await Leases(store, owner=OTHER).acquire("s")

    class Renewing(Ticking):
        def monotonic(self) -> float:
            renewals.append(asyncio.ensure_future(held.renew()))
            return super().monotonic()

    renewals: list[asyncio.Future[None]] = []
    with pytest.raises(ConfigError, match="elsewhere"):
        await Leases(store, clock=Renewing()).acquire("s", wait_s=100)

    await asyncio.gather(*renewals)
    assert not held.lost
    await held.release()


async def test_of_many_takers_at_once_one_gets_it(store: Store) -> None:
    leases = [Leases(store, owner=replace(OTHER, pid=n), alive=lambda _: True) for n in range(8)]

    got = await asyncio.gather(*(one.acquire("s") for one in leases), return_exceptions=True)

    [held] = [one for one in got if not isinstance(one, BaseException)]
    assert all(isinstance(one, ConfigError) for one in got if one is not held)
    await held.release()


async def test_a_taker_cancelled_at_any_point_leaves_no_lease_behind() -> None:
    store = Slow()

    async def hold() -> None:
        await (await Leases(store).acquire("s")).release()

    cancelled = 0
    for turns in range(40):
        work = asyncio.ensure_future(hold())
        for _ in range(turns):
            await asyncio.sleep(0)
        work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            cancelled += 1
        assert await Leases(store).holder("s") is None, turns
    assert 5 < cancelled < 40


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    here = this_process()

    assert is_alive(here) is True
    assert is_alive(replace(here, started="1")) is False
    assert is_alive(replace(here, boot="an earlier boot")) is False
    assert is_alive(replace(here, machine="elsewhere")) is None
    assert is_alive(replace(here, namespace="a container's")) is None


HOLDER = """
import asyncio, sys
from dataclasses import replace
from pegboard.core.events import Notice
from pegboard.store import leases, open_store
from pegboard.store.log import Log

async def main(where, machine):
    leases.RENEW_S = 0.05
    here = leases.this_process()
    store = await open_store(where)
    lease = await leases.Leases(store, owner=replace(here, machine=machine or here.machine)).acquire("s")
    log = await Log.open(store, "s", chain=None)
    log.record(Notice(text="first"))
    await log.flush()
    print("held", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    log.record(Notice(text="late"))
    try:
        await log.flush()
    except Exception as error:
        print(type(error).__name__, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def holder(where: str, *, machine: str = "") -> subprocess.Popen[str]:
    """A process that holds the lease, of this machine or another one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDER, where, machine],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "held\n"
    return started


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_the_lease_of_a_killed_process_is_taken_at_once(place: str) -> None:
    other = holder(place)
    store = await open_store(place)
    with pytest.raises(ConfigError, match=f"process {other.pid} on "):
        await Leases(store).acquire("s")

    other.send_signal(signal.SIGKILL)
    other.communicate()

    await (await Leases(store).acquire("s")).release()
    await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
async def test_another_machines_lease_is_taken_once_nobody_has_renewed_it_for_thirty_seconds(
    place: str,
) -> None:
    other = holder(place, machine="elsewhere")
    store = await open_store(place)
    with pytest.raises(ConfigError, match=f"process {other.pid} on elsewhere"):
        await Leases(store, clock=Ticking(1.0)).acquire("s", wait_s=3)

    other.send_signal(signal.SIGKILL)
    other.communicate()
    clock = Ticking(1.0)
    lease = await Leases(store, clock=clock).acquire("s")

    assert 30 <= clock.at <= 40
    await lease.release()
    await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
async def test_a_machine_that_slept_through_the_loss_of_its_lease_writes_nothing_more(place: str) -> None:
    other = holder(place, machine="elsewhere")
    store = await open_store(place)
    other.send_signal(signal.SIGSTOP)
    # A renewal may still have been on its way when it was stopped.
    lease = await Leases(store, clock=Ticking(1.0)).acquire("s", wait_s=100)
    log = await Log.open(store, "s", chain=None)
    log.record(Notice(text="mine"))
    await log.close()

    other.send_signal(signal.SIGCONT)
    out, _ = other.communicate("go on\n", timeout=60)

    assert out == "LeaseLost\n"
    assert [event.text async for event in log.events() if isinstance(event, Notice)] == ["first", "mine"]
    await lease.release()
    await store.close()
