"""Channels that people reach through the gateway: WebSocket clients, and a service that posts signed webhooks."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from pegboard.app.app import App
from pegboard.bus.webhook import WebhookChannel
from pegboard.bus.websocket import WebSocketChannel
from pegboard.gateway.channels import SocketClient
from pegboard.gateway.server import Gateway
from pegboard.ports.channel import ChatChannel
from tests.fakes.platforms.platform import Platform, Shown, http, serving
from tests.fakes.platforms.slack import code_of
from tests.waiting import soon

_TOKEN = "the-token-of-ada-at-the-gateway"


class Served(Platform):
    """Reached at `gateway`: that of an App, or for a channel alone a server that hands over as the gateway does."""

    limits = acknowledges = connects = False

    def __init__(self) -> None:
        super().__init__()
        self.gateway = ""
        self.ids = count(1)

    @asynccontextmanager
    async def serving(self, app: App, notify: Callable[[str], None], *, model: str) -> AsyncGenerator[None]:
        gateway = Gateway(app, notify, model=model)
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(
            gateway.serve(
                host="127.0.0.1", port=0, tokens={"ada": _TOKEN}, on_start=port.set_result, drain_s=1
            )
        )
        try:
            await asyncio.wait([port, task], return_when=asyncio.FIRST_COMPLETED)
            self.gateway = f"http://127.0.0.1:{port.result()}"
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class WebSocketClients(Served):
    """One client, which connects again whenever it can."""

    kind = "websocket"
    chat = sender = "ada"
    us = "c"

    def __init__(self) -> None:
        super().__init__()
        self._channel: WebSocketChannel | None = None
        self._client: ClientConnection | None = None
        self._last = ""
        self._taken: set[str] = set()

    def channel(self, name: str = "c") -> ChatChannel:
        self._channel = WebSocketChannel(name)
        return self._channel

    def options(self) -> dict[str, Any]:
        return {"kind": "websocket"}

    def routes(self) -> Sequence[BaseRoute]:
        return [WebSocketRoute("/api/channels/c/chat", self._chat)]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with serving([*self.routes()]) as self.gateway, self.people():
            yield

    async def _chat(self, socket: WebSocket) -> None:
        if self._channel is None or not self._channel.delivers_here:
            await socket.close(1013)
            return
        await socket.accept()
        await self._channel.converse(SocketClient(socket), chat=self.chat, sender=self.sender)

    @asynccontextmanager
    async def people(self) -> AsyncGenerator[None]:
        task = asyncio.ensure_future(self._keep_connected())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def ready(self) -> None:
        await soon(lambda: self._client is not None, "the client is connected")

    async def _keep_connected(self) -> None:
        headers = {"Authorization": f"Bearer {_TOKEN}"}
        while True:
            url = f"{self.gateway.replace('http', 'ws')}/api/channels/c/chat"
            try:
                async with connect(url, additional_headers=headers, proxy=None, max_size=None) as client:
                    async for text in client:
                        self._see(json.loads(text), client)
            except (OSError, WebSocketException):
                pass
            self._client = None
            await asyncio.sleep(0.01)

    def _see(self, frame: dict[str, Any], client: ClientConnection) -> None:
        found = next((s for s in self.shown if s.id == frame.get("id")), None)
        buttons = [(b["text"], b["value"]) for b in frame.get("buttons", [])]
        match frame["type"]:
            case "ready":
                self._client = client
                self.connections += 1
            case "taken":
                self._taken.add(frame["id"])
            case "message" if found is None:
                text = frame.get("text") or frame.get("caption", "")
                files = [(f["name"], base64.b64decode(f["data"])) for f in frame.get("files", [])]
                self.shown.append(
                    Shown(id=frame["id"], text=text, files=files, chat=self.chat, thread=frame.get("thread", ""),
                          reply_to=frame.get("reply_to", ""), buttons=buttons, code=code_of(text))
                )  # fmt: skip
            case "edit" if found is not None:
                found.text, found.buttons, found.edits = frame["text"], buttons, found.edits + 1
            case "delete" if found is not None:
                self.shown.remove(found)
            case "react" if found is not None:
                found.reactions.append(frame["text"])
            case "error":
                raise AssertionError(frame["message"])
            case _:
                pass

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        sender: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, str, bytes]] = (),
        again: bool = False,
    ) -> str:
        id = f"m{next(self.ids)}"
        frame = {
            "type": "message", "id": id, "text": text, "thread": thread,
            "files": [{"name": n, "media_type": k, "data": base64.b64encode(d).decode()} for n, k, d in files],
        }  # fmt: skip
        self._last = self._last if again else json.dumps(frame)
        await self._send(self._last)
        return id

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        await self._send(
            json.dumps({"type": "press", "id": f"m{next(self.ids)}", "message": shown.id, "value": value})
        )

    async def break_connection(self) -> None:
        client, self._client = self._client, None
        assert client is not None
        await client.close()

    async def _send(self, text: str) -> None:
        await self.ready()
        assert self._client is not None
        await self._client.send(text)


class WebhookService(Served):
    """A service that posts what its people write, and is posted what they are to see."""

    kind = "webhook"
    chat, group, thread = "room-1", "group:2", "t-1"
    sender = "ada"
    us = "127.0.0.1"
    token = "whsec_" + base64.b64encode(b"a key of thirty-two bytes or more").decode()
    limits = True

    def __init__(self) -> None:
        super().__init__()
        self._channel: WebhookChannel | None = None
        self._last: tuple[str, bytes] = ("", b"")
        self.connections = 1

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/hook", self._posted, methods=["POST"]),
            Route("/api/channels/c/messages", self._take, methods=["POST"]),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with serving([*self.routes()]) as self.url:
            self.gateway = self.url
            yield

    def channel(self, name: str = "c") -> ChatChannel:
        self._channel = WebhookChannel(
            name,
            client=http().opening(self.url),
            url=f"{self.url}/hook",
            secret=lambda: self.token,
            receive=True,
        )
        return self._channel

    def options(self) -> dict[str, Any]:
        return {"kind": "webhook", "url": f"{self.url}/hook", "secret": "env:CHAT_TOKEN", "receive": True}

    async def _take(self, request: Request) -> Response:
        assert self._channel is not None
        await self._channel.take(request.headers, await request.body())
        return Response(status_code=202)

    async def _posted(self, request: Request) -> Response:
        if (refused := self.refusal()) is not None:
            return refused
        body = await request.body()
        assert request.headers["webhook-signature"] == self._signature(
            request.headers["webhook-id"], request.headers["webhook-timestamp"], body
        )
        frame = json.loads(body)
        found = next((s for s in self.shown if s.id == frame.get("target_id", frame["id"])), None)
        buttons = [(b["text"], b["value"]) for b in frame.get("buttons", [])]
        text = frame.get("content") or frame.get("caption", "")
        match frame["action"]:
            case "send" if found is None:
                files = [(f["name"], base64.b64decode(f["data"])) for f in frame.get("media", [])]
                self.shown.append(
                    Shown(id=frame["id"], text=text, files=files, chat=frame["chat_id"],
                          thread=frame.get("thread_id", ""), reply_to=frame.get("reply_to", ""), buttons=buttons,
                          code=code_of(text))
                )  # fmt: skip
            case "edit" if found is not None:
                found.text, found.buttons, found.edits = text, buttons, found.edits + 1
            case "delete" if found is not None:
                self.shown.remove(found)
            case "react" if found is not None:
                found.reactions.append(text)
            case _:
                pass
        return JSONResponse({"id": frame.get("target_id", frame["id"])})

    def _signature(self, id: str, at: str, body: bytes) -> str:
        key = base64.b64decode(self.token.removeprefix("whsec_"))
        digest = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        return f"v1,{base64.b64encode(digest).decode()}"

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        sender: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, str, bytes]] = (),
        again: bool = False,
    ) -> str:
        id = f"m{next(self.ids)}"
        where = chat or self.chat
        message = {
            "chat_id": where, "sender_id": sender or self.sender, "sender_name": "Ada", "content": text,
            "thread_id": thread, "message_id": id, "kind": "group" if where == self.group else "user",
            "files": [{"name": n, "media_type": k, "data": base64.b64encode(d).decode()} for n, k, d in files],
            **({"mentioned": mention} if where == self.group else {}),
        }  # fmt: skip
        self._last = self._last if again else (f"msg_{id}", json.dumps(message).encode())
        await self._post(*self._last)
        return id

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        message = {
            "chat_id": shown.chat, "sender_id": sender or self.sender, "message_id": shown.id, "pressed": value,
            "thread_id": shown.thread, "sender_name": "Ada",
        }  # fmt: skip
        await self._post(f"msg_p{next(self.ids)}", json.dumps(message).encode())

    async def break_connection(self) -> None:
        self.connections += 1

    async def _post(self, id: str, body: bytes) -> None:
        at = str(int(time.time()))
        headers = {
            "webhook-id": id, "webhook-timestamp": at, "webhook-signature": self._signature(id, at, body),
            "content-type": "application/json",
        }  # fmt: skip
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            url = f"{self.gateway}/api/channels/c/messages"
            for _ in range(300):
                reply = await client.post(url, content=body, headers=headers)
                if reply.status_code == 202:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(f"{reply.status_code} {reply.text}")
