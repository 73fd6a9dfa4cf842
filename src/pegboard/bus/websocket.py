"""websocket: a chat for whoever connects to the gateway: a page, a script, a device; JSON objects both ways.

A client sends:

    {"type": "message", "id": ID, "text": TEXT, "thread": THREAD, "files": [{"name", "media_type", "data"}]}
    {"type": "press", "id": ID, "message": MESSAGE, "value": VALUE}

The channel sends `{"type": "ready", "chat": CHAT}` at first, `{"type": "taken", "id": ID}` for each of these, and:

    {"type": "message", "id": ID, "text": TEXT, "thread", "reply_to", "files", "buttons": [{"text", "value"}]}
    {"type": "edit" | "delete" | "react" | "poll", …}, {"type": "error", "message": TEXT}

`data` is base64; what is empty is left out. A message that is sent again has the same id: a client shows it once.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Protocol, cast

from pegboard.bus.platform import json_object
from pegboard.core.errors import InvalidArguments, NotFound, TooLarge, Unavailable
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, NotDelivered, Receiver
from pegboard.ports.messages import OutboundMessage

_BEGIN_S: Final = 10.0
"""Seconds that a client waits for a process that has just begun."""
_INLINE: Final = "data:"
_LONGEST_ID: Final = 100


class Client(Protocol):
    """One connected client."""

    async def send(self, text: str) -> None:
        """Send a text; raises OSError where the client is gone."""
        ...

    def __aiter__(self) -> AsyncIterator[str]:
        """The texts that come."""
        ...


class Receiving:
    """What takes the messages of a channel to which people come by themselves."""

    def __init__(self) -> None:
        self.now: Receiver | None = None
        self._begun = asyncio.Event()

    async def hold(self, receiver: Receiver) -> None:
        """Receive until cancelled."""
        self.now = receiver
        self._begun.set()
        receiver.on_connect()
        try:
            await asyncio.Event().wait()
        finally:
            self.now = None
            self._begun.clear()

    async def receiver(self) -> Receiver | None:
        """The receiver, of a process that has just begun too; None if there is none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEGIN_S):
                await self._begun.wait()
        return self.now


