"""`pegboard runs`: what was done."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pegboard.app.approvals import Approvals
from pegboard.app.at_work import ONE_CALLS
from pegboard.app.export import export_pytest
from pegboard.app.home import App
from pegboard.app.imports import import_file
from pegboard.app.purging import GONE
from pegboard.app.redacted import RedactingApprover
from pegboard.cli.approve import approver_for
from pegboard.cli.options import Options
from pegboard.cli.people import people_for
from pegboard.cli.progress import EventPrinter
from pegboard.cli.run import EXIT
from pegboard.cli.show import (
    escape_controls,
    note_of,
    paint,
    print_event,
    print_json,
    print_line,
    print_note,
    table,
)
from pegboard.core.errors import BuildError
from pegboard.core.events import ModelReplied, RunFinished, RunStarted, TextPiece, UserSaid, UserTold
from pegboard.core.policy.approval import DenyAll
from pegboard.core.secrets.clip import clip
from pegboard.core.transcript import UserMessage
from pegboard.models import ScriptedModel
from pegboard.runtime.transcripts import IMPORTED, fold
from pegboard.store.log import active_s
from pegboard.store.runs import RunRow


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
                return _export(app, run, options, pytest=pytest)
            case "import" if run:
                return _import(app, Path(run), options)
            case "show" | "export":
                raise BuildError(f"runs {action} needs a run ID; see: pegboard runs")
            case "import":
                raise BuildError("runs import needs a file written by pegboard runs export")
            case _:
                raise BuildError(f"runs {action!r}: use list, show, resume, export or import")


def _list(app: App, options: Options) -> int:
    rows = app.at_work.mark_interrupted(app.store.runs(limit=100))
    if options.json:
        for row in rows:
            print_json(_row(row))
    elif not rows:
        print_line("no runs yet")
    else:
        table(
            [
                (r.id, r.status, time.strftime("%Y-%m-%d %H:%M", time.localtime(r.started)), r.model or "-",
                 escape_controls(r.task.replace("\n", " "))[:60])
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
    if row.task == GONE:
        print_note("this run's content was purged; pegboard audit verify still covers it")
    progress = EventPrinter()
    unread: list[UserMessage] = []
    for event in app.iter_events(row):
        if options.json:
            print_event(event)
            continue
        match event:
            case RunStarted():
                print_line(
                    paint(f"run {event.run}  session {event.session}  model {event.model or '-'}", "bold")
                )
            case UserTold(message):
                unread.append(message)
            case UserSaid(message):
                if message in unread:
                    unread.remove(message)
                print_line(f"> {escape_controls(message.text)}")
            case ModelReplied(message):
                if message.text:
                    progress.show(TextPiece(message.text + "\n"))
            case RunFinished():
                print_line(
                    paint(
                        f"{event.status}: {clip(escape_controls(event.error or event.answer), 0, 400)}",
                        "bold",
                    )
                )
            case _:
                progress.show(event)
    for message in unread:
        print_line(f"> {escape_controls(message.text)} (not read yet)")
    if app.at_work.mark_interrupted([row])[0].status == "interrupted":
        print_note(_left_open(row))
    return 0


def _left_open(row: RunRow) -> str:
    what = "interrupted: its process stopped before it finished; "
    if row.agent in ONE_CALLS:
        return what + "it is unknown whether calls without a result took effect"
    return what + f"resume it with: pegboard runs resume {row.id}"


async def _resume(app: App, run: str | None, model: str | None, options: Options) -> int:
    """Take up unfinished runs: those whose process ended, those whose wait is over, or one that is named."""
    book = Approvals(app.store)
    if run:
        rows = [app.run_row(run)]
    else:
        suspended = app.store.runs(limit=-1, status="suspended")
        rows = [*app.store.runs(limit=-1, status="running"), *(r for r in suspended if book.answers(r.id))]
    rows = [r for r in rows if r.agent not in ONE_CALLS]
    status, taken = 0, 0
    for row in rows:
        try:
            with app.lock_session(row.stream):
                status = max(status, await _resume_one(app, row, book, model, options))
                taken += 1
        except BuildError as error:
            if run:
                raise
            print_note(f"run {row.id}: {error}")
    if not taken:
        print_note("no unfinished runs")
    return status


async def _resume_one(app: App, row: RunRow, book: Approvals, model: str | None, options: Options) -> int:
    events = app.events_for_resume(row.stream)
    starts = [e.detail for e in events if isinstance(e, RunStarted) and e.run == row.id]
    detail: Mapping[str, Any] = starts[0] if starts else {}
    if IMPORTED in detail:
        raise BuildError(
            f"it was imported from {detail[IMPORTED]}, so its calls do not run here; "
            f"continue its conversation with: pegboard run --session {row.stream} TASK"
        )
    where = detail.get("workspace")
    if where and where != str(app.workspace):
        raise BuildError(f"it ran in {where}; resume it there, or with --workspace {where}")
    approver = approver_for(options, on_ask="deny")
    answers = book.answers(row.id)
    nobody = isinstance(approver, DenyAll)
    if row.status == "suspended" and not answers and nobody:
        for call in book.pending(row.id):
            print_note(f"waiting for {call.kind} {call.key}; answer with: pegboard approvals")
        return EXIT["suspended"]
    async with app.executor(approver=approver, provide=people_for(options), session=row.stream) as door:
        door.on_warning = note_of
        agent = app.agent(door, model=model or row.model)
        opened = agent.model()
        if isinstance(opened, ScriptedModel):
            opened.skip(fold(events).turns)
        log = app.log(row.stream, run=row.id)
        redact = app.redactor.redact
        show = partial(print_event, redact=redact) if options.json else EventPrinter(redact=redact).show
        status = 0
        try:
            stream = agent.resume(
                row.id,
                events,
                recorder=log,
                answers=answers,
                approver=None if nobody else RedactingApprover(approver, app.redactor.redact),
                spent_s=active_s(app.store.read(row.stream, run=row.id)),
            )
            async for event in stream:
                show(event)
                if isinstance(event, RunFinished):
                    status = EXIT[event.status]
                    if not options.json:
                        print_note(
                            f"run {row.id} {event.status}: {escape_controls(app.redactor.redact(event.answer)[0])[:200]}"
                        )
            await log.flush()
        finally:
            log.close()
            await opened.aclose()
        book.forget(answers)
    return status


def _export(app: App, run: str, options: Options, *, pytest: bool) -> int:
    """The run's events as JSON lines, or as a test case that replays it."""
    row = app.run_row(run)
    if not pytest:
        for event in app.iter_events(row):
            print_event(event)
        return 0
    done = asyncio.run(export_pytest(app.session_events(row.stream), row.id))
    if options.json:
        print_json({"run": row.id, "source": done.source, "includes": done.includes})
        return 0
    print_note("it contains:")
    for line in done.includes:
        print_note(f"  {escape_controls(line)}")
    print_line(done.source)
    return 0


def _import(app: App, path: Path, options: Options) -> int:
    """Take a file's events into a session; 1 where some line was bad."""
    done = import_file(app, path)
    if options.json:
        print_json(
            {"session": done.session, "runs": done.runs, "events": done.events,
             "bad": [{"line": n, "why": why} for n, why in done.bad], "copy": done.copy and str(done.copy)}
        )  # fmt: skip
    else:
        for number, why in done.bad:
            print_note(
                paint(
                    f"line {number} is damaged and was skipped: {escape_controls(why)}",
                    "red",
                    stream=sys.stderr,
                )
            )
        if done.copy is not None:
            print_note(f"the original file is kept as {escape_controls(str(done.copy))}")
        print_line(f"{done.events} events of {', '.join(done.runs)} imported into session {done.session}")
    return 1 if done.bad else 0
