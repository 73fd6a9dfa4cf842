"""The search providers of this machine: which the settings name, and which have a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pegboard.config.environment import environment
from pegboard.config.secrets import read_source
from pegboard.config.web import SearchProvider, SearchSettings
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.net.client import HttpClient
from pegboard.web.search import Choice, Searcher
from pegboard.web.search.duckduckgo import URL, DuckDuckGo
from pegboard.web.search.json_api import JsonApi, JsonSearch
from pegboard.web.search.providers import PROVIDERS

_KEYLESS = "duckduckgo"


def searcher(settings: SearchSettings, client: HttpClient) -> Searcher:
    """The WebSearch port as the settings have it.

    Raises:
        ConfigError: they name a provider that is not known.
    """
    for name in (*settings.provider, *settings.providers):
        if name not in ("auto", _KEYLESS, *PROVIDERS):
            raise ConfigError(
                f"web.search names {name!r}, which is not a provider; known: auto, {_KEYLESS}, {', '.join(PROVIDERS)}"
            )

    def choices() -> Sequence[Choice]:
        named = [name for name in settings.provider if name != "auto"]
        if "auto" in settings.provider:
            named += [name for name in (*settings.providers, *PROVIDERS, _KEYLESS) if name not in named]
        named = list(dict.fromkeys(named))
        return [_choice(name, settings, client, pinned=name in settings.provider) for name in named]

    return Searcher(choices, cache_s=settings.cache_minutes * 60)


def only(provider: str, key: str = "") -> Searcher:
    """One provider, whatever the settings say; without a key its variable of the environment is read at each search."""
    settings = SearchSettings(provider=(provider,), providers={provider: SearchProvider(key=key)})
    return searcher(settings, HttpClient(timeout_s=settings.timeout_s))


def _choice(name: str, settings: SearchSettings, client: HttpClient, *, pinned: bool) -> Choice:
    own = settings.providers.get(name, SearchProvider())
    if name == _KEYLESS:
        url = own.url or URL
        return Choice(provider=DuckDuckGo(client=client.opening(url), url=url), url=url, pinned=pinned)
    api = PROVIDERS[name] if not own.url else replace(PROVIDERS[name], url=own.url)
    key = _key(name, own.key, api)
    missing = "" if api.url else f"[web.search.{name}] url"
    if api.key_variable and not key():
        missing = api.key_variable
    provider = JsonSearch(name=name, api=api, client=client.opening(api.url), key=key)
    return Choice(provider=provider, url=api.url, missing=missing, pinned=pinned)


def _key(name: str, source: str, api: JsonApi) -> Callable[[], str]:
    def read() -> str:
        if source.startswith(("env:", "file:", "keyring:")):
            try:
                return read_source(f"the key of {name}", source, environment())
            except Unavailable:
                return ""
        return source or environment().get(api.key_variable, "")

    return read
