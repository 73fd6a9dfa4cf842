"""`pegboard mcp`: serve our tools to a host, and look after the servers whose tools we use."""

from __future__ import annotations

import asyncio
import json as jsonlib
import secrets
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pegboard.app.home import App
from pegboard.app.servers import opened, token_file
from pegboard.cli.options import Options
from pegboard.cli.show import print_json, safe, say, table
from pegboard.config.paths import Paths, here
from pegboard.config.servers import Configured, load_servers, own_file, save_server
from pegboard.core.errors import ConfigError, PegboardError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.client import MCPServer, start_all
from pegboard.mcp.config import ServerConfig, servers_of

READ_ONLY = frozenset({"read", "connect"})
"""Kinds of effect that a served tool may have by default (decisions 9)."""


def served(kit: Toolkit, patterns: Sequence[str]) -> list[Tool]:
    """The tools that are offered: read-only ones, and those whose names a pattern names.

    A plan that names no kinds in advance could do anything, so such a tool has to be named.
    """
    out: list[Tool] = []
    for tool in kit:
        kinds = set(tool.kinds())
        quiet = kinds <= READ_ONLY and (bool(kinds) or (tool.plan is None and tool.effects == ()))
        if quiet or any(fnmatchcase(tool.name, p) for p in patterns):
            out.append(tool)
    return out


