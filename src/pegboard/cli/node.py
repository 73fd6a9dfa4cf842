"""`pegboard node` makes this machine a node of a gateway; `pegboard nodes` lists and removes those of this gateway."""

from __future__ import annotations

import asyncio
import platform
import signal
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, ModeOption, PolicyFile, Workspace, Yes, exit_with
from pegboard.cli.options import Options
from pegboard.cli.people import interaction_for
from pegboard.cli.show import escape_controls, print_json, print_line, print_note, table
from pegboard.config.environment import environment
from pegboard.core.errors import BuildError
from pegboard.core.policy.approval import DenyAll


def node_command(
    gateway: Annotated[str, typer.Option("--gateway", metavar="URL", help="Address of the gateway.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="N", help="Name of this node (default: the host's).")
    ] = None,
    location: Annotated[
        str | None,
        typer.Option("--location", metavar="LAT,LON", help="Where it is, in degrees; else it says nothing."),
    ] = None,
    accept_key: Annotated[
        bool, typer.Option("--accept-key", help="Accept that the gateway has another key than before.")
    ] = False,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
) -> None:
    """Connect this machine to a gateway: its agents can then notify you here, and run commands if you approve.

    Commands run in the workspace under this machine's own policy, in mode ask unless --mode says otherwise.
    """
    options = Options(workspace=workspace, mode=mode or "ask", policy=policy, config=config, yes=yes)
    exit_with(options.run(partial(_node, options, gateway, name, location, accept_key)))


async def _node(
    options: Options, gateway: str, name: str | None, location: str | None, accept_key: bool, app: App
) -> int:
    from pegboard.net.node_protocol import Key, node_name
    from pegboard.services.node_actions import machine_actions, read_location
    from pegboard.services.node_client import NodeClient
    from pegboard.store.json_table import JsonTable

    paths, interaction = app.paths, interaction_for(options)
    if not (options.attended or options.yes):
        nobody = DenyAll(
            "nobody is at the terminal of the node to approve it; its owner can allow it there by a rule"
        )
        interaction = replace(interaction, approver=nobody)
    actions = machine_actions(
        environment(), notify=lambda text: print_note(escape_controls(text)), calls=app.calls,
        interaction=interaction, location=None if location is None else read_location(location),
    )  # fmt: skip
    client = NodeClient(
        gateway, name=name or node_name(platform.node()), key=Key(paths.node_key()),
        pins=JsonTable(paths.state / "gateways.json", "known gateways", paths.chain), actions=actions,
        platform=f"{platform.system()} {platform.machine()}", accept_key=accept_key,
        notify=lambda text: print_note(escape_controls(text)),
    )  # fmt: skip
    running = asyncio.ensure_future(client.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        print_note("stopped")
    return 0


def nodes_command(
    action: Annotated[str, typer.Argument(help="list or remove.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which node to remove.")] = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List the machines and phones that are paired with this gateway, or remove one."""
    options = Options(workspace=workspace, config=config, json=json)
    match action:
        case "list":
            exit_with(options.run(partial(_list, options)))
        case "remove" if name:
            exit_with(options.run(partial(_remove, name)))
        case "remove":
            raise BuildError("nodes remove needs a NAME; see: pegboard nodes")
        case _:
            raise BuildError(f"nodes {action!r}: use list, or remove NAME")


async def _list(options: Options, app: App) -> int:
    from pegboard.services.nodes import describe

    rows = [describe(node) for node in await app.nodes.list_nodes()]
    if options.json:
        print_json(rows)
    elif not rows:
        print_line("no nodes")
    else:
        table(
            [
                (
                    r["name"], r["kind"], "connected" if r["connected"] else f"seen {_time(r['seen_at'])}",
                    ", ".join(r["capabilities"]), r["key"],
                )
                for r in rows
            ],
            head=("name", "kind", "state", "capabilities", "key"),
        )  # fmt: skip
    return 0


async def _remove(name: str, app: App) -> int:
    node = await app.nodes.remove(name)
    print_line(f"{node.name} is removed")
    return 0


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
