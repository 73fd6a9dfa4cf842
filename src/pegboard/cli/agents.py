"""`pegboard agents`: the agents that can be started by name, and the subagents that were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from pegboard.app.app import App
from pegboard.cli.option_types import ConfigFile, Json, Workspace, exit_with
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.core.errors import BuildError


def agents_command(
    action: Annotated[str, typer.Argument(metavar="[ACTION]", help="list, show or log.")] = "list",
    id: Annotated[str, typer.Argument(metavar="[ID]", help="A subagent, as list names it.")] = "",
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List agents and the subagents that were started; show one, or what it did."""
    options = Options(workspace=workspace, config=config, json=json)
    match action:
        case "list":
            exit_with(options.run(partial(_list, options=options)))
        case "show" | "log" if id:
            exit_with(options.run(partial(_show, id=id, log=action == "log", options=options)))
        case _:
            raise BuildError(f"agents {action!r}: use list, show ID or log ID")


async def _list(app: App, *, options: Options) -> int:
    specs, children = app.agents.list(), await app.agents.children()
    if options.json:
        print_json({"agents": [asdict(s) for s in specs], "subagents": [asdict(c) for c in children]})
        return 0
    if specs:
        table(
            [(s.name, s.model, escape_controls(s.description)) for s in specs], head=("agent", "model", "use")
        )
    if children:
        table(
            [
                (c.id, c.status, c.agent or "general", escape_controls(c.label or c.task[:50]))
                for c in children
            ],
            head=("subagent", "status", "agent", "task"),
        )
    if not specs and not children:
        print_line("no agents; name one in [agents.NAME] of your settings")
    return 0


async def _show(app: App, *, id: str, log: bool, options: Options) -> int:
    child = await app.agents.child(id)
    lines: Sequence[str] = await app.agents.log(child) if log else ()
    if options.json:
        print_json({**asdict(child), "log": list(lines)} if log else asdict(child))
    elif log:
        for line in lines:
            print_line(escape_controls(line))
    else:
        print_line(f"{child.id}  {child.status}  {child.agent or 'general'}  session {child.session}")
        print_line(f"started by {child.parent}")
        print_line(escape_controls(f"task: {child.task}"))
        print_line(escape_controls(f"answer: {child.answer}" if child.answer else child.error))
    return 0
