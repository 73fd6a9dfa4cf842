"""`pegboard mcp serve`: our tools, and those of the configured servers that are named, for an MCP host."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pegboard.app.app import App
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls
from pegboard.core.errors import ConfigError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.upstream import Upstream, could_name
from pegboard.services.runtime import Interaction

READ_ONLY = frozenset({"read", "connect"})
"""Kinds of effect that a served tool may have by default."""


def served(toolkit: Toolkit, patterns: Sequence[str]) -> list[Tool]:
    """The tools that are offered: read-only ones, and those whose names a pattern names.

    A plan that names no kinds in advance could do anything, so such a tool has to be named.
    """
    out: list[Tool] = []
    for tool in toolkit:
        kinds = set(tool.kinds())
        quiet = kinds <= READ_ONLY and (bool(kinds) or (tool.plan is None and tool.effects == ()))
        if quiet or any(fnmatchcase(tool.name, p) for p in patterns):
            out.append(tool)
    return out


# -- serve ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
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


def serve(how: ServeOptions, *, options: Options) -> int:
    """Serve until the client goes or a signal comes; the exit status."""
    from pegboard.mcp.serve_stdio import claim_stdout

    if how.clients and not how.http:
        raise ConfigError("--client is for --http: stdio has only one client")
    if how.http:
        _address(how.http)
    sink = -1 if how.http else claim_stdout()
    with options.open() as app:
        kit = served(app.toolkit, how.patterns)
        upstream = _upstream(app, how.patterns)
        if not kit and not upstream:
            raise ConfigError("no tools to serve; add some with --tools PATTERN")
        for tool in kit:
            _offers(tool)
        for line in app.config.ignored:
            _note(line)
        asyncio.run(_serve(app, kit, upstream, how, sink, approved=options.yes))
    return 0


def _upstream(app: App, patterns: Sequence[str]) -> list[Upstream]:
    """The configured servers of which a pattern could name a tool, none of them started.

    Raises:
        ConfigError: a pattern names no tool of ours and can name none of a server.
    """
    servers = app.mcp_servers() if patterns else []
    for pattern in patterns:
        own = any(fnmatchcase(name, pattern) for name in app.toolkit.names)
        if not own and not any(could_name(pattern, server) for server in servers):
            of = f", and those of the MCP servers {', '.join(s.name for s in servers)}" if servers else ""
            raise ConfigError(
                f"--tools {pattern!r} matches no tool; available: {', '.join(app.toolkit.names)}{of}"
            )
    return [
        Upstream(server, patterns, offers=_offers)
        for server in servers
        if any(could_name(pattern, server) for pattern in patterns)
    ]


def _offers(tool: Tool) -> None:
    _note(f"offers {tool.name}: {', '.join(tool.kinds()) or 'no effects'}")


async def _serve(
    app: App, kit: list[Tool], upstream: Sequence[Upstream], how: ServeOptions, sink: int, *, approved: bool
) -> None:
    from pegboard import __version__
    from pegboard.mcp.client_approver import ClientApprover, ClientPeople
    from pegboard.mcp.request_context import CallingClient
    from pegboard.mcp.server import ToolServer

    interaction = Interaction(
        approver=ClientApprover(trusted=how.trust_clients, approved=approved, waits=app.approvals),
        people=[ClientPeople(), CallingClient()],
        notify=_note,
    )
    async with app.serving(
        Toolkit(kit), interaction=interaction, skills=how.skills, sources=upstream
    ) as offered:
        service = ToolServer(
            offered.executor.pipeline, offered.executor.context, resources=offered.resources, prompts=offered.prompts,
            sources=offered.executor, version=__version__,
        )  # fmt: skip
        task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, lambda: task.cancel() if task else None)
        try:
            if how.http is None:
                from pegboard.mcp.serve_stdio import serve_stdio

                await serve_stdio(service, sink=sink)
                return
            from pegboard.mcp.serve_http import serve_http

            host, port = _address(how.http)
            tokens = _tokens(how)

            def on_start(port: int) -> None:
                _note(f"serves http://{host}:{port}/mcp")
                for client, given in tokens.items():
                    if given != how.token:
                        whose = f" of {client}" if client else ""
                        _note(f"token{whose} (send it as Authorization: Bearer): {given}")

            await serve_http(service, host=host, port=port, tokens=tokens, on_start=on_start)
        except asyncio.CancelledError:
            _note("stopped")


def _tokens(how: ServeOptions) -> dict[str, str]:
    """A token by client: the given one for all, or fresh ones."""
    for client in how.clients:
        if not client.replace("-", "").replace("_", "").isalnum() or how.clients.count(client) > 1:
            raise ConfigError(
                f"--client {client!r}: give each client its own name, made of letters, digits, - and _"
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
    print(f"pegboard mcp: {escape_controls(text)}", file=sys.stderr, flush=True)
