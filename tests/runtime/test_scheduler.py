"""Each time of a job fires once: whoever looks, whatever crashes, and late rather than never."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pytest

from pegboard.core.errors import NotFound, PermissionDenied
from pegboard.ports.messages import Destination, InboundMessage
from pegboard.ports.schedules import At, Cron, Every, Job, Schedule
from pegboard.ports.store import Store
from pegboard.runtime.schedule import next_time, times_after
from pegboard.runtime.scheduler import Scheduler
from pegboard.store import open_store
from pegboard.store.inbox import Inbox
from pegboard.store.jobs import Jobs
from pegboard.store.memory import MemoryStore
from tests.ledger import owes

DAY1 = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
HOUR = 3600.0
AT_EIGHT = Cron(expr="0 8 * * *")


def job(schedule: Schedule, id: str = "j1", *, now: float = DAY1, **changes: object) -> Job:
    made = Job(
        id=id,
        message="look",
        schedule=schedule,
        session="main",
        created_at=now,
        next_at=next_time(schedule, now),
    )
    return replace(made, **changes)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = MemoryStore()
    yield made
    await made.close()


@pytest.fixture
def jobs(store: Store) -> Jobs:
    return Jobs(store)


async def read(store: Store) -> list[InboundMessage]:
    """What waits in the inbox, which is read and dropped."""
    inbox = Inbox(store)
    found = await inbox.all()
    await inbox.drop(found)
    return found


@owes("N-97", "D-34", "K-60")
async def test_a_due_job_puts_its_message_and_moves_on(store: Store, jobs: Jobs) -> None:
    reply = Destination(channel="telegram", chat_id="5")
    await jobs.add(
        job(
            Every(every_s=600, start=DAY1), reply=reply, labels=("untrusted",), name="look", workspace="/work"
        )
    )
    scheduler = Scheduler(jobs)

    assert await scheduler.tick(DAY1 + 599) == DAY1 + 600
    assert await read(store) == []
    assert await scheduler.tick(DAY1 + 600) == DAY1 + 1200
    assert await scheduler.tick(DAY1 + 600) == DAY1 + 1200
    (message,) = await read(store)

    assert message == InboundMessage(
        session="main", content="look", id=f"job:j1:{int(DAY1) + 600}", by="schedule", at=DAY1 + 600,
        labels=("untrusted",), reply=reply,
        metadata={"job": "j1", "name": "look", "at": DAY1 + 600, "late_s": 0.0, "missed": 0}, wants_answer=True,
        workspace="/work",
    )  # fmt: skip
    (row,) = await jobs.runs("j1")
    assert (row.status, row.at, row.message) == ("read", DAY1 + 600, message.id)


@owes("K-60")
async def test_a_job_for_the_next_heartbeat_wakes_nobody_and_the_heartbeat_does(
    store: Store, jobs: Jobs
) -> None:
    await jobs.add(job(Every(every_s=600, start=DAY1), wake=False))
    await jobs.add(job(Every(every_s=1800, start=DAY1), "heartbeat-1"))

    await Scheduler(jobs).tick(DAY1 + 600)
    assert [m.wake for m in await Inbox(store).waiting("main")] == [False]
    await Scheduler(jobs).tick(DAY1 + 1800)

    waiting = await Inbox(store).waiting("main")
    assert [(m.wake, m.wants_answer) for m in waiting] == [(False, False), (True, True)]


@owes("N-99", "cron-21")
async def test_a_job_for_one_time_fires_once_and_is_gone(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(At(at=DAY1 + 1)))

    assert await Scheduler(jobs).tick(DAY1) == DAY1 + 1
    assert await Scheduler(jobs).tick(DAY1 + 1) is None
    assert await Scheduler(jobs).tick(DAY1 + 2) is None

    assert len(await read(store)) == 1
    assert await jobs.list() == []
    assert [row.status for row in await jobs.runs()] == ["read"]


@owes("cron-25")
async def test_a_time_that_passed_within_the_grace_fires_once_and_says_that_it_is_late(
    store: Store, jobs: Jobs
) -> None:
    await jobs.add(job(AT_EIGHT))
    scheduler = Scheduler(jobs, grace_s=HOUR)

    await scheduler.tick(DAY1 + 8 * HOUR + 31 * 60)
    await scheduler.tick(DAY1 + 8 * HOUR + 32 * 60)

    (message,) = await read(store)
    assert message.content == "look\n\n[This job was due at 2027-01-01T08:00:00+00:00 and is late by 31 min.]"
    assert message.metadata["late_s"] == 31 * 60
    assert [row.note for row in await jobs.runs("j1")] == ["late by 31 min"]


@owes("cron-25", "cron-27")
async def test_a_time_beyond_the_grace_is_listed_as_missed_and_the_next_one_fires(
    store: Store, jobs: Jobs
) -> None:
    said: list[str] = []
    await jobs.add(job(AT_EIGHT, name="digest"))
    scheduler = Scheduler(jobs, grace_s=HOUR, notify=said.append)

    # Two days later: both times are too long ago.
    assert await scheduler.tick(DAY1 + 34 * HOUR) == DAY1 + 56 * HOUR
    assert await read(store) == []
    (row,) = await jobs.runs("j1")
    assert (row.status, row.at, row.missed) == ("missed", DAY1 + 8 * HOUR, 1)
    assert said == [
        "schedule digest at 2027-01-01T08:00:00+00:00 (1 further times): not fired: no worker ran at that time, "
        "and it is more than 60 min ago"
    ]

    await scheduler.tick(DAY1 + 56 * HOUR)
    assert [m.content for m in await read(store)] == ["look"]


async def test_of_several_times_that_passed_the_latest_is_caught_up_and_the_others_are_counted(
    store: Store, jobs: Jobs
) -> None:
    await jobs.add(job(Every(every_s=600, start=DAY1)))

    # Due at 600, 1200, … 18000 s; at 18030 s the latest is half a minute old.
    assert await Scheduler(jobs, grace_s=HOUR).tick(DAY1 + 18030) == DAY1 + 18600

    (message,) = await read(store)
    assert message.id.endswith(f":{int(DAY1) + 18000}")
    assert message.content == "look\n\n[This job passed 29 earlier times without a run.]"
    assert [row.missed for row in await jobs.runs("j1")] == [29]


async def test_a_job_for_one_time_that_was_missed_stays_disabled(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(At(at=DAY1 + 60)))

    await Scheduler(jobs, grace_s=HOUR).tick(DAY1 + 3 * HOUR)

    (kept,) = await jobs.list()
    assert (kept.enabled, kept.next_at) == (False, None)
    assert [row.status for row in await jobs.runs()] == ["missed"]


@owes("cron-26")
async def test_a_scheduler_that_starts_after_the_time_fires_nothing_twice(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(Cron(expr="0 22 * * *")))
    await Scheduler(jobs).tick(DAY1 + 22 * HOUR)
    assert len(await read(store)) == 1

    await Scheduler(Jobs(store)).tick(DAY1 + 22 * HOUR + 1837)
    # The clock was set back: the time comes again, and fires nothing.
    await Scheduler(Jobs(store)).tick(DAY1 + 22 * HOUR - 10)
    await Scheduler(Jobs(store)).tick(DAY1 + 22 * HOUR)

    assert await read(store) == []


async def test_a_message_that_is_there_already_holds_no_job_up(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(Every(every_s=60, start=DAY1)))
    await Inbox(store).add(InboundMessage(session="main", content="look", id=f"job:j1:{int(DAY1) + 60}"))

    assert await Scheduler(jobs).tick(DAY1 + 60) == DAY1 + 120

    assert len(await read(store)) == 1


@owes("cron-31")
async def test_while_its_last_message_waits_a_job_is_skipped_and_others_fire(
    store: Store, jobs: Jobs
) -> None:
    await jobs.add(job(Every(every_s=1, start=DAY1), "busy"))
    await jobs.add(job(Every(every_s=1, start=DAY1), "other", session="s2"))
    scheduler, inbox = Scheduler(jobs), Inbox(store)

    for second in (1, 2, 3):
        await scheduler.tick(DAY1 + second)
        await inbox.drop(await inbox.waiting("s2"))

    assert len(await inbox.waiting("main")) == 1
    assert [row.status for row in await jobs.runs("busy")] == ["skipped", "skipped", "queued"]
    assert [row.status for row in await jobs.runs("other")] == ["read"] * 3
    await inbox.drop(await inbox.waiting("main"))
    await scheduler.tick(DAY1 + 4)
    assert (await jobs.runs("busy", limit=1))[0].status == "queued"


@owes("K-63")
async def test_a_check_decides_whether_a_job_fires(store: Store, jobs: Jobs) -> None:
    answers = iter([False, True])

    async def check(one: Job) -> bool:
        assert one.check == "test -s inbox.txt"
        return next(answers)

    await jobs.add(job(Every(every_s=60, start=DAY1), check="test -s inbox.txt"))
    scheduler = Scheduler(jobs, check=check)

    assert await scheduler.tick(DAY1 + 60) == DAY1 + 120
    assert (await read(store), await jobs.runs("j1")) == ([], [])
    await scheduler.tick(DAY1 + 120)
    assert [m.content for m in await read(store)] == ["look"]


async def test_a_check_that_cannot_be_run_is_noted_and_told(store: Store, jobs: Jobs) -> None:
    said: list[str] = []

    async def check(one: Job) -> bool:
        raise PermissionDenied("exec was not allowed to run")

    await jobs.add(job(Every(every_s=60, start=DAY1), check="rm -r x"))
    await jobs.add(job(Every(every_s=60, start=DAY1), "plain"))
    await Scheduler(jobs, check=check, notify=said.append).tick(DAY1 + 60)

    assert [m.id.split(":")[1] for m in await read(store)] == ["plain"]
    (row,) = await jobs.runs("j1")
    assert (row.status, row.note) == ("failed", "the check could not be run: exec was not allowed to run")
    assert row.note in said[0]


async def test_a_job_whose_zone_is_not_known_here_is_disabled_and_holds_up_no_other(
    store: Store, jobs: Jobs
) -> None:
    said: list[str] = []
    await jobs.add(replace(job(AT_EIGHT, "bad"), schedule=Cron(expr="0 8 * * *", zone="Mars/Base")))
    await jobs.add(job(AT_EIGHT, "good"))

    await Scheduler(jobs, notify=said.append).tick(DAY1 + 8 * HOUR)

    assert [m.id.split(":")[1] for m in await read(store)] == ["good"]
    assert not (await jobs.get("bad")).job.enabled
    assert said == ["schedule bad: disabled: no time zone is called 'Mars/Base'"]


@owes("K-61")
async def test_a_log_keeps_its_last_twenty_rows(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(Every(every_s=60, start=DAY1)))
    scheduler = Scheduler(jobs)

    for minute in range(1, 31):
        await scheduler.tick(DAY1 + minute * 60)
        await read(store)

    rows = await jobs.runs("j1", limit=100)
    assert [(row.at - DAY1) / 60 for row in rows] == list(range(30, 10, -1))


@owes("K-61")
async def test_what_became_of_a_message_stands_in_the_log(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(Every(every_s=60, start=DAY1)))
    await jobs.add(job(At(at=DAY1 + 60), "once"))
    await Scheduler(jobs).tick(DAY1 + 60)

    for message in await read(store):
        await jobs.ended(message.id, "failed", run="run_1", note="the model did not answer")
    await jobs.ended("job:gone:1", "done")

    rows = await jobs.runs()
    assert {(row.job, row.status, row.run, row.note) for row in rows} == {
        ("j1", "failed", "run_1", "the model did not answer"),
        ("once", "failed", "run_1", "the model did not answer"),
    }


async def test_a_removed_job_leaves_nothing(store: Store, jobs: Jobs) -> None:
    await jobs.add(job(Every(every_s=60, start=DAY1)))
    await Scheduler(jobs).tick(DAY1 + 60)

    await jobs.remove("j1")

    assert [len(await store.scan(table)) for table in ("jobs", "jobs_due", "job_runs")] == [0, 0, 0]
    with pytest.raises(NotFound):
        await jobs.remove("j1")


@owes("K-62")
async def test_schedulers_side_by_side_fire_each_time_once(tmp_path: Path) -> None:
    stores = [await open_store(tmp_path / "store.sqlite") for _ in range(3)]
    for number in range(20):
        await Jobs(stores[0]).add(
            job(Every(every_s=60 + number, start=DAY1), f"j{number}", session=f"s{number}")
        )

    ids: Counter[str] = Counter()
    for minute in range(1, 6):
        await asyncio.gather(*(Scheduler(Jobs(s)).tick(DAY1 + minute * 60) for s in stores))
        ids.update(m.id for m in await read(stores[minute % 3]))
    rows = [row for row in await Jobs(stores[0]).runs(limit=1000) if row.status == "read"]

    assert len(ids) == sum(300 // (60 + number) for number in range(20))
    assert set(ids.values()) == {1}
    assert Counter(row.message for row in rows) == ids
    for one in stores:
        await one.close()


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")


def hundred_schedules() -> dict[str, Schedule]:
    made: dict[str, Schedule] = {}
    for number in range(100):
        zone, minute, hour = ZONES[number % 4], (number * 7) % 60, (number // 4) % 4
        forms = [
            f"{minute} {hour} * * *", f"{minute} {hour} * * 0,6", f"{minute} */8 * * *", f"{minute} {hour} 1,15,31 * *",
            f"*/30 {hour} * * 0",
        ]  # fmt: skip
        made[f"j{number}"] = Cron(expr=forms[number % 5], zone=zone)
    made["j99"] = Every(every_s=37 * HOUR, start=DAY1)
    return made


async def simulate(
    store: Store, start: float, end: float
) -> tuple[Counter[tuple[str, float]], set[tuple[str, float]]]:
    """What a hundred jobs fired between two times, and what they should have."""
    jobs, fired = Jobs(store), Counter[tuple[str, float]]()
    schedules = hundred_schedules()
    for id, schedule in schedules.items():
        await jobs.add(job(schedule, id, now=start, session=id))
    scheduler = Scheduler(jobs)
    now: float | None = start
    while now is not None and now <= end:
        now = await scheduler.tick(now)
        fired.update((m.metadata["job"], m.metadata["at"]) for m in await read(store))
    expected = {
        (id, at)
        for id, schedule in schedules.items()
        for at in takewhile(lambda t: t <= end, times_after(schedule, start))
    }
    return fired, expected


@owes("K-62")
async def test_around_the_days_when_clocks_change_a_hundred_jobs_fire_each_time_once(store: Store) -> None:
    # March to April and October to November hold the changes of all three zones.
    month = random.Random().choice([(3, 8), (4, 1), (9, 28), (10, 25)])
    print(f"from {month}")
    start = datetime(2027, *month, tzinfo=UTC).timestamp()

    fired, expected = await simulate(store, start, start + 16 * 86400)

    assert set(fired.values()) == {1}
    assert set(fired) == expected


@pytest.mark.full
@owes("K-62")
async def test_a_year_of_a_hundred_jobs_fires_each_time_once(store: Store) -> None:
    fired, expected = await simulate(store, DAY1, DAY1 + 365 * 86400)

    assert len(expected) > 20_000
    assert set(fired.values()) == {1}
    assert set(fired) == expected


FIRING = """
import asyncio, sys
from pegboard.runtime.scheduler import Scheduler
from pegboard.store import open_store
from pegboard.store.jobs import Jobs

