"""Nodes at the gateway: their WebSocket, and the page that makes a phone's browser one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from pegboard.app.app import App
from pegboard.core.errors import InvalidArguments, PegboardError, ToolError, Unavailable
from pegboard.core.policy.approval import Approved, Refused
from pegboard.net import node_protocol as protocol
from pegboard.net.node_protocol import Key, message, read_message, text_field, texts_field
from pegboard.ports.nodes import CAPABILITIES, KINDS, Node
from pegboard.services.node_link import NodeLink
from pegboard.store.encoding import without_secrets

MAX_UNPAIRED: Final = 16
"""Connections that have not been approved yet, at once."""
HELLO_S: Final = 10.0
PAIR_S: Final = 600.0
_LOOK_S: Final = 0.5
_MAX_HELLO: Final = 8192
_REFUSED: Final = 4403

_PAGE_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
CANVAS_CSP: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; font-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""Of what is presented: it runs scripts without an origin, loads nothing and sends nothing."""
_FILES: Final = {
    "/node": ("node.html", "text/html", _PAGE_CSP),
    "/node/node.js": ("node.js", "text/javascript", _PAGE_CSP),
    "/node/node.css": ("node.css", "text/css", _PAGE_CSP),
    "/node/canvas": ("canvas.html", "text/html", CANVAS_CSP),
}


