"""A server with the transport of 2024-11-05 only, by package `mcp`: python legacy.py PORT, or on a pipe: stdio."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("legacy", log_level="ERROR")


@server.tool()
async def echo(text: str) -> str:
    """Echo the text."""
    return text


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Report progress, then answer."""
    await ctx.report_progress(1, 2)
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
async def pid() -> str:
    """Its process."""
    return str(os.getpid())


@server.tool()
async def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("sse", host="127.0.0.1", port=int(sys.argv[1]))
