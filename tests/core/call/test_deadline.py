"""Deadlines: one sweep for the far ones, a timer each for the near ones."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

from pegboard.core.call.call import NEAR_S, Deadline, Deadlines


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_far_deadline_that_has_passed_cancels_its_task_at_the_next_sweep() -> None:
    deadlines = Deadlines()
    loop = asyncio.get_running_loop()
    late, early = (asyncio.ensure_future(forever()) for _ in range(2))
    passed, coming = Deadline(), Deadline()
    deadlines.start(passed, late, NEAR_S * 2)
    deadlines.start(coming, early, NEAR_S * 2)
    # As if the time had gone by: the sweep only compares.
    passed.at = loop.time() - 1

    deadlines._sweep(loop)
    await asyncio.sleep(0)

    assert passed.expired
    assert late.cancelled()
    assert not coming.expired
    deadlines.end(coming)
    early.cancel()


async def test_a_sweep_that_leaves_nothing_to_watch_is_the_last_until_the_next_call() -> None:
    deadlines = Deadlines()
    loop = asyncio.get_running_loop()
    late = asyncio.ensure_future(forever())
    passed = Deadline()
    deadlines.start(passed, late, NEAR_S * 2)
    passed.at = loop.time() - 1

    deadlines._sweep(loop)
    await asyncio.sleep(0)

    assert late.cancelled()
    assert not deadlines._sweeping


async def test_a_sweep_of_an_event_loop_that_is_gone_does_nothing() -> None:
    deadlines = Deadlines()
    task = asyncio.ensure_future(forever())
    watch = Deadline()
    deadlines.start(watch, task, NEAR_S * 2)
    watch.at = 0.0
    other = asyncio.new_event_loop()

    deadlines._sweep(other)
    other.close()

    assert not watch.expired
    deadlines.end(watch)
    task.cancel()


async def test_a_near_deadline_has_a_timer_that_ends_with_its_call() -> None:
    deadlines = Deadlines()
    task = asyncio.ensure_future(forever())
    watch = Deadline()
    deadlines.start(watch, task, 1.0)

    deadlines.end(watch)

    assert watch.timer is not None
    assert watch.timer.cancelled()
    task.cancel()


async def test_a_near_deadline_keeps_nothing_of_its_call_alive_until_its_time() -> None:
    class RetainedData:
        """What a call's context holds."""

    held: ContextVar[RetainedData] = ContextVar("held")
    deadlines = Deadlines()
    watch = Deadline()

    async def call() -> weakref.ref[RetainedData]:
        one = RetainedData()
        held.set(one)
        task = asyncio.current_task()
        assert task is not None
        deadlines.start(watch, task, NEAR_S / 2)
        deadlines.end(watch)
        return weakref.ref(one)

    seen = await asyncio.create_task(call())
    del watch.task
    # The loop lets go of what woke us with its next step.
    await asyncio.sleep(0)
    gc.collect()

    assert seen() is None


async def test_the_end_of_a_call_says_whether_it_was_its_deadline() -> None:
    deadlines = Deadlines()
    task = asyncio.ensure_future(forever())
    far, near, free = Deadline(), Deadline(), Deadline()
    deadlines.start(far, task, NEAR_S * 2)
    deadlines.start(near, task, 1.0)
    for none in (None, 0, -1.0):
        deadlines.start(free, task, none)
    deadlines.start(free, None, 1.0)

    assert [deadlines.end(one) for one in (far, near, free)] == [False, False, False]
    deadlines.start(near, task, 1.0)
    near.expire()
    assert deadlines.end(near)
    await asyncio.sleep(0)
    assert task.cancelled()
