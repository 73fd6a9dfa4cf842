"""Pages of MCP servers over HTTP (MCP Apps): shown as documents of no origin, and answered as far as the protocol allows.

The console puts the address of a page into a frame. A frame sends no token, so the address holds a ticket that works once
within a minute; the document comes with `Content-Security-Policy: sandbox`, so that it has neither our origin nor our
storage. What it posts to the console is handed on to its own server here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pegboard.app.app import App
from pegboard.core.errors import NotFound, PegboardError, ToolError
from pegboard.gateway.bodies import OpenPage, PageMessage, read_body
from pegboard.gateway.errors import Json
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.views import shown
from pegboard.mcp.pages import Page

TICKET_S: Final = 60.0
_MAX_OPEN: Final = 100
_CODES: Final = {"unsupported": -32601, "invalid_arguments": -32602}
"""JSON-RPC's codes of errors; -32000 for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A page that is shown: of which server, to whom, and its document until it was fetched."""

    server: str
    owner: str
    page: Page | None
    until: float


class PageEndpoints:
    """The endpoints under `/api/pages`, and the documents themselves.

    Args:
        app: whose services they call.
        clock: monotonic seconds.
    """

    def __init__(self, app: App, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._open: dict[str, _Open] = {}

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E = Endpoint
        return [
            E(method="POST", path="/api/pages", handler=self.open_page, body=OpenPage),
            E(method="POST", path="/api/pages/{id}/messages", handler=self.send_to_server, body=PageMessage),
            E(method="DELETE", path="/api/pages/{id}", handler=self.close_page),
            E(method="GET", path="/page", handler=self.show_page, public=True, media="text/html",
              query={"ticket": "string"}),
        ]  # fmt: skip

    async def open_page(self, request: Request) -> Any:
        """Make a page of a tool's result ready to be shown in a frame; its address works once, within a minute."""
        body = await read_body(request, OpenPage)
        page = await self._app.pages.read(body.server, body.uri)
        id = secrets.token_urlsafe(24)
        while len(self._open) >= _MAX_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[id] = _Open(
            server=body.server, owner=request.state.owner, page=page, until=self._clock() + TICKET_S
        )
        told = {
            "id": id, "url": f"/page?ticket={id}", "permissions": list(page.permissions), "border": page.border,
            "origins": {kind: list(named) for kind, named in page.origins.items()},
        }  # fmt: skip
        return Json(told, 201)

    async def show_page(self, request: Request) -> Response:
        """The document of a page, for a frame."""
        id = request.query_params.get("ticket", "")
        found = self._open.get(id)
        if found is None or found.page is None or found.until < self._clock():
            raise NotFound("this page was shown already, or its ticket has expired", hint="Open it again.")
        self._open[id] = replace(found, page=None)
        headers = {
            "Content-Security-Policy": found.page.policy(), "Referrer-Policy": "no-referrer",
            "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-write=()",
        }  # fmt: skip
        return HTMLResponse(found.page.html.encode("utf-8", "replace"), headers=headers)

    async def send_to_server(self, request: Request) -> Any:
        """Hand a request of a page (JSON-RPC) on to its own server: tools/call, resources/read or ping."""
        body = await read_body(request, PageMessage)
        page = self._find(request)
        try:
            result = await self._app.pages.request(page.server, body.method, body.params)
        except PegboardError as error:
            code = _CODES.get(error.code, -32000) if isinstance(error, ToolError) else -32000
            message = error.message if isinstance(error, ToolError) else str(error)
            return shown(
                self._app, {"jsonrpc": "2.0", "id": body.id, "error": {"code": code, "message": message}}
            )
        return shown(self._app, {"jsonrpc": "2.0", "id": body.id, "result": result})

    async def close_page(self, request: Request) -> Any:
        """Answer a page no more."""
        self._find(request)
        del self._open[request.path_params["id"]]
        return {"id": request.path_params["id"], "closed": True}

    def _find(self, request: Request) -> _Open:
        found = self._open.get(request.path_params["id"])
        if found is None or found.owner != request.state.owner:
            raise NotFound("no such page is open", hint="Open it with POST /api/pages.")
        return found
