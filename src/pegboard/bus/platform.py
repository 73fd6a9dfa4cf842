"""platform: requests of a channel to the API of its platform, and what their failures mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from pegboard.core.errors import TooLarge, ToolError
from pegboard.ports.channel import Disconnected, NotDelivered
from pegboard.ports.messages import Attachment

LATER: Final = (408, 409, 425, 429, 503)
"""Statuses after which another attempt may succeed; nothing was done."""


class WebSocket(Protocol):
    """An open connection that carries texts; it ends with Disconnected."""

    async def send(self, text: str | bytes) -> None:
        """Send a message."""
        ...

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        """The messages that come."""
        ...


class Http(Protocol):
    """What channels use of an HttpClient."""

    @property
    def request(self) -> Callable[..., Awaitable[Any]]:
        """See HttpClient."""
        ...

    def opening(self, url: str) -> Http:
        """See HttpClient."""
        ...

    def websocket(
        self, url: str, *, headers: Mapping[str, str] | None = None, max_bytes: int = 0
    ) -> AbstractAsyncContextManager[WebSocket]:
        """See HttpClient."""
        ...


async def ask(
    http: Http,
    method: str,
    url: str,
    *,
    kind: type[ToolError] = NotDelivered,
    secret: str = "",
    **options: Any,
) -> Any:
    """Send a request; the HttpReply, whatever its status.

    Args:
        http: sends it.
        method, url, options: see HttpClient.request.
        kind: NotDelivered, or Disconnected for what changes nothing there.
        secret: a part of the URL that errors do not show.

    Raises:
        NotDelivered: the platform has certainly not got it.
        Disconnected: it could not be asked.
        TooLarge: the answer is over `max_bytes`.
        ToolError: nobody knows whether it has got it.
    """
    try:
        return await http.request(method, url, **options)
    except TooLarge:
        raise
    except ToolError as error:
        message = error.message.replace(secret, "…") if secret else error.message
        refused = error.code in ("permission_denied", "invalid_arguments")
        if kind is Disconnected or refused or error.details.get("sent") is False:
            raise kind(message, hint=error.hint, retryable=not refused) from None
        raise ToolError(message, code=error.code, retryable=error.retryable) from None


def refusal(
    reply: Any, url: str, said: str = "", *, kind: type[ToolError] = NotDelivered, wait_s: float = 0.0
) -> ToolError:
    """The error that a reply with a status of failure means.

    Args:
        reply: an HttpReply.
        url: what was asked, of which the host is shown.
        said: what the platform says about it.
        kind: NotDelivered, or Disconnected for what changes nothing there.
        wait_s: seconds that the platform asks to wait in its body; those of `Retry-After` count too.
    """
    wait_s = wait_s or retry_after_s(reply)
    status = reply.status
    what = f"{urlsplit(url).hostname} answered with status {status}" + (f": {said}" if said else "")
    if kind is not Disconnected and status >= 500 and status not in LATER:
        return ToolError(what)  # It may have done it.
    again = status in LATER or status >= 500 or wait_s > 0
    return kind(what, retryable=again, details={"retry_after_s": wait_s} if wait_s else {})


def retry_after_s(reply: Any) -> float:
    """Seconds of `Retry-After` (RFC 9110 §10.2.3), 0 without; a date is not read."""
    value = str(reply.headers.get("retry-after", "")).strip()
    return float(value) if value.replace(".", "", 1).isdecimal() else 0.0


def json_object(body: bytes | str) -> dict[str, Any]:
    """A JSON object; empty where it is none."""
    try:
        return object_of(json.loads(body))
    except (ValueError, RecursionError):
        return {}


def object_of(value: object) -> dict[str, Any]:
    """A value that is a JSON object; empty where it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def form_data(fields: Mapping[str, str], files: Mapping[str, Attachment]) -> tuple[bytes, dict[str, str]]:
    """A body of `multipart/form-data` (RFC 7578) and the header that goes with it."""
    import httpx2

    parts = {name: (one.name, one.data, one.media_type) for name, one in files.items()}
    made = httpx2.Request("POST", "http://localhost/", data=dict(fields), files=parts)
    return made.read(), {"content-type": made.headers["content-type"]}
