"""The client that the official conformance suite runs: python conformance_client.py URL, scenario in the environment."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.shared.auth import OAuthClientInformationFull

from pegboard import AllowOnce, Executor
from pegboard.mcp.auth import FileTokens, interactive_auth
from pegboard.mcp.client import MCPServer
from pegboard.mcp.client_credentials import own_auth
from pegboard.mcp.config import ServerConfig
from pegboard.ports.people import Question

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


class Agreeable:
    """A person who takes every default and says yes."""

    async def ask(self, questions: Sequence[Question]) -> list[str]:
        return [q.options[0] if q.options and "default" not in q.text else "" for q in questions]


async def browse(address: str) -> None:
    """What a browser would do: follow the redirects of the login, up to ours."""

    async def follow() -> None:
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.get(address, follow_redirects=False)
            where = answer.headers.get("location")
            if where and urlsplit(where).hostname in ("127.0.0.1", "localhost"):
                await http.get(where)

    TASKS.append(asyncio.ensure_future(follow()))


TASKS: list[Any] = []


def arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Some value for every property."""
    kinds: dict[str, Any] = {
        "string": "test",
        "integer": 5,
        "number": 5,
        "boolean": True,
        "array": [],
        "object": {},
    }
    out: dict[str, Any] = {}
    for name, node in (schema.get("properties") or {}).items():
        if "enum" in node:
            out[name] = node["enum"][0]
        elif node.get("type") in kinds:
            out[name] = kinds[node["type"]]
    return out


async def talk(url: str, auth: Any) -> None:
    config = ServerConfig(
        # Dozens of these run at once, so that each has a small share of the machine.
        name="suite",
        transport="streamable_http",
        url=url,
        protocol=VERSION or "auto",
        timeout_s=60,
        start_s=110,
    )
    server = MCPServer(config=config, auth=auth)
    try:
        tools = await server.tools()
        async with Executor(tools, approver=AllowOnce(), provide=[Agreeable()]) as door:
            wanted = {t["name"]: t.get("arguments", {}) for t in CONTEXT.get("toolCalls", [])}
            for tool in tools:
                original = tool.name.removeprefix("mcp_suite_")
                given = wanted.get(original)
                if given is None:
                    given = arguments_for(dict(tool.schema))
                    if original == "json_schema_echo":
                        rich = next(t for t in tools if t.name.endswith("json_schema_2020_12_tool"))
                        given = {"schema": dict(rich.schema)}
                result = await door.call(tool.name, given)
                print(tool.name, given, "->", str(result)[:200], file=sys.stderr)
    finally:
        await server.aclose()


async def own_login(url: str) -> dict[str, str]:
    """The suite's client, as settings would name it; the issuer is whom its server names, since ports change."""
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with httpx2.AsyncClient(trust_env=False) as http:
        issuer = (await http.get(where)).json()["authorization_servers"][0]
    key = CONTEXT.get("private_key_pem")
    secret = (
        {"private_key": key, "algorithm": CONTEXT["signing_algorithm"]}
        if key
        else {"client_secret": CONTEXT["client_secret"]}
    )
    return {"client_id": CONTEXT["client_id"], "issuer": issuer, **secret}


async def main() -> None:
    url = sys.argv[-1]
    if not SCENARIO.startswith("auth/"):
        await talk(url, None)
        return
    with TemporaryDirectory() as folder:
        tokens = FileTokens(Path(folder) / "tokens.json")
        if "client-credentials" in SCENARIO:
            await talk(url, own_auth(url, tokens, await own_login(url)))
            return
        if CONTEXT.get("client_id"):
            await tokens.set_client_info(
                OAuthClientInformationFull(
                    client_id=CONTEXT["client_id"], client_secret=CONTEXT.get("client_secret"),
                    redirect_uris=["http://127.0.0.1:18999/callback"],
                    token_endpoint_auth_method=CONTEXT.get("token_endpoint_auth_method", "client_secret_basic"),
                )
            )  # fmt: skip
        async with interactive_auth(
            url,
            tokens,
            show=browse,
            timeout_s=100,
            metadata_url="https://conformance-test.local/client-metadata.json",
        ) as auth:
            await talk(url, auth)


if __name__ == "__main__":
    asyncio.run(main())
