"""A message as JSON, as files and webhooks get it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from pegboard.ports.messages import OutboundMessage


def payload(message: OutboundMessage, key: str, *, with_data: bool = False) -> dict[str, Any]:
    """`{id, action, channel, chat_id, content, …}`; what is empty is left out.

    Args:
        message: what is sent.
        key: becomes `id`.
        with_data: media have their bytes, in base64 as `data`.
    """
    to = message.to
    media = [
        {
            "name": file.name, "media_type": file.media_type, "size": len(file.data) or file.size,
            **({"data": b64encode(file.data).decode("ascii")} if with_data else {}),
        }
        for file in message.media
    ]  # fmt: skip
    found: dict[str, Any] = {
        "id": key, "action": message.action, "channel": to.channel, "chat_id": to.chat_id,
        "account_id": to.account_id, "thread_id": to.thread_id, "content": message.content,
        "caption": message.caption, "media": media, "reply_to": message.reply_to, "target_id": message.target_id,
        "silent": message.silent, "buttons": [{"text": b.text, "value": b.value or b.text} for b in message.buttons],
        "options": list(message.options),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value}
