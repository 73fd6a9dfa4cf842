"""telegram: a bot of Telegram, by long polling of the Bot API 9 (https://core.telegram.org/bots/api)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from pegboard.bus.platform import Http, ask, form_data, json_object, refusal
from pegboard.bus.telegram_text import html_length, to_html
from pegboard.core.errors import InvalidArguments, NotFound, ToolError
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, Disconnected, NotDelivered, Receiver
from pegboard.ports.messages import Attachment, Button, OutboundMessage

API: Final = "https://api.telegram.org"
POLL_S: Final = 50
"""Seconds that the server holds a poll open while nothing comes."""
_SLACK_S: Final = 20.0
_ADMIN: Final = "1087968824"
"""Whoever writes as the group itself has this id (GroupAnonymousBot)."""
_PHOTO_BYTES: Final = 10 << 20
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "image/jpeg": ("sendPhoto", "photo"),
    "image/png": ("sendPhoto", "photo"),
    "image/webp": ("sendPhoto", "photo"),
    "video/mp4": ("sendVideo", "video"),
    "audio/mpeg": ("sendAudio", "audio"),
    "audio/mp4": ("sendAudio", "audio"),
}
_FILES: Final = ("document", "video", "audio", "voice", "animation", "video_note", "sticker")


class TelegramChannel:
    """A chat is the id of a chat; a thread is a topic of a forum.

    Args:
        name: the channel's.
        client: sends requests.
        token: gives the bot's token, as @BotFather shows it.
        url: of another Bot API server; empty = Telegram's.
    """

    settings: ClassVar[Mapping[str, str]] = {"token": "secret", "url": "url"}
    capabilities = Capabilities(
        max_chars=4096, length=html_length, max_caption=1024, max_value=64, media=True, buttons=True, silent=True,
        edit=True, delete=True, react=True, poll=True, edit_every_s=3.0,
    )  # fmt: skip

    def __init__(self, name: str, *, client: Http, token: Callable[[], str], url: str = "") -> None:
        self.name = name
        self._http = client.opening(url) if url else client
        self._token = token
        self._url = (url or API).rstrip("/")

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        chat = message.to.chat_id
        if not chat.removeprefix("-").isdecimal() and not chat.startswith("@"):
            raise InvalidArguments(
                f"channel {self.name} needs the id of a chat or @NAME as its chat_id, not {chat[:100]!r}"
            )

    # -- sending ------------------------------------------------------------------------------------

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        to, target = message.to, message.target_id
        chat: dict[str, Any] = {"chat_id": to.chat_id}
        match message.action:
            case "edit":
                await self._edit(chat | {"message_id": _number(target)}, message)
                return target
            case "delete":
                await self._call("deleteMessage", chat | {"message_id": _number(target)})
                return target
            case "react":
                reaction = [{"type": "emoji", "emoji": message.content.strip()}]
                await self._call(
                    "setMessageReaction", chat | {"message_id": _number(target), "reaction": reaction}
                )
                return target
            case _:
                pass
        common = chat | {"disable_notification": message.silent}
        if to.thread_id:
            common["message_thread_id"] = _number(to.thread_id)
        if message.reply_to:
            common["reply_parameters"] = {
                "message_id": _number(message.reply_to), "allow_sending_without_reply": True
            }  # fmt: skip
        if message.buttons:
            common["reply_markup"] = _keyboard(message.buttons)
        if message.action == "poll":
            options = [{"text": option} for option in message.options]
            asked = common | {"question": message.content, "options": options, "is_anonymous": False}
            return _id(await self._call("sendPoll", asked))
        if message.media:
            return await self._send_media(common, message)
        return _id(await self._call_text("sendMessage", "text", common | _NO_PREVIEW, message.content))

    async def _edit(self, common: dict[str, Any], message: OutboundMessage) -> None:
        common["reply_markup"] = _keyboard(message.buttons)
        try:
            await self._call_text("editMessageText", "text", common | _NO_PREVIEW, message.content)
        except NotDelivered as error:
            said = error.message
            if "there is no text in the message" in said:
                await self._call_text("editMessageCaption", "caption", common, message.content)
            elif "message is not modified" not in said:
                raise

    async def _send_media(self, common: dict[str, Any], message: OutboundMessage) -> str:
        """One file with its caption, or several as an album: Telegram takes either whole."""
        caption = message.caption or message.content
        if len(message.media) == 1:
            (file,) = message.media
            method, field = _kind(file)
            return _id(await self._call_text(method, "caption", common, caption, {field: file}))
        kinds = {_kind(file)[1] for file in message.media}
        album = kinds.pop() if len(kinds) == 1 else "document"
        files = {f"file{n}": file for n, file in enumerate(message.media)}
        items: list[dict[str, Any]] = [{"type": album, "media": f"attach://{name}"} for name in files]
        if caption:
            items[0] |= {"caption": to_html(caption), "parse_mode": "HTML"}
        common.pop("reply_markup", None)
        sent = await self._call("sendMediaGroup", common | {"media": items}, files)
        return _id(sent[0])

    async def _call_text(
        self,
        method: str,
        field: str,
        common: Mapping[str, Any],
        text: str,
        files: Mapping[str, Attachment] | None = None,
    ) -> Any:
        """A call with a text that is formatted; plain where Telegram does not take the format."""
        formatted = {**common, field: to_html(text), "parse_mode": "HTML"} if text else common
        try:
            return await self._call(method, formatted, files)
        except NotDelivered as error:
            if "can't parse entities" not in error.message:
                raise
            return await self._call(method, {**common, field: text}, files)

    # -- receiving ----------------------------------------------------------------------------------

    async def receive(self, receiver: Receiver) -> None:
        """See ChatChannel."""
        me = await self._call("getMe", {}, kind=Disconnected)
        receiver.on_connect()
        cursor = receiver.cursor
        while True:
            asked = {"timeout": POLL_S, "allowed_updates": ["message", "callback_query"]}
            if cursor:
                asked["offset"] = int(cursor)
            updates = await self._call("getUpdates", asked, kind=Disconnected, timeout_s=POLL_S + _SLACK_S)
            for update in updates:
                cursor = str(update["update_id"] + 1)
                message = read_update(update, me)
                if message is None:
                    await receiver.save(cursor)
                else:
                    await receiver.deliver(message, cursor=cursor)
                if "callback_query" in update:
                    await self._answer_press(update["callback_query"]["id"])

    async def _answer_press(self, id: str) -> None:
        """Stop the button from turning; it may have been pressed long ago."""
        with suppress(ToolError):
            await self._call("answerCallbackQuery", {"callback_query_id": id})

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """See ChatChannel. Telegram gives bots files of at most 20 MB."""
        found = await self._call("getFile", {"file_id": file.id}, kind=Disconnected)
        path = found.get("file_path", "")
        if not path:
            raise NotFound(f"Telegram has the file {file.name or file.id} no more")
        token = self._token()
        url = f"{self._url}/file/bot{token}/{path}"
        reply = await ask(self._http, "GET", url, secret=token, max_bytes=max_bytes)
        if reply.status != 200:
            raise refusal(reply, self._url, kind=Disconnected)
        return reply.body

    async def identity(self) -> str:
        """See ChatChannel."""
        return f"@{(await self._call('getMe', {}, kind=Disconnected))['username']}"

    async def _call(
        self,
        method: str,
        asked: Mapping[str, Any],
        files: Mapping[str, Attachment] | None = None,
        *,
        kind: type[NotDelivered] | type[Disconnected] = NotDelivered,
        timeout_s: float | None = None,
    ) -> Any:
        """The result of a method.

        Raises:
            kind: Telegram refused it.
            ToolError: see `ask`.
        """
        import json

        token = self._token()
        options: dict[str, Any] = {"json": dict(asked)}
        if files:
            fields = {k: v if isinstance(v, str) else json.dumps(v) for k, v in asked.items()}
            body, headers = form_data(fields, files)
            options = {"content": body, "headers": headers}
        url = f"{self._url}/bot{token}/{method}"
        reply = await ask(self._http, "POST", url, secret=token, kind=kind, timeout_s=timeout_s, **options)
        said = json_object(reply.body)
        if said.get("ok") is True:
            return said.get("result")
        wait = said.get("parameters", {}).get("retry_after", 0)
        if reply.status in (401, 404):
            raise kind(
                f"Telegram refuses the token of channel {self.name}",
                hint="Ask @BotFather for the bot's token, and set it anew.",
                retryable=False,
            )
        raise refusal(reply, self._url, str(said.get("description", "")), kind=kind, wait_s=float(wait))


_NO_PREVIEW: Final = {"link_preview_options": {"is_disabled": True}}
"""A preview would let Telegram fetch whatever URL the text has."""


def read_update(update: Mapping[str, Any], me: Mapping[str, Any]) -> ChatMessage | None:
    """An Update as a message; None for what is not for us.

    Args:
        update: as getUpdates gives it.
        me: the bot as a User.
    """
    press = update.get("callback_query")
    if press is not None:
        under = press.get("message")
        if not under or not press.get("data"):
            return None
        return _message(update, under, press["from"], me, pressed=str(press["data"]))
    found = update.get("message")
    if not found or not found.get("from"):
        return None
    sender = found["from"]
    if sender.get("is_bot") and str(sender["id"]) != _ADMIN:
        return None
    return _message(update, found, sender, me)


def _message(
    update: Mapping[str, Any],
    found: Mapping[str, Any],
    sender: Mapping[str, Any],
    me: Mapping[str, Any],
    *,
    pressed: str = "",
) -> ChatMessage | None:
    chat = found["chat"]
    # Whoever writes in the name of a group or channel is that, not the account that stands for it.
    author = found.get("sender_chat") if not pressed else None
    name = " ".join(p for p in (sender.get("first_name"), sender.get("last_name")) if p)
    text, mentioned = _text(found, me)
    files = () if pressed else _files(found)
    if not pressed and not text and not files:
        return None
    return ChatMessage(
        id=str(update["update_id"]), chat_id=str(chat["id"]), kind="user" if chat["type"] == "private" else "group",
        thread_id=str(found.get("message_thread_id", "")) if found.get("is_topic_message") else "",
        sender_id=str((author or sender)["id"]), sender_name=name, content="" if pressed else text, files=files,
        message_id=str(found["message_id"]), pressed=pressed, mentioned=mentioned, at=float(found.get("date", 0)),
    )  # fmt: skip


def _text(found: Mapping[str, Any], me: Mapping[str, Any]) -> tuple[str, bool]:
    """The text without our name at its begin, and whether it is meant for us."""
    text = str(found.get("text") or found.get("caption") or "")
    entities = found.get("entities") or found.get("caption_entities") or ()
    name = f"@{me.get('username', '')}".lower()
    mentioned = found.get("reply_to_message", {}).get("from", {}).get("id") == me.get("id")
    # Offsets count UTF-16 units; from the end, so that those before stay right.
    units: bytes = text.encode("utf-16-le")
    for entity in sorted(entities, key=lambda one: -one["offset"]):
        begin, end = entity["offset"] * 2, (entity["offset"] + entity["length"]) * 2
        said, kind = units[begin:end].decode("utf-16-le", "replace").lower(), entity["type"]
        if (kind == "mention" and said == name) or (
            kind == "text_mention" and entity.get("user", {}).get("id") == me.get("id")
        ):
            cut = begin
        elif kind == "bot_command" and said.endswith(name):
            cut = end - len(name.encode("utf-16-le"))
        else:
            continue
        mentioned = True
        if cut == 0 or cut != begin:
            units = units[:cut] + units[end:]
    return units.decode("utf-16-le", "replace").strip(), mentioned


def _files(found: Mapping[str, Any]) -> tuple[ChatFile, ...]:
    files: list[ChatFile] = []
    if photos := found.get("photo"):
        largest = max(photos, key=lambda one: one.get("file_size", one.get("width", 0)))
        files.append(
            ChatFile(
                id=largest["file_id"], name="photo.jpg", media_type="image/jpeg", size=largest.get("file_size", 0)
            )
        )  # fmt: skip
    for field in _FILES:
        if field == "document" and "animation" in found:
            continue  # It is told as both.
        if one := found.get(field):
            files.append(
                ChatFile(
                    id=one["file_id"], name=str(one.get("file_name", "")), media_type=str(one.get("mime_type", "")),
                    size=one.get("file_size", 0),
                )
            )  # fmt: skip
    return tuple(files)


def _kind(file: Attachment) -> tuple[str, str]:
    if file.media_type.startswith("image/") and len(file.data) > _PHOTO_BYTES:
        return "sendDocument", "document"
    return _KINDS.get(file.media_type, ("sendDocument", "document"))


def _keyboard(buttons: Sequence[Button]) -> dict[str, Any]:
    """Short buttons stand in rows of four."""
    keys = [{"text": b.text, "callback_data": b.value or b.text} for b in buttons]
    each = 4 if all(len(b.text) <= 12 for b in buttons) else 1
    return {"inline_keyboard": [keys[n : n + each] for n in range(0, len(keys), each)]}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise NotDelivered(f"{text[:60]!r} is not the id of a message of Telegram", retryable=False) from None


def _id(message: Mapping[str, Any]) -> str:
    return str(message["message_id"])
