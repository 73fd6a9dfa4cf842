"""Deadlines: one sweep for the far ones, a timer each for the near ones."""

from __future__ import annotations

import asyncio

from pegboard.core.deadlines import NEAR_S, Deadlines, Watch


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_far_deadline_that_has_passed_cancels_its_task_at_the_next_sweep() -> None:
    deadlines = Deadlines()
    loop = asyncio.get_running_loop()
    late, early = (asyncio.ensure_future(forever()) for _ in range(2))
    passed, coming = Watch(), Watch()
    deadlines.start(passed, late, NEAR_S * 2)
    deadlines.start(coming, early, NEAR_S * 2)
    # As if the time had gone by: the sweep only compares.
    passed.at = loop.time() - 1

    deadlines._sweep(loop)
    await asyncio.sleep(0)

    assert passed.fired
    assert late.cancelled()
    assert not coming.fired
    deadlines.end(coming)
    early.cancel()


async def test_a_sweep_of_an_event_loop_that_is_gone_does_nothing() -> None:
    deadlines = Deadlines()
    task = asyncio.ensure_future(forever())
    watch = Watch()
    deadlines.start(watch, task, NEAR_S * 2)
    watch.at = 0.0
    other = asyncio.new_event_loop()

    deadlines._sweep(other)
    other.close()

    assert not watch.fired
    deadlines.end(watch)
    task.cancel()


async def test_a_near_deadline_has_a_timer_that_ends_with_its_call() -> None:
    deadlines = Deadlines()
    task = asyncio.ensure_future(forever())
    watch = Watch()
    deadlines.start(watch, task, 1.0)

    deadlines.end(watch)

    assert watch.timer is not None
    assert watch.timer.cancelled()
    task.cancel()
