"""Schedules: the jobs of this machine, added, changed and run; the Schedules port and `pegboard schedules` are this."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pegboard.config.schedules import Heartbeat, ScheduleSettings
from pegboard.core.context import current_context
from pegboard.core.errors import InvalidArguments, NotFound, NotUnique, ToolError, Unsupported
from pegboard.core.events import RunFinished
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.session_key import check_session_key
from pegboard.ports.messages import Destination, InboundMessage, sender_of
from pegboard.ports.schedules import Every, Job, JobRequest, JobRun
from pegboard.ports.store import Conflict, Store, StoreError
from pegboard.runtime.schedule import next_time, parse_schedule, schedule_text, shown_time, times_after
from pegboard.runtime.scheduler import Scheduler, message_of, name_of
from pegboard.services.principals import CHANNEL, check_recipient, principal_behind
from pegboard.store.jobs import Jobs, StoredJob

if TYPE_CHECKING:
    from pegboard.services.history import History
    from pegboard.services.runtime import Runtime

R = TypeVar("R", Job, JobRun)

_HEARTBEAT: Final = "heartbeat-"
_OWN_SESSION: Final = "schedule:"
_MAIN: Final = "main"
_SINGLE_CALLS: Final = "cli"
_TRIES: Final = 20
_TICK_S: Final = 1.0
_MOST_RUNS: Final = 1000
"""Rows of all logs together that are looked through for those of a principal."""
_CHECK_S: Final = 30
"""Seconds that a job's check may take."""


