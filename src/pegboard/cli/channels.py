"""`pegboard channels`: the ways to people, how they do, and whether they work."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, table
from pegboard.core.errors import BuildError, ToolError
from pegboard.services.channels import ChannelRow


def channels_command(
    action: Annotated[str, typer.Argument(help="list, status or test.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which channel.")] = None,
    chat: Annotated[
        str, typer.Option("--chat", metavar="ID", help="test: send a message to this chat too.")
    ] = "",
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="test: the message.")
    ] = "A test message of Pegboard.",
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List the channels to people, show how one does, or try it."""
    options = Options(workspace=workspace, config=config, json=json)
    exit_with(channels(action, name, chat=chat, text=text, options=options))


def channels(action: str, name: str | None, *, chat: str, text: str, options: Options) -> int:
    """Carry out the command; the exit status."""
    match action:
        case "list" | "status" if name is None:
            return options.run(partial(_list, options=options))
        case "status":
            return options.run(partial(_status, name=str(name), options=options))
        case "test" if name:
            return options.run(partial(_test, name=name, chat=chat, text=text, options=options))
        case "test":
            raise BuildError("channels test needs a NAME; see: pegboard channels")
        case _:
            raise BuildError(f"channels {action!r}: use list, status [NAME] or test NAME")


async def _list(app: App, *, options: Options) -> int:
    rows = await app.channels.list()
    if options.json:
        print_json([row.to_dict() for row in rows])
        return 0
    table(
        [(row.name, row.kind, "both ways" if row.chat else "out", _state(row)) for row in rows],
        head=("name", "kind", "direction", "state"),
    )
    return 0


async def _status(app: App, *, name: str, options: Options) -> int:
    row = await app.channels.get(name)
    if options.json:
        print_json(row.to_dict())
        return 0
    print_line(f"{row.name}: {row.kind}, {_state(row)}")
    if row.process:
        print_line(f"  receives in: {escape_controls(row.process)}")
    if row.chat:
        print_line(f"  people who were let in: {row.paired}")
    if row.state is not None and row.state.last:
        print_line(f"  last message: {_time(row.state.last)}")
    if row.state is not None and row.state.error:
        print_line(f"  error: {escape_controls(row.state.error)}")
    return 0


async def _test(app: App, *, name: str, chat: str, text: str, options: Options) -> int:
    who, delivery = await app.channels.test(name, chat=chat, text=text)
    if options.json:
        print_json({"name": name, "identity": who, "delivery": None if delivery is None else delivery.status})
    else:
        if who:
            print_line(f"{name} works: we are {escape_controls(who)}")
        if delivery is not None:
            print_line(
                f"the message is {delivery.status}" + (f": {delivery.error}" if delivery.error else "")
            )
    if delivery is not None and delivery.status == "dead":
        raise ToolError(f"the message to {name}:{chat} was not delivered: {delivery.error}")
    if delivery is not None and delivery.status != "sent":
        print_note("it is delivered by: pegboard worker, or pegboard serve")
    return 0


def _state(row: ChannelRow) -> str:
    if not row.chat:
        return "-"
    if row.state is None:
        return "never connected"
    return f"{row.state.state} since {_time(row.state.since)}"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"
