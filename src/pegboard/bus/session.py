"""session: a channel that puts a message into the inbox of another session of this store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pegboard.core.errors import InvalidArguments
from pegboard.ports.channel import Capabilities
from pegboard.ports.messages import InboundMessage, OutboundMessage


class SessionChannel:
    """A message's chat is the session's key. What the sender has read is labelled there too.

    A silent one starts no run: the session's next run reads it.

    Args:
        name: the channel's.
        add: keeps a message in the inbox; one of an id that waits there already is the same one.
    """

    capabilities = Capabilities(idempotent=True, silent=True)

    def __init__(self, name: str, *, add: Callable[[InboundMessage], Awaitable[object]]) -> None:
        self.name = name
        self._add = add

    def check(self, message: OutboundMessage) -> None:
        """See Channel."""
        if not message.to.chat_id or "\x1f" in message.to.chat_id:
            raise InvalidArguments("channel session needs the key of a session as its chat_id")

    async def send(self, message: OutboundMessage, key: str) -> str:
        """See Channel."""
        told = InboundMessage(
            session=message.to.chat_id, content=message.content, id=key, by="session", labels=message.labels,
            workspace=message.workspace, wake=not message.silent,
        )  # fmt: skip
        await self._add(told)
        return key
