"""Telegram as its Bot API is documented (https://core.telegram.org/bots/api), as far as the channel uses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import count
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pegboard.bus.telegram import TelegramChannel
from pegboard.ports.channel import ChatChannel
from tests.fakes.platforms.platform import Platform, Shown, form_of, http

TOKEN = "123456:AAE-a-token-of-telegram"
_ME = {"id": 42, "is_bot": True, "first_name": "Pegboard", "username": "peg_bot"}
_FIELDS = ("photo", "document", "video", "audio")


class Telegram(Platform):
    """Long polling: updates are kept until a later offset confirms them."""

    kind = "telegram"
    chat = sender = "1001"
    group = "-100200300"
    thread = "77"
    us = "@peg_bot"
    token = TOKEN
    keeps = True

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.answered: list[str] = []
        self._last: dict[str, Any] = {}
        self._again: list[dict[str, Any]] = []
        self._ids = count(500)
        self._changed = asyncio.Event()
        self._broken = asyncio.Event()

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/bot{token}/{method}", self._method, methods=["POST", "GET"]),
            Route("/file/bot{token}/{path:path}", self._file),
        ]

    def channel(self, name: str = "c") -> ChatChannel:
        return TelegramChannel(name, client=http(), token=lambda: TOKEN, url=self.url)

    def options(self) -> dict[str, Any]:
        return {"kind": "telegram", "token": "env:CHAT_TOKEN", "url": self.url}

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
            self._again = [self._last]
            self._wake()
            return str(self._last["message"]["message_id"])
        number = next(self._ids)
        text = f"@peg_bot {text}" if mention else text
        where = chat or self.chat
        message: dict[str, Any] = {
            "message_id": number,
            "date": 1_700_000_000,
            "from": {"id": int(sender or self.sender), "is_bot": False, "first_name": "Ada"},
            "chat": {"id": int(where), "type": "supergroup" if where.startswith("-") else "private"},
        }
        if thread:
            message |= {"message_thread_id": int(thread), "is_topic_message": True}
        if mention:
            message["entities"] = [{"type": "mention", "offset": 0, "length": 8}]
        if files:
            ((name, kind, data),) = files
            id = f"file-{number}"
            self.files[id] = data
            if kind == "image/jpeg":
                message["photo"] = [
                    {"file_id": "small", "width": 90, "file_size": 1},
                    {"file_id": id, "width": 900, "file_size": len(data)},
                ]
            else:
                message["document"] = {
                    "file_id": id, "file_name": name, "mime_type": kind, "file_size": len(data)
                }  # fmt: skip
            message["caption"] = text
            if "entities" in message:
                message["caption_entities"] = message.pop("entities")
        else:
            message["text"] = text
        self._last = {"update_id": number * 10, "message": message}
        self.updates.append(self._last)
        self._wake()
        return str(number)

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        number = next(self._ids)
        chat = {"id": int(shown.chat), "type": "supergroup" if shown.chat.startswith("-") else "private"}
        query = {
            "id": f"press-{number}",
            "from": {"id": int(sender or self.sender), "is_bot": False, "first_name": "Ada"},
            "message": {"message_id": int(shown.id), "date": 1, "chat": chat, "from": _ME},
            "data": value,
        }
        self.updates.append({"update_id": number * 10, "callback_query": query})
        self._wake()

    async def break_connection(self) -> None:
        self._broken.set()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the API ------------------------------------------------------------------------------------

    async def _method(self, request: Request) -> Response:
        method = request.path_params["method"]
        self.requests.append(method)
        if request.path_params["token"] != TOKEN or self.wrong_token:
            return _no(401, "Unauthorized")
        files: dict[str, tuple[str, bytes]] = {}
        if request.headers.get("content-type", "").startswith("multipart/"):
            fields, files = await form_of(request)
            asked = {k: _value(v) for k, v in fields.items()}
        else:
            asked = await request.json()
        match method:
            case "getMe":
                self.connections += 1
                return _ok(_ME)
            case "getUpdates":
                return await self._updates(asked)
            case "getFile":
                id = asked["file_id"]
                return (
                    _ok({"file_id": id, "file_path": f"documents/{id}"})
                    if id in self.files
                    else _no(400, "Bad Request: wrong file_id")
                )
            case "answerCallbackQuery":
                self.answered.append(asked["callback_query_id"])
                return _ok(True)
            case _:
                return self._change(method, asked, files)

    async def _updates(self, asked: dict[str, Any]) -> Response:
        offset = asked.get("offset", 0)
        self.updates = [u for u in self.updates if u["update_id"] >= offset]
        if not (self.updates or self._again or self._broken.is_set()):
            changed = self._changed
            try:
                async with asyncio.timeout(min(asked["timeout"], 60)):
                    await changed.wait()
            except TimeoutError:
                return _ok([])
        if self._broken.is_set():
            self._broken.clear()
            return _no(502, "Bad Gateway")
        again, self._again = self._again, []
        return _ok([*again, *self.updates][:100])

    def _change(self, method: str, asked: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> Response:
        if self.refuse:
            status, wait_s = self.refuse.pop(0)
            more = {"parameters": {"retry_after": int(wait_s)}} if wait_s else {}
            return _no(status, "Too Many Requests" if status == 429 else "refused", **more)
        chat = str(asked["chat_id"])
        if method in ("editMessageText", "editMessageCaption", "deleteMessage", "setMessageReaction"):
            found = next((s for s in self.shown if s.id == str(asked["message_id"])), None)
            if found is None:
                return _no(400, "Bad Request: message to edit not found")
            match method:
                case "deleteMessage":
                    self.shown.remove(found)
                case "setMessageReaction":
                    found.reactions = [one["emoji"] for one in asked["reaction"]]
                case _:
                    text, code = _read(
                        asked.get("text", asked.get("caption", "")), asked.get("parse_mode", "")
                    )
                    if text == found.text:
                        return _no(400, "Bad Request: message is not modified")
                    found.text, found.code, found.edits = text, code, found.edits + 1
                    found.buttons = _buttons(asked)
            return _ok({"message_id": int(found.id)} if method.startswith("edit") else True)
        new: list[Shown] = []
        if method == "sendMediaGroup":
            for item in asked["media"]:
                text, code = _read(item.get("caption", ""), item.get("parse_mode", ""))
                new.append(
                    self._new(chat, asked, text, code, [files[item["media"].removeprefix("attach://")]])
                )
            return _ok([{"message_id": int(one.id)} for one in new])
        said = asked.get("text", asked.get("caption", asked.get("question", "")))
        try:
            text, code = _read(said, asked.get("parse_mode", ""))
        except ValueError as error:
            return _no(400, f"Bad Request: can't parse entities: {error}")
        limit = 1024 if files else 4096
        if len(text.encode("utf-16-le")) // 2 > limit:
            return _no(400, "Bad Request: message is too long")
        if not text and not files:
            return _no(400, "Bad Request: message text is empty")
        sent = [files[name] for name in _FIELDS if name in files]
        one = self._new(chat, asked, text, code, sent)
        if method == "sendPoll":
            one.buttons = [(o["text"], o["text"]) for o in asked["options"]]
        return _ok({"message_id": int(one.id)})

    def _new(
        self, chat: str, asked: dict[str, Any], text: str, code: list[str], files: list[tuple[str, bytes]]
    ) -> Shown:
        one = Shown(
            id=str(next(self._ids)), text=text, code=code, files=files, chat=chat,
            thread=str(asked.get("message_thread_id", "")), buttons=_buttons(asked),
            reply_to=str(asked.get("reply_parameters", {}).get("message_id", "")),
        )  # fmt: skip
        self.shown.append(one)
        return one

    async def _file(self, request: Request) -> Response:
        data = self.files.get(request.path_params["path"].removeprefix("documents/"))
        return Response(data or b"", 200 if data is not None else 404)


def _ok(result: Any) -> Response:
    return JSONResponse({"ok": True, "result": result})


def _no(status: int, said: str, **more: Any) -> Response:
    return JSONResponse({"ok": False, "error_code": status, "description": said, **more}, status)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _buttons(asked: dict[str, Any]) -> list[tuple[str, str]]:
    rows = asked.get("reply_markup", {}).get("inline_keyboard", [])
    found = [(one["text"], one["callback_data"]) for row in rows for one in row]
    assert all(1 <= len(value.encode()) <= 64 for _, value in found)
    return found


def _read(text: str, mode: str) -> tuple[str, list[str]]:
    """Text and code blocks as Telegram shows them; ValueError for HTML that it refuses."""
    if not mode:
        return text, []
    assert mode == "HTML"
    reader = _Html()
    reader.feed(text)
    reader.close()
    if reader.open:
        raise ValueError(f"can't find end tag corresponding to start tag {reader.open[-1]}")
    return "".join(reader.text), reader.code


class _Html(HTMLParser):
    tags = frozenset({"b", "i", "s", "u", "code", "pre", "a", "blockquote"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.open: list[str] = []
        self.code: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.tags:
            raise ValueError(f"unsupported start tag {tag}")
        self.open.append(tag)
        if tag == "pre":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"unexpected end tag {tag}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if "pre" in self.open:
            self.code[-1] += data
