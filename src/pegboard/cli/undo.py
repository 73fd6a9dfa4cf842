"""`pegboard undo`: take back what a call or run changed."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime

from pegboard.app.home import App
from pegboard.app.one_call import error_fields
from pegboard.cli.options import Options
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
from pegboard.core.errors import BuildError, ToolError
from pegboard.core.text import escape_invisible
from pegboard.files.journal import Journal, JournalEntry
from pegboard.files.undo import ById, Last, UndoReport
from pegboard.files.workspace import Workspace


def undo(target: str | None, *, last: bool, preview: bool, redo: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    if target is None and not last and not redo:
        raise BuildError("name a run or call (see: pegboard runs), or use --last")
    with options.open() as app:
        return asyncio.run(_undo(app, target, preview=preview, redo=redo, options=options))


async def _undo(app: App, target: str | None, *, preview: bool, redo: bool, options: Options) -> int:
    files = Workspace(
        app.workspace, journal=Journal(app.paths.state / "journal"), full_access=app.policy.mode == "full",
        home=app.paths.home, allowed_dirs=app.config.allowed_dirs,
    )  # fmt: skip
    try:
        what = Last() if target is None else ById(id=target)
        report = await files.undo(what, preview=preview, redo=redo)
    except ToolError as error:
        if not options.json:
            raise
        print_json({**_row(UndoReport(changes=ChangeSet(), entries=())), "error": error_fields(error)})
        return 1
    finally:
        files.close()
    if options.json:
        print_json(_row(report))
    else:
        _print(report, preview=preview, redo=redo)
    return 1 if report.conflicts or _nothing_captured(report) else 0


def _nothing_captured(report: UndoReport) -> bool:
    """Whether all that was to be undone was never captured."""
    return bool(report.missed) and not (report.changes.changes or report.made_dirs or report.removed_dirs)


def history(*, options: Options) -> int:
    """`pegboard undo --list`: what the journal has of this workspace, the newest first."""
    with options.open() as app:
        journal = Journal(app.paths.state / "journal")
        holds = journal.active()
        entries = [e for e in reversed(journal.entries()) if e.workspace == str(app.workspace.resolve())]
    if options.json:
        print_json([_entry(entry, holds=holds[entry.id]) for entry in entries])
        return 0
    rows = [
        (
            entry.id,
            datetime.fromtimestamp(entry.time).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            escape_controls(entry.origin.tool or entry.type),
            escape_controls(entry.origin.call_id or "-"),
            escape_controls(entry.origin.run or "-"),
            _paths(entry),
            "" if holds[entry.id] else "undone",
        )
        for entry in entries
    ]
    if rows:
        table(rows, head=("entry", "time", "by", "call", "run", "changed", ""))
    else:
        print_line("no file changes recorded in this workspace")
    return 0


def _entry(entry: JournalEntry, *, holds: bool) -> dict[str, object]:
    return {
        "entry": entry.id, "type": entry.type, "time": entry.time, "tool": entry.origin.tool,
        "call": entry.origin.call_id, "run": entry.origin.run, "holds": holds, "undoes": list(entry.undoes),
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


def _print(report: UndoReport, *, preview: bool, redo: bool) -> None:
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
