"""The outbox by the settings: its channels, and what guards them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from pegboard.app.ports import guarded_client
from pegboard.bus import CHANNELS
from pegboard.config.channels import ChannelSettings
from pegboard.config.environment import environment
from pegboard.config.load import Config
from pegboard.config.secrets import read_source
from pegboard.core.policy.policy import Policy
from pegboard.core.result import SupportsRedact
from pegboard.core.toolkit import import_object
from pegboard.ports.channel import Channel
from pegboard.ports.messages import InboundMessage
from pegboard.ports.store import Store
from pegboard.services.outbox import StoredMessages
from pegboard.store.inbox import Inbox

_SEND_S = 30.0


def stored_messages(
    store: Callable[[], Awaitable[Store]],
    *,
    config: Config,
    policy: Policy,
    redact: SupportsRedact,
    workspace: Path | None,
    notify: Callable[[str], None] | None = None,
) -> StoredMessages:
    """The outbox of a store with the channels of the settings.

    Args:
        store: opens it.
        config: names the channels, and what the network guard opens.
        policy: its rules that deny hosts hold for webhooks too.
        redact: takes secrets out of what is sent.
        workspace: the folder that the sessions work in.
        notify: is given each sentence that a person should know; None = nobody is.
    """
    return StoredMessages(
        store, channels=_channels(config, policy, store), redact=redact.redact,
        workspace="" if workspace is None else str(workspace), notify=notify or _say_nothing,
    )  # fmt: skip


def _say_nothing(text: str) -> None:
    """Where nobody is told: the outbox tells whoever looks."""


def _channels(config: Config, policy: Policy, store: Callable[[], Awaitable[Store]]) -> dict[str, Channel]:
    """By name: those that are always there, and those of the settings."""
    named = [ChannelSettings(name=name, kind=name) for name in ("session", "terminal", "webhook")]
    return {one.name: _channel(one, config, policy, store) for one in (*named, *config.channels)}


def _channel(
    settings: ChannelSettings, config: Config, policy: Policy, store: Callable[[], Awaitable[Store]]
) -> Channel:
    make: Any = import_object(CHANNELS[settings.kind])
    match settings.kind:
        case "file":
            return make(settings.name, path=settings.path)
        case "session":

            async def add(message: InboundMessage) -> bool:
                return await Inbox(await store()).add(message)

            return make(settings.name, add=add)
        case "webhook":
            client = guarded_client(
                policy, config.network, tool="message", timeout_s=_SEND_S, max_redirects=0
            )
            secret = partial(_secret, settings) if settings.secret else None
            return make(settings.name, client=client, url=settings.url, secret=secret)
        case _:
            return make(settings.name)


def _secret(settings: ChannelSettings) -> str:
    return read_source(f"channel {settings.name!r}", settings.secret, environment())
