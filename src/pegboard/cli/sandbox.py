"""`pegboard sandbox run`: a command of your own, confined as an agent's would be."""

from __future__ import annotations

import asyncio
import shlex
import sys
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import print_note
from pegboard.core.errors import BuildError


def sandbox_command(
    context: typer.Context,
    action: Annotated[str, typer.Argument(metavar="run", help="Then -- and the command.")],
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="NAME", help="bubblewrap, docker, podman, none.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="HOST", help="Allow connections to this host (repeatable)."),
    ] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
) -> None:
    """Run a command in the sandbox: pegboard sandbox run -- COMMAND …"""

    options = Options(workspace=workspace, config=config)
    exit_with(sandbox(action, context.args, backend=backend, hosts=allow_host or [], options=options))


def sandbox(
    action: str, command: list[str], *, backend: str | None, hosts: list[str], options: Options
) -> int:
    """Carry out the command; its own exit status."""
    if action != "run" or not "".join(command).strip():
        raise BuildError("use: pegboard sandbox run [--backend B] [--allow-host H] -- COMMAND …")
    return options.run(partial(_run, command=command, backend=backend, hosts=hosts))


async def _run(app: App, *, command: list[str], backend: str | None, hosts: list[str]) -> int:
    text = command[0] if len(command) == 1 else shlex.join(command)
    stdin = None if sys.stdin.isatty() else await asyncio.to_thread(sys.stdin.buffer.read)
    done = await app.sandbox.run(text, backend=backend, hosts=hosts, stdin=stdin)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    for line in done.notes:
        print_note(f"pegboard: {line}")
    return done.exit_code
