"""`pegboard trust`: trust a project's file as it is now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from pegboard.cli.option_types import Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.config.paths import Paths, current_folder
from pegboard.services.settings import TrustedFiles


def trust_command(
    file: Annotated[
        Path | None, typer.Argument(help="File to trust (default: the project's config).")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the file.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List trusted files.")] = False,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Trust a project's config file until it changes."""

    exit_with(trust(file, remove=remove, show=show, options=Options(workspace=workspace, json=json)))


def trust(file: Path | None, *, remove: bool, show: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    files = TrustedFiles(Paths.of(), options.workspace or current_folder())
    return asyncio.run(_trust(files, file, remove=remove, show=show, options=options))


async def _trust(
    files: TrustedFiles, file: Path | None, *, remove: bool, show: bool, options: Options
) -> int:
    if show:
        known = await files.list()
        if options.json:
            print_json(known)
        elif not known:
            print_line("nothing is trusted")
        else:
            table([(path, digest[:16]) for path, digest in known.items()])
    elif remove:
        path, trusted = await files.remove(file)
        print_line(f"{path} is no longer trusted" if trusted else f"{path} was not trusted")
    else:
        path, digest = await files.add(file)
        # What its settings load runs as the person, so it is shown and trusted with them.
        trusted = {path: digest}
        for one in await files.tool_files(path):
            trusted.update([await files.add(one)])
        if options.json:
            more = [{"path": str(p.resolve()), "sha256": d} for p, d in trusted.items() if p != path]
            print_json({"path": str(path.resolve()), "sha256": digest, **({"tools": more} if more else {})})
        for path, digest in () if options.json else trusted.items():
            # Escaped: what is trusted must be what was seen.
            print_line(escape_controls(path.read_text(encoding="utf-8", errors="replace").rstrip()))
            print_line(f"-- {path} is now trusted (SHA-256 {digest[:16]}…); any change revokes it")
    return 0
