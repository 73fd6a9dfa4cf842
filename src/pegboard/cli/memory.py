"""`pegboard memory`: the notes that agents keep for later sessions of a workspace."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, table
from pegboard.core.errors import BuildError
from pegboard.core.secrets.clip import clip


def memory_command(
    action: Annotated[str, typer.Argument(metavar="[ACTION]", help="list, show or forget.")] = "list",
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="The notes, as list names them.")
    ] = None,
    all_notes: Annotated[
        bool, typer.Option("--all", help="With forget: all notes of this workspace.")
    ] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List, show or forget the notes that agents keep for later sessions."""
    options, given = Options(workspace=workspace, config=config, json=json), names or []
    match action:
        case "list" if not given:
            exit_with(options.run(partial(_list, options=options)))
        case "show" if len(given) == 1:
            exit_with(options.run(partial(_show, name=given[0], options=options)))
        case "forget" if bool(given) != all_notes:
            exit_with(options.run(partial(_forget, names=given)))
        case _:
            raise BuildError(f"memory {action!r}: use list, show NAME, forget NAME or forget --all")


async def _list(app: App, *, options: Options) -> int:
    notes = app.memory.list()
    if options.json:
        print_json({"notes": [asdict(note) for note in notes]})
    elif notes:
        rows = [
            (n.name, _day(n.changed), ", ".join(sorted(n.labels)), escape_controls(" ".join(clip(n.text, 0, 60).split())))
            for n in notes
        ]  # fmt: skip
        table(rows, head=("note", "changed", "labels", "text"))
    else:
        print_line("no notes in this workspace")
    return 0


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


async def _show(app: App, *, name: str, options: Options) -> int:
    note = app.memory.show(name)
    if options.json:
        print_json(asdict(note))
        return 0
    for label, source in sorted(note.labels.items()):
        print_note(escape_controls(f"{label}: written after reading {source}"))
    print_line(escape_controls(note.text.rstrip("\n")))
    return 0


async def _forget(app: App, *, names: list[str]) -> int:
    chosen = names or [note.name for note in app.memory.list()]
    await app.memory.forget(chosen)
    for name in chosen:
        print_line(f"forgotten: {name}")
    return 0
