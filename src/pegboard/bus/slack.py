"""slack: an app of a Slack workspace, by Socket Mode and the Web API (https://docs.slack.dev/apis)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlencode, urlsplit

from pegboard.bus.platform import Http, WebSocket, ask, json_object, refusal
from pegboard.core.errors import InvalidArguments, NotFound, ToolError
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, Disconnected, NotDelivered, Receiver
from pegboard.ports.messages import Attachment, OutboundMessage

API: Final = "https://slack.com/api"
_REFUSED: Final = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"}
)  # fmt: skip
_BUSY: Final = frozenset({"ratelimited", "rate_limited"})
_UNKNOWN: Final = frozenset({"internal_error", "fatal_error", "request_timeout"})
_KINDS: Final = (None, "file_share", "thread_broadcast")
"""Subtypes of messages that people write."""
_MARK: Final = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_EMOJI: Final[Mapping[str, str]] = {
    "👍": "+1", "👎": "-1", "❤": "heart", "✅": "white_check_mark", "❌": "x", "👀": "eyes", "🎉": "tada",
    "🙏": "pray", "🔥": "fire", "😂": "joy", "👏": "clap", "🚀": "rocket", "💯": "100", "🤔": "thinking_face",
    "😄": "smile", "😢": "cry", "⚠": "warning",
}  # fmt: skip


class SlackChannel:
    """A chat is the id of a conversation, or of a user; a thread is the `ts` of its first message.

    Args:
        name: the channel's.
        client: sends requests, and opens the WebSocket.
        token: gives the bot's token, `xoxb-…`.
        app_token: gives the app's token for Socket Mode, `xapp-…`.
        url: of another API server; empty = Slack's.
    """

    settings: ClassVar[Mapping[str, str]] = {"token": "secret", "app_token": "secret", "url": "url"}
    capabilities = Capabilities(
        max_chars=11_500, max_value=2000, media=True, buttons=True, edit=True, delete=True, react=True,
        edit_every_s=1.5,
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        client: Http,
        token: Callable[[], str],
        app_token: Callable[[], str],
        url: str = "",
    ) -> None:
        self.name = name
        self._http = client.opening(url) if url else client
        self._token = token
        self._app_token = app_token
        self._url = (url or API).rstrip("/")

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        chat = message.to.chat_id
        if not chat or not chat.isascii() or not chat.isalnum():
            raise InvalidArguments(
                f"channel {self.name} needs the id of a conversation as its chat_id, such as C0123ABCD, not {chat[:100]!r}"
            )

    # -- sending ------------------------------------------------------------------------------------

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        to, target = message.to, message.target_id
        at = {"channel": to.chat_id}
        match message.action:
            case "edit":
                await self._call("chat.update", at | {"ts": target} | _content(message))
                return target
            case "delete":
                await self._call("chat.delete", at | {"ts": target})
                return target
            case "react":
                await self._react(at | {"timestamp": target}, message.content.strip())
                return target
            case _:
                pass
        if to.thread_id:
            at["thread_ts"] = to.thread_id
        if message.media:
            id = await self._upload(message)
            if not message.buttons:
                return id
        posted = await self._call(
            "chat.postMessage", at | _content(message) | {"unfurl_links": False, "unfurl_media": False}
        )
        return str(posted["ts"])

    async def _upload(self, message: OutboundMessage) -> str:
        """Send the files as one message with the text; the id of the first file."""
        ids: list[dict[str, str]] = []
        for file in message.media:
            ids.append({"id": await self._put(file), "title": file.name})
        asked: dict[str, Any] = {"files": ids, "channel_id": message.to.chat_id}
        text = message.caption or ("" if message.buttons else message.content)
        if text:
            asked["initial_comment"] = _escaped(text)
        if message.to.thread_id:
            asked["thread_ts"] = message.to.thread_id
        await self._call("files.completeUploadExternal", asked)
        return ids[0]["id"]

    async def _put(self, file: Attachment) -> str:
        """Upload a file that nobody sees yet; its id."""
        place = await self._call(
            "files.getUploadURLExternal", {"filename": file.name, "length": len(file.data)}
        )
        headers = {"content-type": "application/octet-stream"}
        url = place["upload_url"]
        reply = await ask(self._http, "POST", url, headers=headers, content=file.data)
        if reply.status != 200:
            raise refusal(reply, url)
        return str(place["file_id"])

    async def _react(self, at: Mapping[str, Any], emoji: str) -> None:
        name = _EMOJI.get(emoji.replace("\ufe0f", ""), emoji.strip(":"))
        if not re.fullmatch(r"[a-z0-9_+'-]+", name):
            raise NotDelivered(
                f"Slack names emoji, and {emoji[:20]!r} is not a known emoji name",
                hint="Give a name such as thumbsup.",
                retryable=False,
            )
        try:
            await self._call("reactions.add", {**at, "name": name})
        except NotDelivered as error:
            if "already_reacted" not in error.message:
                raise

    # -- receiving ----------------------------------------------------------------------------------

    async def receive(self, receiver: Receiver) -> None:
        """See ChatChannel."""
        me = str((await self._call("auth.test", {}, kind=Disconnected))["user_id"])
        opened = await self._call("apps.connections.open", {}, kind=Disconnected, token=self._app_token)
        async with self._http.websocket(opened["url"]) as socket:
            async for envelope in _envelopes(socket):
                match envelope.get("type"):
                    case "hello":
                        receiver.on_connect()
                    case "disconnect":
                        return
                    case kind:
                        payload: dict[str, Any] = envelope.get("payload") or {}
                        message = read_envelope(str(kind), payload, me)
                        if message is not None:
                            await receiver.deliver(message)
                        # What is not acknowledged comes again.
                        await socket.send(json.dumps({"envelope_id": envelope["envelope_id"]}))

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """See ChatChannel."""
        host = urlsplit(file.id).hostname or ""
        if not file.id or (host != urlsplit(self._url).hostname and not host.endswith(".slack.com")):
            raise NotFound(f"Slack gives no address of its own for the file {file.name!r}")
        headers = {"authorization": f"Bearer {self._token()}"}
        reply = await ask(self._http, "GET", file.id, kind=Disconnected, headers=headers, max_bytes=max_bytes)
        if reply.status != 200:
            raise refusal(reply, file.id, kind=Disconnected)
        if reply.content_type == "text/html" and file.media_type != "text/html":
            raise ToolError(
                f"Slack asks for a login instead of giving {file.name!r}",
                hint="Give the app the scope files:read.",
            )
        return reply.body

    async def identity(self) -> str:
        """See ChatChannel."""
        found = await self._call("auth.test", {}, kind=Disconnected)
        return f"@{found['user']}"

    async def _call(
        self,
        method: str,
        asked: Mapping[str, Any],
        *,
        kind: type[ToolError] = NotDelivered,
        token: Callable[[], str] | None = None,
    ) -> dict[str, Any]:
        """The answer of a method.

        Raises:
            kind: Slack refused it.
            ToolError: see `ask`.
        """
        fields = {k: v if isinstance(v, str) else json.dumps(v) for k, v in asked.items()}
        headers = {
            "authorization": f"Bearer {(token or self._token)()}",
            "content-type": "application/x-www-form-urlencoded",
        }
        url = f"{self._url}/{method}"
        reply = await ask(
            self._http, "POST", url, kind=kind, headers=headers, content=urlencode(fields).encode()
        )
        said = json_object(reply.body)
        error = str(said.get("error", ""))
        if error in _REFUSED:
            raise kind(
                f"Slack refuses the token of channel {self.name} for {method}: {error}",
                hint="Install the app again, and set its tokens anew.",
                retryable=False,
            )
        if reply.status != 200 or error in _BUSY:
            raise refusal(reply, self._url, error, kind=kind)
        if error in _UNKNOWN:
            raise ToolError(f"Slack answered {method} with {error}")
        if said.get("ok") is not True:
            raise kind(f"Slack refused {method}: {error or 'no reason'}", retryable=False)
        return said


async def _envelopes(socket: WebSocket) -> AsyncIterator[dict[str, Any]]:
    async for text in socket:
        envelope = json_object(text)
        if envelope:
            yield envelope


def _content(message: OutboundMessage) -> dict[str, Any]:
    """A message as blocks, and as the text that notifications show."""
    blocks: list[dict[str, Any]] = [{"type": "markdown", "text": message.content}]
    if message.buttons:
        elements = [
            {
                "type": "button", "action_id": f"button_{n}", "value": b.value or b.text,
                "text": {"type": "plain_text", "text": b.text[:75], "emoji": True},
            }
            for n, b in enumerate(message.buttons)
        ]  # fmt: skip
        blocks.append({"type": "actions", "elements": elements})
    return {"text": _escaped(message.content[:3000]), "blocks": blocks}


def _escaped(text: str) -> str:
    """A text without marks of Slack's, such as `<!channel>`, which would call everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def read_envelope(kind: str, payload: Mapping[str, Any], me: str) -> ChatMessage | None:
    """What came over the socket as a message; None for what is not for us.

    Args:
        kind: of the envelope: `events_api`, `interactive` and others.
        payload: its.
        me: our user's id.
    """
    if kind == "interactive" and payload.get("type") == "block_actions":
        return _press(payload)
    event: dict[str, Any] = payload.get("event") or {}
    if kind != "events_api" or event.get("type") not in ("message", "app_mention"):
        return None
    author = event.get("user", "")
    if event.get("subtype") not in _KINDS or event.get("bot_id") or not author or author == me:
        return None
    chat, ts = str(event["channel"]), str(event["ts"])
    alone = event.get("channel_type") == "im" or chat.startswith("D")
    text, named = _text(str(event.get("text") or ""), me)
    thread = str(event.get("thread_ts") or ("" if alone else ts))
    came: list[dict[str, Any]] = event.get("files") or []
    files = tuple(
        ChatFile(
            id=str(one.get("url_private_download") or one.get("url_private") or ""), name=str(one.get("name") or ""),
            media_type=str(one.get("mimetype") or ""), size=int(one.get("size") or 0),
        )
        for one in came
    )  # fmt: skip
    if not text and not files:
        return None
    return ChatMessage(
        # A mention in a channel is told as a message and as a mention.
        id=f"{chat}:{ts}", chat_id=chat, sender_id=str(author), content=text, kind="user" if alone else "group",
        thread_id=thread, message_id=ts, files=files, at=float(ts),
        mentioned=named or event["type"] == "app_mention" or event.get("parent_user_id") == me,
    )  # fmt: skip


