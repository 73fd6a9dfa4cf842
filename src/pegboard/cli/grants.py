"""`pegboard grants`: remembered approvals."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import Json, Workspace, exit_with
from pegboard.cli.options import Options, seconds_of
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.core.errors import BuildError


def grants_command(
    action: Annotated[str, typer.Argument(help="list, revoke or add.")] = "list",
    what: Annotated[
        str | None, typer.Argument(metavar="ID|RULE", help="For revoke: which one; for add: what it allows.")
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--sender", metavar="WHO", help="For add: telegram:42, gateway:ann, ….")
    ] = None,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="For add: how long, such as 2h.")] = "1h",
    uses: Annotated[
        int | None, typer.Option("--uses", metavar="N", min=1, help="For add: how often; default: no limit.")
    ] = None,
    workspace: Workspace = None,
    json: Json = False,
) -> None:  # fmt: skip
    """List or revoke saved approvals, or allow one sender more for a while."""
    options = Options(json=json, workspace=workspace)
    if action == "add":
        if not what or not sender:
            raise BuildError(
                "grants add needs RULE and --sender, for example: 'exec:git push **' --sender telegram:42"
            )
        seconds = seconds_of(duration, option="--for")
        act = partial(_add, rule=what, sender=sender, expires_s=seconds, uses=uses, options=options)
        exit_with(options.run(act))
    exit_with(grants(action, what, options=options))


def grants(action: str, grant: str | None, *, options: Options) -> int:
    """Carry out the command; the exit status."""
    match action:
        case "list":
            return options.run(partial(_list, options=options))
        case "revoke" if grant:
            return options.run(partial(_revoke, grant=grant))
        case _:
            raise BuildError(f"grants {action!r}: use list, revoke ID, or add RULE --sender WHO")


async def _add(
    app: App, *, rule: str, sender: str, expires_s: float, uses: int | None, options: Options
) -> int:
    grant = await app.approvals.give(
        rule, sender, workspace=str(app.workspace), expires_s=expires_s, uses=uses, by="terminal"
    )
    if options.json:
        print_json(grant.to_dict())
    else:
        print_line(f"{grant.id}: {escape_controls(f'{grant.rule} for {grant.sender}')}")
    return 0


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
                    g.tool or escape_controls(g.sender),
                    escape_controls(g.rule or ", ".join(f"{k} {t}" for k, t in g.effects)),
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
