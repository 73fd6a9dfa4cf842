"""StateSeal: what a stateless client carries for us between rounds cannot be made up or changed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, cast

from pegboard.mcp.wire import INVALID_PARAMS, RpcError

Json = dict[str, Any]


class StateSigner:
    """Seals what a stateless client carries for us between rounds, so that it cannot be made up or changed."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, value: Json) -> str:
        """The value as opaque text."""
        body = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        return base64.urlsafe_b64encode(self._mac(body) + body).decode("ascii")

    def unsign(self, text: str) -> Json:
        """The value.

        Raises:
            RpcError: the text is not ours.
        """
        try:
            raw = base64.urlsafe_b64decode(text.encode("ascii"))
        except ValueError:
            raw = b""
        if base64.urlsafe_b64encode(raw).decode("ascii") != text:
            # The decoder forgives what stands behind the padding; a seal must not.
            raw = b""
        if not hmac.compare_digest(raw[:32], self._mac(raw[32:])):
            raise RpcError(INVALID_PARAMS, "requestState is not what this server gave out")
        return cast("Json", json.loads(raw[32:]))

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()
