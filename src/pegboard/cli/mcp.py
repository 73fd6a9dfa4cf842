"""`pegboard mcp`: look after the servers whose tools we use, and write hosts' settings."""

from __future__ import annotations

import asyncio
import json as jsonlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pegboard.app.servers import opened, token_file
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.config.paths import Paths, current_folder
from pegboard.config.servers import ConfiguredServers, load_servers, own_file, save_server
from pegboard.core.errors import ConfigError
from pegboard.core.secrets.clip import clip
from pegboard.mcp.client import MCPServer, start_all
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of

# -- add, list, remove ------------------------------------------------------------------------


def add(
    name: str,
    words: Sequence[str],
    *,
    url: str | None,
    env: Sequence[str],
    header: Sequence[str],
    transport: str | None,
    options: Options,
) -> int:
    """Keep a server in our own file; nothing is started."""
    row: dict[str, Any] = {}
    if url:
        row["url"] = url
    elif words:
        row["command"], row["args"] = words[0], list(words[1:])
    else:
        raise ConfigError("name a command after --, or an address with --url")
    if transport:
        row["type"] = transport
    if env:
        row["env"] = _pairs(env, "--env")
    if header:
        row["headers"] = _pairs(header, "--header")
    # Variables stay as they are in the file; here only the form is checked.
    servers_of({name: row}, environment=KeepVariables(), source="pegboard mcp add")
    paths = Paths.of()
    was = save_server(paths, name, row)
    print_line(
        f"{'replaced' if was else 'added'} {name} in {own_file(paths)}; try it: pegboard mcp test {name}"
    )
    return 0


class KeepVariables(dict[str, str]):
    def get(self, key: str, default: Any = None) -> Any:
        return "x"


