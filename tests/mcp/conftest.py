"""Peers for the MCP tests: hand-written servers as real processes, ended after each test."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pegboard.mcp.client import MCPServer
from pegboard.mcp.config import ServerConfig

PEER = str(Path(__file__).with_name("peer.py"))


@pytest.fixture
async def peer() -> AsyncIterator[Callable[..., MCPServer]]:
    """Makes a client of a hand-written server: `peer(tools=[…], _timeout_s=1)`; `_` marks our own settings."""
    made: list[MCPServer] = []

    def make(name: str = "s", **setup: Any) -> MCPServer:
        own = {k[1:]: setup.pop(k) for k in list(setup) if k.startswith("_")}
        pins = own.pop("pins", None)
        environment = own.pop("environment", os.environ)
        config = ServerConfig(
            name=name, command=sys.executable, args=(PEER, json.dumps(setup)), protocol="2025-11-25", **own
        )
        server = MCPServer(config=config, environment=environment, pins=pins)
        made.append(server)
        return server

    yield make
    for server in made:
        await server.aclose()


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool without parameters."""
    return {"name": name, "description": f"{name}.", "inputSchema": {"type": "object"}, **more}
