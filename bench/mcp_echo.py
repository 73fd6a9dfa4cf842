"""Our MCP server with one echo tool: python mcp_echo.py stdio|http|http-json PORT."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from pegboard import PURE, Executor, tool
from pegboard.mcp.server import ToolServer


@tool(effects=PURE)
async def echo(text: str) -> str:
    """Echo the text."""
    return text


def main() -> None:
    door = Executor([echo])
    service = ToolServer(door.pipeline, door.context)
    if sys.argv[1] == "stdio":
        from pegboard.mcp.serve_stdio import claim_stdout, serve_stdio

        asyncio.run(serve_stdio(service, sink=claim_stdout()))
    else:
        from pegboard.mcp.serve_http import serve_http

        asyncio.run(serve_http(service, host="127.0.0.1", port=int(sys.argv[2]), token=None))


if __name__ == "__main__":
    main()
