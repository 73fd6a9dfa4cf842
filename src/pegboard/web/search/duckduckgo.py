"""DuckDuckGo's HTML page: results without a key."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qs, urljoin, urlsplit

from pegboard.core.errors import Unavailable
from pegboard.net.client import HttpClient
from pegboard.ports.web import SearchHit, SearchRequest
from pegboard.web.charset import decode_page
from pegboard.web.search.json_api import refusal

URL: Final = "https://html.duckduckgo.com/html/"
_FRESHNESS: Final = {"day": "d", "week": "w", "month": "m", "year": "y"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDuckGo:
    """Asks the page that DuckDuckGo serves to browsers without JavaScript.

    Attributes:
        client: sends the requests.
        url: the page.
    """

    client: HttpClient
    url: str = URL
    name: str = "duckduckgo"

    async def search(self, request: SearchRequest) -> tuple[list[SearchHit], str]:
        """The results, and what of the request cannot be done here.

        Raises:
            Unavailable: it refused, or its page cannot be read.
        """
        days = request.freshness if ".." in request.freshness else _FRESHNESS.get(request.freshness, "")
        country = "" if request.country.upper() == "ALL" else request.country.lower()
        language = request.language.lower() or ("en" if country else "")
        params = {"q": request.query, "df": days, "kl": f"{country or 'wt'}-{language}" if language else ""}
        headers = {"accept": "text/html", "accept-language": request.language or "en"}
        reply = await self.client.request(
            "GET", self.url, headers=headers, params={k: v for k, v in params.items() if v}
        )
        if reply.status != 200:
            raise refusal(self.name, reply)
        page = decode_page(reply.body, reply.headers.get("content-type", ""))
        return _hits(page, reply.url)[: request.count], ""


def _hits(page: str, url: str) -> list[SearchHit]:
    try:
        lxml: Any = import_module("lxml.html")
    except ImportError:
        raise Unavailable(
            "reading DuckDuckGo's page needs a package that is not installed",
            hint="Install it with: pip install 'pegboard[web]', or set a search provider with a key.",
        ) from None
    tree = lxml.fromstring(page or "<html></html>")
    hits: list[SearchHit] = []
    for result in tree.xpath("//*[contains(concat(' ', normalize-space(@class), ' '), ' result ')]"):
        if "result--ad" in (result.get("class") or ""):
            continue
        links = result.xpath(".//a[contains(@class, 'result__a')]")
        if not links:
            continue
        snippets = result.xpath(".//*[contains(@class, 'result__snippet')]")
        link = _target(urljoin(url, links[0].get("href") or ""))
        if link:
            hits.append(
                SearchHit(title=_text(links[0]), url=link, description=_text(snippets[0]) if snippets else "")
            )
    if not hits and not tree.xpath("//*[contains(@class, 'no-results')]"):
        raise Unavailable(
            "duckduckgo answered without results and without saying that there are none: it takes this for a program",
            hint="Try again in a few minutes, or set a search provider with a key.",
            retryable=True,
        )
    return hits


def _target(link: str) -> str:
    """Where a result leads: DuckDuckGo's links go through a page of its own."""
    parts = urlsplit(link)
    if parts.path.startswith("/l/"):
        return next(iter(parse_qs(parts.query).get("uddg", [])), "")
    return link if parts.scheme in ("http", "https") and not parts.path.startswith("/y.js") else ""


def _text(element: Any) -> str:
    return " ".join(str(element.text_content()).split())
