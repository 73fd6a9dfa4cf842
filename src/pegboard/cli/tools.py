"""`pegboard tools`: what tools there are."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, cast

import typer

from pegboard.cli.option_types import ConfigFile, Json, ToolsFrom, Workspace, exit_with, tool_names
from pegboard.cli.options import Options
from pegboard.cli.show import print_json, print_line, print_note, table
from pegboard.core.errors import ConfigError
from pegboard.core.schema.problems import did_you_mean
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit

_WIDTH: Final = 88


def tools_command(
    tool: Annotated[
        str | None,
        typer.Argument(metavar="TOOL", help="Show this tool and its parameters.", autocompletion=tool_names),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", metavar="NAME", help="Print the schemas for a provider, e.g. anthropic."),
    ] = None,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """List the tools, or show one: pegboard tools edit_file"""

    exit_with(
        tools(
            dialect,
            name=tool,
            options=Options(workspace=workspace, config=config, json=json, tools_from=tools_from or ()),
        )
    )


def tools(dialect: str | None, *, name: str | None = None, options: Options) -> int:
    """Carry out the command; the exit status.

    Args:
        dialect: show what a provider would be sent.
        name: show this tool alone, with its parameters.
    """
    with options.open() as app:
        kit = app.toolkit
        for line in app.config.ignored:
            print_note(f"note: {line}")
        if name is not None:
            kit = Toolkit([_named(kit, name)])
        if name is not None and dialect is None and not options.json:
            _show(next(iter(kit)))
        elif dialect is not None:
            shown = kit.schemas(dialect)
            print_line(
                shown
                if isinstance(shown, str)
                else json.dumps(shown, ensure_ascii=False, indent=None if options.json else 2)
            )
        elif options.json:
            print_json([_row(t) for t in kit])
        else:
            rows = [(t.name, ", ".join(t.kinds()) or "none", _first_sentence(t.description)) for t in kit]
            table(rows, head=("tool", "effects", "what it does"))
            if servers := [s.name for s in app.mcp_servers()]:
                print_note(f"and those of the MCP servers {', '.join(servers)}: pegboard mcp test")
    return 0


def _named(toolkit: Toolkit, name: str) -> Tool:
    found = toolkit.resolve(name)
    if found is None:
        meant = did_you_mean(name, toolkit.names, otherwise="; see: pegboard tools")
        raise ConfigError(f"unknown tool {name!r}{meant}")
    return found


def _show(tool: Tool) -> None:
    print_line(f"{tool.name}: {', '.join(tool.kinds()) or 'no effects'}")
    print_line(tool.description.strip())
    properties = cast("dict[str, Any]", tool.schema.get("properties") or {})
    required = cast("list[str]", tool.schema.get("required") or [])
    rows = [
        (
            key,
            _kind(value),
            "required" if key in required else _default(value),
            str(value.get("description", "")),
        )
        for key, value in properties.items()
    ]
    if rows:
        print_line()
        table(rows, head=("parameter", "type", "", "what it is"))


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(str(v) for v in schema["enum"])
    options = cast("list[dict[str, Any]]", schema.get("anyOf") or [schema])
    kinds = [
        k
        for o in options
        for k in ([o.get("type", "any")] if isinstance(o.get("type", "any"), str) else o["type"])
    ]
    return "|".join(k for k in kinds if k != "null") or "any"


def _default(schema: dict[str, Any]) -> str:
    return f"default {schema['default']!r}" if schema.get("default") is not None else ""


def _first_sentence(text: str) -> str:
    """The first sentence on one line, cut at a word where it is longer than a line."""
    line = " ".join(text.strip().partition("\n\n")[0].split())
    line = re.split(r"(?<=[^.][.!?])\s", line, maxsplit=1)[0]
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1].rsplit(" ", 1)[0] + "…"


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "effects": list(tool.kinds()),
    }
