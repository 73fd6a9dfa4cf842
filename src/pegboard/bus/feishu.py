"""feishu: a bot of Feishu or Lark, by the open platform's API (https://open.feishu.cn/document/server-docs).

Events come over a long connection, or are posted to the gateway where the settings name what they are proved by.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, quote, urlsplit

from pegboard.bus import feishu_events
from pegboard.bus.feishu_events import (
    LATEST_S,
    card_length,
    card_of,
    open_posted,
    read_message,
    read_press,
)
from pegboard.bus.feishu_frames import CONTROL, DATA, Frame, decode, encode
from pegboard.bus.platform import Http, WebSocket, ask, form_data, json_object, object_of, refusal
from pegboard.bus.websocket import Receiving
from pegboard.core.errors import InvalidArguments, PermissionDenied, ToolError, Unavailable
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, Disconnected, NotDelivered, Receiver
from pegboard.ports.messages import Attachment, OutboundMessage

API: Final = "https://open.feishu.cn"
_BUSY: Final = (99991400, 230020, 11232, 11233)
_STALE: Final = (99991661, 99991663, 99991664, 99991668, 99991677)
"""Codes for a token that is missing, invalid or expired."""
_WRONG_CARD: Final = 230099
_GONE: Final = (230011, 231003)
"""Codes for a message that was recalled or deleted."""
_EARLY_S: Final = 300.0
"""Seconds before its end at which a token is replaced."""
_PING_S: Final = 120.0
_IMAGE_BYTES: Final = 10 << 20
_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp")
_EMOJI: Final[Mapping[str, str]] = {
    "👍": "THUMBSUP", "👎": "ThumbsDown", "❤": "HEART", "✅": "CheckMark", "❌": "CrossMark", "🎉": "PARTY", "🙏": "THANKS",
    "🔥": "Fire", "😂": "LOL", "👏": "APPLAUSE", "💯": "Hundred", "🤔": "THINKING", "😄": "LAUGH", "😢": "CRY", "👌": "OK",
    "💪": "MUSCLE",
}  # fmt: skip


class FeishuChannel:
    """A chat is the id of a chat, `oc_…`; a thread is the id of its first message, `om_…`. Texts are cards.

    Args:
        name: the channel's.
        client: sends requests, and opens the WebSocket.
        app_id, app_secret: of the app.
        encrypt_key: gives the key of events that are posted to the gateway; they are encrypted and signed then.
        verification_token: gives the token that posted events have. With neither, events come over a long connection.
        url: of the API; empty = Feishu's. That of Lark is https://open.larksuite.com.
        clock: tells when a token ends.
    """

    settings: ClassVar[Mapping[str, str]] = {
        "app_id": "text", "app_secret": "secret", "encrypt_key": "secret", "verification_token": "secret", "url": "url",
    }  # fmt: skip
    capabilities = Capabilities(
        max_chars=24_000, length=card_length, media=True, buttons=True, edit=True, delete=True, react=True,
        idempotent=True, edit_every_s=1.0,
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        client: Http,
        app_id: str,
        app_secret: Callable[[], str],
        encrypt_key: Callable[[], str] | None = None,
        verification_token: Callable[[], str] | None = None,
        url: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.at_gateway = bool(encrypt_key or verification_token)
        self._http = client.opening(url) if url else client
        self._app_id = app_id
        self._app_secret = app_secret
        self._encrypt_key = encrypt_key or (lambda: "")
        self._verification_token = verification_token or (lambda: "")
        self._url = (url or API).rstrip("/")
        self._clock = clock or SystemClock()
        self._begun = Receiving()
        self._me = ""
        self._token = ("", float("-inf"))
        self._alone: dict[str, bool] = {}

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        chat = message.to.chat_id
        if not chat.startswith("oc_") or not chat.isascii() or not chat.isprintable():
            raise InvalidArguments(
                f"channel {self.name} needs the id of a chat as its chat_id, such as oc_0123abcd, not {chat[:100]!r}"
            )

    # -- sending ------------------------------------------------------------------------------------

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel. Feishu knows a message by its key for an hour."""
        target = f"im/v1/messages/{_quoted(message.target_id)}"
        match message.action:
            case "edit":
                await self._with_card(message, lambda card: self._call("PATCH", target, {"content": card}))
                return message.target_id
            case "delete":
                await self._call("DELETE", target)
                return message.target_id
            case "react":
                emoji = {"reaction_type": {"emoji_type": _emoji(message.content.strip())}}
                await self._call("POST", f"{target}/reactions", emoji)
                return message.target_id
            case _:
                pass
        images = [await self._upload(f, "image") for f in message.media if _is_image(f)]
        files = [await self._upload(f, "file") for f in message.media if not _is_image(f)]
        ids: list[str] = []
        if images or message.content or message.caption or message.buttons:
            ids.append(
                await self._with_card(
                    message, lambda card: self._post(message, "interactive", card, key), images
                )
            )
        for number, file in enumerate(files, 1):
            content = json.dumps({"file_key": file})
            ids.append(await self._post(message, "file", content, f"{key}.{number}"))
        return ids[0]

    async def _with_card(
        self, message: OutboundMessage, send: Callable[[str], Any], images: list[str] | None = None
    ) -> Any:
        """Send a card; with its text as it is, where Feishu does not take its Markdown, such as for many tables."""
        text = "\n\n".join(part for part in (message.content, message.caption) if part)
        options: dict[str, Any] = {"images": images or (), "thread": message.to.thread_id}
        try:
            return await send(card_of(text, message.buttons, **options))
        except NotDelivered as error:
            if error.details.get("code") != _WRONG_CARD:
                raise
            return await send(card_of(text, message.buttons, plain=True, **options))

    async def _post(self, message: OutboundMessage, kind: str, content: str, key: str) -> str:
        """Send one message to a chat, or under another one; its id."""
        asked: dict[str, Any] = {
            "msg_type": kind, "content": content, "uuid": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:40]
        }  # fmt: skip
        to, under = message.to, message.reply_to or message.to.thread_id
        if under:
            try:
                sent = await self._call(
                    "POST",
                    f"im/v1/messages/{_quoted(under)}/reply",
                    asked | {"reply_in_thread": bool(to.thread_id)},
                )
                return str(sent["message_id"])
            except NotDelivered as error:
                if to.thread_id or error.details.get("code") not in _GONE:
                    raise
        sent = await self._call(
            "POST", "im/v1/messages?receive_id_type=chat_id", asked | {"receive_id": to.chat_id}
        )
        return str(sent["message_id"])

    async def _upload(self, file: Attachment, kind: str) -> str:
        """The key of a file that was uploaded."""
        fields = (
            {"image_type": "message"} if kind == "image" else {"file_type": "stream", "file_name": file.name}
        )
        found = await self._call("POST", f"im/v1/{kind}s", form=form_data(fields, {kind: file}))
        return str(found[f"{kind}_key"])

    # -- receiving ----------------------------------------------------------------------------------

    async def receive(self, receiver: Receiver) -> None:
        """See ChatChannel."""
        self._me = str((await self._bot())["open_id"])
        if self.at_gateway:
            await self._begun.hold(receiver)
            return
        url, ping_s = await self._endpoint()
        service = int(parse_qs(urlsplit(url).query).get("service_id", ["0"])[0])
        async with self._http.websocket(url) as socket:
            receiver.on_connect()
            pinging = asyncio.create_task(_ping(socket, service, ping_s))
            try:
                await self._listen(socket, receiver)
            finally:
                pinging.cancel()
                await asyncio.gather(pinging, return_exceptions=True)

    async def _endpoint(self) -> tuple[str, float]:
        """The address of a new long connection, and the seconds between pings."""
        url = f"{self._url}/callback/ws/endpoint"
        asked = {"AppID": self._app_id, "AppSecret": self._app_secret()}
        reply = await ask(self._http, "POST", url, kind=Disconnected, json=asked)
        said = json_object(reply.body)
        data = object_of(said.get("data"))
        if reply.status != 200 or said.get("code") != 0 or not data.get("URL"):
            raise Disconnected(f"Feishu opens no long connection: {said.get('msg', '')} ({said.get('code')})")
        every = object_of(data.get("ClientConfig")).get("PingInterval")
        return str(data["URL"]), float(every) if isinstance(every, int) and every > 0 else _PING_S

    async def _listen(self, socket: WebSocket, receiver: Receiver) -> None:
        parts: dict[str, dict[int, bytes]] = {}
        async for data in socket:
            frame = decode(data if isinstance(data, bytes) else data.encode())
            if frame.method == CONTROL:
                continue
            payload, headers = frame.payload, frame.headers
            whole, id = int(headers.get("sum") or 1), headers.get("message_id", "")
            if whole > 1:
                got = parts.setdefault(id, {})
                got[int(headers.get("seq") or 0)] = payload
                if len(got) < whole:
                    continue
                payload = b"".join(part for _, part in sorted(parts.pop(id).items()))
            await self._deliver(json_object(payload), receiver)
            # What is not answered comes again.
            answer = Frame(
                sequence=frame.sequence, log=frame.log, service=frame.service, method=DATA, headers=headers,
                payload=b'{"code":200}', rest=frame.rest,
            )  # fmt: skip
            await socket.send(encode(answer))

    async def take(self, headers: Mapping[str, str], body: bytes) -> Mapping[str, Any]:
        """Take an event that was posted; what is answered.

        Args:
            headers: of the request, in lower case.
            body: as it came.

        Raises:
            PermissionDenied: it does not come from Feishu.
            Unavailable: nothing is received in this process now.
        """
        if not self.at_gateway:
            raise PermissionDenied(f"channel {self.name} takes events over its long connection only")
        key, token = self._encrypt_key(), self._verification_token()
        posted = open_posted(headers, body, encrypt_key=key, token=token)
        if posted.get("type") == "url_verification":
            return {"challenge": str(posted.get("challenge", ""))}
        if (receiver := await self._begun.receiver()) is None:
            raise Unavailable(f"channel {self.name} does not receive now", retryable=True)
        await self._deliver(posted, receiver)
        return {}

    async def _deliver(self, posted: Mapping[str, Any], receiver: Receiver) -> None:
        """Hand over an event, unless it is old: what was recorded cannot be posted again later."""
        header, event = object_of(posted.get("header")), object_of(posted.get("event"))
        at = str(header.get("create_time") or "")
        if at.isdecimal() and self._clock.now() - int(at) / 1000 > LATEST_S:
            return
        message: ChatMessage | None = None
        match header.get("event_type"):
            case feishu_events.MESSAGE:
                message = read_message(event, self._me)
                if message is not None:
                    self._alone[message.chat_id] = message.kind == "user"
            case feishu_events.PRESS:
                chat = str(object_of(event.get("context")).get("open_chat_id") or "")
                alone = await self._is_alone(chat) if chat else False
                message = read_press(str(header.get("event_id") or ""), event, alone=alone)
            case _:
                pass
        if message is not None:
            await receiver.deliver(message)

    async def _is_alone(self, chat: str) -> bool:
        """Whether a chat is one with a single person, which a press does not tell."""
        if chat not in self._alone:
            found = await self._call("GET", f"im/v1/chats/{_quoted(chat)}", kind=Disconnected)
            self._alone[chat] = found.get("chat_mode") == "p2p"
        return self._alone[chat]

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """See ChatChannel."""
        message, key, kind = file.id.split("/")
        url = f"{self._url}/open-apis/im/v1/messages/{_quoted(message)}/resources/{_quoted(key)}?type={kind}"
        headers = {"authorization": f"Bearer {await self._fresh_token(Disconnected)}"}
        reply = await ask(self._http, "GET", url, kind=Disconnected, headers=headers, max_bytes=max_bytes)
        if reply.status != 200:
            raise refusal(reply, url, str(json_object(reply.body).get("msg", "")), kind=Disconnected)
        return reply.body

    async def identity(self) -> str:
        """See ChatChannel."""
        return str((await self._bot())["app_name"])

    async def _bot(self) -> dict[str, Any]:
        return object_of((await self._call("GET", "bot/v3/info", kind=Disconnected)).get("bot"))

    # -- requests -----------------------------------------------------------------------------------

    async def _call(
        self,
        method: str,
        path: str,
        asked: Mapping[str, Any] | None = None,
        *,
        form: tuple[bytes, Mapping[str, str]] | None = None,
        kind: type[ToolError] = NotDelivered,
    ) -> dict[str, Any]:
        """The data of an answer.

        Raises:
            kind: Feishu refused it; `details["code"]` says why.
            ToolError: see `ask`.
        """
        url = f"{self._url}/open-apis/{path}"
        for last in (False, True):
            headers = {"authorization": f"Bearer {await self._fresh_token(kind)}"}
            options: dict[str, Any] = {} if asked is None else {"json": dict(asked)}
            if form is not None:
                options, headers = {"content": form[0]}, headers | dict(form[1])
            reply = await ask(self._http, method, url, kind=kind, headers=headers, **options)
            said = json_object(reply.body)
            if said.get("code") not in _STALE or last:
                break
            # It was made invalid before its time.
            self._token = ("", float("-inf"))
        if said.get("code") == 0:
            return object_of(said.get("data")) or said
        raise self._refusal(reply, said, path.partition("?")[0], kind)

    def _refusal(self, reply: Any, said: Mapping[str, Any], what: str, kind: type[ToolError]) -> ToolError:
        code, shown = said.get("code", 0), f"{said.get('msg', '')} ({said.get('code')})"
        wait = str(reply.headers.get("x-ogw-ratelimit-reset", ""))
        details: dict[str, Any] = {"code": code} | ({"retry_after_s": int(wait)} if wait.isdecimal() else {})
        if code in _STALE:
            said_so = f"Feishu refuses the token of channel {self.name}: {shown}"
            return kind(said_so, retryable=False, details=details)
        if code in _BUSY or reply.status == 429:
            said_so = f"Feishu asks channel {self.name} to wait: {shown}"
            return kind(said_so, retryable=True, details=details)
        if reply.status >= 500:
            return refusal(reply, self._url, shown, kind=kind)
        return kind(f"Feishu refused {what}: {shown}", retryable=kind is Disconnected, details=details)

    async def _fresh_token(self, kind: type[ToolError]) -> str:
        """The tenant_access_token, a new one shortly before it ends.

        Raises:
            kind: Feishu does not give one.
        """
        token, until = self._token
        if self._clock.monotonic() < until - _EARLY_S:
            return token
        url = f"{self._url}/open-apis/auth/v3/tenant_access_token/internal"
        asked = {"app_id": self._app_id, "app_secret": self._app_secret()}
        # Nothing is done there yet.
        reply = await ask(self._http, "POST", url, kind=kind, json=asked)
        said = json_object(reply.body)
        if said.get("code") == 0:
            token = str(said["tenant_access_token"])
            self._token = (token, self._clock.monotonic() + float(said.get("expire") or 0))
            return token
        shown = f"{said.get('msg', '')} ({said.get('code')})"
        if reply.status >= 500 or reply.status == 429 or said.get("code") in _BUSY or not said:
            raise kind(f"Feishu gives channel {self.name} no token now: {shown}", retryable=True)
        raise kind(
            f"Feishu refuses the token of channel {self.name}: {shown}",
            hint="Set app_id and app_secret as Credentials of the app in the developer console shows them.",
            retryable=False,
        )


async def _ping(socket: WebSocket, service: int, every_s: float) -> None:
    while True:
        await socket.send(encode(Frame(service=service, method=CONTROL, headers={"type": "ping"})))
        await asyncio.sleep(every_s)


def _is_image(file: Attachment) -> bool:
    return file.media_type in _IMAGES and len(file.data) <= _IMAGE_BYTES


def _emoji(text: str) -> str:
    name = _EMOJI.get(text.replace("\ufe0f", ""), text)
    if not name.isascii() or not name.replace("_", "").isalnum():
        raise NotDelivered(
            f"Feishu names emoji, and {text[:20]!r} is not a known emoji name",
            hint="Give a name such as THUMBSUP.",
            retryable=False,
        )
    return name


def _quoted(text: str) -> str:
    return quote(text, safe="")
