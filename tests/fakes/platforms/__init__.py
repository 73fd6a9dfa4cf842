"""Chat platforms as loopback servers that follow their documented APIs; each is one line in PLATFORMS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.fakes.platforms.feishu import Feishu, FeishuLong
from tests.fakes.platforms.matrix import Matrix
from tests.fakes.platforms.platform import Platform
from tests.fakes.platforms.served import WebhookService, WebSocketClients
from tests.fakes.platforms.slack import Slack
from tests.fakes.platforms.telegram import Telegram

PLATFORMS: Final[dict[str, Callable[..., Platform]]] = {
    "feishu": Feishu, "feishu-long": FeishuLong, "matrix": Matrix, "slack": Slack, "telegram": Telegram, "webhook": WebhookService, "websocket": WebSocketClients
}  # fmt: skip


def platform_of(kind: str, **options: Any) -> Platform:
    """The platform that the channels of a kind talk to."""
    return PLATFORMS[kind](**options)
