"""`pegboard runs`: what was done."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import (
    ConfigFile,
    Everywhere,
    Json,
    ModelName,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    Yes,
    exit_with,
)
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.progress import EventPrinter
from pegboard.cli.run import EXIT, run_printer, watch
from pegboard.cli.show import (
    escape_controls,
    paint,
    print_event,
    print_json,
    print_line,
    print_note,
    table,
)
from pegboard.core.errors import BuildError
from pegboard.core.events import ModelReplied, RunFinished, RunStarted, TextPiece, UserSaid, UserTold
from pegboard.core.secrets.clip import clip
from pegboard.core.transcript import UserMessage
from pegboard.store.runs import RunRow


def runs_command(
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="list, show, resume, stop, export or import.")
    ] = "list",
    run: Annotated[
        str | None, typer.Argument(metavar="ID", help="Run ID or last; for import, a file.")
    ] = None,
    everywhere: Everywhere = False,
    model: ModelName = None,
    pytest: Annotated[bool, typer.Option("--pytest", help="For export: write a pytest file.")] = False,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """List, show, resume, stop, export or import runs."""

    options = Options(
        workspace=workspace,
        mode=mode,
        policy=policy,
        config=config,
        yes=yes,
        json=json,
        tools_from=tools_from or (),
    )
    exit_with(runs(action, run, model=model, pytest=pytest, everywhere=everywhere, options=options))


def runs(
    action: str,
    run: str | None,
    *,
    model: str | None,
    pytest: bool,
    everywhere: bool = False,
    options: Options,
) -> int:
    """Carry out the command; the exit status."""
    match action:
        case "list":
            return options.run(partial(_list, everywhere=everywhere, options=options))
        case "show" if run:
            return options.run(partial(_show, run=run, options=options))
        case "resume":
            return options.run(partial(_resume, run=run, model=model, options=options))
        case "stop" if run:
            return options.run(partial(_stop, run=run, options=options))
        case "export" if run:
            return options.run(partial(_export, run=run, pytest=pytest, options=options))
        case "import" if run:
            return options.run(partial(_import, path=Path(run), options=options))
        case "show" | "stop" | "export":
            raise BuildError(f"runs {action} needs a run ID; see: pegboard runs")
        case "import":
            raise BuildError("runs import needs a file written by pegboard runs export")
        case _:
            raise BuildError(f"runs {action!r}: use list, show, resume, stop, export or import")


async def _list(app: App, *, everywhere: bool, options: Options) -> int:
    rows = await app.runs.list(everywhere=everywhere)
    if options.json:
        for row in rows:
            print_json(_row(row))
    elif not rows:
        others = not everywhere and await app.runs.list(everywhere=True, limit=1)
        print_line(
            "no runs in this workspace; list all with: pegboard runs --all" if others else "no runs yet"
        )
    else:
        table(
            [
                (r.id, r.status, time.strftime("%Y-%m-%d %H:%M", time.localtime(r.started)), r.model or "-",
                 *([escape_controls(r.workspace or "-")] if everywhere else []),
                 escape_controls(r.task.replace("\n", " "))[:60])
                for r in rows
            ],
            head=("run", "status", "started", "model", *(["workspace"] if everywhere else []), "task"),
        )  # fmt: skip
    return 0


def _row(row: RunRow) -> dict[str, object]:
    return {
        "run": row.id, "session": row.stream, "status": row.status, "task": row.task, "model": row.model,
        "agent": row.agent, "workspace": row.workspace, "started": row.started, "ended": row.ended,
    }  # fmt: skip


async def _show(app: App, *, run: str, options: Options) -> int:
    row = await app.runs.get(run)
    if app.runs.is_purged(row):
        print_note("this run's content was purged; pegboard audit verify still covers it")
    progress = EventPrinter()
    unread: list[UserMessage] = []
    said = ""
    async for event in app.runs.events(row):
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
                said = message.text
                if message.text:
                    progress.show(TextPiece(message.text + "\n"))
            case RunFinished():
                # An answer that stands above already is not told again.
                end = event.error or ("" if event.answer == said else event.answer)
                end = f": {clip(escape_controls(end), 0, 400)}" if end else ""
                print_line(paint(f"{event.status}{end}", "bold"))
            case _:
                progress.show(event)
    for message in unread:
        print_line(f"> {escape_controls(message.text)} (not read yet)")
    if row.status == "interrupted":
        what = "interrupted: its process stopped before it finished; "
        print_note(
            what + "it is unknown whether calls without a result took effect"
            if app.runs.is_single_call(row)
            else what + f"resume it with: pegboard runs resume {row.id}"
        )
    return 0


async def _resume(app: App, *, run: str | None, model: str | None, options: Options) -> int:
    """Resume unfinished runs: those whose process ended, those whose wait is over, or the named one."""
    rows = [await app.runs.get(run, single_calls=False)] if run else await app.runs.unfinished()
    status, resumed = 0, 0
    for row in rows:
        try:
            status = max(status, await _resume_one(app, row, model, options))
            resumed += 1
        except BuildError as error:
            if run:
                raise
            print_note(f"run {row.id}: {error}")
    if not resumed:
        print_note("no unfinished runs")
    return status


async def _resume_one(app: App, row: RunRow, model: str | None, options: Options) -> int:
    interaction = interaction_for(options)
    if waiting := await app.runs.waits_for(row, interaction):
        for call in waiting:
            print_note(f"waiting for {call.kind} {call.key}; answer with: pegboard approvals")
        return EXIT["suspended"]
    ended = await watch(
        app.runs.resume(row, interaction, model=model, mode=options.mode), run_printer(app, options)
    )
    if not options.json:
        print_note(f"run {row.id} {ended.finished.status}")
    return ended.status


async def _stop(app: App, *, run: str, options: Options) -> int:
    """End a run as cancelled, whichever process works on it; 1 where that process has not let go of it yet."""
    row = await app.runs.stop(await app.runs.get(run, single_calls=False))
    if options.json:
        print_json(_row(row))
    else:
        print_line(f"run {row.id} is {'being stopped' if row.status == 'running' else row.status}")
    return 1 if row.status == "running" else 0


async def _export(app: App, *, run: str, pytest: bool, options: Options) -> int:
    """The run's events as JSON lines, or as a test case that replays it."""
    row = await app.runs.get(run)
    if not pytest:
        async for event in app.runs.events(row):
            print_event(event)
        return 0
    done = await app.runs.export_pytest(row)
    if options.json:
        print_json({"run": row.id, "source": done.source, "includes": done.includes})
        return 0
    print_note("it contains:")
    for line in done.includes:
        print_note(f"  {escape_controls(line)}")
    print_line(done.source)
    return 0


async def _import(app: App, *, path: Path, options: Options) -> int:
    """Take a file's events into a session; 1 where some line was bad."""
    done = await app.runs.import_run(path)
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
