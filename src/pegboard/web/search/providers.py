"""The search providers with a JSON API, by name. A new one is one row."""

from __future__ import annotations

from typing import Final

from pegboard.web.search.json_api import JsonApi

_WORDS: Final = {"day": "day", "week": "week", "month": "month", "year": "year"}

PROVIDERS: Final[dict[str, JsonApi]] = {
    # https://api-dashboard.search.brave.com/app/documentation/web-search
    "brave": JsonApi(
        url="https://api.search.brave.com/res/v1/web/search",
        key_variable="BRAVE_API_KEY",
        key_header=("X-Subscription-Token", "{key}"),
        method="GET",
        fields={
            "q": "{query}", "count": "{count}", "country": "{country}", "search_lang": "{language}",
            "freshness": "{freshness}",
        },
        most=20,
        freshness={"day": "pd", "week": "pw", "month": "pm", "year": "py"},
        date_range="{start}to{end}",
        results="web.results",
        description=("description",),
        age=("age", "page_age"),
    ),
    # https://docs.perplexity.ai/api-reference/search-post
    "perplexity": JsonApi(
        url="https://api.perplexity.ai/search",
        key_variable="PERPLEXITY_API_KEY",
        fields={
            "query": "{query}", "max_results": "{count}", "country": "{country}",
            "search_recency_filter": "{freshness}",
        },
        most=20,
        freshness=_WORDS,
    ),
    # https://open.bochaai.com
    "bocha": JsonApi(
        url="https://api.bochaai.com/v1/web-search",
        key_variable="BOCHA_API_KEY",
        fields={"query": "{query}", "count": "{count}", "freshness": "{freshness}", "summary": True},
        most=50,
        freshness={"day": "oneDay", "week": "oneWeek", "month": "oneMonth", "year": "oneYear"},
        date_range="{start}..{end}",
        results="data.webPages.value",
        title=("name",),
        description=("summary", "snippet"),
        age=("datePublished", "dateLastCrawled"),
    ),
    # https://docs.tavily.com/documentation/api-reference/endpoint/search
    "tavily": JsonApi(
        url="https://api.tavily.com/search",
        key_variable="TAVILY_API_KEY",
        fields={"query": "{query}", "max_results": "{count}", "time_range": "{freshness}"},
        most=20,
        freshness=_WORDS,
        description=("content",),
        age=("published_date",),
    ),
    # https://docs.exa.ai/reference/search
    "exa": JsonApi(
        url="https://api.exa.ai/search",
        key_variable="EXA_API_KEY",
        key_header=("x-api-key", "{key}"),
        fields={
            "query": "{query}", "numResults": "{count}", "startPublishedDate": "{freshness}",
            "contents": {"highlights": True},
        },
        most=50,
        since="{date}T00:00:00.000Z",
        description=("highlights", "summary", "text"),
        age=("publishedDate",),
    ),
    # https://serper.dev
    "serper": JsonApi(
        url="https://google.serper.dev/search",
        key_variable="SERPER_API_KEY",
        key_header=("X-API-KEY", "{key}"),
        fields={
            "q": "{query}", "num": "{count}", "gl": "{country_lower}", "hl": "{language}", "tbs": "{freshness}",
        },
        most=50,
        freshness={"day": "qdr:d", "week": "qdr:w", "month": "qdr:m", "year": "qdr:y"},
        results="organic",
        link=("link",),
    ),
    # https://docs.searxng.org/dev/search_api.html; the address is the own instance's.
    "searxng": JsonApi(
        url="",
        method="GET",
        fields={"q": "{query}", "format": "json", "language": "{language}", "time_range": "{freshness}"},
        most=50,
        freshness=_WORDS,
        description=("content",),
        age=("publishedDate",),
    ),
}  # fmt: skip