class StoredSchedules:
    """The jobs of a store.

    Inside a call a job belongs to that call's session, and its answers go where that session's message came from. A call
    in a session of a gateway's principal has the jobs of that principal's sessions only.

    Args:
        store: opens it.
        settings: the user's zone, what is caught up, and heartbeats.
        workspace: the folder that jobs are made for; None = no folder.
        clock: tells the time.
    """

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        *,
        settings: ScheduleSettings | None = None,
        workspace: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or ScheduleSettings()
        self._workspace = "" if workspace is None else str(workspace)
        self._clock = clock or SystemClock()

    @property
    def zone(self) -> str:
        """The user's zone."""
        return self._settings.zone

    async def add(self, request: JobRequest, *, session: str = "") -> Job:
        """See the port.

        Args:
            request: the job.
            session: the key of the session that it belongs to; empty = that of the running call, else `main`.
        """
        jobs, principal = await self._jobs(), await self._principal()
        for _ in range(_TRIES):
            job = self._job(request, f"j{os.urandom(4).hex()}", session, principal)
            await check_recipient(_caller()[0], job.reply, await self._store())
            with suppress(Conflict):
                await jobs.add(job)
                return job
        raise Conflict("no free id was found for the job")

    def _job(self, request: JobRequest, key: str, session: str = "", principal: str = "") -> Job:
        """The job that a request means."""
        here, origin, labels = _caller()
        session = session or here
        # What a principal starts is its own, and so is the session of its job.
        prefix = f"{CHANNEL}:{principal}:" if principal else ""
        if here.removeprefix(prefix).startswith(_OWN_SESSION):
            raise Unsupported(
                "a run that a schedule started cannot add schedules",
                hint="Say in the answer what should be scheduled.",
            )
        if not request.message.strip():
            raise InvalidArguments("message is empty: it is what the session is told then")
        check_session_key(session)
        now = self._clock.now()
        schedule = parse_schedule(request.schedule, request.zone or self.zone, now)
        return Job(
            id=key, message=request.message, schedule=schedule, name=" ".join(request.name.split()), wake=request.wake,
            session=f"{prefix}{_OWN_SESSION}{key}" if request.isolated else session,
            reply=_reply(request, origin, session), check=request.check, workspace=self._workspace,
            labels=labels, origin=sender_of(origin), created_at=now, next_at=next_time(schedule, now),
        )  # fmt: skip

    async def list(self, *, everywhere: bool = False) -> Sequence[Job]:
        """See the port; `everywhere`: of all workspaces."""
        jobs = [
            job for job in await (await self._jobs()).list() if everywhere or job.workspace == self._workspace
        ]
        return await self._own(jobs)

    async def update(self, job: str, changes: Mapping[str, Any]) -> Job:
        """See the port."""
        jobs = await self._jobs()
        for _ in range(_TRIES):
            found = await self._find(jobs, job)
            after = self._changed(found.job, changes)
            with suppress(Conflict):
                await jobs.change(found, after)
                return after
        raise Conflict(f"the job {job} is being changed by others", hint="Try again.")

    async def remove(self, job: str) -> Job:
        """See the port."""
        jobs = await self._jobs()
        return await jobs.remove((await self._find(jobs, job)).job.id)

    async def run(self, job: str) -> JobRun:
        """See the port."""
        jobs = await self._jobs()
        found = (await self._find(jobs, job)).job
        now = self._clock.now()
        message = message_of(replace(found, wake=True), now, now=now)
        # Apart from the message that the job puts at this very time.
        message = replace(message, id=f"{message.id}:run")
        row = JobRun(
            job=found.id, name=name_of(found), at=float(int(now)), status="queued", fired_at=now, message=message.id,
            session=found.session, note="run by hand",
        )  # fmt: skip
        try:
            await jobs.run_now(found, row, message)
        except Conflict:
            raise Conflict(f"the job {job} was run this very second already") from None
        return row

    async def runs(self, job: str = "", *, limit: int = 20) -> Sequence[JobRun]:
        """See the port."""
        jobs = await self._jobs()
        if job:
            return await jobs.runs((await self._find(jobs, job)).job.id, limit=limit)
        many = _MOST_RUNS if await self._principal() else limit
        return (await self._own(await jobs.runs("", limit=many)))[:limit]

    def describe(self, job: Job | JobRequest | JobRun) -> dict[str, Any]:
        """See the port."""
        if isinstance(job, JobRun):
            return {
                "job": job.job, "name": job.name, "at": shown_time(job.at, self.zone), "status": job.status,
                "missed": job.missed, "session": job.session, "run": job.run, "note": job.note,
            }  # fmt: skip
        if isinstance(job, JobRequest):
            job = self._job(job, "")
        return {
            "id": job.id, "name": job.name, "message": job.message, "kind": type(job.schedule).__name__.lower(),
            "schedule": schedule_text(job.schedule), "zone": job.schedule.zone, "enabled": job.enabled,
            "next": [shown_time(at, self.zone) for at in _coming(job, 3)],
            "session": job.session, "wake": "now" if job.wake else "next-heartbeat",
            "deliver_to": _destination(job.reply), "check": job.check, "workspace": job.workspace,
        }  # fmt: skip

    async def set_heartbeats(self) -> None:
        """Make the jobs of the heartbeats that the settings name, and remove those that they no longer name."""
        jobs, now = await self._jobs(), self._clock.now()
        wanted = {beat.id: beat for beat in (self._heartbeat(h, now) for h in self._settings.heartbeats)}
        for job in await self.list():
            if not job.id.startswith(_HEARTBEAT):
                continue
            beat = wanted.pop(job.id, None)
            if beat is None:
                with suppress(NotFound):
                    await jobs.remove(job.id)
            elif (beat.message, beat.check, _interval(beat)) != (job.message, job.check, _interval(job)):
                with suppress(Conflict, NotFound):  # Another process does the same.
                    await jobs.change(await jobs.get(job.id), beat)
        for beat in wanted.values():
            with suppress(Conflict):
                await jobs.add(beat)

    async def scheduler(
        self, runtime: Runtime, history: History, *, notify: Callable[[str], None]
    ) -> Scheduler:
        """What fires the jobs; the heartbeats of the settings are among them.

        Args:
            runtime: runs the checks, by its policy, each in its job's workspace.
            history: where the checks are recorded.
            notify: is given each sentence that a person should know.
        """
        await self.set_heartbeats()

        async def check(job: Job) -> bool:
            return await _passes(job, runtime, history)

        return Scheduler(
            await self._jobs(), clock=self._clock, grace_s=self._settings.grace_s, check=check, notify=notify
        )  # fmt: skip

    async def note_answer(self, message: InboundMessage, finished: RunFinished) -> None:
        """Note in a job's log how the run on its message ended; nothing for a message of anything else."""
        if message.id.startswith("job:"):
            failed = finished.status != "done"
            note = (finished.error or f"the run ended with status {finished.status}") if failed else ""
            await (await self._jobs()).ended(
                message.id, "failed" if failed else "done", run=finished.run, note=note
            )

    async def _principal(self) -> str:
        """The gateway's principal that the running call is made for; empty = the owner."""
        return await principal_behind(_caller()[0], await self._store())

    async def _own(self, rows: Sequence[R]) -> list[R]:
        """Those jobs, or rows of their logs, that the running call may see."""
        principal, store = await self._principal(), await self._store()
        return [r for r in rows if not principal or await principal_behind(r.session, store) == principal]

    async def _jobs(self) -> Jobs:
        return Jobs(await self._store(), keep=self._settings.keep_runs)

    async def _find(self, jobs: Jobs, job: str) -> StoredJob:
        """A job by its id, or by its name."""
        if not job:
            raise InvalidArguments("say which job: its id, or its name", hint="List the jobs to see them.")
        with suppress(NotFound):
            found = await jobs.get(job)
            if await self._own([found.job]):
                return found
        here = await self.list()
        named = [one for one in here if one.name == job]
        if len(named) > 1:
            ids = ", ".join(one.id for one in named)
            raise NotUnique(f"{len(named)} jobs are called {job!r:.80}: {ids}", hint="Give one of the ids.")
        if not named:
            known = ", ".join(f"{one.id} ({one.name})" if one.name else one.id for one in here[:20])
            raise NotFound(
                f"no job is called {job!r:.80}",
                hint=f"There are: {known}." if known else "There are no jobs.",
            )
        return await jobs.get(named[0].id)

    def _changed(self, job: Job, changes: Mapping[str, Any]) -> Job:
        if job.id.startswith(_HEARTBEAT):
            raise Unsupported(f"{job.id} is a heartbeat", hint="It is changed in the settings, [schedules].")
        now = self._clock.now()
        new = {
            k: changes[k] for k in ("message", "name", "enabled", "session", "wake", "check") if k in changes
        }
        if "schedule" in changes or "zone" in changes:
            zone = changes.get("zone") or job.schedule.zone
            text = changes.get("schedule") or schedule_text(job.schedule)
            new["schedule"] = parse_schedule(text, zone, now)
        after = replace(job, **new)
        after = replace(after, name=" ".join(after.name.split()))
        check_session_key(after.session)
        if not after.message.strip():
            raise InvalidArguments("message is empty: it is what the session is told then")
        next_at = next_time(after.schedule, now) if after.enabled else None
        if after.enabled and next_at is None:
            raise InvalidArguments(
                f"the time of {job.id}, {schedule_text(after.schedule)}, has passed",
                hint="Give it another schedule.",
            )
        # A time that is due already stays due: enabling twice skips nothing.
        due = after.schedule == job.schedule and after.enabled and job.enabled
        return replace(after, next_at=job.next_at if due else next_at)

    def _heartbeat(self, beat: Heartbeat, now: float) -> Job:
        digest = hashlib.sha256(f"{self._workspace}\0{beat.session}".encode()).hexdigest()[:8]
        schedule = Every(every_s=beat.every_s, start=float(int(now)), zone=self.zone)
        return Job(
            id=f"{_HEARTBEAT}{digest}", name=f"heartbeat of {beat.session}", message=beat.text, check=beat.check,
            schedule=schedule, session=beat.session, workspace=self._workspace, created_at=now,
            next_at=next_time(schedule, now),
        )  # fmt: skip


