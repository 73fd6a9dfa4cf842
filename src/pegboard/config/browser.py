"""The table `[browser]` of a settings file: which browser the tool of that name uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from pegboard.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSettings:
    """Which browser is used.

    Attributes:
        executable: Chromium's program; empty = the first one found.
        headless: without a window.
        cdp_url: DevTools address of a remote browser, which is then the usual one; may be empty.
    """

    executable: str = ""
    headless: bool = True
    cdp_url: str = ""


def read_browser(value: Any, path: Path, *, before: BrowserSettings) -> BrowserSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: browser must be a table, not {value!r:.60}")
    table = cast("Mapping[str, Any]", value)
    known: dict[str, type] = {f.name: type(getattr(before, f.name)) for f in fields(before)}
    for key, given in table.items():
        if key not in known:
            raise ConfigError(f"{path}: unknown key browser.{key}; known: {', '.join(known)}")
        if type(given) is not known[key]:
            meant = "true or false" if known[key] is bool else "text"
            raise ConfigError(f"{path}: browser.{key} must be {meant}, not {given!r:.60}")
    url = table.get("cdp_url", "")
    if url and not url.startswith(("http://", "https://", "ws://", "wss://")):
        raise ConfigError(f"{path}: browser.cdp_url must be an http or ws address, not {url!r:.60}")
    return replace(before, **table)