async def main(path, start, end, step):
    store = await open_store(path)
    scheduler = Scheduler(Jobs(store), grace_s=1e6)
    print("ready", flush=True)
    now = start
    while now <= end:
        await scheduler.tick(now)
        now += step
    await store.close()

asyncio.run(main(sys.argv[1], *map(float, sys.argv[2:])))
"""


@pytest.mark.slow
@owes("K-62")
async def test_processes_that_are_killed_while_they_fire_lose_and_double_nothing(tmp_path: Path) -> None:
    path, hours = tmp_path / "store.sqlite", 300
    store = await open_store(path)
    for number in range(10):
        # Sessions of their own: none waits for another, and each time has another id.
        await Jobs(store).add(job(At(at=DAY1 + number * HOUR + 1), f"once{number}"))
        await Jobs(store).add(job(Every(every_s=HOUR, start=DAY1), f"j{number}", session=f"s{number}"))
    read_ids: Counter[str] = Counter()

    async def start() -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FIRING, str(path), str(DAY1), str(DAY1 + hours * HOUR), str(HOUR),
            stdout=asyncio.subprocess.PIPE, env=os.environ,
        )  # fmt: skip
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
        return process

    killed = [await start(), await start()]
    for process in killed:
        # Once it has fired something and while it goes on.
        while not (messages := await Inbox(store).all()):
            await asyncio.sleep(0)
        read_ids.update(m.id for m in messages)
        await Inbox(store).drop(messages)
        process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(process.wait(), 60)
    finishing = [await start(), await start()]
    while any(p.returncode is None for p in finishing):
        messages = await Inbox(store).all()
        read_ids.update(m.id for m in messages)
        await Inbox(store).drop(messages)
        await asyncio.sleep(0)
    read_ids.update(m.id for m in await read(store))

    assert [p.returncode for p in finishing] == [0, 0]
    assert set(read_ids.values()) == {1}
    assert {i for i in read_ids if i.startswith("job:once")} == {
        f"job:once{n}:{int(DAY1 + n * HOUR + 1)}" for n in range(10)
    }
    rows = [row for row in await Jobs(store).runs(limit=1000) if row.status == "read"]
    assert {row.message for row in rows} <= set(read_ids)
    assert [j.next_at for j in await Jobs(store).list()] == [DAY1 + (hours + 1) * HOUR] * 10
    await store.close()


@owes("cron-33")
async def test_a_damaged_store_is_kept_as_it_was_and_its_jobs_are_not_replaced_by_none(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    store = await open_store(path)
    await Jobs(store).add(job(AT_EIGHT))
    await store.close()
    path.write_bytes(path.read_bytes()[:100])
    cut = path.read_bytes()

    told: list[object] = []
    again = await open_store(path, recovered=told.append)
    jobs = await Jobs(again).list()
    await again.close()

    assert told
    assert jobs == []
    assert cut in [p.read_bytes() for p in tmp_path.glob("store.sqlite.damaged-*")]
