"""A server by package `mcp` for `pegboard check`, well-behaved and not: python checked.py stdio|streamable-http PORT LOG."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

server = MCPServer("checked", log_level="ERROR")


def note(words: str) -> None:
    """Keep what really reached this process."""
    with open(sys.argv[3], "a", encoding="utf-8") as file:
        file.write(words + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
async def repeat(text: Annotated[str, Field(description="What to say.")]) -> str:
    """Say a text often."""
    note(f"repeat {text}")
    await asyncio.sleep(0.02)
    return f"{text} " * 400


counts = {"flaky": 0}


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def flaky(n: Annotated[int, Field(description="Any.")]) -> str:
    """Fails every second time, although it says that it may be repeated."""
    counts["flaky"] += 1
    note(f"flaky {counts['flaky']}")
    if counts["flaky"] % 2 == 0:
        raise ValueError("not again")
    return "fine"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        import socket

        import uvicorn

        # Bound before it is told: a port that was only looked up may be somebody else's a moment later.
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        bound.listen(64)
        print(bound.getsockname()[1], flush=True)
        app = server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[bound])
