"""`pegboard trust`: trust a project's file as it is now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from pegboard.cli.option_types import Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.config.paths import Paths, current_folder
from pegboard.services.settings import TrustedFiles


def trust_command(
    file: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A file, or a folder such as .claude: its hooks with their scripts, skills, agents and slash "
            "commands. Default: the project's config file."
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting it.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List trusted files.")] = False,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Trust a project's files until they change."""

    exit_with(trust(file or [], remove=remove, show=show, options=Options(workspace=workspace, json=json)))


def trust(named: list[Path], *, remove: bool, show: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    files = TrustedFiles(Paths.of(), options.workspace or current_folder())
    return asyncio.run(_trust(files, named, remove=remove, show=show, options=options))


async def _trust(
    files: TrustedFiles, named: list[Path], *, remove: bool, show: bool, options: Options
) -> int:
    if show:
        known = await files.list()
        if options.json:
            print_json(known)
        elif not known:
            print_line("nothing is trusted")
        else:
            table([(path, digest[:16]) for path, digest in known.items()])
        return 0
    rows: list[dict[str, Any]] = []
    for file in await files.all_of(named):
        if remove:
            path, trusted = await files.remove(file)
            print_line(f"{path} is no longer trusted" if trusted else f"{path} was not trusted")
            continue
        path, digest = await files.add(file)
        # What its settings load runs as the person, so it is shown and trusted with them.
        trusted = {path: digest}
        for one in await files.tool_files(path):
            trusted.update([await files.add(one)])
        first, *more = [{"path": str(p.resolve()), "sha256": d} for p, d in trusted.items()]
        rows.append({**first, **({"tools": more} if more else {})})
        for path, digest in () if options.json else trusted.items():
            for one in await files.shown(path):
                # Escaped: what is trusted must be what was seen.
                print_line(*([f"-- {one}"] if one != path else []))
                print_line(escape_controls(one.read_text(encoding="utf-8", errors="replace").rstrip()))
            print_line(f"-- {path} is now trusted (SHA-256 {digest[:16]}…); any change revokes it")
    if rows and options.json:
        print_json(rows if len(rows) > 1 else rows[0])
    return 0
