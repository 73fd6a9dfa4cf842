"""webhook: a channel that posts each message as JSON to a URL.

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
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from pegboard.bus.payload import payload
from pegboard.core.errors import InvalidArguments, PermissionDenied
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.channel import Capabilities, NotDelivered
from pegboard.ports.messages import OutboundMessage

_LATER: Final = (408, 409, 425, 429)
"""Statuses of the client's kind after which another attempt may succeed; 409 = the first one is still under way."""
_ID_BYTES: Final = 65_536


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
        clock: tells the time of the signature.
    """

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
        clock: Clock | None = None,
    ) -> None:
        self.name = name
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

    def _signature(self, key: str, body: bytes) -> Mapping[str, str]:
        if self._secret is None:
            return {}
        at = str(int(self._now()))
        digest = hmac.new(_key(self._secret()), f"{key}.{at}.".encode() + body, hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode("ascii")
        return {"webhook-id": key, "webhook-timestamp": at, "webhook-signature": f"v1,{signature}"}


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
