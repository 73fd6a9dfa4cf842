"""The other sides of mcp_bars.py: python mcp_peers.py sdk|raw stdio|http [PORT], or: slow SECONDS, or: many COUNT."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for.", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
    },
    "required": ["query"],
}
ECHO = {
    "name": "echo",
    "description": "Echo.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def many(count: int) -> list[dict[str, Any]]:
    """Tools that differ as those of real servers do."""
    return [
        {
            "name": f"tool_{n}",
            "description": f"Look up things of kind {n} by words and place.",
            "inputSchema": SCHEMA,
        }
        for n in range(count)
    ]


def reply(message: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The answer of a server written by hand: the floor."""
    if "id" not in message:
        return None
    method, params = message["method"], message.get("params") or {}
    result: dict[str, Any]
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["arguments"]["text"]}], "isError": False}
    elif method == "tools/list":
        result = {"tools": tools}
    else:
        return {
            "jsonrpc": "2.0",
            "id": message["id"],
            "error": {"code": -32601, "message": "Method not found"},
        }
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def stdio(tools: list[dict[str, Any]]) -> None:
    """Serve on standard input and output."""
    for line in sys.stdin.buffer:
        answer = reply(json.loads(line), tools)
        if answer is not None:
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()


def http(port: int) -> None:
    """Serve streamable HTTP, answers as plain JSON."""
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        answer = reply(json.loads(body), [ECHO]) if body and scope["method"] == "POST" else None
        status = 200 if answer else (202 if scope["method"] == "POST" else 405)
        headers = [(b"content-type", b"application/json"), (b"mcp-session-id", b"s1")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode() if answer else b""})

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical", access_log=False)


def sdk(transport: str, port: int) -> None:
    """The high-level server of package `mcp`."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("echo", log_level="ERROR")

    @server.tool()
    def echo(text: str) -> str:
        """Echo the text."""
        return text

    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=port)


def main() -> None:
    """See the module."""
    match sys.argv[1:]:
        case ["slow", seconds]:
            time.sleep(float(seconds))
            stdio([ECHO])
        case ["many", count]:
            stdio(many(int(count)))
        case ["raw", "stdio", *_]:
            stdio([ECHO])
        case ["raw", "http", port]:
            http(int(port))
        case ["sdk", transport, port]:
            sdk(transport, int(port))
        case other:
            raise SystemExit(f"mcp_peers: {other}")


if __name__ == "__main__":
    main()
