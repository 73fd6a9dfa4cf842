"""Channel: a way to people, such as a webhook, a file or a messenger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pegboard.core.errors import ToolError
from pegboard.ports.messages import OutboundMessage


class NotDelivered(ToolError):
    """The channel did not take the message; `retryable` says whether it may later."""

    default_code = "not_delivered"
    default_retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a channel can do.

    Attributes:
        max_chars: length of the longest text, as `length` counts; 0 = no limit.
        length: length of a text as the channel counts it, such as in UTF-16 units or with what is escaped. The length
            of two texts is that of both together.
        media, buttons, silent: whether messages may have them; `silent` is left out where not.
        edit, delete, react, poll: which actions it has beside `send`.
        idempotent: a message that it is given twice under one key arrives once.
    """

    max_chars: int = 0
    length: Callable[[str], int] = len
    media: bool = False
    buttons: bool = False
    silent: bool = False
    edit: bool = False
    delete: bool = False
    react: bool = False
    poll: bool = False
    idempotent: bool = False


class Channel(Protocol):
    """One configured channel."""

    @property
    def name(self) -> str:
        """Its name, as messages and settings have it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def check(self, message: OutboundMessage) -> None:
        """Look at a message before it is kept.

        Raises:
            InvalidArguments: its destination is none of this channel.
        """
        ...

    async def send(self, message: OutboundMessage, key: str) -> str:
        """Hand over a message that fits `capabilities`; its id there.

        Args:
            message: with the bytes of its media.
            key: names this delivery; a retry has the same.

        Raises:
            NotDelivered: it was certainly not taken.
            ToolError, OSError: anything else; then nobody knows whether it was.
        """
        ...


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text) + sum(1 for c in text if c > "\uffff")
