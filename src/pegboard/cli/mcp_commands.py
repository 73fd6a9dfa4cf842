"""The options of `pegboard mcp …`; what a command does is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from pegboard.cli.errors import NonEmptyGroup
from pegboard.cli.help import CommandPage
from pegboard.cli.option_types import (
    ConfigFile,
    Json,
    ModeOption,
    PolicyFile,
    ToolsFrom,
    Workspace,
    Yes,
    exit_with,
)
from pegboard.config.environment import environment

mcp = typer.Typer(
    cls=NonEmptyGroup,
    help="Serve tools over MCP, or use those of MCP servers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Patterns = Annotated[
    list[str] | None,
    typer.Option("--tools", metavar="PATTERN", help="Also serve these tools (name or pattern, repeatable)."),
]


@mcp.command("serve", cls=CommandPage)
def serve_command(
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve over streamable HTTP instead of stdio."),
    ] = None,
    tools: Patterns = None,
    trust_clients: Annotated[
        bool,
        typer.Option("--trust-clients", help="Let clients approve calls, perhaps without asking a user."),
    ] = False,
    client: Annotated[
        list[str] | None,
        typer.Option(
            "--client",
            metavar="NAME",
            help="With --http: a client with its own token and session (repeatable).",
        ),
    ] = None,
    skills: Annotated[
        list[Path] | None,
        typer.Option("--skills", metavar="DIR", help="Folder of skills to serve as prompts (repeatable)."),
    ] = None,
    tools_from: ToolsFrom = None,
    workspace: Workspace = None,
    mode: ModeOption = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    yes: Yes = False,
) -> None:
    """Serve tools to an MCP host (read-only unless --tools)."""
    from pegboard.cli.mcp_serve import ServeOptions, serve
    from pegboard.cli.options import Options

    options = Options(
        workspace=workspace, mode=mode, policy=policy, config=config, yes=yes, tools_from=tools_from or ()
    )
    token = environment().get("PEGBOARD_TOKEN") or None
    how = ServeOptions(
        http=http, patterns=tools or [], trust_clients=trust_clients, token=token, clients=client or [],
        skills=skills or [],
    )  # fmt: skip
    exit_with(serve(how, options=options))


@mcp.command("add", cls=CommandPage, context_settings={"allow_extra_args": True})
def add_command(
    name: Annotated[str, typer.Argument(help="Name for the server.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="What starts it, behind --.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="URL of an HTTP server.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="Environment variable; ${VAR} is filled at its start (repeatable).",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="HTTP header to send (repeatable)."),
    ] = None,
    transport: Annotated[
        str | None, typer.Option("--transport", metavar="KIND", help="stdio, http or sse.")
    ] = None,
) -> None:
    """Add a server: pegboard mcp add NAME -- COMMAND …"""
    from pegboard.cli.mcp import add
    from pegboard.cli.options import Options

    raise typer.Exit(
        add(
            name,
            words or [],
            url=url,
            env=env or [],
            header=header or [],
            transport=transport,
            options=Options(),
        )
    )


@mcp.command("list", cls=CommandPage)
def list_command(workspace: Workspace = None, config: ConfigFile = None, json: Json = False) -> None:
    """List the servers and what each runs."""
    from pegboard.cli.mcp import list_servers
    from pegboard.cli.options import Options

    exit_with(list_servers(options=Options(workspace=workspace, config=config, json=json)))


@mcp.command("remove", cls=CommandPage)
def remove_command(name: Annotated[str, typer.Argument(help="Name of the server.")]) -> None:
    """Remove a server and its approvals."""
    from pegboard.cli.mcp import remove

    exit_with(remove(name))


@mcp.command("test", cls=CommandPage)
def try_command(
    name: Annotated[str | None, typer.Argument(help="Only this server (default: all).")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Approve the current tool definitions.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Start the servers and show their tools and any changes."""
    from pegboard.cli.mcp import test
    from pegboard.cli.options import Options

    raise typer.Exit(
        test(name, accept=accept, options=Options(workspace=workspace, config=config, json=json))
    )


@mcp.command("login", cls=CommandPage)
def login_command(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    logout: Annotated[bool, typer.Option("--logout", help="Delete the saved tokens.")] = False,
    workspace: Workspace = None,
    config: ConfigFile = None,
) -> None:
    """Log in to an HTTP server through the browser."""
    from pegboard.cli.mcp import login
    from pegboard.cli.options import Options

    exit_with(login(name, logout=logout, options=Options(workspace=workspace, config=config)))


@mcp.command("config", cls=CommandPage)
def config_command(
    host: Annotated[
        str,
        typer.Option(
            "--for", metavar="HOST", help="claude-desktop, claude-code, cursor, vscode, windsurf or codex."
        ),
    ],
    tools: Patterns = None,
    workspace: Workspace = None,
) -> None:
    """Print the settings with which an MCP host starts Pegboard."""
    from pegboard.cli.mcp import config_for
    from pegboard.cli.options import Options

    exit_with(config_for(host, tools or [], options=Options(workspace=workspace)))
