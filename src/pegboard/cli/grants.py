"""`pegboard grants`: remembered approvals."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.core.errors import BuildError


def grants_command(
    action: Annotated[str, typer.Argument(help="list or revoke.")] = "list",
    grant: Annotated[str | None, typer.Argument(metavar="ID", help="For revoke: which one.")] = None,
    json: Json = False,
) -> None:
    """List or revoke saved approvals."""

    exit_with(grants(action, grant, options=Options(json=json)))


def grants(action: str, grant: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    match action:
        case "list":
            return options.run(partial(_list, options=options))
        case "revoke" if grant:
            return options.run(partial(_revoke, grant=grant))
        case _:
            raise BuildError(f"grants {action!r}: use list, or revoke ID")


async def _list(app: App, *, options: Options) -> int:
    rows = await app.approvals.grants()
    if options.json:
        print_json([g.to_dict() for g in rows])
    elif not rows:
        print_line("no grants")
    else:
        table(
            [
                (
                    g.id,
                    g.tool,
                    escape_controls(", ".join(f"{k} {t}" for k, t in g.effects)),
                    g.workspace,
                    "" if g.uses_left is None else f"{g.uses_left} left",
                )
                for g in rows
            ],
            head=("id", "tool", "effects", "workspace", "uses"),
        )
    return 0


async def _revoke(app: App, *, grant: str) -> int:
    await app.approvals.revoke(grant)
    print_line(f"{grant} is revoked")
    return 0
