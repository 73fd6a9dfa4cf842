"""The tables `[channels.NAME]` of the user's settings: where messages can go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pegboard.config.reading import path_of, table_of, typed
from pegboard.core.errors import ConfigError

_KINDS: Final = {"file": ("path",), "webhook": ("secret", "url")}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SOURCES: Final = ("env:", "file:", "keyring:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """One of `[channels.NAME]`.

    Attributes:
        name: the channel's.
        kind: `file` or `webhook`.
        path: of kind file: the file that messages are appended to.
        url: of kind webhook: where messages are posted to; empty = each message names its URL.
        secret: of kind webhook: where the key of its signature lies: `env:NAME`, `file:PATH` or
            `keyring:SERVICE/USER`; empty = it is not signed.
    """

    name: str
    kind: str
    path: Path = Path()
    url: str = ""
    secret: str = ""


def read_channels(table: Mapping[str, Any], path: Path) -> tuple[ChannelSettings, ...]:
    """The channels of a file.

    Raises:
        ConfigError: a name, kind, key or value is wrong; the message names file and key.
    """
    return tuple(_channel(name, value, path) for name, value in table.items())


def _channel(name: str, value: Any, path: Path) -> ChannelSettings:
    key = f"channels.{name}"
    if not _NAME.fullmatch(name) or name in ("session", "terminal"):
        raise ConfigError(f"{path}: {key} cannot be the name of a channel: use letters, digits, - and _")
    row = table_of(value, path, key, ("kind", *sorted({k for keys in _KINDS.values() for k in keys})))
    kind = typed(str, row.pop("kind", "webhook" if name == "webhook" else ""), path, f"{key}.kind")
    if kind not in _KINDS:
        raise ConfigError(f"{path}: {key}.kind is {kind!r}; known: {', '.join(_KINDS)}")
    for wrong in row.keys() - set(_KINDS[kind]):
        raise ConfigError(f"{path}: {key}.{wrong} has no meaning for a channel of kind {kind}")
    texts: dict[str, str] = {k: typed(str, one, path, f"{key}.{k}") for k, one in row.items()}
    if kind == "file":
        if not texts.get("path"):
            raise ConfigError(f'{path}: {key} needs a path, such as path = "~/messages.jsonl"')
        return ChannelSettings(name=name, kind=kind, path=path_of(texts["path"], path, f"{key}.path"))
    url, secret = texts.get("url", ""), texts.get("secret", "")
    if url and (not url.lower().startswith(("https://", "http://")) or not urlsplit(url).hostname):
        raise ConfigError(f"{path}: {key}.url must be an http or https URL, not {url[:100]!r}")
    if secret and not secret.startswith(_SOURCES):
        raise ConfigError(f"{path}: {key}.secret must be env:NAME, file:PATH or keyring:SERVICE/USER")
    return ChannelSettings(name=name, kind=kind, url=url, secret=secret)
