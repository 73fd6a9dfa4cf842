"""`pegboard undo`: take back what a call or run changed."""

from __future__ import annotations

import asyncio
import sys

from pegboard.app.home import App, told
from pegboard.cli.options import Options
from pegboard.cli.show import counted, note, paint, print_changes, print_json, safe, say
from pegboard.core.effects import ChangeSet
from pegboard.core.errors import BuildError, ToolError
from pegboard.files.journal import Journal
from pegboard.files.undo import Last, OfId, UndoReport
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
        what = Last() if target is None else OfId(id=target)
        report = await files.undo(what, preview=preview, redo=redo)
    except ToolError as error:
        if not options.json:
            raise
        print_json({**_row(UndoReport(changes=ChangeSet(), entries=())), "error": told(error)})
        return 1
    finally:
        files.close()
    if options.json:
        print_json(_row(report))
    else:
        _print(report, preview=preview, redo=redo)
    return 1 if report.conflicts else 0


def _row(report: UndoReport) -> dict[str, object]:
    return {
        "applied": report.applied,
        "changes": [c.to_dict() for c in report.changes.changes],
        "kept": list(report.kept),
        "conflicts": [{"path": c.path, "reason": c.reason} for c in report.conflicts],
        "missed": list(report.missed),
        "entries": list(report.entries),
    }


def _print(report: UndoReport, *, preview: bool, redo: bool) -> None:
    print_changes(report.changes.changes)
    for path in report.kept:
        note(f"{safe(path)}: later edits are kept")
    for conflict in report.conflicts:
        note(
            paint(f"{safe(conflict.path)}: left as it is: {safe(conflict.reason)}", "red", stream=sys.stderr)
        )
    for missed in report.missed:
        note(paint(f"not undone: {safe(missed)}", "yellow", stream=sys.stderr))
    verb = "redone" if redo else "undone"
    count = len(report.changes.changes)
    if preview:
        say(f"would be {verb}: {counted(count, 'file change')}")
    elif report.applied:
        say(f"{verb}: {counted(count, 'file change')}")
    else:
        say(f"nothing to be {verb}")
