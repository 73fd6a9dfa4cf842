"""Servers: the MCP servers whose tools we use, with this machine's environment, pins and tokens."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.config.servers import ConfiguredServers, load_servers, own_file, save_server
from pegboard.core.errors import ConfigError
from pegboard.core.policy.approval import sha256_of
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import Tool
from pegboard.mcp.client import MCPServer, start_all
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of
from pegboard.mcp.pins import Pins, pins_table
from pegboard.store.json_table import JsonTable

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedServer:
    """What became of starting a server.

    Attributes:
        name: the server's.
        protocol: the version of MCP that it speaks; empty where it did not start.
        tools: names of its tools.
        changed: by tool, the difference to the definition that was approved.
        warnings: what a person should know.
        error: why it did not start; empty where it did.
        stderr: the end of what it wrote there, where it did not start.
    """

    name: str
    protocol: str = ""
    tools: tuple[str, ...] = ()
    changed: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    error: str = ""
    stderr: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        row: dict[str, Any] = {"name": self.name, "protocol": self.protocol, "warnings": list(self.warnings)}
        if self.error:
            return {**row, "error": self.error, "stderr": self.stderr}
        return {**row, "tools": list(self.tools), "changed": dict(self.changed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """A configured server, not started.

    Attributes:
        name, transport, source: which, how it is reached, and the file that names it.
        runs: its command line or address.
        disabled: it is not used.
        fault: why it cannot be used; empty where it can.
        notes: what a person should know about its entry.
        pinned: names of its tools whose definition was approved.
    """

    name: str
    transport: str
    runs: str
    source: str
    disabled: bool = False
    fault: str = ""
    notes: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()


class Servers:
    """The configured MCP servers.

    Args:
        paths: where our own file, pins and tokens lie.
        workspace: whose project file counts.
        file: a config file that is read in place of ours.
    """

    def __init__(self, paths: Paths, workspace: Path, *, file: Path | None = None) -> None:
        self._paths = paths
        self._workspace = workspace
        self._file = file

    async def list(self) -> ConfiguredServers:
        """The configured servers, and what was ignored; none of them is started."""
        return self._configured()

    async def states(self) -> list[ServerState]:
        """The configured servers with the tools that were approved of each; none of them is started."""
        pins = pins_of(self._paths)
        return [
            ServerState(
                name=s.name, transport=s.transport, runs=s.command_line, source=s.source, disabled=s.disabled,
                fault=s.fault, notes=tuple(s.notes), pinned=pins.names(s.name),
            )
            for s in self._configured().servers
        ]  # fmt: skip

    async def add(self, name: str, row: Mapping[str, Any]) -> tuple[Path, bool]:
        """Keep a server in our own file; the file, and whether one of that name was replaced.

        Args:
            name: the server's.
            row: as in an `mcpServers` table. Variables stay as they are; only the form is checked.

        Raises:
            ConfigError: the row is no server.
        """
        servers_of({name: row}, environment=_AnyVariable(), source="pegboard mcp add")
        return own_file(self._paths), save_server(self._paths, name, dict(row))

    async def remove(self, name: str) -> None:
        """Take a server out of our own file, with its pins.

        Raises:
            ConfigError: the file has no such server.
        """
        if not save_server(self._paths, name, None):
            raise ConfigError(f"{own_file(self._paths)} has no MCP server called {name!r}")
        pins_of(self._paths).forget(name)

    async def test(self, name: str | None = None, *, accept: bool = False) -> list[TestedServer]:
        """Start a server, or all, and tell what they offer.

        Args:
            name: which; None = all.
            accept: approve the tools' definitions as they are now.
        """
        configured = self._configured()
        if name is not None:
            configured = ConfiguredServers(servers=(configured.named(name),))
        servers = opened(configured, self._paths)
        try:
            outcomes = await start_all(servers)
            return [_tested(server, outcomes[server.name], accept=accept) for server in servers]
        finally:
            await asyncio.gather(*(s.aclose() for s in servers))

    async def login(self, name: str, show: Callable[[str], Awaitable[None]]) -> None:
        """Log in to an HTTP server through a browser; `show` is given the address to open.

        Raises:
            ConfigError: there is no such server, or it is a program.
        """
        from pegboard.mcp.auth import LOGIN_S, interactive_auth

        config, tokens = self._tokens(name)
        oauth = config.oauth
        async with interactive_auth(
            config.url, tokens, show=show, scope=oauth.get("scope"), client_id=oauth.get("client_id")
        ) as auth:
            # A login takes many more requests than a start, to servers that no setting knows.
            server = MCPServer(config=replace(config, start_s=max(config.start_s, LOGIN_S)), auth=auth)
            try:
                await server.tools()
            finally:
                await server.aclose()

    async def logout(self, name: str) -> bool:
        """Delete a server's tokens; False where there were none."""
        return self._tokens(name)[1].forget()

    def _configured(self) -> ConfiguredServers:
        return load_servers(self._paths, self._workspace, file=self._file)

    def _tokens(self, name: str) -> tuple[ServerConfig, Any]:
        from pegboard.mcp.auth import FileTokens

        config = self._configured().named(name)
        return config, FileTokens(token_file(self._paths, config))


