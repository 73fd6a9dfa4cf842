"""cron: jobs that tell a session something at their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pegboard.core.content import Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.profiles import JobId, JobText
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.messages import Destination
from pegboard.ports.schedules import Delivery, Job, JobRequest, JobRun, Schedules

Action = Literal["add", "list", "remove", "update", "enable", "disable", "run", "runs"]

_TIMES: Final = ("schedule", "cron_expr", "every_seconds", "at")


def effects_of_cron(given: Mapping[str, Any]) -> list[Effect]:
    """Looking is free; ending a job passes; what makes one fire is a `schedule`, and where its answers go a `send`."""
    action, job = given.get("action", "list"), given.get("job_id") or given.get("name") or ""
    match action:
        case "list" | "runs":
            return []
        case "remove" | "disable":
            return [Effect("schedule", f"{action}:{job}", at_least="allow")]
        case "add":
            what = f"{_text_of(given)} {clip(str(given.get('message', '')), 0, 200)}"
            return [Effect("schedule", f"add:{what}"), *effects_of_delivery(given)]
        case _:
            return [Effect("schedule", f"{action}:{job}")]


def effects_of_delivery(given: Mapping[str, Any]) -> list[Effect]:
    """Where the answers go: a chat, or the host of a webhook."""
    channel, chat = given.get("channel") or "", given.get("chat_id") or ""
    if given.get("delivery") == "webhook":
        from urllib.parse import urlsplit

        return [Effect("connect", urlsplit(chat).netloc.rpartition("@")[2] or chat)]
    if given.get("delivery") in ("none", "session") or not (channel or chat):
        return []
    return [Effect("send", f"{channel}:{chat}" if chat else channel)]


async def plan_cron(call: ValidCall, context: Context) -> Plan:
    """The effects. A schedule that cannot be read is refused here, before anybody is asked about it."""
    given = call.arguments
    if given["action"] in ("add", "update"):
        adds = given["action"] == "add"
        _check_times(given, needed=adds)
        request = request_of(given if adds else {**given, "message": "new"})
        if request.schedule:
            context.port(Schedules).describe(request)
    return Plan(tuple(effects_of_cron(given)))


@tool(
    plan=plan_cron,
    touches=("schedule", "send", "connect"),
    hints=(
        "remind me",
        "every day at",
        "schedule a task",
        "recurring job",
        "in 20 minutes",
        "定时任务",
        "提醒我",
    ),
    example={"action": "add", "schedule": "every Monday at 9", "message": "Send the weekly report."},
)
async def cron(
    action: Action,
    message: JobText = "",
    schedule: Annotated[str, Alias("when")] = "",
    cron_expr: Annotated[str, Alias("cron", "expr", "expression")] = "",
    every_seconds: Annotated[int | None, Field(ge=1)] = None,
    at: Annotated[str, Alias("run_at", "datetime")] = "",
    tz: Annotated[str, Alias("timezone", "time_zone")] = "",
    job_id: JobId = "",
    name: str = "",
    session: Literal["main", "isolated"] = "main",
    wake: Annotated[Literal["now", "next-heartbeat"], Alias("wake_mode")] = "now",
    delivery: Annotated[Delivery, Alias("deliver")] = "",
    channel: str = "",
    chat_id: Annotated[str, Alias("to", "target")] = "",
    *,
    schedules: Inject[Schedules],
) -> ToolResult:
    """Schedule a message to a session for later: once, at intervals, or by a cron expression.

    For reminders and recurring work. At its time the session reads the message and acts on it. Do not
    use it to wait for a background command.

    Args:
        action: add a job; list all; remove, update, enable or disable one; run it now; runs lists what it did.
        message: What the session is told, as a complete instruction.
        schedule: When: a cron expression, every 10m, 20m, an ISO time, or a phrase such as every Monday at 9.
        cron_expr: When, as a cron expression of five fields.
        every_seconds: When, as an interval.
        at: When, once, as an ISO time such as 2027-03-25T10:00.
        tz: IANA zone of the cron expression or schedule; the user's by default.
        job_id: Which job, by its id or its name; all but add and list need it.
        name: A short name for a new job, or the new name in update.
        session: main is this session; isolated is one of the job's own.
        wake: now starts a run; next-heartbeat waits for the session's next one.
        delivery: Where the answer goes; where this session came from by default. webhook needs a URL as chat_id.
        channel: Channel that the answer goes to, such as telegram.
        chat_id: Chat there.

    Raises:
        InvalidArguments: the schedule cannot be read, or its time has passed.
        NotFound: there is no such job.
    """
    given = {
        "message": message, "schedule": schedule, "cron_expr": cron_expr, "every_seconds": every_seconds, "at": at,
        "tz": tz, "name": name, "session": session, "wake": wake, "delivery": delivery, "channel": channel,
        "chat_id": chat_id,
    }  # fmt: skip
    which = job_id or name
    match action:
        case "add":
            return added(schedules, await schedules.add(request_of(given)))
        case "list":
            return _listed(schedules, await schedules.list())
        case "remove":
            job = await schedules.remove(which)
            return _about(schedules, job, f"Removed {_named(job)}.")
        case "update":
            new = {
                "message": message,
                "schedule": _text_of(given),
                "zone": tz,
                "name": name if job_id else "",
            }
            job = await schedules.update(which, {key: value for key, value in new.items() if value})
            return _about(schedules, job, f"Updated {_line(schedules, job)}")
        case "enable" | "disable":
            job = await schedules.update(which, {"enabled": action == "enable"})
            return _about(schedules, job, f"{action.capitalize()}d {_line(schedules, job)}")
        case "run":
            shown = schedules.describe(await schedules.run(which))
            return ToolResult(
                content=(Text(f"Queued {shown['job']} ({shown['name']})."),), data={"run": shown}
            )
        case "runs":
            return _runs(schedules, await schedules.runs(which))


def added(schedules: Schedules, job: Job) -> ToolResult:
    """The result of adding a job."""
    shown = schedules.describe(job)
    text = (
        f"Scheduled {_named(job)}: {shown['schedule']} ({shown['zone']}). Next: {', '.join(shown['next'])}."
    )
    return ToolResult(content=(Text(text),), data={"created": True, "job": shown})


def request_of(given: Mapping[str, Any]) -> JobRequest:
    """The job that the arguments of `cron` describe."""
    return JobRequest(
        message=given["message"], schedule=_text_of(given), zone=given["tz"], name=given["name"],
        isolated=given["session"] == "isolated", wake=given["wake"] == "now", delivery=given["delivery"],
        to=destination(given["channel"], given["chat_id"]),
    )  # fmt: skip


def destination(channel: str, chat: str) -> Destination | None:
    """A chat as the port takes it; None where nothing was said."""
    return Destination(channel=channel, chat_id=chat) if channel or chat else None


def _text_of(given: Mapping[str, Any]) -> str:
    seconds = given.get("every_seconds")
    return str(
        given.get("cron_expr")
        or (f"every {seconds}s" if seconds else "")
        or given.get("at")
        or given.get("schedule")
        or ""
    )


def _check_times(given: Mapping[str, Any], *, needed: bool) -> None:
    """One way to say when, and a zone only where clocks count.

    Raises:
        InvalidArguments: none or several, or tz beside every_seconds or at.
    """
    said = [name for name in _TIMES if given[name]]
    if len(said) > 1 or (needed and not said):
        raise InvalidArguments(
            f"{' and '.join(said)} say when, each another way" if said else "nothing says when the job runs",
            hint=f"Give one of {', '.join(_TIMES)}.",
        )
    if given["tz"] and said and said[0] in ("every_seconds", "at"):
        raise InvalidArguments(
            f"tz can only be given with cron_expr or schedule, not with {said[0]}",
            hint="Leave tz out; write the offset into at, such as 2027-03-25T10:00+08:00."
            if said[0] == "at"
            else "Leave tz out: an interval is the same in every zone.",
        )


def _named(job: Job) -> str:
    return f"{job.id} ({job.name})" if job.name else job.id


def _line(schedules: Schedules, job: Job) -> str:
    shown = schedules.describe(job)
    state = f"next {shown['next'][0]}" if shown["next"] else "disabled"
    return f"{_named(job)}: {shown['schedule']} ({shown['zone']}), {state}: {clip(job.message, 0, 200)}"


def _about(schedules: Schedules, job: Job, text: str) -> ToolResult:
    return ToolResult(content=(Text(text),), data={"job": schedules.describe(job)})


def _listed(schedules: Schedules, jobs: Sequence[Job]) -> ToolResult:
    text = "\n".join(_line(schedules, job) for job in jobs) or "No scheduled jobs."
    return ToolResult(content=(Text(text),), data={"jobs": [schedules.describe(job) for job in jobs]})


def _runs(schedules: Schedules, rows: Sequence[JobRun]) -> ToolResult:
    shown = [schedules.describe(row) for row in rows]
    lines = [
        f"{row['at']} {row['job']} ({row['name']}): {row['status']}"
        + (f", {row['missed']} further times missed" if row["missed"] else "")
        + (f" ({row['note']})" if row["note"] else "")
        for row in shown
    ]
    text = "\n".join(lines) or "No runs yet."
    return ToolResult(content=(Text(text),), data={"runs": shown})
