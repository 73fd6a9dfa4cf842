"""`pegboard runs`: what was done."""

from __future__ import annotations

import asyncio
import time

from pegboard.app.home import App
from pegboard.cli.approve import approver_for
from pegboard.cli.options import Options
from pegboard.cli.people import people_for
from pegboard.cli.progress import Progress
from pegboard.cli.run import EXIT
from pegboard.cli.show import note, paint, print_json, safe, say, table
from pegboard.core.codec import event_to_dict
from pegboard.core.errors import BuildError
from pegboard.core.events import Event, ModelReplied, RunFinished, RunStarted, TextPiece, UserSaid
from pegboard.ports.store import RunRow


def runs(action: str, run: str | None, *, model: str | None, pytest: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    with options.open() as app:
        match action:
            case "list":
                return _list(app, options)
            case "show" if run:
                return _show(app, run, options)
            case "resume":
                return asyncio.run(_resume(app, run, model, options))
            case "export" if run:
                return _export(app, run, options)
            case "show" | "export":
                raise BuildError(f"pegboard runs {action} needs a run's id; see: pegboard runs")
            case _:
                raise BuildError(f"pegboard runs {action!r}: use list, show, resume or export")


def _list(app: App, options: Options) -> int:
    rows = app.store.runs(limit=100)
    if options.json:
        for row in rows:
            print_json(_row(row))
    elif not rows:
        say("no runs yet")
    else:
        table(
            [
                (r.id, r.status, time.strftime("%Y-%m-%d %H:%M", time.localtime(r.started)), r.model or "-",
                 safe(r.task.replace("\n", " "))[:60])
                for r in rows
            ],
            head=("run", "status", "started", "model", "task"),
        )  # fmt: skip
    return 0


def _row(row: RunRow) -> dict[str, object]:
    return {
        "run": row.id, "session": row.stream, "status": row.status, "task": row.task, "model": row.model,
        "agent": row.agent, "started": row.started, "ended": row.ended,
    }  # fmt: skip


def _show(app: App, run: str, options: Options) -> int:
    row = app.run_row(run)
    progress = Progress()
    for event in app.events(row):
        if options.json:
            print_json(event_to_dict(event))
            continue
        match event:
            case RunStarted():
                say(paint(f"run {event.run}  session {event.session}  model {event.model or '-'}", "bold"))
            case UserSaid(message):
                say(f"> {safe(message.text)}")
            case ModelReplied(message):
                if message.text:
                    progress.show(TextPiece(message.text + "\n"))
            case RunFinished():
                say(paint(f"{event.status}: {safe(event.error or event.answer)[:400]}", "bold"))
            case _:
                progress.show(event)
    return 0


async def _resume(app: App, run: str | None, model: str | None, options: Options) -> int:
    """Take up unfinished runs: those whose process ended, or one that is named."""
    rows = [app.run_row(run)] if run else app.store.runs(limit=-1, status="running")
    rows = [r for r in rows if r.agent != "cli"]
    if not rows:
        say("no unfinished runs")
        return 0
    status = 0
    for row in rows:
        approver = approver_for(options, on_ask="deny")
        async with app.executor(approver=approver, provide=people_for(options), session=row.stream) as door:
            agent = app.agent(door, model=model or row.model)
            log = app.log(row.stream, run=row.id)
            show = _print_event if options.json else Progress().show
            try:
                async for event in agent.resume(row.id, app.session_events(row.stream), recorder=log):
                    show(event)
                    if isinstance(event, RunFinished):
                        status = max(status, EXIT[event.status])
                        if not options.json:
                            note(f"run {row.id} {event.status}: {event.answer[:200]}")
                await log.flush()
            finally:
                log.close()
                await agent.model().aclose()
    return status


def _print_event(event: Event) -> None:
    print_json(event_to_dict(event))


def _export(app: App, run: str, options: Options) -> int:
    """The run's events as JSON lines."""
    for event in app.events(app.run_row(run)):
        print_json(event_to_dict(event))
    return 0
