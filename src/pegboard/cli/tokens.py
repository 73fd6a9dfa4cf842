"""`pegboard tokens`: who may use the gateway."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import print_json, print_line, print_note, table
from pegboard.core.errors import BuildError


def tokens_command(
    action: Annotated[str, typer.Argument(help="list, add or revoke.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="For add and revoke: whose.")] = None,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="For add: owner, operator, user or viewer.")
    ] = "user",
    json: Json = False,
) -> None:
    """List, add or revoke tokens for the gateway: pegboard tokens add ann --role operator"""
    options = Options(json=json)
    match action, name:
        case "list", None:
            act = partial(_list, options=options)
        case "add", str(who):
            act = partial(_add, name=who, role=role, options=options)
        case "revoke", str(who):
            act = partial(_revoke, name=who)
        case _:
            raise BuildError(f"tokens {action!r}: use list, add NAME, or revoke NAME")
    exit_with(options.run(act))


async def _list(app: App, *, options: Options) -> int:
    rows = await app.tokens.list()
    if options.json:
        print_json([{"name": t.name, "role": t.role, "created": t.created, "by": t.by} for t in rows])
    elif not rows:
        print_line("no tokens")
    else:
        day = "%Y-%m-%d %H:%M"
        shown = [(t.name, t.role, datetime.fromtimestamp(t.created).strftime(day), t.by) for t in rows]
        table(shown, head=("name", "role", "since", "by"))
    return 0


async def _add(app: App, *, name: str, role: str, options: Options) -> int:
    token = await app.tokens.add(name, role, by="terminal")
    if options.json:
        print_json({"name": name, "role": role, "token": token})
    else:
        print_note(f"the token of {name} ({role}), which is shown this once:")
        print_line(token)
    return 0


async def _revoke(app: App, *, name: str) -> int:
    await app.tokens.revoke(name)
    print_line(f"the token of {name} is revoked")
    return 0
