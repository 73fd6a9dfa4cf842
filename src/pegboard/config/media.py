"""The table `[media]` of a settings file: who makes pictures and who speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from pegboard.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaProvider:
    """`[media.image.NAME]` or `[media.tts.NAME]`: a provider; what is empty is as usual.

    Attributes:
        key: `env:NAME`, `file:PATH`, `keyring:SERVICE/USER` or the key.
        url: the base address. A name that is not known is a server with OpenAI's paths, and needs one.
        model: the provider's name of it.
        voice: the usual one; for speech alone.
        price: US dollars of one picture, or of a million characters of speech; None = as the tables of prices have it.
    """

    key: str = ""
    url: str = ""
    model: str = ""
    voice: str = ""
    price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaUse:
    """`[media.image]` or `[media.tts]`.

    Attributes:
        provider: its name; `auto` is the first that can be used.
        timeout_s: seconds for one request.
        providers: by name.
    """

    provider: str = "auto"
    timeout_s: float = 120.0
    providers: Mapping[str, MediaProvider] = field(default_factory=dict[str, MediaProvider])


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSettings:
    """Who makes pictures and who speaks."""

    image: MediaUse = field(default_factory=MediaUse)
    tts: MediaUse = field(default_factory=MediaUse)


def read_media(value: Any, path: Path, *, before: MediaSettings) -> MediaSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    changes: dict[str, MediaUse] = {}
    for key, one in _table(value, "media", path).items():
        if key not in ("image", "tts"):
            raise ConfigError(f"{path}: unknown key media.{key}; known: image, tts")
        changes[key] = _service(_table(one, f"media.{key}", path), key, path, getattr(before, key))
    return replace(before, **changes)


def _service(table: Mapping[str, Any], part: str, path: Path, before: MediaUse) -> MediaUse:
    changes: dict[str, Any] = {}
    providers = dict(before.providers)
    for key, one in table.items():
        where = f"media.{part}.{key}"
        if key == "provider":
            changes[key] = _text(one, where, path)
        elif key == "timeout_s":
            if isinstance(one, bool) or not isinstance(one, int | float) or one <= 0:
                raise ConfigError(f"{path}: {where} must be a number above 0, not {one!r:.60}")
            changes[key] = float(one)
        elif isinstance(one, Mapping):
            providers[key] = _provider(cast("Mapping[str, Any]", one), where, path)
        else:
            raise ConfigError(
                f"{path}: unknown key {where}; known: provider, timeout_s, and a table for each provider"
            )
    return replace(before, providers=providers, **changes)


def _provider(table: Mapping[str, Any], where: str, path: Path) -> MediaProvider:
    known = [f.name for f in fields(MediaProvider)]
    for key, one in table.items():
        if key not in known:
            raise ConfigError(f"{path}: unknown key {where}.{key}; known: {', '.join(known)}")
        if key != "price":
            _text(one, f"{where}.{key}", path)
        elif isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one < 1e6:
            raise ConfigError(f"{path}: {where}.price must be a number of US dollars, not {one!r:.60}")
    url = table.get("url", "")
    if url and not url.startswith(("https://", "http://")):
        raise ConfigError(f"{path}: {where}.url must be an http or https address, not {url!r:.60}")
    return MediaProvider(**table)


def _table(value: Any, key: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {key} must be a table, not {value!r:.60}")
    return cast("Mapping[str, Any]", value)


def _text(value: Any, key: str, path: Path) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {key} must be a text, not {value!r:.60}")
    return value
