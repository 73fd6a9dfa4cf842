"""`pegboard store`: what is kept of past work, dropping it, and copies of it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Yes, exit_with
from pegboard.cli.options import Options, seconds_of
from pegboard.cli.prompt import read_line
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, table
from pegboard.core.errors import BuildError
from pegboard.services.retention import KINDS, Kind, RetainedData
from pegboard.store.history import StoreSize

_MOST: Final = 10
"""Sessions that `store size` lists."""

_NAMES = {
    "history": "conversations and tool calls",
    "images": "file contents before changes (needed for undo)",
    "spills": "full text of long results",
}


def store_command(
    action: Annotated[
        str, typer.Argument(help="show, size, check, purge, backup FILE, restore FILE or move URL.")
    ] = "show",
    place: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|URL]", help="For backup, restore and move: the other place."),
    ] = None,
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
    password: Annotated[
        str, typer.Option("--password", help="For move: where the password is, env:NAME or file:PATH.")
    ] = "",
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show how much past work is stored; check, delete, back up or move it."""

    options = Options(config=config, yes=yes, json=json)
    if action in ("show", "purge") and place is None:
        status = store(
            action, older=older, everything=everything, only=only or [], preview=preview, options=options
        )
    else:
        status = copies(action, place, password=password, options=options)
    exit_with(status)


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


def copies(action: str, place: str | None, *, password: str, options: Options) -> int:
    """Carry out what is about the whole store; the exit status: 1 for faults, 3 where nobody agreed to a restore."""
    match action, place:
        case "size", None:
            return options.run(partial(_store_size, options=options))
        case "check", None:
            return options.run(partial(_check, options=options))
        case "backup", str():
            return options.run(partial(_backup, file=Path(place).expanduser(), options=options))
        case "restore", str():
            return options.run(partial(_restore, file=Path(place).expanduser(), options=options))
        case "move", str():
            return options.run(partial(_move, where=place, password=password, options=options))
        case _:
            raise BuildError(
                f"store {action!r}: use show, size, check, purge, backup FILE, restore FILE or move URL"
            )


async def _store_size(app: App, *, options: Options) -> int:
    size = await app.backups.size()
    if options.json:
        print_json(asdict(size))
        return 0
    largest = sorted(size.streams.items(), key=lambda one: -one[1][1])
    rows = [(escape_controls(name), f"{count:,}", _size(held)) for name, (count, held) in largest[:_MOST]]
    table(rows, head=("session", "records", "size"))
    if len(largest) > _MOST:
        print_line(f"and {len(largest) - _MOST:,} smaller sessions")
    print_line(f"{_counts(size)}; {_size(size.bytes_on_disk)} in {size.place}")
    return 0


async def _check(app: App, *, options: Options) -> int:
    found = await app.backups.check()
    faults = [{"session": one, "seq": fault.seq, "problem": fault.problem} for one, fault in found.faults]
    if options.json:
        print_json({"problem": found.problem, "faults": faults, **asdict(found.size)})
    else:
        for one, fault in found.faults:
            print_line(escape_controls(f"{one or 'tables'}: {fault}"))
        if found.problem:
            print_line(f"the store itself: {found.problem}")
        whole = "damaged" if found.problem or faults else "whole"
        print_line(f"{found.size.place} is {whole}: {_counts(found.size)}")
    return 1 if found.problem or faults else 0


async def _backup(app: App, *, file: Path, options: Options) -> int:
    size = await app.backups.backup(file)
    _print_copy(size, f"backed up to {file}", options)
    if not options.json:
        print_note(f"keep {app.paths.config / 'audit.key'} too: without it a backup cannot be verified")
        print_note(
            f"not in it: file contents for undo ({app.paths.state / 'journal'}) and the full texts of long results "
            f"({app.paths.state / 'spills'}); copy these folders too if you need them"
        )
    return 0


async def _restore(app: App, *, file: Path, options: Options) -> int:
    held = await app.backups.held()
    if held is not None and not options.yes:
        print_note(f"{held.place} holds {_counts(held)}")
        if not options.attended:
            print_note("nothing was restored: not confirmed; pass --yes to put that aside")
            return 3
        line = await read_line("put it aside and restore the backup? [y/n]  ")
        if line is None or line.strip().lower() not in ("y", "yes"):
            print_note("nothing was restored")
            return 3
    aside = await app.backups.restore(file)
    _print_copy(await app.backups.size(), f"restored from {file}", options)
    if aside:
        print_note(f"what was there before is kept as {aside}")
    return 0


async def _move(app: App, *, where: str, password: str, options: Options) -> int:
    before = app.history.place
    size = await app.backups.move(where, password=password)
    _print_copy(size, f"copied to {size.place}", options)
    if not options.json:
        file = next(iter(app.config.files), app.paths.config / "pegboard.toml")
        print_note(f"to use it, name it with the key store in {file}; {before} stays as it is")
    return 0


def _print_copy(size: StoreSize, what: str, options: Options) -> None:
    if options.json:
        print_json(asdict(size))
    else:
        print_line(f"{what}: {_counts(size)}")


def _counts(size: StoreSize) -> str:
    records = sum(count for count, _ in size.streams.values())
    rows = sum(count for count, _ in size.tables.values())
    return f"{len(size.streams):,} sessions, {records:,} records, {rows:,} rows"


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
