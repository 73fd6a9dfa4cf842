"""Pages: what MCP servers show of their tools' results, and what these pages may ask for (MCP Apps)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pegboard.core.errors import InvalidArguments, NotFound, PermissionDenied, Unsupported
from pegboard.mcp.client import MCPServer
from pegboard.mcp.pages import Page, page_of
from pegboard.services.calls import Calls, Outcome
from pegboard.services.runtime import Runtime


class Pages:
    """The pages of the configured MCP servers.

    Args:
        runtime: has the servers.
        calls: carries out what a page calls, under the policy and recorded; what asks is denied.
    """

    def __init__(self, runtime: Runtime, calls: Calls) -> None:
        self._runtime = runtime
        self._calls = calls

    async def read(self, server: str, uri: str) -> Page:
        """The page of a tool.

        Raises:
            NotFound: there is no such server, or none of its tools has this page.
            Unsupported, TooLarge: see `page_of`.
            Unavailable: the server cannot be started.
        """
        opened = self._server(server)
        try:
            await opened.tools()
            offers = opened.catalogue.offers if opened.catalogue else ()
            if uri not in {offer.page for offer in offers if offer.page}:
                raise NotFound(f"no tool of MCP server {server!r} has the page {uri[:200]}")
            raw = await opened.call(
                "resources/read", {"uri": uri}, what=f"reading {uri[:100]}", idempotent=True
            )
            return page_of(raw, uri)
        finally:
            await opened.aclose()

    async def request(self, server: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What a page asks its own server for: `tools/call`, `resources/read` or `ping`; the result of the protocol.

        Raises:
            Unsupported: another method.
            NotFound, PermissionDenied: a tool that there is not, or that pages may not call.
            InvalidArguments: parameters of another shape.
        """
        match method:
            case "ping":
                return {}
            case "tools/call":
                name, arguments = params.get("name"), params.get("arguments", {})
                if not isinstance(name, str) or not isinstance(arguments, dict):
                    raise InvalidArguments("tools/call needs a name, and arguments as an object")
                tool = await self._tool(server, "tool", name)
                return _result(await self._calls.call(tool, cast("dict[str, Any]", arguments)))
            case "resources/read":
                uri = params.get("uri")
                if not isinstance(uri, str):
                    raise InvalidArguments("resources/read needs a uri")
                done = await self._calls.call(await self._tool(server, "resources", ""), {"uri": uri})
                if done.result.error is not None:
                    raise done.result.error
                return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": done.result.text}]}
            case _:
                raise Unsupported(
                    f"a page may not send {method[:80]!r}",
                    hint="It may send tools/call, resources/read, ping.",
                )

    async def _tool(self, server: str, kind: str, name: str) -> str:
        """The name under which a tool of a server is called here, or the one that reads its resources."""
        opened = self._server(server)
        try:
            await opened.tools()
            offers = opened.catalogue.offers if opened.catalogue else ()
        finally:
            await opened.aclose()
        offer = next((o for o in offers if o.kind == kind and name in ("", o.original)), None)
        if offer is None:
            raise NotFound(f"MCP server {server!r} has no {name or 'resources'}")
        if "app" not in offer.callers:
            raise PermissionDenied(f"pages may not call {name!r} of MCP server {server!r}")
        if "model" not in offer.callers:
            raise Unsupported(
                f"{name!r} of MCP server {server!r} is for pages alone; such tools are not called here"
            )
        return offer.name

    def _server(self, name: str) -> MCPServer:
        found = next((s for s in self._runtime.mcp_servers() if s.name == name), None)
        if found is None:
            raise NotFound(f"no MCP server {name!r}", hint="See: pegboard mcp list")
        return cast(MCPServer, found)


def _result(outcome: Outcome) -> dict[str, Any]:
    """The outcome as a CallToolResult."""
    result = outcome.result
    told: dict[str, Any] = {"content": [{"type": "text", "text": result.text}], "isError": not result.ok}
    data: Any = result.data
    if result.ok and isinstance(data, dict):
        told["structuredContent"] = data
    return told
