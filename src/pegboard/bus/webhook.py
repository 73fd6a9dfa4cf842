"""webhook: a channel that posts each message as JSON to a URL, and takes those that are posted to the gateway.

Signed as in Standard Webhooks 1.0 (https://www.standardwebhooks.com): HMAC-SHA256 over `ID.TIMESTAMP.BODY`, in the
header `webhook-signature`. `Idempotency-Key` is the message's id (draft-ietf-httpapi-idempotency-key-header-07).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import urlsplit

from pegboard.bus.payload import payload
from pegboard.bus.platform import json_object
from pegboard.bus.websocket import Receiving, inline_bytes, inline_files
from pegboard.core.errors import ConfigError, InvalidArguments, PermissionDenied, Unavailable
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, NotDelivered, Receiver
from pegboard.ports.messages import OutboundMessage

_LATER: Final = (408, 409, 425, 429)
"""Statuses of the client's kind after which another attempt may succeed; 409 = the first one is still under way."""
_ID_BYTES: Final = 65_536
TOLERANCE_S: Final = 300.0
"""Seconds that a message's time may differ from ours; one that was recorded cannot be sent again later."""


class Poster(Protocol):
    """What it uses of an HttpClient."""

    async def request(self, method: str, url: str, **options: Any) -> Any:
        """See HttpClient."""
        ...


class WebhookChannel:
    """Posts to `url`, or where none is set to the URL that is a message's chat.

    Args:
        name: the channel's.
        client: sends requests; it follows no redirect, since that may turn a POST into a GET.
        url: where to; empty = the message's chat is the URL.
        secret: gives the key of the signature, `whsec_` and base64 or a plain text; None = it is not signed.
        receive: whether messages are taken at the gateway, signed with the same key; then url and secret are needed.
        clock: tells the time of the signature.

    Raises:
        ConfigError: it shall receive, and has no secret or no url.
    """

    settings: ClassVar[Mapping[str, str]] = {"url": "url", "secret": "secret", "receive": "bool"}
    at_gateway: ClassVar[bool] = True
    capabilities = Capabilities(
        media=True, buttons=True, silent=True, edit=True, delete=True, react=True, poll=True, idempotent=True
    )

    def __init__(
        self,
        name: str,
        *,
        client: Poster,
        url: str = "",
        secret: Callable[[], str] | None = None,
        receive: bool = False,
        clock: Clock | None = None,
    ) -> None:
        if receive and not (url and secret):
            raise ConfigError(
                f"channels.{name}: receive needs url, where answers go, and secret, which signs"
            )
        self.name = name
        self.receives = receive
        self._begun = Receiving()
        self._client = client
        self._url = url
        self._secret = secret
        self._now = (clock or SystemClock()).now

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        url = self.url_of(message.to.chat_id)
        if not url.lower().startswith(("https://", "http://")) or not urlsplit(url).hostname:
            raise InvalidArguments(
                f"channel {self.name} needs an http or https URL as its chat_id, not {url[:100]!r}"
            )

    def url_of(self, chat_id: str) -> str:
        """Where a message for a chat goes."""
        return self._url or chat_id

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        body = json.dumps(payload(message, key, with_data=True), ensure_ascii=False).encode(
            "utf-8", "replace"
        )
        headers = {
            "content-type": "application/json",
            "idempotency-key": f'"{key}"',
            **self._signature(key, body),
        }
        url = self.url_of(message.to.chat_id)
        try:
            reply = await self._client.request(
                "POST", url, headers=headers, content=body, max_bytes=_ID_BYTES, cut=True
            )
        except (PermissionDenied, InvalidArguments) as error:
            raise NotDelivered(error.message, hint=error.hint, retryable=False) from None
        host = urlsplit(url).netloc.rpartition("@")[2]
        if not 200 <= reply.status < 300:
            again = reply.status in _LATER or reply.status >= 500
            wait = str(reply.headers.get("retry-after", ""))
            details = {"retry_after_s": int(wait)} if wait.isdecimal() else {}
            raise NotDelivered(
                f"{host} answered with status {reply.status}", retryable=again, details=details
            )
        return _id_of(reply.body) or key

    # -- receiving ----------------------------------------------------------------------------------

    async def receive(self, receiver: Receiver) -> None:
        """See ChatChannel."""
        await self._begun.hold(receiver)

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        """See ChatChannel."""
        return inline_bytes(file, max_bytes)

    async def identity(self) -> str:
        """See ChatChannel."""
        return urlsplit(self._url).hostname or self.name

    async def take(self, headers: Mapping[str, str], body: bytes) -> None:
        """Take a message that was posted: `{chat_id, sender_id, content, …}` as ChatMessage has it, media as `files`
        with their bytes in base64.

        Args:
            headers: of the request, in lower case.
            body: as it was signed.

        Raises:
            PermissionDenied: the signature is wrong, or too old.
            InvalidArguments: the body is not a valid message.
            Unavailable: nothing is received in this process now.
        """
        if self._secret is None:
            raise Unavailable(f"channel {self.name} has no secret")
        id, at, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
        if not id or not is_signed(body, id, at, signatures, self._secret(), now=self._now()):
            raise PermissionDenied(
                f"the message is not signed with this channel's secret, or not within {TOLERANCE_S:g} s of now",
                hint="Sign each message as Standard Webhooks has it when it is sent.",
            )
        message = read_posted(id, body)
        if (receiver := await self._begun.receiver()) is None:
            raise Unavailable(f"channel {self.name} does not receive now", retryable=True)
        await receiver.deliver(message)

    def _signature(self, key: str, body: bytes) -> Mapping[str, str]:
        if self._secret is None:
            return {}
        at = str(int(self._now()))
        signature = sign(body, key, at, self._secret())
        return {"webhook-id": key, "webhook-timestamp": at, "webhook-signature": signature}


