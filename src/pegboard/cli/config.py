"""`pegboard init` and `pegboard config`: start a settings file, read and set keys of it."""

from __future__ import annotations

import asyncio
import json as json_lib
from pathlib import Path
from typing import Annotated, Any

import typer

from pegboard.cli.option_types import Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, print_note
from pegboard.config.paths import Paths, current_folder
from pegboard.core.errors import BuildError
from pegboard.services.settings import SettingsFiles


def init_command(
    user: Annotated[bool, typer.Option("--user", help="Write your own settings, for all folders.")] = False,
    workspace: Workspace = None,
) -> None:
    """Write a commented settings file to start from."""

    exit_with(init(user=user, options=Options(workspace=workspace)))


def init(*, user: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    path = asyncio.run(_files(options).start(user=user))
    print_line(f"wrote {path}; every line in it is a comment")
    if not user:
        print_note("after editing it, run: pegboard trust")
    return 0


def config_command(
    action: Annotated[str, typer.Argument(help="get, set or path.")],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="For get and set, e.g. model or limits.turns.")
    ] = None,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="For set: a text, or a value as in TOML.")
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="For set: change the project's file.")] = False,
    workspace: Workspace = None,
    json: Json = False,
) -> None:
    """Show or change settings: pegboard config set model gpt-5"""

    options = Options(workspace=workspace, json=json)
    exit_with(config(action, key, value, project=project, options=options))


def config(action: str, key: str | None, value: str | None, *, project: bool, options: Options) -> int:
    """Carry out the command; the exit status."""
    files = _files(options)
    match action:
        case "get" if value is None:
            return asyncio.run(_get(files, key, options))
        case "set" if key and value is not None:
            return asyncio.run(_set(files, key, value, project=project))
        case "path" if key is None:
            return asyncio.run(_path(files, options))
        case "set":
            raise BuildError(
                "config set needs a key and a value, for example: pegboard config set model gpt-5"
            )
        case "get" | "path":
            raise BuildError(f"config {action} takes {'one key' if action == 'get' else 'no key'}")
        case _:
            raise BuildError(f"config {action!r}: use get, set or path")


def _files(options: Options) -> SettingsFiles:
    return SettingsFiles(Paths.of(), options.workspace or current_folder())


async def _get(files: SettingsFiles, key: str | None, options: Options) -> int:
    found = await files.get(key)
    if options.json:
        print_json({name: {"value": value, "file": str(path)} for name, (value, path) in found.items()})
    elif key is None:
        for name, (value, path) in found.items():
            print_line(escape_controls(f"{name} = {_shown(value)}"))
            print_note(f"  in {path}")
    elif key in found:
        value, path = found[key]
        print_line(escape_controls(value if isinstance(value, str) else _shown(value)))
        print_note(f"in {path}")
    if key is not None and (path := await files.untrusted(key)) is not None:
        print_note(f"{path} sets it too, but is not trusted; look at it, then run: pegboard trust")
    if not found:
        print_note(f"{key} is not set" if key else "nothing is set; start with: pegboard init --user")
        return 1 if key else 0
    return 0


async def _set(files: SettingsFiles, key: str, value: str, *, project: bool) -> int:
    path, stored = await files.set(key, value, project=project)
    print_line(escape_controls(f"{key} = {_shown(stored)} in {path}"))
    if project:
        print_note("the file has changed; once you have looked at it, run: pegboard trust")
    return 0


async def _path(files: SettingsFiles, options: Options) -> int:
    user, project = await files.paths()
    if options.json:
        print_json({"user": str(user), "project": None if project is None else str(project)})
        return 0
    for path in filter(None, (user, project)):
        print_line(str(path))
    if not Path(user).exists():
        print_note("the first does not exist yet; create it with: pegboard init --user")
    return 0


def _shown(value: Any) -> str:
    return json_lib.dumps(value, ensure_ascii=False, default=str)
