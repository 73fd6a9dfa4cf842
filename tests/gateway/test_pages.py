"""MCP Apps: pages of servers in frames without our origin, and what they may ask their own server for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pegboard.mcp.catalogue import build_catalogue
from pegboard.mcp.pages import Page, page_of
from tests.gateway.conftest import Serve

PEER = str(Path(__file__).resolve().parents[1] / "mcp" / "peer.py")
URI = "ui://weather/panel.html"
HTML = "<!doctype html><title>Weather</title><script>parent.postMessage({jsonrpc:'2.0'}, '*')</script>"


def tool(name: str, **ui: Any) -> dict[str, Any]:
    return {
        "name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"},
        "_meta": {"ui": {"resourceUri": URI, **ui}},
    }  # fmt: skip


TOOLS = [
    tool("weather"), tool("refresh", visibility=["app"]), tool("secret", visibility=["model"]),
    {"name": "plain", "description": "Does plain.", "inputSchema": {"type": "object"}},
]  # fmt: skip
READ = {
    "contents": [
        {
            "uri": URI, "mimeType": "text/html;profile=mcp-app", "text": HTML,
            "_meta": {"ui": {"csp": {"connectDomains": ["https://api.example.com", "https://x; script-src *"]}}},
        }
    ]
}  # fmt: skip


def server() -> dict[str, Any]:
    setup = {
        "tools": TOOLS, "listed": {"resources/read": READ},
        "results": {name: {"content": [{"type": "text", "text": "sunny"}]} for name in ("weather", "plain")},
    }  # fmt: skip
    return {"name": "s", "command": sys.executable, "args": [PEER, json.dumps(setup)]}


def test_a_page_is_of_no_origin_and_reaches_what_it_declares_alone() -> None:
    plain = Page(html="x").policy().split("; ")
    wide = page_of(READ, URI).policy().split("; ")

    assert plain[0] == "sandbox allow-scripts" and "allow-same-origin" not in plain[0]
    assert {"default-src 'none'", "connect-src 'none'", "frame-src 'none'", "object-src 'none'"} <= set(plain)
    # What is no origin is left out: it would end the directive.
    assert "connect-src https://api.example.com" in wide and not any("*" in part for part in wide)


def test_a_tool_for_pages_alone_is_not_offered_to_the_model() -> None:
    offers = {o.original: o for o in build_catalogue("s", tools=TOOLS).offers}

    assert offers["weather"].page == URI and offers["weather"].callers == ("model", "app")
    assert offers["refresh"].callers == ("app",) and offers["secret"].callers == ("model",)
    assert offers["plain"].page == ""


async def sent(client: httpx2.AsyncClient, id: str, method: str, **params: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return (await client.post(f"/api/pages/{id}/messages", json=body)).json()


@pytest.mark.slow
async def test_a_page_is_shown_once_without_a_token_and_its_requests_go_to_its_server(
    serve: Serve, own_home: Path
) -> None:
    file = own_home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text('rules = ["allow call:s/weather"]\n')
    async with serve() as client:
        await client.post("/api/servers", json=server())
        tested = (await client.post("/api/servers/s/accept")).json()
        made = await client.post("/api/tools/mcp_s_weather/call", json={})
        opened = (await client.post("/api/pages", json=made.json()["notes"]["page"])).json()
        other = await client.post("/api/pages", json={"server": "s", "uri": "ui://other/x.html"})
        async with httpx2.AsyncClient(base_url=client.base_url, trust_env=False) as frame:
            shown = await frame.get(opened["url"])
            again = await frame.get(opened["url"])
            guessed = await frame.get("/page?ticket=x")
            refused = await frame.post(f"/api/pages/{opened['id']}/messages", json={"method": "ping"})
        ping = await sent(client, opened["id"], "ping")
        called = await sent(client, opened["id"], "tools/call", name="weather", arguments={})
        asks = await sent(client, opened["id"], "tools/call", name="plain", arguments={})
        hidden = await sent(client, opened["id"], "tools/call", name="secret", arguments={})
        foreign = await sent(client, opened["id"], "tools/call", name="exec", arguments={"command": "id"})
        method = await sent(client, opened["id"], "sampling/createMessage")
        closed = await client.delete(f"/api/pages/{opened['id']}")
        late = await client.post(f"/api/pages/{opened['id']}/messages", json={"method": "ping"})

    assert "mcp_s_refresh" not in tested["tools"] and made.json()["ok"], made.text
    assert shown.status_code == 200 and shown.text == HTML
    policy = shown.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;") and "allow-same-origin" not in policy
    assert (again.status_code, guessed.status_code, other.status_code) == (404, 404, 404)
    assert refused.status_code == 401
    assert ping == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert called["result"]["isError"] is False and "sunny" in called["result"]["content"][0]["text"]
    # Nobody has approved it, and a page cannot.
    assert asks["result"]["isError"] is True
    assert "may not call" in hidden["error"]["message"] and "has no exec" in foreign["error"]["message"]
    assert method["error"]["code"] == -32601
    assert closed.status_code == 200 and late.status_code == 404
