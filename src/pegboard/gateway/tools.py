"""Tools and MCP servers over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from pegboard.app.app import App
from pegboard.core.errors import NotFound
from pegboard.gateway.access import caller
from pegboard.gateway.bodies import CallBody, NewServer, flag, read_body
from pegboard.gateway.errors import STATUS, Json
from pegboard.gateway.openapi import Endpoint
from pegboard.gateway.views import shown
from pegboard.services.calls import SESSION, preview_to_dict
from pegboard.services.principals import CHANNEL
from pegboard.services.servers import ServerState, TestedServer


class ToolEndpoints:
    """The endpoints under `/api/tools` and `/api/servers`.

    Args:
        app: whose services they call.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._tested: dict[str, TestedServer] = {}
        """What became of the last start of each server."""

    @property
    def endpoints(self) -> list[Endpoint]:
        """The list of them."""
        E, one = Endpoint, "/api/servers/{name}"
        return [
            E(method="GET", path="/api/tools", handler=self.list_tools),
            E(method="POST", path="/api/tools/{name}/call", handler=self.call_tool, body=CallBody,
              query={"preview": "boolean"}),
            E(method="GET", path="/api/servers", handler=self.list_servers),
            E(method="POST", path="/api/servers", handler=self.add_server, body=NewServer),
            E(method="DELETE", path=one, handler=self.remove_server),
            E(method="POST", path=f"{one}/test", handler=self.test_server),
            E(method="POST", path=f"{one}/accept", handler=self.accept_server),
        ]  # fmt: skip

    async def list_tools(self, request: Request) -> Any:
        """The tools, with the schemas of their arguments."""
        return {
            "tools": [
                {
                    "name": t.name, "description": t.description, "parameters": t.schema,
                    "effects": list(t.kinds()),
                }
                for t in self._app.toolkit
            ]
        }  # fmt: skip

    async def call_tool(self, request: Request) -> Any:
        """Call a tool under the policy, or only preview what the call would do. What asks is denied."""
        body = await read_body(request, CallBody, optional=True)
        name = request.path_params["name"]
        if flag(request, "preview"):
            told = preview_to_dict(await self._app.calls.preview(name, body.arguments))
        else:
            by = caller(request)
            origin = {"channel": CHANNEL, "sender": by.name}
            done = await self._app.calls.call(
                name, body.arguments, session=by.calls or SESSION, origin=origin
            )
            told = done.to_dict()
        code = told["error"]["code"] if told["error"] else ""
        # A call that ran and failed has been answered; one that never ran is an error of the request.
        return Json(told, 400 if code == "invalid_arguments" else STATUS.get(code, 200))

    # -- MCP servers --------------------------------------------------------------------------------

    async def list_servers(self, request: Request) -> Any:
        """The configured MCP servers, and what became of each when it was last tested here; starts none."""
        states = await self._app.servers.states()
        ignored = (await self._app.servers.list()).ignored
        return shown(self._app, {"servers": [self._server(s) for s in states], "ignored": list(ignored)})

    async def add_server(self, request: Request) -> Any:
        """Keep a server in the user's own file, as `pegboard mcp add` does; nothing is started."""
        body = await read_body(request, NewServer)
        row = {
            **({"url": body.url} if body.url else {"command": body.command, "args": body.args}),
            **({"type": body.transport} if body.transport else {}),
            **({"env": body.env} if body.env else {}), **({"headers": body.headers} if body.headers else {}),
        }  # fmt: skip
        _, replaced = await self._app.servers.add(body.name, row)
        self._tested.pop(body.name, None)
        return Json({"name": body.name, "replaced": replaced}, 200 if replaced else 201)

    async def remove_server(self, request: Request) -> Any:
        """Take a server out of the user's own file, with the approved definitions of its tools."""
        state = await self._find(request)
        await self._app.servers.remove(state.name)
        self._tested.pop(state.name, None)
        return {"name": state.name, "removed": True}

    async def test_server(self, request: Request) -> Any:
        """Start a server and say what it offers, and what of it differs from what was approved."""
        return await self._test(request, accept=False)

    async def accept_server(self, request: Request) -> Any:
        """Approve the definitions of a server's tools as they are now."""
        return await self._test(request, accept=True)

    async def _test(self, request: Request, *, accept: bool) -> Any:
        name = (await self._find(request)).name
        tested = (await self._app.servers.test(name, accept=accept))[0]
        # What was accepted has not changed any more.
        self._tested[name] = replace(tested, changed={}) if accept else tested
        state = await self._find(request)  # With the pins that it has now.
        return shown(self._app, self._server(state))

    async def _find(self, request: Request) -> ServerState:
        name = request.path_params["name"]
        try:
            return next(s for s in await self._app.servers.states() if s.name == name)
        except StopIteration:
            raise NotFound(f"no MCP server {name!r}", hint="See GET /api/servers.") from None

    def _server(self, state: ServerState) -> dict[str, Any]:
        tested = self._tested.get(state.name)
        changed: Mapping[str, str] = {} if tested is None else tested.changed
        status, error = "not started", state.fault
        if state.disabled:
            status = "disabled"
        elif state.fault:
            status = "failed"
        elif tested is not None:
            error = tested.error
            status = "failed" if error else "changed" if changed else "ok"
        return {
            "name": state.name, "status": status, "transport": state.transport, "runs": state.runs,
            "source": state.source, "tools": list(tested.tools) if tested is not None else [],
            "pinned": list(state.pinned), "changed": [{"tool": t, "diff": d} for t, d in changed.items()],
            "warnings": [*state.notes, *(tested.warnings if tested is not None else ())], "error": error,
            "protocol": "" if tested is None else tested.protocol,
        }  # fmt: skip
