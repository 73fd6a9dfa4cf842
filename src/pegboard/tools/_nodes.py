"""What the tools that reach nodes share: effects of a call on one, and the picture that it sends."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Mapping
from typing import Any, Final

from pegboard.core.content import Image, media_type_of
from pegboard.core.effects import Effect
from pegboard.core.errors import Unavailable
from pegboard.ports.nodes import CONSOLE

_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/webp"})


def node_effects(name: str, what: str, reason: str) -> tuple[Effect, ...]:
    """Reaching a node, which its pairing allows, and doing something there, which asks."""
    known = "you have it open" if name == CONSOLE else "you have paired it"
    return (
        Effect("connect", f"node:{name}", at_least="allow", reason=known),
        Effect("control", f"node:{name}:{what}", at_least="ask", reason=reason),
    )


def picture_of(name: str, values: Mapping[str, Any], label: str) -> Image:
    """The picture in a node's answer.

    Raises:
        Unavailable: there is none.
    """
    try:
        data = b64decode(str(values.get("data")), validate=True)
    except (BadBase64, ValueError):
        data = b""
    kind = media_type_of(data)
    if kind not in _PICTURES:
        raise Unavailable(f"{name} sent no picture", hint="Try again.", retryable=True)
    return Image(data=data, mime_type=kind, label=label)
