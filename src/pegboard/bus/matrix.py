"""matrix: an account of a Matrix homeserver, by the client-server API v3 (https://spec.matrix.org/latest/client-server-api/)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, ClassVar, Final
from urllib.parse import quote

from pegboard.bus.matrix_events import (
    KEYS,
    Account,
    content_of,
    content_of_file,
    event_length,
    read_event,
    read_press,
)
from pegboard.bus.platform import LATER, Http, ask, json_object, object_of, refusal
from pegboard.core.errors import InvalidArguments, NotFound, ToolError
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, Disconnected, NotDelivered, Receiver
from pegboard.ports.messages import Attachment, OutboundMessage

SYNC_S: Final = 30
"""Seconds that the server holds a sync open while nothing comes."""
_SLACK_S: Final = 30.0
_ASIDE_S: Final = 5.0
"""Seconds for a request that the conversation does without."""
_TYPING_MS: Final = 30_000
_PAGES: Final = 20
"""Pages of 100 events that are read of what a sync left out."""
_REFUSED: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
_TYPES: Final = ["m.room.message", "m.room.encrypted", "m.reaction", "m.room.member", "m.room.encryption"]
_FILTER: Final[dict[str, Any]] = {
    "presence": {"types": []},
    "account_data": {"types": []},
    "room": {
        "ephemeral": {"types": []},
        "account_data": {"types": []},
        "state": {
            "types": ["m.room.member", "m.room.encryption"], "lazy_load_members": True,
            "include_redundant_members": True,
        },
        "timeline": {"types": _TYPES, "limit": 100},
    },
}  # fmt: skip
_ENCRYPTED: Final = (
    "This room is encrypted, and I cannot read encrypted messages. Please write to me in a room without encryption: "
    "in a new room, turn encryption off before you invite me."
)


class MatrixChannel:
    """A chat is the id of a room, a thread the id of its first event. One other member makes it a chat with a user.

    Buttons are reactions: a message shows what each emoji means, and we react with each, so that people press them.

    Args:
        name: the channel's.
        client: sends requests.
        token: gives the access token of our account.
        url: of the homeserver, such as `https://matrix.example.org`.
        invites: whether invitations to rooms are accepted.
    """

    settings: ClassVar[Mapping[str, str]] = {"url": "url", "token": "secret", "invites": "bool"}
    capabilities = Capabilities(
        max_chars=16_000, length=event_length, media=True, buttons=True, silent=True, edit=True, delete=True, react=True,
        idempotent=True, edit_every_s=1.5,
    )  # fmt: skip

    def __init__(
        self, name: str, *, client: Http, token: Callable[[], str], url: str, invites: bool = True
    ) -> None:
        self.name = name
        self._http = client.opening(url)
        self._token = token
        self._url = url.rstrip("/")
        self._invites = invites
        self._account = Account("")
        self._members: dict[str, int] = {}
        self._encrypted: dict[str, bool] = {}
        self._buttons = asyncio.Lock()
        """Held while a message gets its buttons: a press of the first waits until the last is there."""
        self._typing: set[str] = set()
        self._warned: set[str] = set()

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        chat = message.to.chat_id
        if not chat.startswith("!") or not chat.isprintable() or " " in chat:
            raise InvalidArguments(
                f"channel {self.name} needs the id of a room as its chat_id, such as !abc:example.org, not {chat[:100]!r}"
            )

    # -- sending ------------------------------------------------------------------------------------

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel. The homeserver keeps the transaction id of a request, so that one sent again is the same."""
        room, target = message.to.chat_id, message.target_id
        if message.action == "delete":
            await self._call("PUT", f"{_room(room)}/redact/{_quoted(target)}/{_quoted(key)}", {})
            return target
        if await self._is_encrypted(room):
            raise NotDelivered(
                f"the room {room} is encrypted, and channel {self.name} writes to rooms without encryption only",
                hint="Use a room without encryption.",
                retryable=False,
            )
        if message.action == "react":
            relation = {"rel_type": "m.annotation", "event_id": target, "key": message.content.strip()}
            await self._react(room, relation, key)
            return target
        contents = [await self._file_content(message, number) for number in range(len(message.media))]
        if not contents or (message.media and message.caption and message.content) or message.buttons:
            contents.append(content_of(message))
        async with self._buttons if message.buttons else nullcontext():
            sent = [
                await self._send(room, content, f"{key}.{n}" if n else key)
                for n, content in enumerate(contents)
            ]
            for emoji in KEYS[: len(message.buttons)]:
                relation = {"rel_type": "m.annotation", "event_id": target or sent[-1], "key": emoji}
                await self._react(room, relation, f"{key}.{emoji}")
        if room in self._typing:
            self._typing.discard(room)
            await self._type(room, on=False)
        return target or sent[-1 if message.buttons else 0]

    async def _send(self, room: str, content: Mapping[str, Any], transaction: str) -> str:
        path = f"{_room(room)}/send/m.room.message/{_quoted(transaction)}"
        try:
            return str((await self._call("PUT", path, content))["event_id"])
        except NotDelivered as error:
            if error.details.get("errcode") != "M_TOO_LARGE" or "formatted_body" not in json.dumps(content):
                raise
        return str((await self._call("PUT", path, _plain(content)))["event_id"])

    async def _file_content(self, message: OutboundMessage, number: int) -> dict[str, Any]:
        """Upload a file of a message; the content of its event. The first one has the caption."""
        file = message.media[number]
        text = message.caption or ("" if message.buttons else message.content)
        return content_of_file(message, file, await self._upload(file), "" if number else text)

    async def _upload(self, file: Attachment) -> str:
        """The `mxc:` URI of a file that was uploaded."""
        url = f"{self._url}/_matrix/media/v3/upload?filename={_quoted(file.name)}"
        headers = {"content-type": file.media_type or "application/octet-stream"}
        reply = await self._ask("POST", url, headers=headers, content=file.data, kind=NotDelivered)
        return str(self._read(reply, "the upload", NotDelivered)["content_uri"])

    async def _react(self, room: str, relation: Mapping[str, str], transaction: str) -> None:
        try:
            path = f"{_room(room)}/send/m.reaction/{_quoted(transaction)}"
            await self._call("PUT", path, {"m.relates_to": relation})
        except NotDelivered as error:
            if error.details.get("errcode") != "M_DUPLICATE_ANNOTATION":
                raise

    async def _type(self, room: str, *, on: bool) -> None:
        """Show that we write, or no longer do."""
        asked = {"typing": True, "timeout": _TYPING_MS} if on else {"typing": False}
        path = f"{_room(room)}/typing/{_quoted(self._account.id)}"
        with suppress(ToolError):
            await self._call("PUT", path, asked, timeout_s=_ASIDE_S)

    async def _is_encrypted(self, room: str) -> bool:
        if room not in self._encrypted:
            try:
                await self._call("GET", f"{_room(room)}/state/m.room.encryption")
                self._encrypted[room] = True
            except NotDelivered as error:
                if error.details.get("errcode") != "M_NOT_FOUND":
                    raise
                self._encrypted[room] = False
        return self._encrypted[room]

    # -- receiving ----------------------------------------------------------------------------------

    async def receive(self, receiver: Receiver) -> None:
        """See ChatChannel. What was written before the first connection is not answered."""
        self._account = await self._me()
        since = receiver.cursor
        if not since:
            since = await self._sync(receiver, "")
        receiver.on_connect()
        while True:
            since = await self._sync(receiver, since)

    async def _sync(self, receiver: Receiver, since: str) -> str:
        """Wait for what is new and hand it over; where the next sync goes on.

        Args:
            receiver: takes it.
            since: where the last one ended; empty = hand nothing over, and begin now.
        """
        params = {"filter": json.dumps(_FILTER), "timeout": str(SYNC_S * 1000 if since else 0)}
        if since:
            params["since"] = since
        found = await self._call("GET", "sync", params=params, kind=Disconnected, timeout_s=SYNC_S + _SLACK_S)
        rooms = object_of(found.get("rooms"))
        for room, news in object_of(rooms.get("join")).items():
            events, names = await self._events(room, news, since)
            for event in events if since else ():
                message = await self._message(room, event, names.get(str(event.get("sender")), ""))
                if message is not None:
                    await receiver.deliver(message)
        for room in object_of(rooms.get("invite")) if self._invites else ():
            # It may have been taken back, or a server be away; they can invite us again.
            with suppress(ToolError):
                await self._call("POST", f"{_room(room)}/join", {})
        next_batch = str(found["next_batch"])
        await receiver.save(next_batch)
        return next_batch

    async def _events(
        self, room: str, news: Mapping[str, Any], since: str
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]:
        """What happened in a room, oldest first and behind our invitation, and what its members are called."""
        timeline = object_of(news.get("timeline"))
        events: list[Mapping[str, Any]] = list(timeline.get("events") or ())
        if timeline.get("limited") and since:
            events = await self._left_out(room, str(timeline.get("prev_batch", "")), since) + events
        state: list[Mapping[str, Any]] = object_of(news.get("state")).get("events") or []
        names: dict[str, str] = {}
        for event in (*state, *events):
            if event.get("type") == "m.room.encryption":
                self._encrypted[room] = True
            elif event.get("type") == "m.room.member":
                shown = object_of(event.get("content")).get("displayname")
                names[str(event.get("state_key"))] = str(shown or "")
        count = object_of(news.get("summary")).get("m.joined_member_count")
        if count is not None:
            self._members[room] = int(count)
        elif timeline.get("limited") or any(e.get("type") == "m.room.member" for e in events):
            self._members.pop(room, None)
        begin, ours = 0, ""
        for number, event in enumerate(events):
            if event.get("type") == "m.room.member" and event.get("state_key") == self._account.id:
                now = object_of(event.get("content")).get("membership")
                known = object_of(object_of(event.get("unsigned")).get("prev_content")).get("membership")
                before, ours = known or ours, str(now)
                if now == "invite" or (now == "join" and before not in ("invite", "join")):
                    begin = number + 1
        return events[begin:], names

    async def _left_out(self, room: str, end: str, since: str) -> list[Mapping[str, Any]]:
        """The events between two syncs that the second one has no place for, oldest first."""
        found: list[Mapping[str, Any]] = []
        for _ in range(_PAGES):
            params = {
                "dir": "b", "from": end, "to": since, "limit": "100", "filter": json.dumps({"types": _TYPES})
            }  # fmt: skip
            page = await self._call("GET", f"{_room(room)}/messages", params=params, kind=Disconnected)
            found += page.get("chunk") or ()
            end = str(page.get("end") or "")
            if not end:
                break
        return found[::-1]

    async def _message(self, room: str, event: Mapping[str, Any], name: str) -> ChatMessage | None:
        """An event as a message; None for what is not for us."""
        me = self._account
        if event.get("sender") == me.id:
            return None
        match event.get("type"):
            case "m.room.encrypted":
                await self._warn(room)
            case "m.reaction":
                under = await self._reacted_to(room, event)
                return read_press(room, event, under, me, alone=await self._is_alone(room), name=name)
            case "m.room.message":
                message = read_event(room, event, me, alone=await self._is_alone(room), name=name)
                meant = message is not None and (message.kind == "user" or message.mentioned)
                if meant and room not in self._typing:
                    self._typing.add(room)
                    await self._type(room, on=True)
                return message
            case _:
                pass
        return None

    async def _reacted_to(self, room: str, reaction: Mapping[str, Any]) -> Mapping[str, Any]:
        """The message that a reaction is under; empty if we may not see it."""
        target = object_of(object_of(reaction.get("content")).get("m.relates_to")).get("event_id")
        async with self._buttons:
            pass
        try:
            return await self._call("GET", f"{_room(room)}/event/{_quoted(str(target))}", kind=Disconnected)
        except Disconnected as error:
            status = error.details.get("status", 0)
            if not 400 <= status < 500 or status in LATER:
                raise
            return {}

    async def _is_alone(self, room: str) -> bool:
        """Whether nobody else is in a room with the one who writes there."""
        if room not in self._members:
            found = await self._call("GET", f"{_room(room)}/joined_members", kind=Disconnected)
            self._members[room] = len(object_of(found.get("joined")))
        return self._members[room] <= 2

    async def _warn(self, room: str) -> None:
        """Say once that we cannot read an encrypted room."""
        if room in self._warned:
            return
        self._warned.add(room)
        content: dict[str, Any] = {"msgtype": "m.notice", "body": _ENCRYPTED, "m.mentions": {}}
        with suppress(ToolError):
            await self._send(room, content, f"pegboard-encrypted-{self.name}")

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """See ChatChannel."""
        server, _, media = file.id.removeprefix("mxc://").partition("/")
        if not file.id.startswith("mxc://") or not server or not media:
            raise NotFound(f"the file {file.name!r} has no address on a Matrix server: {file.id[:100]!r}")
        url = f"{self._url}/_matrix/client/v1/media/download/{_quoted(server)}/{_quoted(media)}"
        reply = await self._ask("GET", url, kind=Disconnected, max_bytes=max_bytes)
        if reply.status != 200:
            self._read(reply, f"the download of {file.name!r}", Disconnected)
        return reply.body

    async def identity(self) -> str:
        """See ChatChannel."""
        return (await self._me()).id

    async def _me(self) -> Account:
        """Our account; asked each time, so that a token that is refused shows."""
        id = str((await self._call("GET", "account/whoami", kind=Disconnected))["user_id"])
        name = ""
        with suppress(Disconnected):
            found = await self._call("GET", f"profile/{_quoted(id)}/displayname", kind=Disconnected)
            name = str(found.get("displayname") or "")
        return Account(id, name)

    # -- requests -----------------------------------------------------------------------------------

    async def _call(
        self,
        method: str,
        path: str,
        asked: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        kind: type[ToolError] = NotDelivered,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """The answer to a request of the client-server API.

        Raises:
            kind: the homeserver refused it; `details["errcode"]` says why.
            ToolError: see `ask`.
        """
        url = f"{self._url}/_matrix/client/v3/{path}"
        options: dict[str, Any] = {} if asked is None else {"json": dict(asked)}
        reply = await self._ask(method, url, kind=kind, params=params, timeout_s=timeout_s, **options)
        parts = path.split("/")
        return self._read(reply, parts[2] if parts[0] == "rooms" else parts[0], kind)

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        kind: type[ToolError],
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        sent = {"authorization": f"Bearer {self._token()}", **(headers or {})}
        return await ask(self._http, method, url, kind=kind, headers=sent, **options)

    def _read(self, reply: Any, what: str, kind: type[ToolError]) -> dict[str, Any]:
        said = json_object(reply.body)
        if reply.status == 200:
            return said
        code = str(said.get("errcode", ""))
        if code in _REFUSED:
            raise kind(
                f"the homeserver refuses the token of channel {self.name}: {code}",
                hint="Log in again, and set the new access token.",
                retryable=False,
                details={"errcode": code},
            )
        shown = " ".join(part for part in (what, code, str(said.get("error", ""))) if part)
        wait_s = float(said.get("retry_after_ms") or 0) / 1000
        error = refusal(reply, self._url, shown, kind=kind, wait_s=wait_s)
        raise type(error)(
            error.message,
            # A room that we were thrown out of is gone from the next sync.
            retryable=error.retryable or kind is Disconnected,
            details={**error.details, "errcode": code, "status": reply.status},
        )


def _room(room: str) -> str:
    return f"rooms/{_quoted(room)}"


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """A content without its HTML."""
    return {
        name: _plain(value) if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownArgumentType]
        for name, value in content.items()
        if name not in ("format", "formatted_body")
    }
