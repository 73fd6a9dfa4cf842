"""Jobs: messages that a store puts into sessions at their times, each time once whoever looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from pegboard.core.errors import NotFound
from pegboard.ports.messages import Destination, InboundMessage
from pegboard.ports.schedules import At, Cron, Every, Job, JobRun, JobStatus, Schedule
from pegboard.ports.store import Conflict, Put, Rows, Store
from pegboard.store.inbox import Inbox
from pegboard.store.table import Table, after_prefix

_DUE: Final = "jobs_due"
_ONCE: Final = "once"
"""Jobs that are gone after their only time share one log."""
KEEP: Final = 20
"""Rows of a job's log."""
_KEEP_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job as it was read, with the version of its row."""

    job: Job
    version: int


class Jobs:
    """The jobs of a store, an index by their next time, and the log of each.

    A job's row, its place in the index, the message and the row of the log are written together, and only where the job
    is as it was read: of several processes that fire a job one succeeds, and a crash leaves all of it or nothing.

    Args:
        store: where they are.
        keep: rows of each job's log; older ones are overwritten.
    """

    def __init__(self, store: Store, *, keep: int = KEEP) -> None:
        self._store = store
        self._keep = max(1, keep)
        self._inbox = Inbox(store)
        self._table = Table(store, "jobs", asdict_of_job, job_from_dict)
        self._log = Table(store, "job_runs", asdict, _run_of)

    async def add(self, job: Job) -> None:
        """Keep a new job.

        Raises:
            Conflict: there is one of that id.
        """
        await self._store.put(self._table.put_of(job.id, job, expected=0), *_index(None, job))

    async def get(self, job: str) -> StoredJob:
        """A job by its id.

        Raises:
            NotFound: there is none.
        """
        found, version = await self._table.versioned(job)
        if found is None:
            raise NotFound(f"no job has the id {job!r:.80}", hint="List the jobs to see their ids.")
        return StoredJob(job=found, version=version)

    async def list(self) -> list[Job]:
        """All jobs: those with a next time in its order, then the others by their ids."""
        jobs = (await self._table.scan()).values()
        return sorted(jobs, key=lambda j: (j.next_at is None, j.next_at or 0.0, j.id))

    async def change(self, before: StoredJob, after: Job) -> None:
        """Replace a job that has not changed since it was read.

        Raises:
            Conflict: it has.
        """
        row = self._table.put_of(after.id, after, expected=before.version)
        await self._store.put(row, *_index(before.job, after))

    async def remove(self, job: str) -> Job:
        """Forget a job and its log; what it was.

        Raises:
            NotFound: there is none.
        """
        while True:
            found = await self.get(job)
            try:
                await self._store.put(
                    Put(self._table.name, job, None, found.version), *_index(found.job, None)
                )
            except Conflict:
                continue
            await self._store.delete(Rows(self._log.name, f"{job}\x1f", after_prefix(f"{job}\x1f")))
            return found.job

    async def due(self, now: float, limit: int = 100) -> Sequence[StoredJob]:
        """The jobs whose next time is at or before `now`, the most overdue first."""
        rows = await self._store.scan(_DUE, end=f"{_place(now)}\U0010ffff", limit=limit)
        found = await self._table.get_all_versioned([row.key.partition("\x1f")[2] for row in rows])
        # Another process may have moved one since the index was read.
        return [
            StoredJob(job=job, version=version)
            for job, version in found
            if job.next_at is not None and job.next_at <= now
        ]

    async def next_due(self) -> float | None:
        """The earliest next time of all jobs, in whole seconds since the epoch; None without any."""
        rows = await self._store.scan(_DUE, limit=1)
        return float(rows[0].key.partition("\x1f")[0]) if rows else None

    async def fire(
        self, due: StoredJob, run: JobRun, *, next_at: float | None, message: InboundMessage | None = None
    ) -> bool:
        """Move a job to its next time, put its message and note it in its log; False if another process was faster.

        Args:
            due: the job as it was read.
            run: the row of the log.
            next_at: the job's next time; None = there is none. A job for one time is removed then.
            message: put into the inbox; None = nothing is.
        """
        job = due.job
        after = replace(
            job,
            next_at=next_at,
            enabled=job.enabled and next_at is not None,
            fires=job.fires + 1,
            last_message=job.last_message if message is None else message.id,
        )
        # One that was missed stays, disabled: its message is lost otherwise.
        over = next_at is None and isinstance(job.schedule, At) and run.status in ("queued", "skipped")
        row = self._table.put_of(job.id, after, expected=due.version)
        puts = [replace(row, value=None) if over else row, *_index(job, None if over else after)]
        puts.append(self._log.put_of(self._log_key(job, run), run))
        posted = [] if message is None else [self._inbox.put_of(message)]
        try:
            await self._store.put(*puts, *posted)
        except Conflict:
            if message is None or (await self._table.versioned(job.id))[1] != due.version:
                return False
            # The job is as it was read, so it is the message that is there already: the clock went back.
            await self._store.put(*puts)
        if over:
            await self._forget_old()
        return True

    async def skip(self, due: StoredJob, *, next_at: float | None) -> bool:
        """Move a job to its next time and leave no trace in its log; False if another process was faster."""
        try:
            await self.change(due, replace(due.job, next_at=next_at))
        except Conflict:
            return False
        return True

    async def run_now(self, job: Job, run: JobRun, message: InboundMessage) -> None:
        """Put a job's message and note it; its next time stays.

        Raises:
            Conflict: the message is there already.
            NotFound: the job is gone.
        """
        while True:
            found = await self.get(job.id)
            after = replace(found.job, fires=found.job.fires + 1, last_message=message.id)
            log = self._log.put_of(self._log_key(found.job, run), run)
            row = self._table.put_of(job.id, after, expected=found.version)
            try:
                await self._store.put(row, log, self._inbox.put_of(message))
            except Conflict:
                if (await self._table.versioned(job.id))[1] == found.version:
                    raise
                continue
            return

    async def waits(self, job: Job) -> bool:
        """Whether the run on the message that a job put last has not ended."""
        return bool(job.last_message) and await self._inbox.holds(job.session, job.last_message)

    async def runs(self, job: str = "", *, limit: int = KEEP) -> list[JobRun]:
        """The latest rows of a job's log, or of all logs, newest first."""
        found = [*(await self._log.scan(prefix=f"{job}\x1f" if job else "")).values()]
        if job:
            found += [r for r in (await self._log.scan(prefix=f"{_ONCE}\x1f")).values() if r.job == job]
        rows = sorted(found, key=lambda r: (r.fired_at, r.at), reverse=True)[:limit]
        return [await self._as_it_is(row) for row in rows]

    async def _as_it_is(self, row: JobRun) -> JobRun:
        gone = row.status == "queued" and not await self._inbox.holds(row.session, row.message)
        return replace(row, status="read") if gone else row

    async def ended(self, message: str, status: JobStatus, *, run: str = "", note: str = "") -> None:
        """Note in the log what became of a message; nothing happens if its row is gone.

        Args:
            message: its id, `job:ID:EPOCH` or `job:ID:EPOCH:run`.
            status: `done` or `failed`.
            run: id of the run that read it.
            note: what a person should know.
        """
        job = message.split(":")[1]
        for prefix in (f"{job}\x1f", f"{_ONCE}\x1f"):
            for key, row in (await self._log.scan(prefix=prefix)).items():
                if row.message == message:
                    await self._log.put(
                        key, replace(row, status=status, run=run or row.run, note=note or row.note)
                    )
                    return

    def _log_key(self, job: Job, run: JobRun) -> str:
        """A place of the job's ring of rows, so that nothing has to be counted or deleted."""
        if isinstance(job.schedule, At):
            return f"{_ONCE}\x1f{_place(run.fired_at)}\x1f{job.id}"
        return f"{job.id}\x1f{job.fires % self._keep:06}"

    async def _forget_old(self) -> None:
        rows = list(await self._log.scan(prefix=f"{_ONCE}\x1f"))
        if len(rows) > _KEEP_ONCE:
            await self._store.put(*(Put(self._log.name, key, None) for key in rows[:-_KEEP_ONCE]))


