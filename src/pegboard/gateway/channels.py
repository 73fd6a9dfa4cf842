"""Channels at the gateway: the list, messages that are posted to webhooks, and chats over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Protocol, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pegboard.bus.websocket import WebSocketChannel
from pegboard.core.errors import NotFound, ToolError, Unavailable
from pegboard.gateway.access import caller
from pegboard.gateway.openapi import Endpoint
from pegboard.services.channels import Channels

PATH: Final = "/api/channels"
MAX_BYTES: Final = 32 << 20
"""Bytes of a message that is posted: files of 20 MB in base64."""
_CHAT: Final = 60
"""Characters of the name that a client gives its chat."""


class Posted(Protocol):
    """A channel at the gateway to which its platform posts."""

    async def take(self, headers: Mapping[str, str], body: bytes) -> Mapping[str, Any] | None:
        """Take what was posted, once it is proved who posted it; the JSON object to answer, None = nothing.

        Raises:
            PermissionDenied: it is not proved.
            InvalidArguments: it is not valid.
            Unavailable: nothing is received in this process now.
        """
        ...


class ChannelEndpoints:
    """What people reach channels by.

    Args:
        channels: those that this process receives on.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        found = channels.chat_channels
        self._posted = {
            name: cast(Posted, c)
            for name, c in found.items()
            if hasattr(c, "take") and getattr(c, "at_gateway", False)
        }
        self._sockets = {name: c for name, c in found.items() if isinstance(c, WebSocketChannel)}

    @property
    def endpoints(self) -> list[Endpoint]:
        """Over HTTP."""
        hooks = [
            Endpoint(method="POST", path=f"{PATH}/{name}/messages", handler=self.post, public=True)
            for name in self._posted
        ]
        return [Endpoint(method="GET", path=PATH, handler=self.list), *hooks]

    @property
    def routes(self) -> list[BaseRoute]:
        """Over WebSockets."""
        return [WebSocketRoute(f"{PATH}/{name}/chat", self.chat) for name in self._sockets]

    async def list(self, request: Request) -> Any:
        """The channels, and how they do."""
        return {"channels": [row.to_dict() for row in await self._channels.list()]}

    async def post(self, request: Request) -> Any:
        """Take what a platform posts; each kind of channel says what proves it."""
        name = request.url.path.split("/")[-2]
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                raise HTTPException(413, f"the body is larger than {MAX_BYTES} bytes")
        try:
            answer = await self._posted[name].take(request.headers, bytes(body))
        except Unavailable as error:
            raise HTTPException(503, error.message, {"Retry-After": "5"}) from None
        return Response(status_code=202) if answer is None else dict(answer)

    async def chat(self, socket: WebSocket) -> None:
        """Talk to a client until it is gone; `?chat=NAME` names one of several chats of its owner."""
        name = socket.url.path.split("/")[-2]
        who = caller(socket)
        chat = socket.query_params.get("chat", "")
        if not who.may("talk") or len(chat) > _CHAT or not chat.isprintable():
            await socket.close(1008, f"{who.name or 'nobody'} may not talk here")
            return
        await socket.accept()
        try:
            await self._sockets[name].converse(
                SocketClient(socket),
                chat=f"{who.name}.{chat}" if chat else who.name,
                sender=who.name,
                role=who.role,
            )
        except WebSocketDisconnect:
            pass
        except (ToolError, NotFound) as error:
            await socket.close(1013, error.message)


class SocketClient:
    """A connection as the channel takes it."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, text: str) -> None:
        """See Client."""
        try:
            await self._socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):
            raise OSError("the client is gone") from None

    async def __aiter__(self) -> AsyncIterator[str]:
        """See Client."""
        while True:
            event = await self._socket.receive()
            if event["type"] == "websocket.disconnect":
                return
            yield cast(str, event.get("text") or "")