class ScheduleDuty:
    """What a worker does for schedules: each tick fires what is due.

    A tick takes at most a second: a check that takes longer goes on, and the next tick looks at it again.

    Args:
        open: makes the scheduler, at the first tick.
        notify: is given each sentence that a person should know.
    """

    def __init__(self, open: Callable[[], Awaitable[Scheduler]], *, notify: Callable[[str], None]) -> None:
        self._open = open
        self._notify = notify
        self._scheduler: Scheduler | None = None
        self._ticking: asyncio.Task[float | None] | None = None

    async def tick(self) -> None:
        """See Duty."""
        if self._scheduler is None:
            self._scheduler = await self._open()
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._scheduler.tick())
        await asyncio.wait({self._ticking}, timeout=_TICK_S)
        if not self._ticking.done():
            return
        ticked, self._ticking = self._ticking, None
        try:
            ticked.result()
        except StoreError as error:
            self._notify(f"schedules wait: {error}")

    async def close(self) -> None:
        """See Duty."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)


async def _passes(job: Job, runtime: Runtime, history: History) -> bool:
    """Whether a job's check exits with status 0; it is a call of exec like any other, which nobody can approve.

    Raises:
        ToolError: it cannot be run.
    """
    from pegboard.services.calls import Calls

    folder = Path(job.workspace) if job.workspace else runtime.workspace
    if not folder.is_dir():
        raise NotFound(f"the folder {folder} does not exist")
    with runtime.at(folder) as there:
        outcome = await Calls(there, history).call("exec", {"command": job.check, "timeout": _CHECK_S})
    error = outcome.result.error
    if isinstance(error, ToolError) and error.code != "timeout":
        raise error
    data = cast("Mapping[str, Any]", outcome.result.data or {})
    return error is None and data.get("exit_code") == 0


def _caller() -> tuple[str, Mapping[str, str], tuple[str, ...]]:
    """Session, origin and labels of the running call; those of a person at the command line outside one."""
    try:
        context = current_context()
    except LookupError:
        return _MAIN, {}, ()
    # Single calls have no conversation that could be gone on with.
    session = _MAIN if context.session == _SINGLE_CALLS else context.session
    return session, context.origin, tuple(sorted(context.labels))


def _reply(request: JobRequest, origin: Mapping[str, str], session: str) -> Destination | None:
    """Where the answer of a job's run goes."""
    came = {k: origin.get(k, "") for k in ("channel", "chat_id", "account_id", "thread_id")}
    source = Destination(**came) if came["channel"] and came["chat_id"] else None
    to = request.to if request.to is not None else source
    if (
        to is not None
        and source is not None
        and (not to.channel or (to.channel, to.chat_id) == (source.channel, ""))
    ):
        # Another chat of the channel that this session came from, or that channel alone.
        to = replace(source, chat_id=to.chat_id or source.chat_id)
    match request.delivery:
        case "none":
            return None
        case "webhook":
            if to is None or not to.chat_id.startswith(("https://", "http://")):
                raise InvalidArguments("delivery webhook needs an http or https address as its chat")
            return replace(to, channel="webhook")
        case "channel" if to is None or not to.channel:
            raise InvalidArguments(
                "delivery channel needs a channel: this session did not come from one",
                hint="Give channel and chat_id.",
            )
        case "session":
            pass
        case _ if to is not None and to.channel:
            return to
        case _:
            pass
    # The session that it runs in has the answer already.
    return Destination(channel="session", chat_id=session) if request.isolated else None


def _destination(reply: Destination | None) -> str:
    return "" if reply is None else f"{reply.channel}:{reply.chat_id}" if reply.chat_id else reply.channel


def _coming(job: Job, count: int) -> list[float]:
    """The next times of a job: the one that is stored, and those after it."""
    if job.next_at is None:
        return []
    with suppress(InvalidArguments):  # A zone that this machine does not know: the scheduler says so.
        return [job.next_at, *islice(times_after(job.schedule, job.next_at), count - 1)]
    return [job.next_at]


def _interval(job: Job) -> float:
    return job.schedule.every_s if isinstance(job.schedule, Every) else 0.0
