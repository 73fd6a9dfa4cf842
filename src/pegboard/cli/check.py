"""`pegboard check`: run the conformance checks on a tool, a module's tools or an MCP server's."""

from __future__ import annotations

import random
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, ModeOption, Workspace, Yes, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import print_json, print_line


def check_command(
    target: Annotated[
        str, typer.Argument(metavar="WHAT", help="A tool, a module or file, or an MCP server.")
    ],
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Repeat a check with the seed that it printed.")
    ] = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    config: ConfigFile = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Test tools: schema, errors, timeouts, cancellation."""

    options = Options(workspace=workspace, mode=mode, config=config, yes=yes, json=json)
    exit_with(check(target, seed=seed, options=options))


def check(target: str, *, seed: int | None, options: Options) -> int:
    """Carry out the command; 1 where a check failed.

    Raises:
        ConfigError: the target is not a tool, module or server.
    """
    seed = random.randrange(10**6) if seed is None else seed
    return options.run(partial(_check, target=target, seed=seed, options=options))


async def _check(app: App, *, target: str, seed: int, options: Options) -> int:
    report = await app.checks.check(target, seed=seed, consent=options.yes)
    if options.json:
        print_json(report.to_dict())
    else:
        print_line(str(report))
    return 0 if report.ok else 1
