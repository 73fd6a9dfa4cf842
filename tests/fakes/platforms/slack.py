"""Slack as its Web API and Socket Mode are documented (https://docs.slack.dev/apis), as far as the channel uses them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from html import unescape
from itertools import count
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pegboard.bus.slack import SlackChannel
from pegboard.ports.channel import ChatChannel
from tests.fakes.platforms.platform import Platform, Shown, http

TOKEN = "xoxb-1234567890-abcdefghijklmnop"
APP_TOKEN = "xapp-1-A012-345-abcdef"
_ME = "U0BOT"


class Slack(Platform):
    """Events go over the socket that was opened last; one that was not acknowledged goes over the next one again."""

    kind = "slack"
    chat = "D0ADA"
    sender = "U0ADA"
    group = "C0TEAM"
    thread = "1700000000.000100"
    us = "@pegboard"
    token = TOKEN
    keeps = True

    def __init__(self) -> None:
        super().__init__()
        self.envelopes: list[dict[str, Any]] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self._sent: set[str] = set()
        self._last: dict[str, Any] = {}
        self._ids = count(1)
        self._changed = asyncio.Event()
        self._sockets: list[WebSocket] = []

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/api/{method}", self._method, methods=["POST"]),
            Route("/upload/{id}", self._upload, methods=["POST"]),
            Route("/files/{id}", self._file),
            WebSocketRoute("/link", self._link),
        ]

    def channel(self, name: str = "c") -> ChatChannel:
        url = f"{self.url}/api"
        return SlackChannel(name, client=http(), token=lambda: TOKEN, app_token=lambda: APP_TOKEN, url=url)

    def options(self) -> dict[str, Any]:
        return {
            "kind": "slack", "token": "env:CHAT_TOKEN", "app_token": "env:CHAT_APP_TOKEN", "url": f"{self.url}/api"
        }  # fmt: skip

    def environment(self) -> dict[str, str]:
        return {"CHAT_TOKEN": TOKEN, "CHAT_APP_TOKEN": APP_TOKEN}

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
            number = next(self._ids)
            self._put({**self._last, "envelope_id": f"again-{number}", "retry_attempt": 1})
            return str(self._last["payload"]["event"]["ts"])
        where, number = chat or self.chat, next(self._ids)
        ts = f"1700000001.{number:06}"
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        event: dict[str, Any] = {
            "type": "message", "channel": where, "channel_type": "im" if where.startswith("D") else "channel",
            "user": sender or self.sender, "text": f"<@{_ME}> {escaped}" if mention else escaped, "ts": ts,
        }  # fmt: skip
        if thread:
            event["thread_ts"] = thread
        if files:
            event |= {"subtype": "file_share", "files": []}
            for name, kind, data in files:
                id = f"F{number}"
                self.files[id] = (name, data)
                event["files"].append(
                    {"id": id, "name": name, "mimetype": kind, "size": len(data),
                     "url_private_download": f"{self.url}/files/{id}"}
                )  # fmt: skip
        self._put(self._event(number, event))
        if mention:
            # Slack tells of a mention twice where the app subscribes to both events.
            self._put(self._event(next(self._ids), {**event, "type": "app_mention"}))
        return ts

    def _event(self, number: int, event: dict[str, Any]) -> dict[str, Any]:
        self._last = {
            "envelope_id": f"env-{number}", "type": "events_api", "accepts_response_payload": False,
            "payload": {"type": "event_callback", "event_id": f"Ev{number}", "event": event},
        }  # fmt: skip
        return self._last

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        number = next(self._ids)
        message: dict[str, Any] = {"ts": shown.id, "bot_id": "B0"}
        if shown.thread:
            message["thread_ts"] = shown.thread
        payload = {
            "type": "block_actions", "user": {"id": sender or self.sender, "name": "ada"},
            "channel": {"id": shown.chat}, "message": message,
            "actions": [{"type": "button", "action_id": "button_0", "value": value, "action_ts": f"9.{number}"}],
        }  # fmt: skip
        self._put({"envelope_id": f"env-{number}", "type": "interactive", "payload": payload})

    async def break_connection(self) -> None:
        for socket in self._sockets:
            await socket.close(1011)

    def _put(self, envelope: dict[str, Any]) -> None:
        self.envelopes.append(envelope)
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the API ------------------------------------------------------------------------------------

    async def _link(self, socket: WebSocket) -> None:
        await socket.accept()
        self.connections += 1
        self._sockets = [socket]
        await socket.send_json({"type": "hello", "num_connections": 1})
        sent: set[str] = set()

        async def send() -> None:
            while True:
                changed = self._changed
                for envelope in list(self.envelopes):
                    if envelope["envelope_id"] not in sent:
                        sent.add(envelope["envelope_id"])
                        await socket.send_json(envelope)
                await changed.wait()

        sending = asyncio.ensure_future(send())
        try:
            while True:
                acknowledged = json.loads(await socket.receive_text())["envelope_id"]
                self.envelopes = [e for e in self.envelopes if e["envelope_id"] != acknowledged]
        except WebSocketDisconnect:
            pass
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _method(self, request: Request) -> Response:
        method = request.path_params["method"]
        self.requests.append(method)
        token = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if request.headers["authorization"] != f"Bearer {token}" or self.wrong_token:
            return _no("invalid_auth")
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        async with request.form() as form:
            asked = {k: str(v) for k, v in form.items()}
        match method:
            case "auth.test":
                return _ok(user="pegboard", user_id=_ME, team="Team", bot_id="B0")
            case "apps.connections.open":
                return _ok(url=f"{self.url.replace('http', 'ws')}/link?ticket=1")
            case "files.getUploadURLExternal":
                id = f"F{next(self._ids)}"
                self.files[id] = (asked["filename"], b"")
                assert int(asked["length"]) > 0
                return _ok(file_id=id, upload_url=f"{self.url}/upload/{id}")
            case _:
                if (refused := self.refusal()) is not None:
                    return refused
                return self._change(method, asked)

    def _change(self, method: str, asked: dict[str, str]) -> Response:
        found = next((s for s in self.shown if s.id == asked.get("ts", asked.get("timestamp"))), None)
        match method:
            case "chat.postMessage":
                text, buttons = _read(asked)
                assert asked["unfurl_links"] == "false"
                one = Shown(
                    id=f"1700000002.{next(self._ids):06}", text=text, chat=asked["channel"], buttons=buttons,
                    thread=asked.get("thread_ts", ""), code=code_of(text),
                )  # fmt: skip
                self.shown.append(one)
                return _ok(ts=one.id, channel=one.chat)
            case "files.completeUploadExternal":
                files = [self.files[one["id"]] for one in json.loads(asked["files"])]
                text = unescape(asked.get("initial_comment", ""))
                self.shown.append(
                    Shown(id=f"1.{next(self._ids)}", text=text, files=files, chat=asked["channel_id"],
                          thread=asked.get("thread_ts", ""))
                )  # fmt: skip
                return _ok(files=[])
            case _ if found is None:
                return _no("message_not_found")
            case "chat.update":
                found.text, found.buttons = _read(asked)
                found.edits += 1
                return _ok(ts=found.id)
            case "chat.delete":
                self.shown.remove(found)
                return _ok(ts=found.id)
            case "reactions.add":
                found.reactions.append({"+1": "👍"}[asked["name"]])
                return _ok()
            case _:
                return _no("unknown_method")

    async def _upload(self, request: Request) -> Response:
        id = request.path_params["id"]
        self.files[id] = (self.files[id][0], await request.body())
        return Response(f"OK - {len(self.files[id][1])}")

    async def _file(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Response("<html>Sign in</html>", media_type="text/html")
        return Response(self.files[request.path_params["id"]][1], media_type="application/octet-stream")


def _read(asked: dict[str, str]) -> tuple[str, list[tuple[str, str]]]:
    text, buttons = "", []
    for block in json.loads(asked["blocks"]):
        if block["type"] == "markdown":
            assert 0 < len(block["text"]) <= 12_000
            text += block["text"]
        else:
            assert block["type"] == "actions"
            assert len({e["action_id"] for e in block["elements"]}) == len(block["elements"]) <= 25
            buttons += [(e["text"]["text"], e["value"]) for e in block["elements"]]
    return text, buttons


def code_of(text: str) -> list[str]:
    """The blocks of code of a Markdown text."""
    blocks: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside
            if inside:
                blocks.append("")
        elif inside:
            blocks[-1] += f"{line}\n"
    assert not inside
    return blocks


def _ok(**more: Any) -> Response:
    return JSONResponse({"ok": True, **more})


def _no(error: str) -> Response:
    return JSONResponse({"ok": False, "error": error})
