"""`pegboard transactions`: runs in a copy of the workspace whose changes have not landed yet."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, PolicyFile, Workspace, Yes, exit_with
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
from pegboard.core.errors import BuildError, Conflict
from pegboard.files.staged import StagedDiff
from pegboard.services.transactions import Transaction

REFUSED = 3
"""The exit status if a person does not approve."""
_OBJECTS = ".git/objects/"
"""What git keeps of commits; their diffs tell nobody anything."""


def transactions_command(
    action: Annotated[str, typer.Argument(metavar="[ACTION]", help="list, show, apply or discard.")] = "list",
    id: Annotated[str | None, typer.Argument(metavar="ID", help="As list names it.")] = None,
    workspace: Workspace = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """List, show, apply or discard runs with --transaction whose changes have not landed."""
    options = Options(workspace=workspace, policy=policy, config=config, yes=yes, json=json)
    match action, id:
        case "list", None:
            exit_with(options.run(partial(_list, options=options)))
        case "show", str():
            exit_with(options.run(partial(_show, id=id, options=options)))
        case "apply", str():
            exit_with(options.run(partial(_apply, id=id, options=options)))
        case "discard", str():
            exit_with(options.run(partial(_discard, id=id, options=options)))
        case _:
            raise BuildError(f"transactions {action!r}: use list, show ID, apply ID or discard ID")


async def _list(app: App, *, options: Options) -> int:
    found = app.transactions.list()
    if options.json:
        print_json([asdict(record) for record in found])
    elif found:
        rows = [
            (r.id, datetime.fromtimestamp(r.started).strftime("%Y-%m-%d %H:%M"), r.run or "-", escape_controls(r.session))
            for r in found
        ]  # fmt: skip
        table(rows, head=("transaction", "started", "last run", "session"))
    else:
        print_line("no transactions in this workspace")
    return 0


async def _show(app: App, *, id: str, options: Options) -> int:
    async with await app.transactions.find(id) as transaction:
        diff = await transaction.diff()
        if options.json:
            print_json(_fields(transaction, diff))
        else:
            print_diff(diff)
            print_line(f"{_extent(diff)} would land in {app.workspace}")
    return 1 if diff.conflicts else 0


async def _apply(app: App, *, id: str, options: Options) -> int:
    async with await app.transactions.find(id) as transaction:
        return await land(app, transaction, options=options)


async def _discard(app: App, *, id: str, options: Options) -> int:
    async with await app.transactions.find(id) as transaction:
        await transaction.discard()
        if options.json:
            print_json({"transaction": transaction.record.id, "discarded": True})
        else:
            print_line(f"discarded: {transaction.record.id}; nothing was changed in {app.workspace}")
    return 0


async def land(app: App, transaction: Transaction, *, options: Options, complete: bool = True) -> int:
    """Show what a transaction changed, ask, and let it land; the exit status.

    Args:
        app: of the original workspace.
        transaction: which.
        options: `--yes` approves; without a person and without it the changes stay in the copy.
        complete: whether the run did what it was to do; otherwise nothing lands unless a person applies it later.
    """
    diff = await transaction.diff()
    if not diff:
        await transaction.discard()
        print_note("nothing was changed in the copy; it is removed")
        return 0
    if not options.json:
        print_diff(diff)
    approved = complete and (options.yes or await _ask(app, diff, options))
    if not approved or diff.conflicts:
        if diff.conflicts:
            print_note(f"nothing was applied: {_names(diff)} changed in {app.workspace} meanwhile")
        elif complete:
            print_note(f"not applied: {app.workspace} is as it was")
        else:
            print_note(f"the run did not finish, so nothing was applied: {app.workspace} is as it was")
        _print_ways(transaction)
        if options.json:
            print_json({**_fields(transaction, diff), "applied": False})
        return 1 if diff.conflicts else REFUSED
    try:
        entry = await transaction.apply()
    except Conflict:
        _print_ways(transaction)
        raise
    if options.json:
        print_json(
            {**_fields(transaction, diff), "applied": True, "entry": "" if entry is None else entry.id}
        )
        return 0
    print_line(f"applied: {_extent(diff)}")
    if entry is not None:
        print_note(f"  undo it: pegboard undo {entry.origin.run or entry.id}")
    return 0


async def _ask(app: App, diff: StagedDiff, options: Options) -> bool:
    if diff.conflicts or not options.attended:
        return False
    line = await read_line(f"apply {_extent(diff)} to {app.workspace}? [y/n]  ")
    return line is not None and line.strip().lower() in ("y", "yes")


def print_diff(diff: StagedDiff) -> None:
    """Print what would land, what is in conflict and what is left out."""
    print_changes(change for change in diff.changes.changes if not change.path.startswith(_OBJECTS))
    for path, _ in diff.made_dirs:
        if not path.startswith(_OBJECTS):
            print_line(escape_controls(f"folder {path} is made"))
    for path in diff.removed_dirs:
        print_line(escape_controls(f"folder {path} is removed if empty"))
    for path in diff.conflicts:
        text = f"{path}: changed in the workspace too since the transaction began"
        print_note(paint(escape_controls(text), "red", stream=sys.stderr))
    for note in diff.notes:
        print_note(paint(f"note: {escape_controls(note)}", "yellow", stream=sys.stderr))


def _extent(diff: StagedDiff) -> str:
    parts = [pluralise(len(diff.changes.changes), "file change")]
    if folders := len(diff.made_dirs) + len(diff.removed_dirs):
        parts.append(pluralise(folders, "folder"))
    return " and ".join(parts)


def _names(diff: StagedDiff) -> str:
    names = ", ".join(escape_controls(path) for path in diff.conflicts[:3])
    return f"{names} and {len(diff.conflicts) - 3} more" if diff.conflicts[3:] else names


def _print_ways(transaction: Transaction) -> None:
    id = transaction.record.id
    print_note(f"the changes stay in {transaction.copy}")
    print_note(f"  show them:    pegboard transactions show {id}")
    print_note(f"  apply them:   pegboard transactions apply {id}")
    print_note(f"  discard them: pegboard transactions discard {id}")


def _fields(transaction: Transaction, diff: StagedDiff) -> dict[str, Any]:
    return {
        "transaction": transaction.record.id, "run": transaction.record.run, "copy": str(transaction.copy),
        "changes": [change.to_dict() for change in diff.changes.changes],
        "made_dirs": [path for path, _ in diff.made_dirs], "removed_dirs": list(diff.removed_dirs),
        "conflicts": list(diff.conflicts), "notes": list(diff.notes),
    }  # fmt: skip
