"""Web: what a tool may ask of the public web."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pegboard.core.content import Image

TextForm: TypeAlias = Literal["markdown", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A web address, read.

    Attributes:
        url, final_url: as asked for, and where redirects led.
        status: the HTTP status; a page with an error status has been read all the same.
        mime_type: what the server called it.
        title: of the page, may be empty.
        text: the content, whole; Markdown or plain text. Empty for a picture.
        extractor: how the text was made, such as `trafilatura`, `html-to-markdown`, `json`, `pdf`, `raw`.
        image: the picture, where it is one.
        note: what was left out or should be known, may be empty.
    """

    url: str
    final_url: str
    status: int
    mime_type: str
    title: str
    text: str
    extractor: str
    image: Image | None = None
    note: str = ""


class Web(Protocol):
    """Reads web pages. Addresses are checked before anything connects to them."""

    async def fetch(self, url: str, *, form: TextForm = "markdown") -> Page:
        """Read one address; what was read a few minutes ago is not asked for again.

        Raises:
            ToolError: see `pegboard.net.client.HttpClient.request`; Unsupported for content that no text can be made of.
        """
        ...


Freshness: TypeAlias = Literal["any", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What to search the web for.

    Attributes:
        query: the words.
        count: how many results at most, 1 to 50.
        country: two letters (ISO 3166), `ALL` or empty.
        language: two letters (ISO 639), may be empty.
        freshness: how old a page may be, or `YYYY-MM-DD..YYYY-MM-DD`.
    """

    query: str
    count: int = 5
    country: str = ""
    language: str = ""
    freshness: Freshness | str = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One result of a web search; `age` as the provider says it, may be empty."""

    title: str
    url: str
    description: str
    age: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The results of a web search, best first.

    Attributes:
        provider: who searched.
        hits: may be empty: the provider found nothing.
        note: which providers were tried before, what of the request this one cannot do; may be empty.
    """

    provider: str
    hits: Sequence[SearchHit]
    note: str = ""


class WebSearch(Protocol):
    """Searches the web."""

    def hosts(self) -> Sequence[str]:
        """The hosts that a search may be sent to, in the order in which they would be asked.

        Raises:
            Unavailable: see `search`.
        """
        ...

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Search.

        Raises:
            Unavailable: no provider can be asked: no key, or the ones that were asked refused; the message says which.
        """
        ...
