"""Searching the web: one provider, or several of which the next is asked where one refuses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.web import SearchAnswer, SearchHit, SearchRequest

_KEPT_MOST: Final = 200
_PAUSE_S: Final = 60.0
"""Seconds for which a provider that limits its searches is not asked again."""


class Provider(Protocol):
    """One search provider."""

    @property
    def name(self) -> str:
        """As the settings name it."""
        ...

    async def search(self, request: SearchRequest) -> tuple[list[SearchHit], str]:
        """The results, and what of the request it cannot do.

        Raises:
            Unavailable: it refused, or its answer cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A provider in the order in which they are asked.

    Attributes:
        provider: who is asked.
        url: where.
        missing: what it needs before it can be asked, such as `BRAVE_API_KEY`; empty = nothing.
        pinned: it was named in the settings: where something is missing, that is an error.
    """

    provider: Provider
    url: str
    missing: str = ""
    pinned: bool = False


class Searcher:
    """The WebSearch port.

    Args:
        choices: gives the providers in order; asked at each search, since keys may change while this runs.
        cache_s: seconds for which the same search is not sent again.
        clock: time; for tests.
    """

    def __init__(self, choices: Choices, *, cache_s: float = 900.0, clock: Clock | None = None) -> None:
        self._choices = choices
        self._cache_s = cache_s
        self._clock = clock or SystemClock()
        self._kept: OrderedDict[SearchRequest, tuple[float, SearchAnswer]] = OrderedDict()
        self._paused: dict[str, float] = {}

    def hosts(self) -> Sequence[str]:
        """See WebSearch."""
        return list(
            dict.fromkeys(urlsplit(one.url).netloc.rpartition("@")[2].lower() for one in self._usable())
        )

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """See WebSearch."""
        kept = self._kept.get(request)
        if kept is not None and self._clock.monotonic() - kept[0] < self._cache_s:
            return kept[1]
        problems: list[ToolError] = []
        for choice in self._usable():
            name = choice.provider.name
            if (left := self._paused.get(name, 0.0) - self._clock.monotonic()) > 0:
                problems.append(
                    Unavailable(f"{name} limits its searches; asked again in {left:.0f} s", retryable=True)
                )
                continue
            try:
                hits, note = await choice.provider.search(request)
            except ToolError as error:
                if error.retryable and "limits" in error.message:
                    self._paused[name] = self._clock.monotonic() + _PAUSE_S
                problems.append(error)
                continue
            tried = [f"{error.message.rstrip('.')}." for error in problems]
            answer = SearchAnswer(provider=name, hits=hits, note=" ".join(filter(None, (*tried, note))))
            self._kept[request] = (self._clock.monotonic(), answer)
            while len(self._kept) > _KEPT_MOST:
                self._kept.popitem(last=False)
            return answer
        if len(problems) == 1:
            raise problems[0]
        raise Unavailable(
            "no search provider could be asked: " + "; ".join(p.message.rstrip(".") for p in problems),
            hint="Do not take this for an empty result: try again later, or fetch a page that you know.",
            retryable=any(p.retryable for p in problems),
        )

    def _usable(self) -> list[Choice]:
        choices = self._choices()
        for one in choices:
            if one.missing and one.pinned:
                raise Unavailable(
                    f"{one.missing} not configured",
                    hint=f"Set it, or [web.search.{one.provider.name}] key in the settings.",
                )
        return [one for one in choices if not one.missing]


class Choices(Protocol):
    """Gives the providers in the order in which they are asked."""

    def __call__(self) -> Sequence[Choice]: ...
