"""`pegboard store`: what is kept of past work, and dropping it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, cast

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Yes, exit_with
from pegboard.cli.options import Options, seconds_of
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, table
from pegboard.core.errors import BuildError
from pegboard.services.retention import KINDS, Kind, RetainedData

_NAMES = {
    "history": "conversations and tool calls",
    "images": "file contents before changes (needed for undo)",
    "spills": "full text of long results",
}


def store_command(
    action: Annotated[str, typer.Argument(help="show or purge.")] = "show",
    older: Annotated[
        str, typer.Option("--older", metavar="TIME", help="For purge: minimum age, e.g. 30d or 12h.")
    ] = "30d",
    everything: Annotated[bool, typer.Option("--all", help="For purge: delete regardless of age.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="KIND", help="For purge: only history, images or spills (repeatable)."
        ),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would be deleted without deleting it.")
    ] = False,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show how much past work is stored, or delete it."""

    options = Options(config=config, yes=yes, json=json)
    exit_with(
        store(action, older=older, everything=everything, only=only or [], preview=preview, options=options)
    )


def store(
    action: str, *, older: str, everything: bool, only: list[str], preview: bool, options: Options
) -> int:
    """Carry out the command; the exit status: 3 where nobody agreed to a purge."""
    unknown = [kind for kind in only if kind not in KINDS]
    if action not in ("show", "purge") or unknown:
        what = f"--only {unknown[0]!r}" if unknown else f"store {action!r}"
        raise BuildError(f"{what}: use show or purge, with --only {', '.join(KINDS)}")
    kinds = cast("list[Kind]", only) or list(KINDS)
    if action == "show":
        return options.run(partial(_show, kinds=kinds, options=options))
    older_s = 0.0 if everything else seconds_of(older, option="--older")
    return options.run(partial(_purge, kinds=kinds, older_s=older_s, preview=preview, options=options))


async def _show(app: App, *, kinds: list[Kind], options: Options) -> int:
    _print(await app.retention.held(kinds), options)
    return 0


async def _purge(app: App, *, kinds: list[Kind], older_s: float, preview: bool, options: Options) -> int:
    held = await app.retention.held(kinds, older_s=older_s)
    _print(held, options)
    if preview or not any(one.count or one.size_bytes for one in held):
        return 0
    if not options.yes:
        if not options.attended:
            print_note("nothing was deleted: not confirmed; check with --preview, then pass --yes")
            return 3
        line = await read_line("delete all of this permanently? [y/n]  ")
        if line is None or line.strip().lower() not in ("y", "yes"):
            print_note("nothing was deleted")
            return 3
    await app.retention.purge(kinds, older_s=older_s)
    if not options.json:
        print_line("deleted; the history can still be verified: pegboard audit verify")
    return 0


def _print(held: list[RetainedData], options: Options) -> None:
    if options.json:
        print_json([{**asdict(one), "place": str(one.place), "kept": list(one.kept)} for one in held])
        return
    rows = [
        (one.kind, str(one.count), _size(one.size_bytes), _day(one.oldest), _NAMES[one.kind]) for one in held
    ]
    table(rows, head=("kind", "count", "size", "oldest", "what"))
    for one in held:
        for sentence in one.kept:
            print_note(f"stays: {escape_controls(sentence)}")


def _size(size: int | None) -> str:
    if size is None:
        return "?"
    return f"{size / (1 << 20):,.1f} MiB" if size >= 1 << 20 else f"{size:,} bytes"


def _day(at: float | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
