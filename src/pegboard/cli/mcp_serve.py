"""`pegboard mcp serve`: our tools, and those of the configured servers that are named, for an MCP host."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.app.app import App
from pegboard.cli.options import Options
from pegboard.cli.show import escape_controls
from pegboard.core.errors import ConfigError

if TYPE_CHECKING:
    from pegboard.mcp.server import ToolServer


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
    from pegboard.process.stdio import claim_stdout

    if how.clients and not how.http:
        raise ConfigError("--client is for --http: stdio has only one client")
    if how.http:
        _address(how.http)
    sink = -1 if how.http else claim_stdout()

    async def act(app: App) -> int:
        for line in app.config.ignored:
            _note(line)
        async with app.serving(
            how.patterns, trusted=how.trust_clients, approved=options.yes, skills=how.skills, notify=_note
        ) as server:
            await _carry(server, how, sink)
        return 0

    return options.run(act)


async def _carry(server: ToolServer, how: ServeOptions, sink: int) -> None:
    """Serve over HTTP, or over standard input and output, until the client goes or a signal comes."""
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, lambda: task.cancel() if task else None)
    try:
        if how.http is None:
            from pegboard.mcp.serve_stdio import serve_stdio

            await serve_stdio(server, sink=sink)
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

        await serve_http(server, host=host, port=port, tokens=tokens, on_start=on_start)
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