class WebSocketChannel:
    """Who a client is, the gateway proves by its token. Clients of one chat all see its messages.

    Args:
        name: the channel's.
    """

    settings: ClassVar[Mapping[str, str]] = {}
    at_gateway: ClassVar[bool] = True
    capabilities = Capabilities(
        media=True, buttons=True, silent=True, edit=True, delete=True, react=True, poll=True, idempotent=True,
        edit_every_s=0.2,
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun = Receiving()
        self._clients: dict[str, list[Client]] = {}

    @property
    def delivers_here(self) -> bool:
        """Whether clients connect to this process."""
        return self._begun.now is not None

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        if not message.to.chat_id:
            raise InvalidArguments(f"channel {self.name} needs the chat of a client as its chat_id")

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        clients = self._clients.get(message.to.chat_id, ())
        text = json.dumps(_shown(message, key), ensure_ascii=False)
        arrived = 0
        for client in tuple(clients):
            try:
                await client.send(text)
            except OSError:
                continue
            arrived += 1
        if not arrived:
            raise NotDelivered(f"no client of the chat {message.to.chat_id} is connected")
        return message.target_id or key

    async def receive(self, receiver: Receiver) -> None:
        """See ChatChannel."""
        await self._begun.hold(receiver)

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """See ChatChannel."""
        return inline_bytes(file, max_bytes)

    async def identity(self) -> str:
        """See ChatChannel."""
        return self.name

    async def converse(self, client: Client, *, chat: str, sender: str, role: str = "") -> None:
        """Talk to a client until it is gone.

        Args:
            client: the connection.
            chat: the chat's id.
            sender: who it is; proved.
            role: what it may do, see ChatMessage.

        Raises:
            Unavailable: nothing is received in this process.
        """
        if await self._begun.receiver() is None:
            raise Unavailable(f"channel {self.name} does not receive now", retryable=True)
        clients = self._clients.setdefault(chat, [])
        clients.append(client)
        try:
            await client.send(json.dumps({"type": "ready", "chat": chat}))
            async for text in client:
                try:
                    message = read_frame(text, chat=chat, sender=sender, role=role)
                except InvalidArguments as error:
                    await client.send(json.dumps({"type": "error", "message": error.message}))
                    continue
                if (receiver := self._begun.now) is None:
                    return
                await receiver.deliver(message)
                await client.send(json.dumps({"type": "taken", "id": message.message_id}))
        except OSError:
            pass
        finally:
            clients.remove(client)
            if not clients:
                self._clients.pop(chat, None)


def _shown(message: OutboundMessage, key: str) -> dict[str, Any]:
    kind = "message" if message.action == "send" else message.action
    found: dict[str, Any] = {
        "type": kind, "id": message.target_id or key, "text": message.content, "caption": message.caption,
        "thread": message.to.thread_id, "reply_to": message.reply_to, "silent": message.silent,
        "files": [
            {"name": f.name, "media_type": f.media_type, "data": b64encode(f.data).decode("ascii")} for f in message.media
        ],
        "buttons": [{"text": b.text, "value": b.value or b.text} for b in message.buttons],
        "options": list(message.options),
    }  # fmt: skip
    # An edit takes the buttons away that it does not have.
    return {k: v for k, v in found.items() if v or (k == "buttons" and kind == "edit")}


def read_frame(text: str, *, chat: str, sender: str, role: str) -> ChatMessage:
    """What a client sent as a message.

    Raises:
        InvalidArguments: it is none.
    """
    frame = json_object(text)
    kind, id = frame.get("type"), _text(frame, "id")
    if kind not in ("message", "press") or not id or len(id) > _LONGEST_ID:
        raise InvalidArguments(
            f'expected an object with "type": "message" or "press" and an "id" of 1 to {_LONGEST_ID} characters'
        )
    content, pressed = _text(frame, "text"), _text(frame, "value")
    files = inline_files(frame.get("files"))
    if kind == "message" and not content.strip() and not files:
        raise InvalidArguments("the message is empty: give text or files")
    if kind == "press" and not pressed:
        raise InvalidArguments("a press needs the value of the button")
    return ChatMessage(
        id=f"{chat}:{id}", chat_id=chat, sender_id=sender, sender_name=sender, role=role, mentioned=True, files=files,
        thread_id=_text(frame, "thread"), content=content if kind == "message" else "",
        message_id=id if kind == "message" else _text(frame, "message"), pressed=pressed if kind == "press" else "",
    )  # fmt: skip


def _text(frame: Mapping[str, Any], name: str) -> str:
    value = frame.get(name, "")
    if not isinstance(value, str):
        raise InvalidArguments(f"{name} must be a text")
    return value


def inline_files(value: object) -> tuple[ChatFile, ...]:
    """Files whose bytes stand in a message as base64.

    Raises:
        InvalidArguments: they are none.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidArguments("files must be a list of {name, media_type, data}")
    files: list[ChatFile] = []
    for one in cast("list[Any]", value):
        data = one.get("data") if isinstance(one, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(data, str):
            raise InvalidArguments("a file needs its bytes in base64 as data")
        row = cast("dict[str, Any]", one)
        files.append(
            ChatFile(
                id=f"{_INLINE}{data}", name=str(row.get("name") or ""), media_type=str(row.get("media_type") or ""),
                size=len(data) * 3 // 4,
            )
        )  # fmt: skip
    return tuple(files)


def inline_bytes(file: ChatFile, max_bytes: int) -> bytes:
    """The bytes of a file of `inline_files`.

    Raises:
        TooLarge: they are over `max_bytes`.
        NotFound: they are not base64.
    """
    try:
        data = b64decode(file.id.removeprefix(_INLINE), validate=True)
    except ValueError:
        raise NotFound(f"the file {file.name!r} is not base64") from None
    if len(data) > max_bytes:
        raise TooLarge(f"the file {file.name!r} has {len(data)} bytes, and {max_bytes} are the most")
    return data
