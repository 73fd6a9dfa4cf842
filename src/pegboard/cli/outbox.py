"""`pegboard outbox`: messages to people, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, paint, print_json, print_line, table
from pegboard.core.errors import BuildError
from pegboard.core.secrets.clip import clip
from pegboard.services.outbox import describe


def outbox_command(
    action: Annotated[str, typer.Argument(help="list, show, retry or drop.")] = "list",
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Which message.")] = None,
    status: Annotated[
        str, typer.Option("--status", help="list: only waiting, sending, sent or dead ones.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="list: at most so many.")] = 50,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List messages to people, show one, send a dead one again, or drop it."""
    options = Options(workspace=workspace, config=config, json=json)
    exit_with(outbox(action, id, status=status, limit=limit, options=options))


def outbox(action: str, id: str | None, *, status: str, limit: int, options: Options) -> int:
    """Carry out the command; the exit status."""
    if status not in ("", "waiting", "sending", "sent", "dead"):
        raise BuildError(f"--status {status!r}: use waiting, sending, sent or dead")
    match action:
        case "list":
            return options.run(partial(_list, status=status, limit=limit, options=options))
        case "show" | "retry" | "drop" if id:
            return options.run(partial(_one, action=action, id=id, options=options))
        case "show" | "retry" | "drop":
            raise BuildError(f"outbox {action} needs an ID; see: pegboard outbox")
        case _:
            raise BuildError(f"outbox {action!r}: use list, or show, retry or drop ID")


async def _list(app: App, *, status: str, limit: int, options: Options) -> int:
    rows = [describe(item) for item in await app.messages.list(status=status, limit=limit)]
    if options.json:
        print_json(rows)
    elif not rows:
        print_line("no messages")
    else:
        table(
            [
                (
                    _time(row["created_at"]), row["status"], escape_controls(row["to"]),
                    clip(escape_controls(row["content"]), 0, 60), escape_controls(row["id"]),
                )
                for row in rows
            ],
            head=("time", "status", "to", "message", "id"),
        )  # fmt: skip
    return 0


async def _one(app: App, *, action: str, id: str, options: Options) -> int:
    messages = app.messages
    match action:
        case "show":
            item = await messages.get(id)
        case "retry":
            item = await messages.retry(id)
            await messages.aclose()
        case _:
            item = await messages.drop(id)
    row = describe(item)
    if options.json:
        print_json(row)
    elif action == "drop":
        print_line(f"{escape_controls(row['id'])} is dropped")
    else:
        _show(row)
    return 0 if action != "retry" or row["status"] != "dead" else 1


def _show(row: Mapping[str, Any]) -> None:
    print_line(paint(f"{escape_controls(row['id'])}  {row['status']}", "bold"))
    print_line(
        f"  to: {escape_controls(row['to'])}" + (f", {row['action']}" if row["action"] != "send" else "")
    )
    for line in row["content"].split("\n"):
        print_line(f"  | {escape_controls(line)}")
    if row["media"]:
        print_line(f"  files: {escape_controls(', '.join(row['media']))}")
    if row["parts"] > 1:
        print_line(f"  parts: {len(row['sent'])} of {row['parts']} arrived")
    if row["error"]:
        print_line(f"  error: {escape_controls(row['error'])}")
    if row["status"] == "waiting":
        print_line(f"  next attempt: {_time(row['next_at'])}, {row['attempts']} so far")


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"
