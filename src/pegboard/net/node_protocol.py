"""The protocol between a gateway and its nodes: JSON objects over a WebSocket, each end proved by its Ed25519 key.

    gateway: challenge {protocol, key, nonce}
    node:    hello {protocol, key, nonce, signature, name, kind, platform, capabilities}
    gateway: pair {code, expires_s}                  while no person has approved the node
    gateway: welcome {signature, capabilities}       or refused {code, message, hint}
    gateway: call {id, action, values, timeout_s}, cancel {id}, approvals {approvals}
    node:    result {id, values}, error {id, code, message, hint}, answer {approval, decision, reason}

Both signatures are over both keys and both nonces, with the role of the signer, so that neither can be used again or
for the other end. They prove who connects; what is sent afterwards is protected by TLS, or does not leave the machine.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from pegboard.core.errors import InvalidArguments

PROTOCOL: Final = 1
PATH: Final = "/api/node"
MAX_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes of one message, such as a picture in base64; the gateway's server takes no larger one."""
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")


def new_nonce() -> str:
    """32 random bytes, base64."""
    return base64.b64encode(os.urandom(32)).decode("ascii")


def signed_text(
    role: Literal["node", "gateway"], *, gateway_key: str, gateway_nonce: str, node_key: str, node_nonce: str
) -> bytes:
    """What an end signs."""
    return "\n".join(
        ("pegboard node 1", role, gateway_key, gateway_nonce, node_key, node_nonce)
    ).encode("utf-8", "replace")  # fmt: skip


class Key:
    """A private Ed25519 key.

    Args:
        seed: 32 bytes.
    """

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public: str = base64.b64encode(self._key.public_key().public_bytes_raw()).decode("ascii")
        """The public key, base64."""

    def sign(self, text: bytes) -> str:
        """The signature, base64."""
        return base64.b64encode(self._key.sign(text)).decode("ascii")


def verifies(public: str, signature: str, text: bytes) -> bool:
    """Whether a signature is that of a public key over a text; False for what is no key or signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
        key.verify(base64.b64decode(signature, validate=True), text)
    except (ValueError, InvalidSignature):
        return False
    return True


def key_words(public: str) -> str:
    """A public key for two people to compare: the start of its SHA-256, in groups of four hex digits."""
    digest = hashlib.sha256(public.encode("utf-8", "replace")).hexdigest()
    return " ".join(digest[i : i + 4] for i in range(0, 16, 4))


def node_name(text: str) -> str:
    """A name that a node can have, made of any text."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:32].rstrip("-")
    return name if NAME.fullmatch(name) else f"node-{name}"[:32].rstrip("-")


def read_message(text: str | bytes) -> dict[str, Any]:
    """A message as an object with a `type`.

    Raises:
        InvalidArguments: it is none.
    """
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(cast("dict[str, Any]", value).get("type"), str):
        raise InvalidArguments("a message of the node protocol is a JSON object with a type")
    return cast("dict[str, Any]", value)


def message(type: str, **fields: Any) -> str:
    """A message as it is sent."""
    return json.dumps({"type": type, **fields}, ensure_ascii=True)


def text_field(message: Mapping[str, Any], name: str, *, most: int = 400) -> str:
    """A text of a message.

    Raises:
        InvalidArguments: it is missing, no text or too long.
    """
    value = message.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise InvalidArguments(f"{message.get('type')}: {name} must be a text of at most {most} characters")
    return value


def texts_field(message: Mapping[str, Any], name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """A list of known words of a message, each once and in their usual order; what is not known is left out.

    Raises:
        InvalidArguments: it is no list.
    """
    value = message.get(name)
    if not isinstance(value, list):
        raise InvalidArguments(f"{message.get('type')}: {name} must be a list")
    return tuple(word for word in known if word in cast("list[object]", value))