class ClientServers:
    """MCP servers that a client, such as an editor, names for its session.

    Its settings may be a project's, so none is started before a person has seen its whole command line or address.
    A yes for good holds for exactly that server: program, arguments, environment, address and headers.

    Args:
        paths: where the answers are kept.
    """

    def __init__(self, paths: Paths) -> None:
        self._table = JsonTable[str](
            paths.state / "client-servers.json", "MCP servers of clients", paths.chain
        )

    def read(self, rows: Iterable[Mapping[str, Any]], *, source: str) -> tuple[ServerConfig, ...]:
        """The servers of a client's list; one that is wrong has that as its `fault`.

        Args:
            rows: each with a name, and `env` and `headers` as lists of `{name, value}`.
            source: the client, for messages.
        """
        filled: list[dict[str, Any]] = []
        for row in rows:
            values = {k: _pairs(v) if k in ("env", "headers") else v for k, v in row.items() if v != []}
            filled.append({**values, "name": str(row.get("name", ""))})
        # What a client sends is meant as it stands: a variable in it must not take a secret of this machine along.
        return servers_of(filled, environment=None, source=source, keep=True, foreign=True)

    def accepted(self, server: ServerConfig) -> bool:
        """Whether a person has let exactly this server start, for good."""
        return self._table.read().get(_server_key(server)) == _server_digest(server)

    def accept(self, server: ServerConfig) -> None:
        """Let exactly this server start from now on."""
        self._table.add(_server_key(server), _server_digest(server))


def _pairs(value: Any) -> Any:
    """A list of `{name, value}` as a table; anything else as it is."""
    rows: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
    if not rows or not all(isinstance(row, dict) and "name" in row for row in rows):
        return cast("Any", value)
    return {str(row["name"]): str(row.get("value", "")) for row in rows}


def _server_key(server: ServerConfig) -> str:
    return f"{server.name}: {server.redacted_command}"


def _server_digest(server: ServerConfig) -> str:
    return sha256_of([
        server.name, server.transport, server.command, list(server.args), dict(server.env), server.url,
        dict(server.headers),
    ])  # fmt: skip


class _AnyVariable(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, key: str, default: Any = None) -> Any:
        return "x"


def _tested(server: MCPServer, outcome: Any, *, accept: bool) -> TestedServer:
    warnings = tuple(server.warnings)
    if not isinstance(outcome, list):
        error = f"{outcome.message}. {outcome.hint}" if outcome.hint else outcome.message
        return TestedServer(
            name=server.name, protocol=server.protocol, warnings=warnings, error=error,
            stderr=clip(server.stderr, -1000),
        )  # fmt: skip
    return TestedServer(
        name=server.name, protocol=server.protocol, warnings=warnings,
        tools=tuple(t.name for t in cast("list[Tool]", outcome)), changed=_changed(server, accept=accept),
    )  # fmt: skip


def _changed(server: MCPServer, *, accept: bool) -> dict[str, str]:
    """Tools whose definition is not the approved one, with the difference; approved where that is wished."""
    out: dict[str, str] = {}
    for offer in server.catalogue.offers if server.catalogue else ():
        if server.pins.state(server.name, offer.definition) == "changed":
            out[offer.name] = server.pins.diff(server.name, offer.definition)
        if accept:
            server.pins.accept(server.name, offer.definition)
    return out


def pins_of(paths: Paths) -> Pins:
    """The approved definitions of servers' tools."""
    return Pins(pins_table(paths.state, paths.chain))


def opened(
    configured: ConfiguredServers, paths: Paths, *, auth: Mapping[str, httpx2.Auth] | None = None
) -> list[MCPServer]:
    """The servers of the settings, none of them started."""
    pins = pins_of(paths)
    return [
        MCPServer(
            config=config,
            pins=pins,
            environment=this_environment(),
            auth=(auth or {}).get(config.name) or stored_auth(config, paths),
        )
        for config in configured.servers
        if not config.disabled
    ]


def stored_auth(config: ServerConfig, paths: Paths) -> httpx2.Auth | None:
    """Authorisation by the client's own secret or key, or from tokens that `pegboard mcp login` kept; else None."""
    if config.transport == "stdio" or config.fault:
        return None
    from pegboard.mcp.auth import FileTokens, silent_auth

    tokens = FileTokens(token_file(paths, config))
    if "client_secret" in config.oauth or "private_key" in config.oauth:
        from pegboard.mcp.client_credentials import own_auth

        return own_auth(config.url, tokens, config.oauth)
    return silent_auth(config.url, tokens) if tokens.path.exists() else None


def token_file(paths: Paths, config: ServerConfig) -> Path:
    """Where a server's tokens lie: by its address, so that no other server is ever sent them."""
    if config.transport == "stdio":
        raise ConfigError(f"MCP server {config.name!r} is a program and needs no login")
    return paths.state / "mcp" / f"tokens-{hashlib.sha256(config.url.encode()).hexdigest()[:24]}.json"
