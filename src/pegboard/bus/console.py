"""console: a channel that shows messages in a session of the web console; the outbox, which keeps them, is what it reads."""

from __future__ import annotations

from pegboard.core.errors import InvalidArguments
from pegboard.core.session_key import check_session_key
from pegboard.ports.channel import Capabilities
from pegboard.ports.messages import OutboundMessage


class ConsoleChannel:
    """A message's chat is the session's key. It is shown as long as the outbox keeps it, a week.

    Args:
        name: the channel's.
    """

    capabilities = Capabilities(idempotent=True, silent=True)

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        try:
            check_session_key(message.to.chat_id)
        except InvalidArguments as error:
            raise InvalidArguments(
                f"channel {self.name} needs the key of a session as its chat_id: {error.message}",
                hint="See pegboard sessions for the keys.",
            ) from None

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        return key
