"""Who may send a request: Host, Origin and token are checked before an endpoint runs."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

CHECK_S: Final = 10.0
"""Seconds after which a revoked token ends the requests that it still has open."""
_MAX_FAILURES: Final = 30
_WINDOW_S: Final = 60.0
_SINGLE: Final = (b"host", b"origin", b"authorization", b"content-type")
_TOKEN_PARAMETERS: Final = {"token", "access_token", "key"}


Authenticate: TypeAlias = Callable[[str], Awaitable[Any]]
"""Gives whom a token belongs to; None if nobody."""


def plain_refusal(refusal: HTTPException) -> Response:
    """The refusal as a line of text."""
    return PlainTextResponse(refusal.detail, refusal.status_code, refusal.headers)


class RequestGuard:
    """ASGI middleware that refuses requests of other sites, for other hosts, or without a token.

    `request.state.owner` is the owner of an accepted request's token, empty if no token is required. A refused web
    socket is closed with 1008.

    Args:
        app: the application behind the guard.
        tokens: token by owner, or what finds the owner of a token, expected as `Authorization: Bearer`; None = not
            required (loopback only).
        hosts: accepted Host headers, as `name:port`, in any case.
        origins: accepted Origin headers, None = those of `hosts`. Requests without an Origin pass.
        public: paths that need no token; `*` as the last part stands for any one part, `**` for all below.
        refuse: makes the response to a refused request.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Mapping[str, str] | Authenticate | None,
        hosts: Sequence[str],
        origins: Sequence[str] | None = None,
        public: Collection[str] = (),
        refuse: Callable[[HTTPException], Response] = plain_refusal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._find = tokens if tokens is None or callable(tokens) else owner_among(tokens)
        self._hosts = {h.lower() for h in hosts}
        # A proxy in front of us may speak https.
        own = [f"{scheme}://{h}" for h in hosts for scheme in ("http", "https")]
        self._origins = {o.lower() for o in (own if origins is None else origins)}
        self._public = frozenset(public)
        self._public_below = tuple(path[:-2] for path in public if path.endswith("/**"))
        self._refuse = refuse
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            self._check_source(scope)
            public = self._is_public(scope["path"])
            owner = "" if public else await self._authenticate(Headers(scope=scope).get("authorization", ""))
        except HTTPException as refusal:
            if scope["type"] == "websocket":
                await WebSocketClose(1008, refusal.detail)(scope, receive, send)
            else:
                await self._refuse(refusal)(scope, receive, send)
            return
        scope.setdefault("state", {})["owner"] = owner
        if scope["type"] == "http" and not public and self._find is not None:
            receive = self._until_revoked(receive, Headers(scope=scope).get("authorization", ""), owner)
        await self._app(scope, receive, send)

    def _until_revoked(self, receive: Receive, authorization: str, owner: Any) -> Receive:
        """`receive` that reports the client as gone once its token is no longer the owner's: an event stream waits there."""

        async def receive_or_end() -> Message:
            message = asyncio.ensure_future(receive())
            try:
                while not (await asyncio.wait([message], timeout=CHECK_S))[0]:
                    with suppress(HTTPException):  # The store is away for a while.
                        if await self._owner(authorization) != owner:
                            return {"type": "http.disconnect"}
                return message.result()
            finally:
                message.cancel()

        return receive_or_end

    def _is_public(self, path: str) -> bool:
        one = f"{path.rpartition('/')[0]}/*"
        return path in self._public or one in self._public or path.startswith(self._public_below)

    def _check_source(self, scope: Scope) -> None:
        names = [name.lower() for name, _ in scope["headers"]]
        for name in _SINGLE:
            # Of two values, a proxy in front of us may have judged the other one.
            if names.count(name) > 1:
                raise HTTPException(400, f"the header {name.decode()} appears more than once")
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.lower() not in self._hosts:
            raise HTTPException(403, f"Host {host[:100]!r} is not served here")
        if origin is not None and origin.lower() not in self._origins:
            raise HTTPException(403, f"requests from Origin {origin[:100]!r} are not accepted")
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if any(name.lower() in _TOKEN_PARAMETERS for name, _ in query):
            raise HTTPException(400, "send the token as Authorization: Bearer, never in the URL")

    async def _authenticate(self, authorization: str) -> Any:
        if self._find is None:
            return ""
        if (owner := await self._owner(authorization)) is not None:
            return owner
        self.note_wrong_token()
        raise HTTPException(
            401, "a token is required: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
        )

    async def _owner(self, authorization: str) -> Any:
        scheme, _, value = authorization.partition(" ")
        return await self._find(value.strip()) if self._find and scheme.lower() == "bearer" else None

    def note_wrong_token(self) -> None:
        """Count a wrong token.

        Raises:
            HTTPException: there were too many lately (429).
        """
        now = self._clock()
        if sum(now - failed < _WINDOW_S for failed in self._failures) >= _MAX_FAILURES:
            raise HTTPException(429, "too many wrong tokens; wait a minute", {"Retry-After": "60"})
        self._failures.append(now)


def owner_among(tokens: Mapping[str, str]) -> Authenticate:
    """What finds the owner of a token in a table of them."""
    known = {owner: token.encode() for owner, token in tokens.items()}

    async def find(sent: str) -> str | None:
        # Every token is compared, so that the time taken says nothing about which one is close.
        owners = [owner for owner, token in known.items() if hmac.compare_digest(sent.encode(), token)]
        return owners[0] if owners else None

    return find
