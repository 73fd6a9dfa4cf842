"""`pegboard pairing`: senders and devices that ask to be let in."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.core.errors import BuildError


def pairing_command(
    action: Annotated[str, typer.Argument(help="list, approve, refuse or revoke.")] = "list",
    first: Annotated[
        str | None, typer.Argument(metavar="CODE|KIND", help="For approve and refuse: the code; for revoke: the kind.")
    ] = None,
    who: Annotated[str | None, typer.Argument(metavar="WHO", help="For revoke: whom, by its ID.")] = None,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="For approve: owner, operator, user or viewer.")
    ] = "user",
    json: Json = False,
) -> None:  # fmt: skip
    """List who is let in and who asks, or answer by code: pegboard pairing approve 7KQ2XM4R"""
    options = Options(json=json)
    match action, first, who:
        case "list", None, None:
            act = partial(_list, options=options)
        case "approve" | "refuse", str(code), None:
            act = partial(_answer, action=action, code=code, role=role)
        case "revoke", str(kind), str(id):
            act = partial(_revoke, kind=kind, who=id)
        case _:
            raise BuildError(
                f"pairing {action!r}: use list, approve CODE, refuse CODE, or revoke KIND WHO"
            )  # fmt: skip
    exit_with(options.run(act))


async def _list(app: App, *, options: Options) -> int:
    waiting, paired = await app.pairings.pending(), await app.pairings.list()
    if options.json:
        print_json({"pending": waiting, "paired": paired})
        return 0
    rows = [(r.kind, r.who, r.name, f"waiting: {r.code}", _time(r.at)) for r in waiting]
    rows += [(p.kind, p.who, p.name, f"paired by {p.by}", _time(p.at)) for p in paired]
    if not rows:
        print_line("nobody is paired")
    else:
        shown = [tuple(map(escape_controls, row)) for row in rows]
        table(shown, head=("kind", "who", "name", "state", "since"))
    return 0


async def _answer(app: App, *, action: str, code: str, role: str) -> int:
    if action == "refuse":
        request = await app.pairings.refuse(code)
        print_line(f"{_named(request.kind, request.who)} was refused")
    else:
        paired = await app.pairings.approve(code, role=role, by="terminal")
        print_line(f"{_named(paired.kind, paired.who)} is paired as {paired.role}")
    return 0


async def _revoke(app: App, *, kind: str, who: str) -> int:
    if not await app.pairings.revoke(kind, who):
        raise BuildError(f"{_named(kind, who)} is not paired; see: pegboard pairing list")
    print_line(f"{_named(kind, who)} is no longer paired")
    return 0


def _named(kind: str, who: str) -> str:
    return escape_controls(f"{kind} {who}")


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