class NodeEndpoint:
    """The WebSocket `/api/node` and the page `/node`.

    Args:
        app: whose nodes and approvals they are.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._nodes = app.nodes
        self._unpaired = 0

    @property
    def routes(self) -> list[BaseRoute]:
        """All need no token: a node proves its key, and the page holds no data."""
        pages = [Route(path, self._page, methods=["GET"]) for path in _FILES]
        return [WebSocketRoute(protocol.PATH, self.connect), *pages]

    @property
    def paths(self) -> set[str]:
        """The paths of the routes."""
        return {protocol.PATH, *_FILES}

    async def _page(self, request: Request) -> Response:
        name, kind, csp = _FILES[request.url.path]
        body = resources.files("pegboard.gateway").joinpath("pages", name).read_bytes()
        headers = {
            "Content-Security-Policy": csp, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache",
            "Referrer-Policy": "no-referrer", "X-DNS-Prefetch-Control": "off",
            "Permissions-Policy": "camera=(self), geolocation=(self)" if kind == "text/html" else "",
        }  # fmt: skip
        return Response(body, media_type=kind, headers={k: v for k, v in headers.items() if v})

    async def connect(self, socket: WebSocket) -> None:
        """Serve one node until it is gone."""
        await socket.accept()
        try:
            node = await self._introduced(socket)
            await self._serve(socket, node)
        except WebSocketDisconnect:
            pass
        except ToolError as error:
            with suppress(Exception):
                await _refuse(socket, error)
        except PegboardError as error:
            with suppress(Exception):
                await _refuse(socket, Unavailable(str(error)))

    # -- handshake ------------------------------------------------------------------------------------

    async def _introduced(self, socket: WebSocket) -> Node:
        """The node at the other end, once it has proved its key and a person has approved it.

        Raises:
            WebSocketDisconnect: it went away.
            ToolError: it is refused.
        """
        if self._unpaired >= MAX_UNPAIRED:
            raise Unavailable(f"{MAX_UNPAIRED} nodes are connecting already", hint="Try again later.")
        self._unpaired += 1
        try:
            key = Key(await asyncio.to_thread(self._app.paths.gateway_key))
            nonce = protocol.new_nonce()
            await socket.send_text(
                message("challenge", protocol=protocol.PROTOCOL, key=key.public, nonce=nonce)
            )
            try:
                async with asyncio.timeout(HELLO_S):
                    hello = await _receive(socket, most=_MAX_HELLO)
            except TimeoutError:
                raise Unavailable(f"no hello came within {HELLO_S:g} s") from None
            declared, proof = _declared(hello, key.public, nonce)
            node = await self._approved(socket, declared)
            signature = key.sign(protocol.signed_text("gateway", **proof))
            await socket.send_text(
                message("welcome", name=node.name, signature=signature, capabilities=list(node.offers or ()))
            )
            return node
        finally:
            self._unpaired -= 1

    async def _approved(self, socket: WebSocket, declared: Node) -> Node:
        if (node := await self._nodes.admit(declared)) is not None:
            return node
        code = await self._nodes.request_pairing(declared)
        await socket.send_text(message("pair", code=code, expires_s=PAIR_S))
        gone = asyncio.ensure_future(socket.receive())
        try:
            async with asyncio.timeout(PAIR_S):
                while node is None:
                    await asyncio.wait([gone], timeout=_LOOK_S)
                    if gone.done():
                        # It went away, or speaks before it is welcome.
                        raise WebSocketDisconnect(1000)
                    node = await self._nodes.admit(declared)
                return node
        except TimeoutError:
            raise Unavailable("nobody approved the code in time", hint="Connect again for another.") from None
        finally:
            gone.cancel()

    # -- while it is connected -------------------------------------------------------------------------

    async def _serve(self, socket: WebSocket, node: Node) -> None:
        sending = asyncio.Lock()

        async def send(text: str) -> None:
            async with sending:
                if socket.application_state is not WebSocketState.CONNECTED:
                    raise Unavailable(f"{node.name} is not connected")
                await socket.send_text(text)

        link = NodeLink(node, send)
        reader = asyncio.ensure_future(self._read(socket, link))

        def close() -> None:
            reader.cancel()

        link.close = close
        tasks = [reader]
        if "approve" in (node.offers or ()):
            tasks.append(asyncio.ensure_future(self._show_approvals(link)))
        try:
            await self._nodes.connect(link)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._nodes.disconnect(link)
            with suppress(Exception):
                await socket.close()

    async def _read(self, socket: WebSocket, link: NodeLink) -> None:
        while True:
            received = await _receive(socket)
            match received["type"]:
                case "result" | "error":
                    link.on_answer(received)
                case "answer" if "approve" in (link.node.offers or ()):
                    await self._answer(link, received)
                case _:
                    pass  # Of a later version.

    async def _show_approvals(self, link: NodeLink) -> None:
        """Send what waits for a person, and again whenever it has changed."""
        shown: object = None
        while True:
            pending = [c.to_dict() for c in await self._app.approvals.pending() if not c.answer]
            if pending != shown:
                shown = pending
                redacted = without_secrets({"approvals": pending}, self._app.redactor.redact)
                await link.send(message("approvals", **redacted))
            await asyncio.sleep(2 * _LOOK_S)

    async def _answer(self, link: NodeLink, received: Mapping[str, Any]) -> None:
        key, by = text_field(received, "approval"), f"node:{link.node.name}"
        call = next((c for c in await self._app.approvals.pending() if c.key == key and not c.answer), None)
        decision, text = received.get("decision"), text_field(received, "reason", most=4000)
        try:
            if call is None:
                raise InvalidArguments("it was answered or has expired")
            if call.kind == "approval":
                if decision not in ("allow", "deny"):
                    raise InvalidArguments("send decision, allow or deny")
                given = Approved(by=by) if decision == "allow" else Refused(text, by=by)
            else:
                given = text
            await self._app.approvals.answer(key, given)
        except PegboardError as error:
            await link.send(message("answered", approval=key, error=str(error)))
        else:
            await link.send(message("answered", approval=key, error=""))


def _declared(hello: Mapping[str, Any], gateway_key: str, gateway_nonce: str) -> tuple[Node, dict[str, str]]:
    """What a node says of itself, and what both ends sign.

    Raises:
        InvalidArguments: it cannot be read.
        Unavailable: it speaks another version.
    """
    if hello["type"] != "hello":
        raise InvalidArguments("the first message of a node is hello")
    if hello.get("protocol") != protocol.PROTOCOL:
        raise Unavailable(
            f"this gateway speaks version {protocol.PROTOCOL} of the node protocol, not {hello.get('protocol')!r:.20}",
            hint="Use the same version of Pegboard on both machines.",
        )
    name, kind, key = (text_field(hello, field) for field in ("name", "kind", "key"))
    if not protocol.NAME.fullmatch(name) or kind not in KINDS:
        raise InvalidArguments(
            f"{name[:80]!r} cannot be the name of a {kind[:20]} node",
            hint="Use up to 32 of a-z, 0-9 and -, beginning with a letter.",
        )
    proof = {
        "gateway_key": gateway_key, "gateway_nonce": gateway_nonce, "node_key": key,
        "node_nonce": text_field(hello, "nonce"),
    }  # fmt: skip
    if not protocol.verifies(key, text_field(hello, "signature"), protocol.signed_text("node", **proof)):
        raise InvalidArguments("the signature of hello is wrong")
    # Shown to models, so it is not free text.
    platform = re.sub(r"[^\w .()/;:-]", "", text_field(hello, "platform", most=200))[:60]
    return Node(
        name=name, kind=kind, key=key, platform=platform,
        capabilities=texts_field(hello, "capabilities", CAPABILITIES),
    ), proof  # fmt: skip


async def _receive(socket: WebSocket, *, most: int = protocol.MAX_MESSAGE) -> dict[str, Any]:
    text = await socket.receive_text()
    if len(text) > most:
        raise InvalidArguments(f"a message of {len(text):,} characters is too long")
    return read_message(text)


async def _refuse(socket: WebSocket, error: ToolError) -> None:
    await socket.send_text(message("refused", code=error.code, message=error.message, hint=error.hint))
    await socket.close(_REFUSED)
