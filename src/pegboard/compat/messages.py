"""`message` over a callback or a message bus of the document's own program, in place of this machine's channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pegboard.compat.builtin import bound, builtin_tool
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import Unavailable
from pegboard.core.tool import Tool
from pegboard.ports.files import Files
from pegboard.ports.messages import Delivery, Destination, Messages
from pegboard.ports.messages import OutboundMessage as Outbound


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    """A message as the documents' buses take it.

    Attributes:
        channel, chat_id, content: as its call says, or of the chat that is answered.
        media: paths.
        metadata: `message_id` of the message that is answered.
    """

    channel: str
    chat_id: str
    content: str
    media: list[str] = field(default_factory=list[str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def channel_id(self) -> str:
        """NanoBot.Net's name for `channel`."""
        return self.channel


Send = Callable[[OutboundMessage], Awaitable[object] | object]
"""Takes a message on, async or not."""


class CallbackMessages:
    """The Messages port over a callback.

    Args:
        send: gives the callback; None = there is none yet.
    """

    def __init__(self, send: Callable[[], Send | None]) -> None:
        self._send = send

    async def send(self, message: Outbound) -> Delivery:
        """See Messages.

        Raises:
            Unavailable: there is no callback.
        """
        send = self._send()
        if send is None:
            raise Unavailable("message sending is not configured", hint="Call set_send_callback first.")
        # Not at the top: that package imports this module.
        from pegboard.compat.nanobot.context import current_origin

        to, origin = message.to, current_origin()
        done = send(
            OutboundMessage(
                channel=to.channel, chat_id=to.chat_id, content=message.content or message.caption,
                media=[file.path or file.name for file in message.media],
                metadata={"message_id": message.reply_to or origin.message_id},
            )
        )  # fmt: skip
        if hasattr(done, "__await__"):
            await cast("Awaitable[object]", done)
        return Delivery(id=message.id, status="sent", to=to, sent=(message.id,))

    def default(self) -> Destination | None:
        """See Messages."""
        from pegboard.compat.nanobot.context import current_origin

        origin = current_origin()
        return Destination(channel=origin.channel, chat_id=origin.chat_id) if origin.channel else None

    def channels(self) -> Sequence[str]:
        """See Messages."""
        return ()


def message_tool(messages: CallbackMessages | None = None) -> Tool:
    """`message` that answers the chat which `set_context` named without a question, and notes what was sent there.

    Args:
        messages: what sends; None = the channels of this machine.
    """
    ours = builtin_tool("message")
    planned = cast("Callable[[Any, Context], Awaitable[Plan]]", ours.plan)
    from pegboard.compat.nanobot.context import current_target, mark_sent

    tool = ours if messages is None else bound(ours, messages=messages)
    function = tool.function

    async def plan(call: Any, context: Context) -> Plan:
        if messages is not None:
            context = replace(context, ports={Messages: messages, Files: context.port(Files)})
        made = await planned(call, context)
        here = ":".join(part for part in current_target() if part)
        return replace(made, effects=tuple(_answering(effect, here) for effect in made.effects))

    async def run(**arguments: Any) -> Any:
        result = await function(**arguments)
        data = cast("Mapping[str, Any]", result.data)
        if data["status"] == "sent" and (data["channel"], data["chat_id"]) == current_target():
            mark_sent()
        return result

    return tool.copy(function=run, plan=plan)


def _answering(effect: Effect, here: str) -> Effect:
    return replace(effect, at_least="allow") if effect.kind == "send" and effect.target == here else effect
