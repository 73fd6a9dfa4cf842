"""terminal: a channel that shows messages on standard error of whatever process delivers them."""

from __future__ import annotations

import sys

from pegboard.core.text import sanitise
from pegboard.ports.channel import Capabilities, NotDelivered
from pegboard.ports.messages import OutboundMessage


class TerminalChannel:
    """Shows messages where commands show notes; standard output is for answers.

    Args:
        name: the channel's.
    """

    capabilities = Capabilities(silent=True)

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        chat = f" ({message.to.chat_id})" if message.to.chat_id else ""
        try:
            print(sanitise(f"message{chat}: {message.content}"), file=sys.stderr, flush=True)
        except (OSError, ValueError) as error:
            raise NotDelivered(f"standard error cannot be written: {error}") from None
        return key
