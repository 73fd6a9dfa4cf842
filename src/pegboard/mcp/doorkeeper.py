"""Doorkeeper: who may speak to the HTTP face, by Host, Origin and token (decisions 9; security.md, gateway)."""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from pegboard.mcp.asgi import Scope

_FAILURES: Final = 30
_WINDOW_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class HttpRejection:
    """An HTTP status, and words."""

    status: int
    text: str


class RequestGuard:
    """Judges the heads of requests.

    Args:
        tokens: by owner, the token that every request of that client carries; None = no token is asked for.
        hosts: accepted values of the Host header, in any case, with port.
        origins: accepted values of the Origin header, None = those of `hosts`; a request without one passes.
        path: where the protocol is served.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        tokens: Mapping[str, str] | None,
        *,
        hosts: Sequence[str],
        origins: Sequence[str] | None,
        path: str,
        clock: Callable[[], float],
    ) -> None:
        self._tokens = (
            None if tokens is None else [(owner, token.encode()) for owner, token in tokens.items()]
        )
        self._hosts = frozenset(h.lower() for h in hosts)
        given = [f"http://{h}" for h in hosts] if origins is None else origins
        self._origins = frozenset(o.lower() for o in given)
        self._path = path
        self._clock = clock
        self._failed: deque[float] = deque(maxlen=_FAILURES)

    def authenticate(self, scope: Scope, headers: Mapping[str, str]) -> str | HttpRejection:
        """Whose request it is (empty where no tokens are asked for), or why it may not go on."""
        if headers.get("host", "").lower() not in self._hosts:
            return HttpRejection(403, "this Host is not served here")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return HttpRejection(403, "this Origin may not speak here")
        if scope["path"] != self._path:
            return HttpRejection(404, "not found")
        query = scope.get("query_string", b"").decode("latin-1")
        if any(
            k.lower() in ("token", "access_token", "key") for k, _ in parse_qsl(query, keep_blank_values=True)
        ):
            return HttpRejection(400, "a token never stands in an address; send it as Authorization: Bearer")
        return "" if self._tokens is None else self._owner(headers, self._tokens)

    def _owner(self, headers: Mapping[str, str], tokens: Sequence[tuple[str, bytes]]) -> str | HttpRejection:
        now = self._clock()
        scheme, _, value = headers.get("authorization", "").partition(" ")
        given = value.strip().encode()
        # Every token is compared, so that the time tells nothing of which one is near.
        owners = [owner for owner, token in tokens if hmac.compare_digest(given, token)]
        if scheme.lower() == "bearer" and owners:
            return owners[0]
        if len([t for t in self._failed if now - t < _WINDOW_S]) >= _FAILURES:
            return HttpRejection(429, "too many wrong tokens; wait a minute")
        self._failed.append(now)
        return HttpRejection(401, "a token is needed: Authorization: Bearer")