def _press(payload: Mapping[str, Any]) -> ChatMessage | None:
    where: dict[str, Any] = payload.get("channel") or {}
    under: dict[str, Any] = payload.get("message") or {}
    actions: list[dict[str, Any]] = payload.get("actions") or []
    chat, action = str(where.get("id", "")), next((a for a in actions if a.get("type") == "button"), None)
    if not chat or action is None or not action.get("value"):
        return None
    user, ts = payload["user"], str(under.get("ts", ""))
    return ChatMessage(
        id=f"{chat}:{ts}:{action.get('action_ts', '')}", chat_id=chat, sender_id=str(user["id"]), message_id=ts,
        sender_name=str(user.get("name") or user.get("username") or ""), pressed=str(action["value"]),
        kind="user" if chat.startswith("D") else "group", thread_id=str(under.get("thread_ts") or ""), mentioned=True,
    )  # fmt: skip


def _text(text: str, me: str) -> tuple[str, bool]:
    """The text as it was typed, without our name, and whether it names us."""
    mine = f"<@{me}>"
    named = mine in text or f"<@{me}|" in text

    def typed(found: re.Match[str]) -> str:
        mark, label = found[1], found[2]
        if mark == f"@{me}":
            return ""
        if mark.startswith(("#", "@", "!")):
            return f"{mark[0]}{label or mark[1:]}"
        return mark

    plain = _MARK.sub(typed, text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip(), named
