"""Who may send a request: Host, Origin and token are checked before an endpoint runs."""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

_MAX_FAILURES: Final = 30
_WINDOW_S: Final = 60.0
_SINGLE: Final = (b"host", b"origin", b"authorization", b"content-type")
_TOKEN_PARAMETERS: Final = {"token", "access_token", "key"}


def plain_refusal(refusal: HTTPException) -> Response:
    """The refusal as a line of text."""
    return PlainTextResponse(refusal.detail, refusal.status_code, refusal.headers)


class RequestGuard:
    """ASGI middleware that refuses requests of other sites, for other hosts, or without a token.

    `request.state.owner` is the owner of an accepted request's token, empty if no tokens are required. A refused web
    socket is closed with 1008.

    Args:
        app: the application behind the guard.
        tokens: token by owner, expected as `Authorization: Bearer`; None = not required (loopback only).
        hosts: accepted Host headers, as `name:port`, in any case.
        origins: accepted Origin headers, None = those of `hosts`. Requests without an Origin pass.
        public: paths that need no token.
        refuse: makes the response to a refused request.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Mapping[str, str] | None,
        hosts: Sequence[str],
        origins: Sequence[str] | None = None,
        public: Collection[str] = (),
        refuse: Callable[[HTTPException], Response] = plain_refusal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._tokens = None if tokens is None else {owner: token.encode() for owner, token in tokens.items()}
        self._hosts = {h.lower() for h in hosts}
        # A proxy in front of us may speak https.
        own = [f"{scheme}://{h}" for h in hosts for scheme in ("http", "https")]
        self._origins = {o.lower() for o in (own if origins is None else origins)}
        self._public = frozenset(public)
        self._refuse = refuse
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            self._check_source(scope)
            public = scope["path"] in self._public
            owner = "" if public else self._authenticate(Headers(scope=scope).get("authorization", ""))
        except HTTPException as refusal:
            if scope["type"] == "websocket":
                await WebSocketClose(1008, refusal.detail)(scope, receive, send)
            else:
                await self._refuse(refusal)(scope, receive, send)
            return
        scope.setdefault("state", {})["owner"] = owner
        await self._app(scope, receive, send)

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

    def _authenticate(self, authorization: str) -> str:
        if self._tokens is None:
            return ""
        scheme, _, value = authorization.partition(" ")
        sent = value.strip().encode()
        # Every token is compared, so that the time taken says nothing about which one is close.
        owners = [owner for owner, token in self._tokens.items() if hmac.compare_digest(sent, token)]
        if scheme.lower() == "bearer" and owners:
            return owners[0]
        now = self._clock()
        if sum(now - failed < _WINDOW_S for failed in self._failures) >= _MAX_FAILURES:
            raise HTTPException(429, "too many wrong tokens; wait a minute", {"Retry-After": "60"})
        self._failures.append(now)
        raise HTTPException(
            401, "a token is required: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
        )
