"""`pegboard schedules`: scheduled jobs, and what they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, print_json, print_line, table
from pegboard.core.errors import BuildError
from pegboard.core.secrets.clip import clip
from pegboard.ports.messages import Destination
from pegboard.ports.schedules import Delivery, JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class _New:
    """The options of `add`."""

    name: str
    zone: str
    session: str
    isolated: bool
    at_heartbeat: bool
    to: str
    check: str


def schedules_command(
    action: Annotated[
        str, typer.Argument(help="list, add, remove, enable, disable, run or history.")
    ] = "list",
    subject: Annotated[
        str | None, typer.Argument(metavar="[WHEN|ID]", help="add: when, else a job's id or name.")
    ] = None,
    message: Annotated[
        str | None, typer.Argument(metavar="[MESSAGE]", help="add: what the session is told.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="add: a name for the job.")] = "",
    zone: Annotated[str, typer.Option("--tz", help="add: IANA time zone, such as Europe/Berlin.")] = "",
    session: Annotated[str, typer.Option("--session", help="add: the session that is told.")] = "main",
    isolated: Annotated[bool, typer.Option("--isolated", help="add: run in a session of its own.")] = False,
    at_heartbeat: Annotated[
        bool, typer.Option("--at-heartbeat", help="add: start no run, wait for the next heartbeat.")
    ] = False,
    to: Annotated[
        str, typer.Option("--to", help="add: where the answer goes: CHANNEL:CHAT, a webhook's URL, or none.")
    ] = "",
    check: Annotated[
        str, typer.Option("--check", help="add: fire only when this command exits with status 0.")
    ] = "",
    everywhere: Annotated[bool, typer.Option("--all", help="list: of all workspaces.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List, add or change scheduled jobs, or show what they did."""

    new = _New(
        name=name, zone=zone, session=session, isolated=isolated, at_heartbeat=at_heartbeat, to=to, check=check
    )  # fmt: skip
    options = Options(workspace=workspace, config=config, json=json)
    exit_with(schedules(action, subject, message, new=new, everywhere=everywhere, options=options))


def schedules(
    action: str, subject: str | None, message: str | None, *, new: _New, everywhere: bool, options: Options
) -> int:
    """Carry out the command; the exit status."""
    match action:
        case "list":
            act = partial(_list, everywhere=everywhere, options=options)
        case "add" if subject and message:
            act = partial(_add, when=subject, message=message, new=new, options=options)
        case "add":
            raise BuildError(
                'schedules add needs WHEN and MESSAGE: pegboard schedules add "daily at 9:00" "…"'
            )
        case "history":
            act = partial(_history, job=subject or "", options=options)
        case "remove" | "enable" | "disable" | "run" if subject:
            act = partial(_change, action=action, job=subject, options=options)
        case "remove" | "enable" | "disable" | "run":
            raise BuildError(f"schedules {action} needs an ID or a name; see: pegboard schedules")
        case _:
            raise BuildError(
                f"schedules {action!r}: use list, add WHEN MESSAGE, history [ID], or remove, enable, disable or run ID"
            )
    return options.run(act)


async def _list(app: App, *, everywhere: bool, options: Options) -> int:
    rows = [app.schedules.describe(job) for job in await app.schedules.list(everywhere=everywhere)]
    if options.json:
        print_json(rows)
    elif not rows:
        print_line("no scheduled jobs")
    else:
        print_line(f"times in {app.schedules.zone}")
        for row in rows:
            _show(row)
    return 0


async def _add(app: App, *, when: str, message: str, new: _New, options: Options) -> int:
    delivery, to = _destination(new.to)
    request = JobRequest(
        message=message, schedule=when, zone=new.zone, name=new.name, isolated=new.isolated,
        wake=not new.at_heartbeat, delivery=delivery, to=to, check=new.check,
    )  # fmt: skip
    job = await app.schedules.add(request, session=new.session)
    _print(app.schedules.describe(job), options)
    return 0


async def _change(app: App, *, action: str, job: str, options: Options) -> int:
    match action:
        case "remove":
            removed = await app.schedules.remove(job)
            if options.json:
                print_json(app.schedules.describe(removed))
            else:
                print_line(f"{removed.id} is removed")
        case "run":
            row = app.schedules.describe(await app.schedules.run(job))
            if options.json:
                print_json(row)
            else:
                print_line(f"{row['job']} is queued for session {escape_controls(row['session'])}")
        case _:
            changed = await app.schedules.update(job, {"enabled": action == "enable"})
            _print(app.schedules.describe(changed), options)
    return 0


async def _history(app: App, *, job: str, options: Options) -> int:
    rows = [app.schedules.describe(row) for row in await app.schedules.runs(job)]
    if options.json:
        print_json(rows)
    elif not rows:
        print_line("no job has fired yet" if not job else "this job has not fired yet")
    else:
        print_line(f"times in {app.schedules.zone}")
        table(
            [
                (
                    _time(row["at"]), row["job"], escape_controls(row["name"]), row["status"],
                    str(row["missed"] or ""), row["run"], escape_controls(row["note"]),
                )
                for row in rows
            ],
            head=("time", "job", "name", "status", "missed", "run", "note"),
        )  # fmt: skip
    return 0


def _print(job: Mapping[str, Any], options: Options) -> None:
    if options.json:
        print_json(job)
    else:
        _show(job)


def _show(job: Mapping[str, Any]) -> None:
    name = f"  {escape_controls(job['name'])}" if job["name"] else ""
    when = {"at": "once", "every": job["schedule"], "cron": f"{job['schedule']} ({job['zone']})"}[job["kind"]]
    print_line(paint(f"{job['id']}{name}  {when}", "bold"))
    print_line(f"  {clip(escape_controls(job['message']), 0, 200)}")
    print_line(f"  next: {', '.join(map(_time, job['next'])) or 'never, it is disabled'}")
    where = f"  session: {escape_controls(job['session'])}"
    where += f", answer to {escape_controls(job['deliver_to'])}" if job["deliver_to"] else ""
    where += ", at the next heartbeat" if job["wake"] != "now" else ""
    print_line(where)
    if job["check"]:
        print_line(f"  only if: {escape_controls(job['check'])}")


def _time(text: str) -> str:
    """`Mon 2027-03-29 09:00`, with seconds where there are any."""
    at = datetime.fromisoformat(text)
    return f"{at:%a %Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _destination(text: str) -> tuple[Delivery, Destination | None]:
    """What `--to` says."""
    if not text:
        return "", None
    if text in ("none", "session"):
        return text, None
    if text.startswith(("https://", "http://")):
        return "webhook", Destination(channel="webhook", chat_id=text)
    channel, _, chat = text.partition(":")
    return "channel", Destination(channel=channel, chat_id=chat)
