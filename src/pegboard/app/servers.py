"""Servers: foreign MCP servers with this machine's environment, pins and tokens (DESIGN 7)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.config.servers import ConfiguredServers
from pegboard.core.errors import ConfigError
from pegboard.mcp.client import MCPServer as Server
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.pins import Pins

if TYPE_CHECKING:
    import httpx2


class MCPServer(Server):
    """An MCP server for an Agent's or Executor's `tools`; see `pegboard.mcp.client.MCPServer`.

    Its program gets PATH, HOME and the like of this process, and its definitions are pinned in our state folder.
    """

    def __init__(self, name: str = "", **options: Any) -> None:
        options.setdefault("environment", this_environment())
        if options.get("pins") is None:
            options["pins"] = Pins(Paths.of().state / "mcp" / "pins.json")
        super().__init__(name, **options)


def opened(
    configured: ConfiguredServers, paths: Paths, *, auth: Mapping[str, httpx2.Auth] | None = None
) -> list[Server]:
    """The servers of the settings, none of them started."""
    pins = Pins(paths.state / "mcp" / "pins.json")
    return [
        Server(
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
    import hashlib

    if config.transport == "stdio":
        raise ConfigError(f"MCP server {config.name!r} is a program and needs no login")
    return paths.state / "mcp" / f"tokens-{hashlib.sha256(config.url.encode()).hexdigest()[:24]}.json"
