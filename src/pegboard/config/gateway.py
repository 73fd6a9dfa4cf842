"""The table `[gateway]` of the user's settings: webhooks that come in, and whether the tool may restart it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pegboard.config.reading import table_of, typed
from pegboard.core.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SOURCES: Final = ("env:", "file:", "keyring:")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """One of `[gateway.webhooks.NAME]`.

    Attributes:
        name: the last part of its address.
        secret: where the key of the signature lies: `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`.
        prompt: what the agent is told to do with what comes in.
        session: the session that is told; empty = a fresh one for each message.
        model: who answers, as `--model` takes it; empty = the gateway's.
    """

    name: str
    secret: str
    prompt: str = ""
    session: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """`[gateway]`.

    Attributes:
        restart: whether the tool `gateway` may restart it.
        webhooks: by name.
    """

    restart: bool = False
    webhooks: tuple[WebhookSettings, ...] = ()

    def webhook(self, name: str) -> WebhookSettings | None:
        """The webhook of a name, None if there is none."""
        return next((one for one in self.webhooks if one.name == name), None)


def read_gateway(value: Any, path: Path, *, before: GatewaySettings) -> GatewaySettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = table_of(value, path, "gateway", ("restart", "webhooks"))
    changes: dict[str, Any] = {}
    if "restart" in table:
        changes["restart"] = typed(bool, table["restart"], path, "gateway.restart")
    if "webhooks" in table:
        rows: Mapping[str, Any] = typed(dict, table["webhooks"], path, "gateway.webhooks")
        changes["webhooks"] = before.webhooks + tuple(_webhook(name, row, path) for name, row in rows.items())
    return replace(before, **changes)


def _webhook(name: str, value: Any, path: Path) -> WebhookSettings:
    key = f"gateway.webhooks.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{path}: {key} cannot be the name of a webhook: use letters, digits, - and _")
    row = table_of(value, path, key, ("model", "prompt", "secret", "session"))
    texts: dict[str, str] = {k: typed(str, one, path, f"{key}.{k}") for k, one in row.items()}
    if not texts.get("secret", "").startswith(_SOURCES):
        raise ConfigError(f"{path}: {key}.secret must be env:NAME, file:PATH or keyring:SERVICE/USER")
    return WebhookSettings(name=name, **texts)