def _index(before: Job | None, after: Job | None) -> list[Put]:
    """The Puts that move a job in the index by next time; the job's own row guards them."""
    old = "" if before is None or before.next_at is None else f"{_place(before.next_at)}\x1f{before.id}"
    new = "" if after is None or after.next_at is None else f"{_place(after.next_at)}\x1f{after.id}"
    if old == new:
        return []
    return [Put(_DUE, key, value) for key, value in ((old, None), (new, b"")) if key]


def _place(at: float) -> str:
    """A time as text in the order of time: whole seconds, from the year 1 to 9999."""
    return f"{max(0, int(at)):012}"


def asdict_of_job(job: Job) -> dict[str, Any]:
    """A job as JSON values; its schedule has a `kind`."""
    kind = type(job.schedule).__name__.lower()
    return {**asdict(job), "schedule": {"kind": kind, **asdict(job.schedule)}}


def job_from_dict(value: Mapping[str, Any]) -> Job:
    """A job of `asdict_of_job`."""
    reply = cast("dict[str, Any] | None", value["reply"])
    read: dict[str, Any] = {
        **value,
        "schedule": _schedule(value["schedule"]),
        "reply": None if reply is None else Destination(**reply),
        "labels": tuple(value["labels"]),
    }
    return Job(**read)


def _schedule(value: Mapping[str, Any]) -> Schedule:
    kinds: Mapping[str, Any] = {"at": At, "every": Every, "cron": Cron}
    return kinds[value["kind"]](**{k: v for k, v in value.items() if k != "kind"})


def _run_of(value: Mapping[str, Any]) -> JobRun:
    return JobRun(**value)
