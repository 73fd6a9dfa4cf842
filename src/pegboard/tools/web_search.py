"""web_search: search the web."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.web import SearchRequest, WebSearch

_MOST: Final = 50
_DAYS: Final = re.compile(r"(\d{4}-\d{2}-\d{2})\s*(?:\.\.|to)\s*(\d{4}-\d{2}-\d{2})\Z")
_FRESHNESS: Final = {
    "any": "any", "nolimit": "any", "all": "any", "day": "day", "pd": "day", "oneday": "day", "d": "day", "week": "week",
    "pw": "week", "oneweek": "week", "w": "week", "month": "month", "pm": "month", "onemonth": "month", "m": "month",
    "year": "year", "py": "year", "oneyear": "year", "y": "year",
}  # fmt: skip
"""What the providers and their clients call the same ages."""


def _count(value: Any) -> Any:
    return min(value, _MOST) if isinstance(value, int) and value > _MOST else value


async def plan_search(call: ValidCall, context: Context) -> Plan:
    """A `connect` for each provider that may be asked."""
    return Plan(tuple(Effect("connect", host) for host in context.port(WebSearch).hosts()))


@tool(
    plan=plan_search,
    touches=("connect",),
    idempotent=True,
    timeout_s=60.0,
    hints=("search the web", "look something up online", "google", "news about", "上网搜索"),
    example={"query": "otter conservation 2026"},
)
async def web_search(
    query: Annotated[str, Field(min_length=1, max_length=500), Alias("q", "search_query", "keywords")],
    count: Annotated[
        int, Field(ge=1, le=_MOST), BeforeValidator(_count), Alias("max_results", "num_results", "limit", "n")
    ] = 5,
    country: Annotated[str, Field(pattern=r"^([A-Za-z]{2}|ALL|all)?$")] = "",
    language: Annotated[
        str, Field(pattern=r"^([A-Za-z]{2}(-[A-Za-z]{2,4})?)?$"), Alias("search_lang", "lang")
    ] = "",
    freshness: Annotated[str, Alias("time_range", "recency")] = "any",
    *,
    search: Inject[WebSearch],
) -> ToolResult:
    """Search the web; gives titles, URLs and short descriptions. Read a result with web_fetch.

    Args:
        query: What to search for.
        count: How many results, 1 to 50; a provider may give fewer.
        country: Results for a country, two letters such as US or DE, or ALL.
        language: Results in a language, two letters such as en or de.
        freshness: any, day, week, month, year, or a range of days 2026-01-01..2026-01-31.
    """
    answer = await search.search(
        SearchRequest(query=query, count=count, country=country, language=language, freshness=_age(freshness))
    )
    rows = [{"title": h.title, "url": h.url, "description": h.description, "age": h.age} for h in answer.hits]
    lines = [f"Results for: {query}"] if rows else [f"No results for: {query}"]
    for number, hit in enumerate(answer.hits, 1):
        lines += [f"{number}. {hit.title}", f"   {hit.url}", f"   {hit.description}"]
    if answer.note:
        lines += ["", f"Note: {answer.note}"]
    data = {"query": query, "provider": answer.provider, "results": rows}
    return ToolResult.from_text("\n".join(lines), data=data)


def _age(freshness: str) -> str:
    """The age in our words.

    Raises:
        InvalidArguments: it is no age and no range of days.
    """
    if days := _DAYS.match(freshness.strip()):
        if days[1] > days[2]:
            raise InvalidArguments(
                f"freshness {freshness!r} ends before it begins", hint=f"Send {days[2]}..{days[1]}."
            )
        return f"{days[1]}..{days[2]}"
    meant = _FRESHNESS.get(freshness.strip().lower().replace("_", "").replace("-", ""))
    if meant is None:
        raise InvalidArguments(
            f"freshness {freshness!r} is not known",
            hint="Send any, day, week, month, year or 2026-01-01..2026-01-31.",
        )
    return meant