def _pairs(items: Sequence[str], option: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for item in items:
        key, mark, value = item.partition("=")
        if not mark or not key:
            raise ConfigError(f"{option} takes NAME=VALUE, not {item!r}")
        out[key] = value
    return out


def remove(name: str) -> int:
    """Take a server out of our own file, with its pins."""
    from pegboard.mcp.pins import Pins

    paths = Paths.of()
    if not save_server(paths, name, None):
        raise ConfigError(f"{own_file(paths)} has no MCP server called {name!r}")
    Pins(paths.state / "mcp" / "pins.json").forget(name)
    print_line(f"removed {name}")
    return 0


def list_servers(*, options: Options) -> int:
    """The configured servers, what they run, and what an untrusted project file wants."""
    configured = _configured(options)
    rows = [
        {
            "name": s.name,
            "transport": s.transport,
            "runs": s.command_line,
            "source": s.source,
            "disabled": s.disabled,
            "notes": [*s.notes, *([s.fault] if s.fault else [])],
        }
        for s in configured.servers
    ]
    if options.json:
        print_json({"servers": rows, "ignored": list(configured.ignored)})
        return 0
    table(
        [
            (
                escape_controls(str(r["name"])),
                str(r["transport"]),
                escape_controls(str(r["runs"])),
                escape_controls(str(r["source"])),
            )
            for r in rows
        ]
    )
    said = [line for s in configured.servers for line in (*s.notes, s.fault) if line]
    for line in (*configured.ignored, *said):
        print_line(escape_controls(line))
    if not rows:
        print_line("no MCP servers; add one: pegboard mcp add NAME -- COMMAND …")
    return 0


def _configured(options: Options) -> ConfiguredServers:
    return load_servers(Paths.of(), options.workspace or current_folder(), file=options.config)


# -- test and login ---------------------------------------------------------------------------


def test(name: str | None, *, accept: bool, options: Options) -> int:
    """Start servers and show what they offer; 1 where one fails."""
    configured = _configured(options)
    paths = Paths.of()
    if name is not None:
        configured = ConfiguredServers(servers=(configured.named(name),))
    servers = opened(configured, paths)
    return asyncio.run(_test(servers, accept=accept, options=options))


async def _test(servers: list[MCPServer], *, accept: bool, options: Options) -> int:
    report: list[dict[str, Any]] = []
    try:
        found = await start_all(servers)
        for server in servers:
            outcome = found[server.name]
            row: dict[str, Any] = {
                "name": server.name,
                "protocol": server.protocol,
                "warnings": list(server.warnings),
            }
            if isinstance(outcome, list):
                row["tools"] = [t.name for t in outcome]
                row["changed"] = _changed(server, accept=accept)
            else:
                row["error"] = f"{outcome.message}. {outcome.hint}" if outcome.hint else outcome.message
                row["stderr"] = clip(server.stderr, -1000)
            report.append(row)
    finally:
        await asyncio.gather(*(s.aclose() for s in servers))
    if options.json:
        print_json(report)
    else:
        for row in report:
            _show(row)
    return 1 if any("error" in row for row in report) else 0


def _changed(server: MCPServer, *, accept: bool) -> dict[str, str]:
    """Tools whose definition is not the approved one, with the difference; approved where that is wished."""
    out: dict[str, str] = {}
    for offer in server.catalogue.offers if server.catalogue else ():
        if server.pins.state(server.name, offer.definition) == "changed":
            out[offer.name] = server.pins.diff(server.name, offer.definition)
        if accept:
            server.pins.accept(server.name, offer.definition)
    return out


def _show(row: dict[str, Any]) -> None:
    if "error" in row:
        print_line(f"✗ {row['name']}: {escape_controls(row['error'])}")
        if row["stderr"]:
            print_line(escape_controls(row["stderr"]))
        return
    print_line(f"✓ {row['name']}: MCP {row['protocol']}, {len(row['tools'])} tools")
    for tool in row["tools"]:
        print_line(f"    {tool}")
    for warning in row["warnings"]:
        print_line(f"  ! {escape_controls(warning)}")
    for tool, diff in row["changed"].items():
        print_line(f"  ! {tool} has changed since it was approved:\n{escape_controls(diff)}")


def login(name: str, *, logout: bool, options: Options) -> int:
    """Log in to an HTTP server, or forget its tokens."""
    from pegboard.mcp.auth import FileTokens

    config = _configured(options).named(name)
    paths = Paths.of()
    tokens = FileTokens(token_file(paths, config))
    if logout:
        print_line(f"forgot the tokens of {name}" if tokens.forget() else f"no saved tokens for {name}")
        return 0
    asyncio.run(_login(config, tokens))
    print_line(f"logged in to {name}")
    return 0


async def _login(config: ServerConfig, tokens: Any) -> None:
    import webbrowser

    from pegboard.mcp.auth import LOGIN_S, interactive_auth

    async def show(address: str) -> None:
        print_line(f"open this address to log in:\n  {address}")
        # Python's webbrowser starts a program with the address as one argument; no shell reads it.
        await asyncio.to_thread(webbrowser.open, address)

    oauth = config.oauth
    async with interactive_auth(
        config.url, tokens, show=show, scope=oauth.get("scope"),
        client_id=oauth.get("client_id"),
    ) as auth:  # fmt: skip
        # The person's time, not the server's: it is only connected once they are logged in.
        server = MCPServer(config=replace(config, start_s=max(config.start_s, LOGIN_S + 30)), auth=auth)
        try:
            await server.tools()
        finally:
            await server.aclose()


# -- config for hosts -------------------------------------------------------------------------

HOSTS = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "codex")


def config_for(host: str, patterns: Sequence[str], *, options: Options) -> int:
    """What a host's settings need so that it starts our server."""
    import shutil

    program = shutil.which("pegboard") or "pegboard"
    words = ["mcp", "serve", "--workspace", str((options.workspace or current_folder()).resolve())]
    for pattern in patterns:
        words += ["--tools", pattern]
    row = {"command": program, "args": words}
    match host:
        case "claude-desktop" | "cursor" | "windsurf":
            print_line(jsonlib.dumps({"mcpServers": {"pegboard": row}}, indent=2))
        case "vscode":
            print_line(jsonlib.dumps({"servers": {"pegboard": {"type": "stdio", **row}}}, indent=2))
        case "claude-code":
            import shlex

            print_line(f"claude mcp add pegboard -- {shlex.join([program, *words])}")
        case "codex":
            print_line(
                f"[mcp_servers.pegboard]\ncommand = {jsonlib.dumps(program)}\nargs = {jsonlib.dumps(words)}"
            )
        case _:
            raise ConfigError(f"unknown host {host!r}; known: {', '.join(HOSTS)}")
    return 0


__all__ = ["add", "config_for", "list_servers", "login", "remove", "test"]
