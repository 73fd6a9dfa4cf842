"""NanoBotMcpClient: connected MCP servers by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from pegboard.core.errors import BuildError
from pegboard.core.tool import Tool

Connect = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class NanoBotMcpClient:
    """Connected MCP servers by name; their tools stand beside any others.

    Args:
        connect: opens one server: `await connect(name, config)` gives an object with `async list_tools()`
            (objects or dicts with name, description, inputSchema), `async call_tool(name, arguments)`
            and `async aclose()`.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._servers: dict[str, Any] = {}
        self._timeouts: dict[str, float] = {}

    @property
    def connected_servers(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self._servers)

    async def connect(self, name: str, config: Mapping[str, Any]) -> None:
        """Connect a server; keys of the config in any casing, `ToolTimeout` in seconds.

        Raises:
            BuildError: a server of that name is connected already.
        """
        if name in self._servers:
            raise BuildError(f"the MCP server {name!r} is connected already")
        folded = {k.replace("_", "").replace("-", "").lower(): v for k, v in config.items()}
        self._timeouts[name] = float(folded.get("tooltimeout") or folded.get("timeout") or 30)
        self._servers[name] = await self._connect(name, folded)

    async def disconnect(self, name: str) -> None:
        """Disconnect a server; an unknown name is no error."""
        server = self._servers.pop(name, None)
        if server is not None:
            await server.aclose()

    async def list_tools(self, server: str) -> list[Tool]:
        """The tools of one server, under their own names.

        Raises:
            BuildError: no such server.
        """
        from pegboard.compat.nanobot.mcp import MCPToolWrapper

        session = self._servers.get(server)
        if session is None:
            raise BuildError(f"no MCP server {server!r}; connected are {', '.join(self._servers) or 'none'}")
        listed = await session.list_tools()
        definitions = getattr(listed, "tools", listed)
        return [
            MCPToolWrapper(
                session, _plain(d), tool_timeout=self._timeouts[server], server_name=server
            ).to_tool()
            for d in definitions
        ]

    async def get_all_tools(self) -> list[Tool]:
        """The tools of all servers."""
        return [tool for name in self._servers for tool in await self.list_tools(name)]

    async def aclose(self) -> None:
        """Disconnect all."""
        for name in list(self._servers):
            await self.disconnect(name)

    async def __aenter__(self) -> NanoBotMcpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _plain(definition: Any) -> Mapping[str, Any]:
    if isinstance(definition, Mapping):
        return cast("Mapping[str, Any]", definition)
    return {
        "name": definition.name,
        "description": getattr(definition, "description", None),
        "inputSchema": getattr(definition, "inputSchema", None) or getattr(definition, "input_schema", None),
    }
