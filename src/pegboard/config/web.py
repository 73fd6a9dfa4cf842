"""The table `[web]` of a settings file: how pages are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ConfigError

_KEYS: Final = ("timeout_s", "cache_minutes", "reader")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How `web_fetch` reads pages. Which hosts it may reach is said by rules.

    Attributes:
        timeout_s: seconds for one page, redirects included.
        cache_minutes: for how long a page is not asked for again; 0 = never.
        reader: address of a hosted reader that is given pages which cannot be read here; empty = none.
    """

    timeout_s: float = 30.0
    cache_minutes: float = 15.0
    reader: str = ""


def read_web(value: Any, path: Path, *, before: WebSettings) -> WebSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: web must be a table, not {value!r:.60}")
    changes: dict[str, Any] = {}
    for key, one in cast("Mapping[str, Any]", value).items():
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key web.{key}; known: {', '.join(_KEYS)}")
        if key == "reader":
            if not isinstance(one, str) or not one.startswith(("https://", "http://")):
                raise ConfigError(f"{path}: web.reader must be an http or https address, not {one!r:.60}")
        elif (
            isinstance(one, bool)
            or not isinstance(one, int | float)
            or one < 0
            or (one == 0 and key == "timeout_s")
        ):
            raise ConfigError(f"{path}: web.{key} must be a number above 0, not {one!r:.60}")
        changes[key] = one
    return replace(before, **changes)
