"""The table `[web]` of a settings file: how pages are read and the web is searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import ConfigError

_KEYS: Final = ("timeout_s", "cache_minutes", "reader", "search")
_SEARCH_KEYS: Final = ("provider", "timeout_s", "cache_minutes")
_PROVIDER_KEYS: Final = ("key", "url")
FROM_DOCUMENTS: Final = frozenset({
    "web.fetch.timeout_s", "web.fetch.cache_s", "web.search.provider", "web.search.timeout_s", "web.search.cache_s",
})  # fmt: skip
"""Settings of other systems that have their place here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProvider:
    """`[web.search.NAME]`: a provider's key (`env:NAME`, `file:PATH`, `keyring:SERVICE/USER` or the key) and address."""

    key: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How `web_search` searches.

    Attributes:
        provider: names in the order in which they are asked; `auto` stands for every one that has a key and for
            DuckDuckGo behind them.
        timeout_s: seconds for one provider.
        cache_minutes: for how long the same search is not sent again; 0 = never.
        providers: keys and addresses by name.
    """

    provider: tuple[str, ...] = ("auto",)
    timeout_s: float = 10.0
    cache_minutes: float = 15.0
    providers: Mapping[str, SearchProvider] = field(default_factory=dict[str, SearchProvider])


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How `web_fetch` reads pages. Which hosts it may reach is said by rules.

    Attributes:
        timeout_s: seconds for one page, redirects included.
        cache_minutes: for how long a page is not asked for again; 0 = never.
        reader: address of a hosted reader that is given pages which cannot be read here; empty = none.
        search: see SearchSettings.
    """

    timeout_s: float = 30.0
    cache_minutes: float = 15.0
    reader: str = ""
    search: SearchSettings = field(default_factory=SearchSettings)


def read_web(value: Any, path: Path, *, before: WebSettings) -> WebSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = _table(value, "web", path)
    changes: dict[str, Any] = {}
    for key, one in table.items():
        match key:
            case "reader":
                changes[key] = _address(one, "web.reader", path)
            case "search":
                changes[key] = _search(_table(one, "web.search", path), path, before.search)
            case "timeout_s" | "cache_minutes":
                changes[key] = _number(one, f"web.{key}", path)
            case _:
                raise ConfigError(f"{path}: unknown key web.{key}; known: {', '.join(_KEYS)}")
    return replace(before, **changes)


def web_of_documents(settings: Mapping[str, Any], path: Path, *, before: WebSettings) -> WebSettings:
    """The settings with those of another system's file on top; see FROM_DOCUMENTS.

    Raises:
        ConfigError: a wrong value; the message names file and key.
    """
    fetch: dict[str, Any] = {}
    search: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in FROM_DOCUMENTS:
            continue
        part, name = (search if key.startswith("web.search.") else fetch), key.rpartition(".")[2]
        if name == "provider":
            part[name] = _names(value, key, path)
        elif name == "cache_s":
            part["cache_minutes"] = _number(value, key, path) / 60
        else:
            part[name] = _number(value, key, path)
    return replace(before, **fetch, search=replace(before.search, **search))


def _search(table: Mapping[str, Any], path: Path, before: SearchSettings) -> SearchSettings:
    changes: dict[str, Any] = {}
    providers = dict(before.providers)
    for key, one in table.items():
        if key == "provider":
            changes[key] = _names(one, "web.search.provider", path)
        elif key in _SEARCH_KEYS:
            changes[key] = _number(one, f"web.search.{key}", path)
        elif isinstance(one, Mapping):
            providers[key] = _provider(key, cast("Mapping[str, Any]", one), path)
        else:
            raise ConfigError(
                f"{path}: unknown key web.search.{key}; known: {', '.join(_SEARCH_KEYS)}, and a table for each provider"
            )
    return replace(before, providers=providers, **changes)


def _provider(name: str, table: Mapping[str, Any], path: Path) -> SearchProvider:
    where = f"web.search.{name}"
    unknown = [key for key in table if key not in _PROVIDER_KEYS]
    if unknown:
        raise ConfigError(f"{path}: unknown key {where}.{unknown[0]}; known: {', '.join(_PROVIDER_KEYS)}")
    key = table.get("key", "")
    if not isinstance(key, str):
        raise ConfigError(f"{path}: {where}.key must be a text, not {type(key).__name__}")
    return SearchProvider(key=key, url=_address(table["url"], f"{where}.url", path) if "url" in table else "")


def _table(value: Any, key: str, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {key} must be a table, not {value!r:.60}")
    return cast("Mapping[str, Any]", value)


def _number(value: Any, key: str, path: Path) -> float:
    least = 0.0 if "cache" in key else 0.001
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ConfigError(f"{path}: {key} must be a number above 0, not {value!r:.60}")
    return float(value)


def _address(value: Any, key: str, path: Path) -> str:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        raise ConfigError(f"{path}: {key} must be an http or https address, not {value!r:.60}")
    return value


def _names(value: Any, key: str, path: Path) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(n, str) for n in cast("list[Any]", names))
    ):
        raise ConfigError(f"{path}: {key} must be a name or a list of names, not {value!r:.60}")
    return tuple(cast("list[str]", names))