def sign(body: bytes, id: str, at: str, secret: str) -> str:
    """The signature of a message, with its version: `v1,` and base64.

    Args:
        body: what is sent.
        id: names the message.
        at: seconds since the epoch, as a text.
        secret: `whsec_` and base64, or a plain text.
    """
    digest = hmac.new(_key(secret), f"{id}.{at}.".encode("utf-8", "replace") + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode('ascii')}"


def is_signed(body: bytes, id: str, at: str, signatures: str, secret: str, *, now: float) -> bool:
    """Whether one of the signatures, with spaces in between, is of this message, and it was sent just now.

    Args:
        body, id, at, secret: see `sign`.
        signatures: of the keys that hold while one replaces the other.
        now: seconds since the epoch.
    """
    if not (at.isascii() and at.isdecimal() and len(at) < 12 and abs(now - int(at)) <= TOLERANCE_S):
        return False
    right = sign(body, id, at, secret).encode()
    return any(
        hmac.compare_digest(one.encode("utf-8", "replace"), right) for one in signatures.split(" ")[:16]
    )


def read_posted(id: str, body: bytes) -> ChatMessage:
    """A posted message.

    Raises:
        InvalidArguments: it is none.
    """
    found = json_object(body)
    texts: dict[str, str] = {}
    for name in ("chat_id", "sender_id", "content", "thread_id", "message_id", "sender_name", "pressed"):
        value = found.get(name, "")
        if not isinstance(value, str):
            raise InvalidArguments(f"{name} must be a text")
        texts[name] = value
    kind = found.get("kind", "user")
    if not texts["chat_id"] or not texts["sender_id"] or kind not in ("user", "group"):
        raise InvalidArguments("a message needs chat_id and sender_id; kind is user or group")
    files = inline_files(found.get("files"))
    if not (texts["content"].strip() or texts["pressed"] or files):
        raise InvalidArguments("the message is empty: give content, files or pressed")
    mentioned = found.get("mentioned", kind == "user") is True
    return ChatMessage(
        id=id, kind=kind, files=files, mentioned=mentioned, chat_id=texts["chat_id"], sender_id=texts["sender_id"],
        content=texts["content"], thread_id=texts["thread_id"], message_id=texts["message_id"],
        sender_name=texts["sender_name"], pressed=texts["pressed"],
    )  # fmt: skip


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except BadBase64:
            pass
    return secret.encode()


def _id_of(body: bytes) -> str:
    """The `id` that a JSON answer has, empty if there is none."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        return ""
    id = found.get("id") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(id)[:200] if isinstance(id, str | int) and not isinstance(id, bool) else ""
