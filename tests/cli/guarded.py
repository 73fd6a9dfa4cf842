"""An MCP server behind OAuth, with its authorisation server, on loopback: python guarded.py PORT LOG."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn

PORT, LOG = int(sys.argv[1]), sys.argv[2]
BASE = f"http://127.0.0.1:{PORT}"
CODES: dict[str, dict[str, str]] = {}
TOKENS: set[str] = set()
TOOL = {"name": "whoami", "description": "Who.", "inputSchema": {"type": "object"}}


def grant(form: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Tokens for a code whose verifier fits, once, or for a refresh token."""
    if form.get("grant_type") == "refresh_token":
        if form.get("refresh_token") != "refresh-1":
            return 400, {"error": "invalid_grant"}
    else:
        asked = CODES.pop(form.get("code", ""), {})
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            not asked
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form.get("redirect_uri")
        ):
            return 400, {"error": "invalid_grant"}
    token = secrets.token_hex(8)
    TOKENS.add(token)
    return 200, {
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": "refresh-1",
    }


def rpc(message: dict[str, Any]) -> dict[str, Any] | None:
    """The server behind the door."""
    if "id" not in message:
        return None
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "guarded", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "you"}]},
    }  # fmt: skip
    result = results.get(message["method"])
    if result is None:
        return {
            "jsonrpc": "2.0",
            "id": message["id"],
            "error": {"code": -32601, "message": "Method not found"},
        }
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Everything on one origin."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    path, method = scope["path"], scope["method"]
    fields = {k.decode(): v.decode() for k, v in scope["headers"]}
    status, extra, value = 404, [], None
    if path.startswith("/.well-known/oauth-protected-resource"):
        status, value = 200, {"resource": f"{BASE}/mcp", "authorization_servers": [BASE]}
    elif path == "/.well-known/oauth-authorization-server":
        status, value = 200, {
            "issuer": BASE, "authorization_endpoint": f"{BASE}/authorize", "token_endpoint": f"{BASE}/token",
            "registration_endpoint": f"{BASE}/register", "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
        }  # fmt: skip
    elif path == "/register" and method == "POST":
        status, value = 201, {**json.loads(body), "client_id": "made-up"}
    elif path == "/authorize":
        query = {k: v[0] for k, v in parse_qs(scope["query_string"].decode()).items()}
        code = secrets.token_hex(8)
        CODES[code] = query
        back = urlencode({"code": code, "state": query["state"]})
        status, extra = 302, [(b"location", f"{query['redirect_uri']}?{back}".encode())]
    elif path == "/token" and method == "POST":
        status, value = grant({k: v[0] for k, v in parse_qs(body.decode()).items()})
    elif path == "/mcp":
        if fields.get("authorization", "").removeprefix("Bearer ") not in TOKENS:
            meta = f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource"'
            status, extra = 401, [(b"www-authenticate", meta.encode())]
        elif method == "POST":
            value = rpc(json.loads(body))
            status = 202 if value is None else 200
        else:
            status = 405
    with open(LOG, "a") as file:
        file.write(f"{method} {path} {status}\n")
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json"), *extra],
        }
    )
    await send({"type": "http.response.body", "body": b"" if value is None else json.dumps(value).encode()})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="critical", access_log=False)
