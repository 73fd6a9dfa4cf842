"""`pegboard mcp`: look after the servers whose tools we use, and write hosts' settings."""

from __future__ import annotations

import asyncio
import json as jsonlib
from collections.abc import Sequence
from typing import Any

from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls, print_json, print_line, table
from pegboard.config.paths import Paths, current_folder
from pegboard.core.errors import ConfigError
from pegboard.services.servers import Servers, TestedServer


def _servers(options: Options) -> Servers:
    """Usable where other settings cannot be read."""
    return Servers(Paths.of(), options.workspace or current_folder(), file=options.config)


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
    file, replaced = asyncio.run(_servers(options).add(name, row))
    print_line(
        f"{'replaced' if replaced else 'added'} {name} in {file}; try it: pegboard mcp test {name}"
    )  # fmt: skip
    return 0


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
    asyncio.run(_servers(Options()).remove(name))
    print_line(f"removed {name}")
    return 0


def list_servers(*, options: Options) -> int:
    """The configured servers, what they run, and what an untrusted project file wants."""
    configured = asyncio.run(_servers(options).list())
    if options.json:
        rows = [
            {
                "name": s.name, "transport": s.transport, "runs": s.command_line, "source": s.source,
                "disabled": s.disabled, "notes": [*s.notes, *([s.fault] if s.fault else [])],
            }
            for s in configured.servers
        ]  # fmt: skip
        print_json({"servers": rows, "ignored": list(configured.ignored)})
        return 0
    table(
        [
            (escape_controls(s.name), s.transport, escape_controls(s.command_line), escape_controls(s.source))
            for s in configured.servers
        ]
    )
    said = [line for s in configured.servers for line in (*s.notes, s.fault) if line]
    for line in (*configured.ignored, *said):
        print_line(escape_controls(line))
    if not configured.servers:
        print_line("no MCP servers; add one: pegboard mcp add NAME -- COMMAND …")
    return 0


# -- test and login ---------------------------------------------------------------------------


def test(name: str | None, *, accept: bool, options: Options) -> int:
    """Start servers and show what they offer; 1 where one fails."""
    report = asyncio.run(_servers(options).test(name, accept=accept))
    if options.json:
        print_json([one.to_dict() for one in report])
    else:
        for one in report:
            _show(one)
    return 1 if any(one.error for one in report) else 0


def _show(server: TestedServer) -> None:
    if server.error:
        print_line(f"✗ {server.name}: {escape_controls(server.error)}")
        if server.stderr:
            print_line(escape_controls(server.stderr))
        return
    print_line(f"✓ {server.name}: MCP {server.protocol}, {len(server.tools)} tools")
    for tool in server.tools:
        print_line(f"    {tool}")
    for warning in server.warnings:
        print_line(f"  ! {escape_controls(warning)}")
    for tool, diff in server.changed.items():
        print_line(f"  ! {tool} has changed since it was approved:\n{escape_controls(diff)}")


def login(name: str, *, logout: bool, options: Options) -> int:
    """Log in to an HTTP server, or delete its tokens."""
    servers = _servers(options)
    if logout:
        deleted = asyncio.run(servers.logout(name))
        print_line(f"deleted the tokens of {name}" if deleted else f"no saved tokens for {name}")
        return 0
    asyncio.run(servers.login(name, _show_address))
    print_line(f"logged in to {name}")
    return 0


async def _show_address(address: str) -> None:
    import webbrowser

    from pegboard.mcp.auth import LOGIN_S

    print_line(f"open this address to log in, within {LOGIN_S / 60:.0f} minutes:\n  {address}")
    # Python's webbrowser starts a program with the address as one argument; no shell reads it.
    await asyncio.to_thread(webbrowser.open, address)


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
