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
from pegboard.ports.store import Put, Store
from pegboard.store import open_store
from pegboard.store.leases import Leases, Owner, is_alive, this_process
from pegboard.store.memory import MemoryStore

OTHER = Owner(machine="elsewhere", boot="b", namespace="n", pid=7, started="1")


class Ticking:
    """A clock that goes on by ten seconds whenever somebody looks."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        self.at += 10.0
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


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store("memory" if request.param == "memory" else tmp_path / "s.sqlite")
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
from pathlib import Path
from pegboard.store import open_store
from pegboard.store.leases import Leases

async def main():
    store = await open_store(Path(sys.argv[1]))
    await Leases(store).acquire("s")
    print("held", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_the_lease_of_a_killed_process_is_taken_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "s.sqlite")],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    store = await open_store(tmp_path / "s.sqlite")
    with pytest.raises(ConfigError, match=f"process {holder.pid} on "):
        await Leases(store).acquire("s")

    holder.send_signal(signal.SIGKILL)
    holder.communicate()

    await (await Leases(store).acquire("s")).release()
    await store.close()
