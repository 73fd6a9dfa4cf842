"""Feishu as its open platform documents it (https://open.feishu.cn/document), as far as the channel uses it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pegboard.app.app import App
from pegboard.bus.feishu import FeishuChannel
from pegboard.bus.feishu_frames import Frame, decode, encode
from pegboard.ports.channel import ChatChannel
from tests.fakes.platforms.platform import Platform, Shown, form_of, http, serving
from tests.fakes.platforms.served import Served
from tests.fakes.platforms.slack import code_of

APP, SECRET = "cli_a1b2c3", "a-secret-of-the-app"
KEY, TOKEN = "an encrypt key", "a-verification-token"
_ME = "ou_pegboard"


class Feishu(Served):
    """Events are posted, encrypted and signed."""

    kind = "feishu"
    chat, group = "oc_ada", "oc_team"
    thread = "om_root"
    sender = "ou_ada"
    us = "Pegboard"
    token = SECRET
    limits = True
    captions = False

    def __init__(self) -> None:
        super().__init__()
        self.connections = 1
        self.tokens = 0
        """How many tokens were given; only the last one is valid."""
        self.wrong_cards = 0
        """So many cards with Markdown are refused."""
        self.files: dict[str, tuple[str, bytes]] = {}
        self.threads = {self.thread: self.thread}
        self.presses: dict[tuple[str, str], dict[str, Any]] = {}
        self._done: dict[str, str] = {}
        self._last: dict[str, Any] = {}
        self._channel: FeishuChannel | None = None

    def routes(self) -> Sequence[BaseRoute]:
        im = "/open-apis/im/v1"
        return [
            Route("/open-apis/auth/v3/tenant_access_token/internal", self._give_token, methods=["POST"]),
            Route("/open-apis/bot/v3/info", self._bot),
            Route(f"{im}/messages", self._create, methods=["POST"]),
            Route(f"{im}/messages/{{id}}/reply", self._create, methods=["POST"]),
            Route(f"{im}/messages/{{id}}/reactions", self._react, methods=["POST"]),
            Route(f"{im}/messages/{{id}}/resources/{{key}}", self._resource),
            Route(f"{im}/messages/{{id}}", self._change, methods=["PATCH", "DELETE"]),
            Route(f"{im}/images", self._upload, methods=["POST"]),
            Route(f"{im}/files", self._upload, methods=["POST"]),
            Route(f"{im}/chats/{{id}}", self._chat),
            Route("/api/channels/c/messages", self._take, methods=["POST"]),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with serving([*self.routes()]) as self.url:
            self.gateway = self.url
            yield

    def channel(self, name: str = "c") -> ChatChannel:
        self._channel = FeishuChannel(
            name, client=http(), app_id=APP, app_secret=lambda: SECRET, encrypt_key=lambda: KEY,
            verification_token=lambda: TOKEN, url=self.url,
        )  # fmt: skip
        return self._channel

    def options(self) -> dict[str, Any]:
        return {
            "kind": "feishu", "app_id": APP, "app_secret": "env:CHAT_TOKEN", "encrypt_key": "env:CHAT_KEY",
            "verification_token": "env:CHAT_VERIFICATION", "url": self.url,
        }  # fmt: skip

    def environment(self) -> dict[str, str]:
        return {"CHAT_TOKEN": SECRET, "CHAT_KEY": KEY, "CHAT_VERIFICATION": TOKEN}

    # -- people -----------------------------------------------------------------------------------

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
        if again:
            await self.post(self._last)
            return str(self._last["event"]["message"]["message_id"])
        number, where = next(self.ids), chat or self.chat
        message: dict[str, Any] = {
            "message_id": f"om_{number}", "chat_id": where, "create_time": str(int(time.time() * 1000)),
            "chat_type": "group" if where == self.group else "p2p", "message_type": "text",
            "content": json.dumps({"text": f"@_user_1 {text}" if mention else text}),
        }  # fmt: skip
        if mention:
            message["mentions"] = [{"key": "@_user_1", "id": {"open_id": _ME}, "name": "Pegboard"}]
        if thread:
            message |= {"thread_id": "omt_1", "root_id": thread, "parent_id": thread}
            self.threads[message["message_id"]] = thread
        for name, _, data in files:
            self.files[f"file_{number}"] = (name, data)
            content = {"file_key": f"file_{number}", "file_name": name}
            message |= {"message_type": "file", "content": json.dumps(content)}
        author = {"sender_id": {"open_id": sender or self.sender}, "sender_type": "user"}
        await self.post(self.event("im.message.receive_v1", {"sender": author, "message": message}))
        return str(message["message_id"])

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        event = {
            "operator": {"open_id": sender or self.sender}, "host": "im_message",
            "action": {"tag": "button", "value": self.presses[shown.id, value]},
            "context": {"open_message_id": shown.id, "open_chat_id": shown.chat},
        }  # fmt: skip
        await self.post(self.event("card.action.trigger", event))

    def event(self, type: str, event: dict[str, Any]) -> dict[str, Any]:
        header = {
            "event_id": f"ev_{next(self.ids)}", "event_type": type, "create_time": str(int(time.time() * 1000)),
            "token": TOKEN, "app_id": APP,
        }  # fmt: skip
        self._last = {"schema": "2.0", "header": header, "event": event}
        return self._last

    async def break_connection(self) -> None:
        self.connections += 1

    async def post(self, event: dict[str, Any]) -> None:
        """Post an event until it is taken."""
        body, headers = sealed(event)
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            url = f"{self.gateway}/api/channels/c/messages"
            for _ in range(300):
                reply = await client.post(url, content=body, headers=headers)
                if reply.status_code == 200:
                    assert reply.json() == {}
                    return
                await asyncio.sleep(0.1)
            raise AssertionError("the event was not taken")

    async def _take(self, request: Request) -> Response:
        assert self._channel is not None
        return JSONResponse(await self._channel.take(request.headers, await request.body()))

    # -- the API ------------------------------------------------------------------------------------

    async def _give_token(self, request: Request) -> Response:
        asked = await request.json()
        if asked != {"app_id": APP, "app_secret": SECRET} or self.wrong_token:
            return JSONResponse({"code": 10014, "msg": "app secret invalid"})
        self.tokens += 1
        token = f"t-{self.tokens}"
        return JSONResponse({"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200})

    def _refused(self, request: Request) -> Response | None:
        if request.headers["authorization"] != f"Bearer t-{self.tokens}" or self.wrong_token:
            return _no(400, 99991663, "Invalid access token for authorization.")
        return None

    async def _bot(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        return JSONResponse({"code": 0, "msg": "ok", "bot": {"app_name": "Pegboard", "open_id": _ME}})

    async def _create(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        self.requests.append("send")
        if self.refuse:
            status, wait_s = self.refuse.pop(0)
            headers = {"x-ogw-ratelimit-reset": f"{wait_s:g}"} if wait_s else {}
            return _no(status, 99991400, "request trigger frequency limit", headers)
        body = await request.body()
        asked, under = json.loads(body), request.path_params.get("id", "")
        assert 0 < len(asked["uuid"]) <= 50
        if asked["msg_type"] == "interactive" and len(body) > 30 << 10:
            return _no(400, 230025, "The length of the message content reaches its limit.")
        if asked["uuid"] not in self._done:
            one = Shown(id=f"om_{next(self.ids)}", chat=asked.get("receive_id", ""))
            if under:
                one.chat = self.group if under in self.threads else self.chat
                if asked["reply_in_thread"]:
                    one.thread = self.threads[str(under)]
                else:
                    one.reply_to = under
            else:
                assert request.query_params["receive_id_type"] == "chat_id"
            if (refused := self._show(one, asked["msg_type"], json.loads(asked["content"]))) is not None:
                return refused
            self.shown.append(one)
            self._done[asked["uuid"]] = one.id
        return _ok({"message_id": self._done[asked["uuid"]]})

    def _show(self, one: Shown, kind: str, content: dict[str, Any]) -> Response | None:
        if kind == "file":
            one.files = [self.files[content["file_key"]]]
            return None
        assert (kind, content["schema"], content["config"]["update_multi"]) == ("interactive", "2.0", True)
        text, files, buttons = "", list[tuple[str, bytes]](), list[tuple[str, str]]()
        for element in content["body"]["elements"]:
            match element["tag"]:
                case "markdown":
                    if self.wrong_cards:
                        self.wrong_cards -= 1
                        said = "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit"
                        return _no(400, 230099, said)
                    assert "<at" not in element["content"]
                    text += element["content"].replace("&#60;", "<")
                case "div":
                    text += element["text"]["content"]
                case "img":
                    files.append(self.files[element["img_key"]])
                case "button":
                    (behavior,) = element["behaviors"]
                    assert behavior["type"] == "callback"
                    value = behavior["value"]
                    buttons.append((element["text"]["content"], value["value"]))
                    self.presses[one.id, value["value"]] = value
                case other:
                    raise AssertionError(other)
        one.text, one.files, one.buttons, one.code = text, files, buttons, code_of(text)
        return None

    async def _change(self, request: Request) -> Response:
        found = next((s for s in self.shown if s.id == request.path_params["id"]), None)
        if found is None:
            return _no(400, 230011, "The message is recalled.")
        if request.method == "DELETE":
            self.shown.remove(found)
            return _ok({})
        found.edits += 1
        return self._show(found, "interactive", json.loads((await request.json())["content"])) or _ok({})

    async def _react(self, request: Request) -> Response:
        (found,) = [s for s in self.shown if s.id == request.path_params["id"]]
        emoji = (await request.json())["reaction_type"]["emoji_type"]
        found.reactions.append({"THUMBSUP": "👍"}.get(emoji, emoji))
        return _ok({"reaction_id": "r1"})

    async def _upload(self, request: Request) -> Response:
        fields, files = await form_of(request)
        image = "image" in files
        assert fields == (
            {"image_type": "message"}
            if image
            else {"file_type": "stream", "file_name": fields.get("file_name", "")}
        )
        kind = "image" if image else "file"
        key = f"{kind}_{next(self.ids)}"
        self.files[key] = files[kind]
        return _ok({f"{kind}_key": key})

    async def _resource(self, request: Request) -> Response:
        assert request.query_params["type"] == "file"
        return Response(self.files[request.path_params["key"]][1], media_type="application/octet-stream")

    async def _chat(self, request: Request) -> Response:
        return _ok({"chat_mode": "group" if request.path_params["id"] == self.group else "p2p"})


class FeishuLong(Feishu):
    """Events go over a long connection; one that is not answered goes over the next one again."""

    connects = acknowledges = keeps = True

    def __init__(self) -> None:
        super().__init__()
        self.connections = 0
        self.pings = 0
        self.events: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self._sockets: list[WebSocket] = []

    def routes(self) -> Sequence[BaseRoute]:
        ways = [
            Route("/callback/ws/endpoint", self._endpoint, methods=["POST"]),
            WebSocketRoute("/link", self._link),
        ]
        return [*super().routes(), *ways]

    def channel(self, name: str = "c") -> ChatChannel:
        return FeishuChannel(name, client=http(), app_id=APP, app_secret=lambda: SECRET, url=self.url)

    def options(self) -> dict[str, Any]:
        return {"kind": "feishu", "app_id": APP, "app_secret": "env:CHAT_TOKEN", "url": self.url}

    def serving(
        self, app: App, notify: Callable[[str], None], *, model: str
    ) -> AbstractAsyncContextManager[None]:
        return Platform.serving(self, app, notify, model=model)

    async def post(self, event: dict[str, Any]) -> None:
        self.events.append(dict(event))
        self._changed.set()
        self._changed = asyncio.Event()

    async def break_connection(self) -> None:
        for socket in self._sockets:
            await socket.close(1011)

    async def _endpoint(self, request: Request) -> Response:
        assert await request.json() == {"AppID": APP, "AppSecret": SECRET}
        url = f"{self.url.replace('http', 'ws')}/link?device_id=1&service_id=33"
        return JSONResponse({"code": 0, "data": {"URL": url, "ClientConfig": {"PingInterval": 120}}})

    async def _link(self, socket: WebSocket) -> None:
        await socket.accept()
        self.connections += 1
        self._sockets = [socket]
        sending = asyncio.ensure_future(self._send(socket))
        try:
            while True:
                frame = decode(await socket.receive_bytes())
                assert frame.service == 33
                if frame.method == 0:
                    self.pings += 1
                    continue
                assert json.loads(frame.payload) == {"code": 200}
                self.events = [
                    e for e in self.events if e["header"]["event_id"] != frame.headers["message_id"]
                ]
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: WebSocket) -> None:
        """Each event in two frames."""
        sent: list[dict[str, Any]] = []
        while True:
            changed = self._changed
            for event in [e for e in self.events if not any(e is s for s in sent)]:
                sent.append(event)
                data = json.dumps(event).encode()
                for n, part in enumerate((data[:50], data[50:])):
                    headers = {
                        "type": "event", "message_id": event["header"]["event_id"], "sum": "2", "seq": str(n)
                    }  # fmt: skip
                    await socket.send_bytes(
                        encode(Frame(sequence=7, log=1 << 40, service=33, headers=headers, payload=part))
                    )
            await changed.wait()


def sealed(event: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """An event as it is posted, and the headers that sign it."""
    padder, iv = PKCS7(128).padder(), os.urandom(16)
    plain = padder.update(json.dumps(event).encode()) + padder.finalize()
    cipher = Cipher(AES(hashlib.sha256(KEY.encode()).digest()), CBC(iv)).encryptor()
    encrypted = base64.b64encode(iv + cipher.update(plain) + cipher.finalize()).decode()
    body = json.dumps({"encrypt": encrypted}).encode()
    at, nonce = str(int(time.time())), "a-nonce"
    signature = hashlib.sha256(f"{at}{nonce}{KEY}".encode() + body).hexdigest()
    return body, {
        "content-type": "application/json", "x-lark-request-timestamp": at, "x-lark-request-nonce": nonce,
        "x-lark-signature": signature,
    }  # fmt: skip


def _ok(data: dict[str, Any]) -> Response:
    return JSONResponse({"code": 0, "msg": "success", "data": data})


def _no(status: int, code: int, said: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"code": code, "msg": said}, status, headers)
