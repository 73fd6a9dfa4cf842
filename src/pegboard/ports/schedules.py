"""Schedules: jobs that put a message into a session at their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from pegboard.ports.messages import Destination

JobStatus: TypeAlias = Literal["queued", "read", "done", "failed", "missed", "skipped"]
Delivery: TypeAlias = Literal["", "session", "channel", "webhook", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Once. `at`: seconds since the epoch; `zone`: the IANA zone that it is shown in."""

    at: float
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """At a fixed interval of `every_s` seconds, counted from `start` (seconds since the epoch), whatever the clocks
    of `zone` do; the times are shown in that zone."""

    every_s: float
    start: float
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """By a cron expression of five fields, or a name such as `@daily`, on the clocks of an IANA zone."""

    expr: str
    zone: str = "UTC"


Schedule: TypeAlias = At | Every | Cron


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A message that is put into a session at its times.

    Attributes:
        id: names it.
        name: for people; may be empty.
        message: what the session is told.
        schedule: when.
        session: the session's key; `schedule:ID` is one of the job's own.
        wake: start a run at once; False = the message waits for the next heartbeat or message.
        reply: where the answer goes; None = it stays in the session.
        check: a command that decides: the job fires only when it exits with status 0. Empty = always.
        enabled: whether it fires.
        workspace: the folder that its runs and its check work in.
        labels: taint labels of the run that made it.
        origin: channel and sender of the run that made it, to which rules and grants apply.
        created_at: seconds since the epoch.
        next_at: its next time, seconds since the epoch; None = there is none, or it is disabled.
        fires: how many rows its log has had.
        last_message: id of the message that it put last.
    """

    id: str
    message: str
    schedule: Schedule
    session: str
    name: str = ""
    wake: bool = True
    reply: Destination | None = None
    check: str = ""
    enabled: bool = True
    workspace: str = ""
    labels: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict[str, str])
    created_at: float = 0.0
    next_at: float | None = None
    fires: int = 0
    last_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A row of the log of a job.

    Attributes:
        job, name: the job's; for a name that it has none of, the start of its message.
        at: the time that it stands for, seconds since the epoch.
        status: `queued` until the run on its message has ended, then `done` or `failed`; `read`: a run that something else
            started has read it; `missed`: nothing was there to fire it in time; `skipped`: the run on its last message has
            not ended.
        fired_at: when it was fired, seconds since the epoch.
        missed: further times before `at` that passed without firing.
        message: id of the message that was put; empty = none was.
        session: the session's key.
        run: id of the run that read it.
        note: what a person should know about it.
    """

    job: str
    at: float
    status: JobStatus
    fired_at: float
    name: str = ""
    missed: int = 0
    message: str = ""
    session: str = ""
    run: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to add.

    Attributes:
        message: what the session is told.
        schedule: a cron expression, `every 10m`, `20m`, an ISO time, or a phrase such as `every Monday at 9`.
        zone: the IANA zone that it is read in; empty = the user's.
        name: for people.
        isolated: run in a session of the job's own, else in the one that made it.
        wake: see Job.
        delivery: where the answer goes: `session` (the one that made it), `channel` or `webhook` (`to`), `none`; empty =
            `channel` where the session came from one or `to` is given, else `session`.
        to: the channel's chat, or `webhook` with an address as its chat.
        check: see Job.
    """

    message: str
    schedule: str
    zone: str = ""
    name: str = ""
    isolated: bool = False
    wake: bool = True
    delivery: Delivery = ""
    to: Destination | None = None
    check: str = ""


class Schedules(Protocol):
    """The jobs of this machine. A job is named by its id, or by its name where only one has it."""

    async def add(self, request: JobRequest) -> Job:
        """Add a job.

        Raises:
            InvalidArguments: the schedule cannot be read, its time has passed, or the zone does not exist.
            Unsupported: a run that a job started wants to add one.
        """
        ...

    async def list(self) -> Sequence[Job]:
        """The jobs of this workspace, by their next time."""
        ...

    async def update(self, job: str, changes: Mapping[str, Any]) -> Job:
        """Change a job.

        Args:
            job: which.
            changes: `message`, `name`, `schedule`, `zone`, `wake` and `check` as in JobRequest, `enabled`, `session`.

        Raises:
            NotFound: there is none; the hint names those there are.
            InvalidArguments: see `add`.
        """
        ...

    async def remove(self, job: str) -> Job:
        """Remove a job and its log; what it was.

        Raises:
            NotFound: see `update`.
        """
        ...

    async def run(self, job: str) -> JobRun:
        """Put a job's message now; its times stay.

        Raises:
            NotFound: see `update`.
        """
        ...

    async def runs(self, job: str = "", *, limit: int = 20) -> Sequence[JobRun]:
        """The latest rows of the log of a job, or of all jobs, newest first.

        Raises:
            NotFound: see `update`.
        """
        ...

    def describe(self, job: Job | JobRequest | JobRun) -> dict[str, Any]:
        """A job as JSON values: its `kind` (at, every, cron), its `schedule` as text, its `next` three times in the user's
        zone, and its other fields. Of a request what it would become; nothing is added. Of a row of a log its fields.

        Raises:
            InvalidArguments: see `add`; of a request alone.
            Unsupported: see `add`; of a request alone.
        """
        ...
