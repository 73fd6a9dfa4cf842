"""`pegboard undo`: take back what a call or run changed."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.prompt import read_line
from pegboard.cli.show import (
    escape_controls,
    paint,
    pluralise,
    print_changes,
    print_json,
    print_line,
    print_note,
    table,
)
from pegboard.core.effects import ChangeSet
from pegboard.core.errors import BuildError, NotFound, ToolError
from pegboard.core.text import escape_invisible
from pegboard.files.journal import JournalEntry
from pegboard.files.undo import UndoReport
from pegboard.services.calls import error_fields


def undo_command(
    target: Annotated[
        str | None, typer.Argument(metavar="ID", help="Run or call ID, or last for the last run.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Undo the last call that changed files.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would change without changing it.")
    ] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Restore what was undone.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List what can be undone.")] = False,
    everywhere: Annotated[bool, typer.Option("--all", help="For --list: include other workspaces.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Undo a call's or run's file changes, keeping later edits."""

    options = Options(workspace=workspace, config=config, json=json)
    if show:
        exit_with(history(everywhere=everywhere, options=options))
    if everywhere:
        raise BuildError(
            "--all is for --list; to undo a change of another workspace, name it with --workspace"
        )
    exit_with(undo(target, last=last, preview=preview, redo=redo, options=options))


def undo(target: str | None, *, last: bool, preview: bool, redo: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    if target is None and not last and not redo and not preview:
        if not options.attended:
            raise BuildError("name a run or call (see: pegboard undo --list), or use --last or last")
        return options.run(partial(_offer, options=options))
    return options.run(partial(_undo, target=target, preview=preview, redo=redo, options=options))


async def _undo(app: App, *, target: str | None, preview: bool, redo: bool, options: Options) -> int:
    try:
        report = await app.undo.undo(target, preview=preview, redo=redo)
    except ToolError as error:
        if isinstance(error, NotFound) and target and (others := await _elsewhere(app, target)):
            error = NotFound(
                f"{target} changed files in {others[0]}, not in this workspace",
                hint=f"Undo it there: pegboard undo {target} --workspace {shlex.quote(others[0])}",
            )
        if not options.json:
            raise error from None
        print_json({**_row(UndoReport(changes=ChangeSet(), entries=())), "error": error_fields(error)})
        return 1
    if options.json:
        print_json(_row(report))
    else:
        print_undone(report, preview=preview, redo=redo)
    return 1 if report.conflicts or _nothing_captured(report) else 0


async def _elsewhere(app: App, target: str) -> list[str]:
    """The workspaces in which a run or call changed files, by its whole ID."""
    entries = [one.entry for one in await app.undo.entries(everywhere=True)]
    return sorted({e.workspace for e in entries if target in (e.origin.run, e.origin.call_id)})


async def _offer(app: App, *, options: Options) -> int:
    """Show what the last change was, and take it back if the person says so."""
    report = await app.undo.undo(preview=True)
    print_undone(report, preview=True)
    if not report.changes.changes and not report.made_dirs and not report.removed_dirs:
        return 1
    line = await read_line("undo this? [y/n]  ")
    if line is None or line.strip().lower() not in ("y", "yes"):
        print_note("nothing was changed")
        return 3
    return await _undo(app, target=None, preview=False, redo=False, options=options)


def _nothing_captured(report: UndoReport) -> bool:
    """Whether all that was to be undone was never captured."""
    return bool(report.missed) and not (report.changes.changes or report.made_dirs or report.removed_dirs)


def history(*, everywhere: bool = False, options: Options) -> int:
    """`pegboard undo --list`: what the journal has of this workspace, or of all, newest first."""
    return options.run(partial(_history, everywhere=everywhere, options=options))


async def _history(app: App, *, everywhere: bool, options: Options) -> int:
    entries = await app.undo.entries(everywhere=everywhere)
    if options.json:
        print_json([_entry(one.entry, holds=one.holds) for one in entries])
        return 0
    rows = [
        (
            one.entry.id,
            datetime.fromtimestamp(one.entry.time).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            escape_controls(one.entry.origin.tool or one.entry.type),
            escape_controls(one.entry.origin.call_id or "-"),
            escape_controls(one.entry.origin.run or "-"),
            *([escape_controls(one.entry.workspace)] if everywhere else []),
            _paths(one.entry),
            "" if one.holds else "undone",
        )
        for one in entries
    ]
    if rows:
        table(
            rows,
            head=(
                "entry",
                "time",
                "by",
                "call",
                "run",
                *(["workspace"] if everywhere else []),
                "changed",
                "",
            ),
        )
    else:
        print_line("no file changes recorded in this workspace")
    return 0


def _entry(entry: JournalEntry, *, holds: bool) -> dict[str, object]:
    return {
        "entry": entry.id, "type": entry.type, "time": entry.time, "tool": entry.origin.tool,
        "call": entry.origin.call_id, "run": entry.origin.run, "workspace": entry.workspace, "holds": holds, "undoes": list(entry.undoes),
        "files": [{"path": f.path, "kind": f.kind, "moved_to": f.moved_to} for f in entry.files],
        "made_dirs": list(entry.made_dirs), "removed_dirs": [path for path, _ in entry.removed_dirs],
        "missed": list(entry.missed),
    }  # fmt: skip


def _paths(entry: JournalEntry) -> str:
    paths = [f"{f.kind} {escape_invisible(f.path)}" for f in entry.files]
    paths += [f"rmdir {escape_invisible(path)}" for path, _ in entry.removed_dirs] if not paths else []
    paths += [f"mkdir {escape_invisible(path)}" for path in entry.made_dirs] if not paths else []
    if not paths and entry.missed:
        return f"nothing to undo ({len(entry.missed)} not tracked)"
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _row(report: UndoReport) -> dict[str, object]:
    return {
        "applied": report.applied,
        "changes": [c.to_dict() for c in report.changes.changes],
        "kept": list(report.kept),
        "conflicts": [{"path": c.path, "reason": c.reason} for c in report.conflicts],
        "missed": list(report.missed),
        "made_dirs": list(report.made_dirs),
        "removed_dirs": list(report.removed_dirs),
        "entries": list(report.entries),
    }


def print_undone(report: UndoReport, *, preview: bool = False, redo: bool = False) -> None:
    """Print what was taken back, kept, in conflict and missed."""
    print_changes(report.changes.changes)
    for path in report.made_dirs:
        print_line(f"folder {escape_invisible(path)} {'would be' if preview else 'is'} restored")
    for path in report.removed_dirs:
        print_line(f"folder {escape_invisible(path)} {'would be' if preview else 'is'} removed if empty")
    for path in report.kept:
        print_note(f"{escape_invisible(path)}: later edits are kept")
    for conflict in report.conflicts:
        print_note(
            paint(
                f"{escape_controls(conflict.path)}: not changed: {escape_controls(conflict.reason)}",
                "red",
                stream=sys.stderr,
            )
        )
    for missed in report.missed:
        print_note(paint(f"not undone: {escape_controls(missed)}", "yellow", stream=sys.stderr))
    verb = "redone" if redo else "undone"
    count = len(report.changes.changes)
    if _nothing_captured(report):
        print_line(f"none of these changes can be {verb}")
    elif preview:
        print_line(f"would be {verb}: {pluralise(count, 'file change')}")
    elif report.applied:
        print_line(f"{verb}: {pluralise(count, 'file change')}")
    else:
        print_line("nothing to redo" if redo else "nothing to undo")
