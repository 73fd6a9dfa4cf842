"""MCPServer: an MCP server with this machine's environment and pins."""

from __future__ import annotations

from typing import Any

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.mcp.client import MCPServer as Server
from pegboard.mcp.pins import Pins, pins_table


class MCPServer(Server):
    """An MCP server for an Agent's or Executor's `tools`; see `pegboard.mcp.client.MCPServer`.

    Its program gets PATH, HOME and the like of this process, and its definitions are pinned in our state folder.
    """

    def __init__(self, name: str = "", **options: Any) -> None:
        options.setdefault("environment", this_environment())
        if options.get("pins") is None:
            paths = Paths.of()
            options["pins"] = Pins(pins_table(paths.state, paths.chain))
        super().__init__(name, **options)
