"""Scheduler: fires the jobs of a store that are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Final

from pegboard.core.errors import InvalidArguments, ToolError
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.secrets.clip import clip
from pegboard.ports.messages import InboundMessage
from pegboard.ports.schedules import Job, JobRun
from pegboard.runtime.schedule import shown_time, times_after
from pegboard.store.jobs import Jobs, StoredJob

GRACE_S: Final = 3600.0
"""Seconds in which a time that passed without firing is still caught up."""
_LATE_S: Final = 60.0
_BATCH: Final = 100
_MOST_BATCHES: Final = 1000
_MOST_COUNTED: Final = 1000

CheckJob = Callable[[Job], Awaitable[bool]]
"""Whether a job's check passes. Raises a ToolError where it cannot be run."""


def _ignore(text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Times:
    """What a due job's times come to: the one that fires now (None: all are too long ago), how many others passed
    before it, and the next one."""

    latest: float | None
    missed: int
    following: float | None


class Scheduler:
    """Fires due jobs: each of their times once, whatever number of schedulers look at the store.

    Of times that passed while no scheduler ran the latest is caught up if it lies within the grace; the others are noted
    as missed. Until the run on the message that a job put last has ended, its further times are skipped.

    Args:
        jobs: where they are.
        clock: tells the time.
        grace_s: see GRACE_S.
        check: runs a job's check.
        notify: is given each sentence that a person should know.
    """

    def __init__(
        self,
        jobs: Jobs,
        *,
        clock: Clock | None = None,
        grace_s: float = GRACE_S,
        check: CheckJob | None = None,
        notify: Callable[[str], None] = _ignore,
    ) -> None:
        self._jobs = jobs
        self._now = (clock or SystemClock()).now
        self._grace_s = grace_s
        self._check = check
        self._notify = notify

    async def tick(self, now: float | None = None) -> float | None:
        """Fire what is due; the next time of any job, None without one.

        Jobs without a check fire first; the tick ends when the checks have.

        Args:
            now: seconds since the epoch; None = the clock's.

        Raises:
            StoreError: the store cannot be read or written.
        """
        now = self._now() if now is None else now
        for _ in range(_MOST_BATCHES):
            due = await self._jobs.due(now, limit=_BATCH)
            if not due:
                break
            for one in due:
                if not one.job.check:
                    await self._fire(one, now)
            await asyncio.gather(*(self._fire(one, now) for one in due if one.job.check))
        return await self._jobs.next_due()

    async def _fire(self, due: StoredJob, now: float) -> None:
        job = due.job
        planned = job.next_at if job.next_at is not None else now
        row = JobRun(
            job=job.id, name=name_of(job), at=planned, status="failed", fired_at=now, session=job.session
        )
        try:
            times = self._times(job, planned, now)
        except InvalidArguments as error:
            # A zone that this machine does not know. Left as it is, the job would be due for ever.
            await self._note(due, replace(row, note=f"disabled: {error.message}"), next_at=None)
            return
        if times.latest is None:
            note = f"not fired: no worker ran at that time, and it is more than {_span(self._grace_s)} ago"
            row = replace(row, status="missed", missed=times.missed - 1, note=note)
            await self._note(due, row, next_at=times.following)
            return
        row = replace(row, at=times.latest, missed=times.missed)
        if await self._jobs.waits(job):
            row = replace(row, status="skipped", note="the run on its last message has not ended")
            await self._jobs.fire(due, row, next_at=times.following)
            return
        if job.check:
            try:
                passed = self._check is None or await self._check(job)
            except ToolError as error:
                note = f"the check could not be run: {error.message}"
                await self._note(due, replace(row, note=note), next_at=times.following)
                return
            if not passed:
                await self._jobs.skip(due, next_at=times.following)
                return
        late = now - times.latest > _LATE_S
        note = f"late by {_span(now - times.latest)}" if late else ""
        message = message_of(job, times.latest, now=now, missed=times.missed, late=note)
        row = replace(row, status="queued", message=message.id, note=note)
        await self._jobs.fire(due, row, next_at=times.following, message=message)

    async def _note(self, due: StoredJob, row: JobRun, *, next_at: float | None) -> None:
        """Into the log, and to whoever should know."""
        if await self._jobs.fire(due, row, next_at=next_at):
            zone = due.job.schedule.zone
            when = "" if row.note.startswith("disabled") else f" at {_shown(row.at, zone)}"
            more = f" ({row.missed} further times)" if row.missed else ""
            self._notify(f"schedule {due.job.name or due.job.id}{when}{more}: {row.note}")

    def _times(self, job: Job, planned: float, now: float) -> _Times:
        earliest = now - self._grace_s
        latest = planned if planned >= earliest else None
        following: float | None = None
        for time in times_after(job.schedule, max(planned, earliest - 1.0)):
            if time > now:
                following = time
                break
            if time >= earliest:
                latest = time
        before = now + 1.0 if latest is None else latest
        passed = takewhile(lambda t: t < before and t <= now, times_after(job.schedule, planned))
        missed = (0 if latest == planned else 1) + sum(1 for _ in islice(passed, _MOST_COUNTED))
        return _Times(latest, missed, following)


def name_of(job: Job) -> str:
    """What a person knows a job by: its name, else the start of its message."""
    return job.name or " ".join(clip(job.message, 0, 60).split())


def message_of(job: Job, at: float, *, now: float, missed: int = 0, late: str = "") -> InboundMessage:
    """The message that a job puts for one of its times.

    Args:
        job: which.
        at: the time, seconds since the epoch.
        now: when it is put.
        missed: how many other times passed before it.
        late: says by how much it is late; empty where it is not.
    """
    zone = job.schedule.zone
    facts = [f"was due at {_shown(at, zone)} and is {late}"] if late else []
    facts += [f"passed {missed} earlier times without a run"] if missed else []
    note = f"\n\n[This job {' and '.join(facts)}.]" if facts else ""
    metadata = {
        "job": job.id,
        "name": job.name,
        "at": at,
        "late_s": now - at if late else 0.0,
        "missed": missed,
    }
    return InboundMessage(
        session=job.session, content=f"{job.message}{note}", id=f"job:{job.id}:{int(at)}", by="schedule", at=now,
        labels=job.labels, wake=job.wake, reply=job.reply, workspace=job.workspace, metadata=metadata,
        channel=job.origin.get("channel", ""), sender_id=job.origin.get("sender", ""),
        # What wakes nobody is read by a run on something else, whose answer is not its own.
        wants_answer=job.wake,
    )  # fmt: skip


def _shown(at: float, zone: str) -> str:
    try:
        return shown_time(at, zone)
    except InvalidArguments:
        return shown_time(at, "UTC")


def _span(seconds: float) -> str:
    """A length of time in its largest unit: `90 s`, `31 min`, `3 h`, `2 days`."""
    for size, unit in ((172800, "days"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86400, 'h': 3600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"
