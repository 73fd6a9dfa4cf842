"""A Matrix homeserver as its client-server API is specified (https://spec.matrix.org/v1.16/client-server-api/), as far as
the channel uses it."""

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

from pegboard.bus.matrix import MatrixChannel
from pegboard.bus.matrix_events import BUTTONS
from pegboard.ports.channel import ChatChannel
from tests.fakes.platforms.platform import Platform, Shown, http

TOKEN = "syt_cGVn_aBcDeFgHiJkLmNoPqRsT_0a1b2c"
_ME = "@peg:example.org"


class Matrix(Platform):
    """A sync gives the events behind its token, which is their number; transaction ids are kept."""

    kind = "matrix"
    chat = "!direct:example.org"
    group = "!team:example.org"
    thread = "$root"
    sender = "@ada:example.org"
    us = _ME
    token = TOKEN
    keeps = True

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.members = {self.chat: [_ME, self.sender], self.group: [_ME, self.sender, "@bob:example.org"]}
        self.invites: dict[str, list[dict[str, Any]]] = {}
        """Rooms that we are invited to, and what has happened there."""
        self.encrypted: set[str] = set()
        self.files: dict[str, tuple[str, str, bytes]] = {}
        self.typing: list[bool] = []
        self.page = 100
        """Events of a sync at most; the rest is left out."""
        self._done: dict[str, str] = {}
        self._ids = count(1)
        self._again: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()
        self._broken = False
        self._fresh = False

    def routes(self) -> Sequence[BaseRoute]:
        v3 = "/_matrix/client/v3"
        room = f"{v3}/rooms/{{room}}"
        return [
            Route(f"{v3}/account/whoami", self._whoami),
            Route(f"{v3}/profile/{{user}}/displayname", self._name),
            Route(f"{v3}/sync", self._sync),
            Route(f"{room}/joined_members", self._joined),
            Route(f"{room}/join", self._join, methods=["POST"]),
            Route(f"{room}/messages", self._messages),
            Route(f"{room}/event/{{event}}", self._event),
            Route(f"{room}/state/m.room.encryption", self._encryption),
            Route(f"{room}/typing/{{user}}", self._type, methods=["PUT"]),
            Route(f"{room}/send/{{type}}/{{txn}}", self._send, methods=["PUT"]),
            Route(f"{room}/redact/{{event}}/{{txn}}", self._redact, methods=["PUT"]),
            Route("/_matrix/media/v3/upload", self._upload, methods=["POST"]),
            Route("/_matrix/client/v1/media/download/{server}/{media}", self._download),
        ]

    def channel(self, name: str = "c") -> ChatChannel:
        return MatrixChannel(name, client=http(), token=lambda: TOKEN, url=self.url)

    def options(self) -> dict[str, Any]:
        return {"kind": "matrix", "token": "env:CHAT_TOKEN", "url": self.url}

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
            self._again = [e for e in self.events if e[1]["type"] == "m.room.message"][-1:]
            self._wake()
            return str(self._again[0][1]["event_id"])
        content: dict[str, Any] = {"msgtype": "m.text", "body": f"Pegboard: {text}" if mention else text}
        if mention:
            content["m.mentions"] = {"user_ids": [_ME]}
        if thread:
            content["m.relates_to"] = {
                "rel_type": "m.thread", "event_id": thread, "is_falling_back": True,
                "m.in_reply_to": {"event_id": thread},
            }  # fmt: skip
        for name, kind, data in files:
            uri = self._keep(name, kind, data)
            content |= {
                "msgtype": "m.file", "url": uri, "filename": name, "info": {"mimetype": kind, "size": len(data)}
            }  # fmt: skip
        return self.put(chat or self.chat, "m.room.message", content, sender=sender or self.sender)

    async def press(self, shown: Shown, value: str, *, sender: str = "") -> None:
        (button,) = [b for b in self._content(shown.id).get(BUTTONS, []) if b["value"] == value]
        relation = {"rel_type": "m.annotation", "event_id": shown.id, "key": button["key"]}
        self.put(shown.chat, "m.reaction", {"m.relates_to": relation}, sender=sender or self.sender)

    async def break_connection(self) -> None:
        self._broken = True
        self._wake()

    def put(
        self, room: str, type: str, content: dict[str, Any], *, sender: str, state_key: str | None = None
    ) -> str:
        """Something happens in a room; the id of the event."""
        event = {
            "type": type, "sender": sender, "content": content, "event_id": f"${next(self._ids)}",
            "origin_server_ts": 1_700_000_000_000,
        } | ({} if state_key is None else {"state_key": state_key})  # fmt: skip
        self.events.append((room, event))
        self._wake()
        return str(event["event_id"])

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the API ------------------------------------------------------------------------------------

    def _refused(self, request: Request) -> Response | None:
        if request.headers["authorization"] != f"Bearer {TOKEN}" or self.wrong_token:
            return _no(401, "M_UNKNOWN_TOKEN", "Unrecognised access token")
        return None

    async def _whoami(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        self._fresh = True
        return JSONResponse({"user_id": _ME, "device_id": "PEG"})

    async def _name(self, request: Request) -> Response:
        return JSONResponse({"displayname": "Pegboard"})

    async def _sync(self, request: Request) -> Response:
        asked = request.query_params
        since, wait_ms = int(asked.get("since", 0)), int(asked["timeout"])
        assert json.loads(asked["filter"])["room"]["timeline"]["limit"] == 100
        if self._fresh and not self.wrong_token:
            self._fresh = False
            self.connections += 1
        if not since:
            return JSONResponse({"next_batch": str(len(self.events) + 1), "rooms": self._rooms([], True)})
        while True:
            changed = self._changed
            if (refused := self._refused(request)) is not None:
                return refused
            if self._broken:
                self._broken = False
                return _no(502, "M_UNKNOWN", "Bad gateway")
            new, again = self.events[since - 1 :], self._again
            self._again = []
            if new or again or self.invites or wait_ms == 0:
                next_batch = str(len(self.events) + 1)
                return JSONResponse({"next_batch": next_batch, "rooms": self._rooms([*again, *new], False)})
            try:
                async with asyncio.timeout(min(wait_ms / 1000, 60)):
                    await changed.wait()
            except TimeoutError:
                return JSONResponse({"next_batch": str(since)})

    def _rooms(self, events: list[tuple[str, dict[str, Any]]], first: bool) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for room in {room for room, _ in events} if not first else self.members:
            mine = [event for place, event in events if place == room]
            shown = mine[-self.page :]
            before = next((n for n, e in enumerate(self.events) if shown and e[1] is shown[0]), 0)
            joined[room] = {
                "timeline": {"events": shown, "limited": len(shown) < len(mine), "prev_batch": str(before)},
                "state": {"events": []},
            }
        return {"join": joined, "invite": {room: {"invite_state": {"events": []}} for room in self.invites}}

    async def _messages(self, request: Request) -> Response:
        asked = request.query_params
        assert asked["dir"] == "b"
        begin, end = int(asked["to"]), int(asked["from"])
        room = request.path_params["room"]
        found = [e for place, e in self.events[begin - 1 : end] if place == room]
        return JSONResponse({"start": asked["from"], "chunk": found[::-1]})

    async def _joined(self, request: Request) -> Response:
        members = self.members[request.path_params["room"]]
        return JSONResponse({"joined": {user: {"display_name": user} for user in members}})

    async def _join(self, request: Request) -> Response:
        room = request.path_params["room"]
        self.members[room] = [_ME, self.sender]
        self.events += [(room, event) for event in self.invites.pop(room)]
        self.put(room, "m.room.member", {"membership": "join"}, sender=_ME, state_key=_ME)
        return JSONResponse({"room_id": room})

    async def _event(self, request: Request) -> Response:
        id = request.path_params["event"]
        found = next((e for _, e in self.events if e["event_id"] == id), None)
        return JSONResponse(found) if found else _no(404, "M_NOT_FOUND", "Event not found.")

    async def _encryption(self, request: Request) -> Response:
        if request.path_params["room"] in self.encrypted:
            return JSONResponse({"algorithm": "m.megolm.v1.aes-sha2"})
        return _no(404, "M_NOT_FOUND", "Event not found.")

    async def _type(self, request: Request) -> Response:
        self.typing.append((await request.json())["typing"])
        return JSONResponse({})

    async def _send(self, request: Request) -> Response:
        room, type, txn = (request.path_params[name] for name in ("room", "type", "txn"))
        self.requests.append(type)
        if (refused := self._refused(request)) is not None:
            return refused
        if self.refuse:
            status, wait_s = self.refuse.pop(0)
            more = {"retry_after_ms": int(wait_s * 1000)} if wait_s else {}
            return _no(status, "M_LIMIT_EXCEEDED" if status == 429 else "M_UNKNOWN", "refused", **more)
        body = await request.body()
        if len(body) > 60_000:
            return _no(413, "M_TOO_LARGE", "event too large")
        done = f"{room} {type} {txn}"
        if done not in self._done:
            content = json.loads(body)
            self._done[done] = self.put(room, type, content, sender=_ME)
            self._show(room, type, content, self._done[done])
        return JSONResponse({"event_id": self._done[done]})

    def _show(self, room: str, type: str, content: dict[str, Any], id: str) -> None:
        relation = content.get("m.relates_to", {})
        found = next((s for s in self.shown if s.id == relation.get("event_id")), None)
        if type == "m.reaction":
            assert found is not None and relation["rel_type"] == "m.annotation"
            found.reactions.append(relation["key"])
            return
        assert content["m.mentions"] == {} and content["body"]
        if relation.get("rel_type") == "m.replace":
            assert found is not None
            new = content["m.new_content"]
            found.text, found.code, found.buttons = _read(new)
            found.edits += 1
            return
        text, code, buttons = _read(content)
        one = Shown(id=id, text=text, code=code, chat=room, buttons=buttons)
        if "url" in content:
            name, _, data = self.files[content["url"]]
            one.files = [(name, data)]
            one.text = "" if content["body"] == content["filename"] else text
        one.reply_to = relation.get("m.in_reply_to", {}).get("event_id", "")
        if relation.get("rel_type") == "m.thread":
            one.thread = relation["event_id"]
        self.shown.append(one)

    async def _redact(self, request: Request) -> Response:
        self.shown = [s for s in self.shown if s.id != request.path_params["event"]]
        return JSONResponse({"event_id": "$redaction"})

    async def _upload(self, request: Request) -> Response:
        name = request.query_params["filename"]
        uri = self._keep(name, request.headers["content-type"], await request.body())
        return JSONResponse({"content_uri": uri})

    def _keep(self, name: str, kind: str, data: bytes) -> str:
        uri = f"mxc://example.org/{next(self._ids)}"
        self.files[uri] = (name, kind, data)
        return uri

    async def _download(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        _, kind, data = self.files[f"mxc://{request.path_params['server']}/{request.path_params['media']}"]
        return Response(data, media_type=kind)

    def _content(self, id: str) -> dict[str, Any]:
        return next(e["content"] for _, e in self.events if e["event_id"] == id)


def _no(status: int, code: str, said: str, **more: Any) -> Response:
    return JSONResponse({"errcode": code, "error": said, **more}, status)


def _read(content: dict[str, Any]) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Text, code and buttons of a message as a client shows it."""
    reader = _Html()
    reader.feed(content.get("formatted_body", ""))
    reader.close()
    text = "".join(reader.text).strip() if "formatted_body" in content else content["body"]
    buttons: list[tuple[str, str]] = []
    for one in content.get(BUTTONS, []):
        (label,) = [line for line in text.split("\n") if line.startswith(one["key"])]
        buttons.append((label.removeprefix(one["key"]).strip(), one["value"]))
    return text, reader.code, buttons


class _Html(HTMLParser):
    """The tags of client-server API §11.3.1.1 that the channel uses, all of them closed."""

    tags = frozenset(
        [
            "p",
            "strong",
            "em",
            "s",
            "code",
            "pre",
            "a",
            "blockquote",
            "ul",
            "ol",
            "li",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "br",
            "hr",
        ]
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.code: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in self.tags, tag
        if tag in ("br", "hr"):
            return
        self._open.append(tag)
        if tag == "pre":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("br", "hr") or self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if "pre" in self._open:
            self.code[-1] += data