# -- serve ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How to serve.

    Attributes:
        http: HOST:PORT, None = standard input and output.
        patterns: tools that are offered although they are not read-only.
        trust_clients: their users may approve.
        token: for HTTP; None = made and printed.
        clients: names of HTTP clients that get a token each, in place of the one for all.
        skills: folders whose skills are prompts.
    """

    http: str | None = None
    patterns: Sequence[str] = ()
    trust_clients: bool = False
    token: str | None = None
    clients: Sequence[str] = ()
    skills: Sequence[Path] = ()


def serve(how: Serving, *, options: Options) -> int:
    """Serve until the client goes or a signal comes; the exit status."""
    from pegboard.mcp.serve_stdio import claim_stdout

    if how.clients and not how.http:
        raise ConfigError("--client is for --http: standard input and output has one client only")
    if how.http:
        _address(how.http)
    sink = -1 if how.http else claim_stdout()
    with options.open() as app:
        kit = served(app.toolkit, how.patterns)
        if not kit:
            raise ConfigError("there is no tool to serve; name some with --tools PATTERN")
        for pattern in how.patterns:
            if not any(fnmatchcase(name, pattern) for name in app.toolkit.names):
                raise ConfigError(
                    f"--tools {pattern!r} fits no tool; there are: {', '.join(app.toolkit.names)}"
                )
        for tool in kit:
            _note(f"offers {tool.name}: {', '.join(tool.kinds()) or 'no effects'}")
        for line in app.config.ignored:
            _note(line)
        asyncio.run(_serve(app, kit, how, sink, yes=options.yes))
    return 0


async def _serve(app: App, kit: list[Tool], how: Serving, sink: int, *, yes: bool) -> None:
    from pegboard import __version__
    from pegboard.app.served_approvals import ServedApprovals
    from pegboard.mcp.approving import ClientApprover, ClientPeople
    from pegboard.mcp.exchange import ClientDoor
    from pegboard.mcp.server import Service

    approver = ClientApprover(trusted=how.trust_clients, yes=yes, waits=ServedApprovals(app.store, app.log))
    people = [ClientPeople(), ClientDoor()]
    async with app.serving(Toolkit(kit), approver=approver, provide=people, skills=how.skills) as offered:
        service = Service(
            offered.door.pipeline, offered.door.context, resources=offered.resources, prompts=offered.prompts,
            sources=offered.door, version=__version__,
        )  # fmt: skip
        task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, lambda: task.cancel() if task else None)
        try:
            if how.http is None:
                from pegboard.mcp.serve_stdio import serve_stdio

                await serve_stdio(service, sink=sink)
                return
            from pegboard.mcp.serving import http_server

            host, port = _address(how.http)
            tokens = _tokens(how)

            def started(port: int) -> None:
                _note(f"serves http://{host}:{port}/mcp")
                for client, given in tokens.items():
                    if given != how.token:
                        whose = f" of {client}" if client else ""
                        _note(f"token{whose} (send it as Authorization: Bearer): {given}")

            await http_server(service, host=host, port=port, tokens=tokens, started=started)
        except asyncio.CancelledError:
            _note("stopped")


def _tokens(how: Serving) -> dict[str, str]:
    """A token by client: the given one for all, or fresh ones."""
    for client in how.clients:
        if not client.replace("-", "").replace("_", "").isalnum() or how.clients.count(client) > 1:
            raise ConfigError(
                f"--client {client!r}: give each client a name of its own, of letters, digits, - and _"
            )
    if how.clients:
        return {client: secrets.token_urlsafe(32) for client in how.clients}
    return {"": how.token or secrets.token_urlsafe(32)}


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--http takes HOST:PORT, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _note(text: str) -> None:
    # Standard output carries the protocol only.
    print(f"pegboard mcp: {safe(text)}", file=sys.stderr, flush=True)


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
    servers_of({name: row}, environment=_AnyValue(), source="pegboard mcp add")
    paths = Paths.of()
    was = save_server(paths, name, row)
    say(f"{'replaced' if was else 'added'} {name} in {own_file(paths)}; try it: pegboard mcp test {name}")
    return 0


class _AnyValue(dict[str, str]):
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
    from pegboard.mcp.pinning import Pins

    paths = Paths.of()
    if not save_server(paths, name, None):
        raise ConfigError(f"{own_file(paths)} has no MCP server called {name!r}")
    Pins(paths.state / "mcp" / "pins.json").forget(name)
    say(f"removed {name}")
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
            "notes": list(s.notes),
        }
        for s in configured.servers
    ]
    if options.json:
        print_json({"servers": rows, "ignored": list(configured.ignored)})
        return 0
    table(
        [
            (safe(str(r["name"])), str(r["transport"]), safe(str(r["runs"])), safe(str(r["source"])))
            for r in rows
        ]
    )
    for line in (*configured.ignored, *(n for s in configured.servers for n in s.notes)):
        say(safe(line))
    if not rows:
        say("no MCP servers; add one: pegboard mcp add NAME -- COMMAND …")
    return 0


def _configured(options: Options) -> Configured:
    return load_servers(Paths.of(), options.workspace or here(), file=options.config)


# -- test and login ---------------------------------------------------------------------------


def test(name: str | None, *, accept: bool, options: Options) -> int:
    """Start servers and show what they offer; 1 where one fails."""
    configured = _configured(options)
    paths = Paths.of()
    if name is not None:
        configured = Configured(servers=(configured.named(name),))
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
                row["stderr"] = server.stderr[-1000:]
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
        say(f"✗ {row['name']}: {safe(row['error'])}")
        if row["stderr"]:
            say(safe(row["stderr"]))
        return
    say(f"✓ {row['name']}: MCP {row['protocol']}, {len(row['tools'])} tools")
    for tool in row["tools"]:
        say(f"    {tool}")
    for warning in row["warnings"]:
        say(f"  ! {safe(warning)}")
    for tool, diff in row["changed"].items():
        say(f"  ! {tool} has changed since it was approved:\n{safe(diff)}")


def login(name: str, *, logout: bool, options: Options) -> int:
    """Log in to an HTTP server, or forget its tokens."""
    from pegboard.mcp.auth import FileTokens

    config = _configured(options).named(name)
    paths = Paths.of()
    tokens = FileTokens(token_file(paths, config))
    if logout:
        say(f"forgot the tokens of {name}" if tokens.forget() else f"there are no tokens of {name}")
        return 0
    asyncio.run(_login(config, tokens))
    say(f"logged in to {name}")
    return 0


async def _login(config: ServerConfig, tokens: Any) -> None:
    import webbrowser

    from pegboard.mcp.auth import LOGIN_S, interactive_auth

    async def show(address: str) -> None:
        say(f"open this address to log in:\n  {address}")
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
    words = ["mcp", "serve", "--workspace", str((options.workspace or here()).resolve())]
    for pattern in patterns:
        words += ["--tools", pattern]
    row = {"command": program, "args": words}
    match host:
        case "claude-desktop" | "cursor" | "windsurf":
            say(jsonlib.dumps({"mcpServers": {"pegboard": row}}, indent=2))
        case "vscode":
            say(jsonlib.dumps({"servers": {"pegboard": {"type": "stdio", **row}}}, indent=2))
        case "claude-code":
            import shlex

            say(f"claude mcp add pegboard -- {shlex.join([program, *words])}")
        case "codex":
            say(f"[mcp_servers.pegboard]\ncommand = {jsonlib.dumps(program)}\nargs = {jsonlib.dumps(words)}")
        case _:
            raise ConfigError(f"unknown host {host!r}; there are: {', '.join(HOSTS)}")
    return 0


__all__ = ["PegboardError", "add", "config_for", "list_servers", "login", "remove", "serve", "served", "test"]
