"""JsonSearch: a search provider with a JSON API, described by a row of a table."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, Final, Literal, cast

from pegboard.core.errors import Unavailable
from pegboard.net.client import HttpClient, HttpReply
from pegboard.ports.web import SearchHit, SearchRequest

_MARKS: Final = re.compile(r"</?(?:strong|b|em|mark)>")
"""What providers put around the words that were searched for."""
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonApi:
    """How a provider is asked, and where its results stand.

    Attributes:
        url: the address; `[web.search.NAME] url` in the settings may name another.
        key_variable: the environment variable that holds the key where the settings name none; empty = none is needed.
        key_header: the header that takes the key, `{key}` in its value.
        method: GET with a query or POST with a JSON body.
        fields: parameters: name to `{query}`, `{count}`, `{country}`, `{language}`, `{freshness}`, or a fixed value.
            One whose value is not known is left out.
        most: results at most.
        freshness: the provider's words for day, week, month and year.
        date_range: how a range of days is written, `{start}` and `{end}`; empty = it cannot be.
        since: write freshness as a date, `YYYY-MM-DD…`, in place of words.
        results: path to the list of results, dots between keys.
        title, link, description, age: keys of one result; the first that has a value counts.
    """

    url: str
    key_variable: str = ""
    key_header: tuple[str, str] = ("Authorization", "Bearer {key}")
    method: Literal["GET", "POST"] = "POST"
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    most: int = 10
    freshness: Mapping[str, str] = field(default_factory=dict[str, str])
    date_range: str = ""
    since: str = ""
    results: str = "results"
    title: tuple[str, ...] = ("title",)
    link: tuple[str, ...] = ("url",)
    description: tuple[str, ...] = ("snippet", "description")
    age: tuple[str, ...] = ("date",)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSearch:
    """One provider that can be asked.

    Attributes:
        name, api: as the table and the settings have it.
        client: sends the requests.
        key: the key, read at each search; empty = there is none.
        today: for freshness that is written as a date; for tests.
    """

    name: str
    api: JsonApi
    client: HttpClient
    key: Callable[[], str]
    today: Callable[[], date] = date.today

    async def search(self, request: SearchRequest) -> tuple[list[SearchHit], str]:
        """The results, and what of the request this provider cannot do.

        Raises:
            Unavailable: it refused or its answer cannot be read; retryable where it only asks to wait.
        """
        api = self.api
        values, left_out = self._values(request)
        fields = {k: _filled(v, values) for k, v in api.fields.items()}
        sent = {k: v for k, v in fields.items() if v not in (None, "")}
        headers = {"accept": "application/json"}
        if key := self.key():
            headers[api.key_header[0]] = api.key_header[1].replace("{key}", key)
        if api.method == "GET":
            params = {k: str(v) for k, v in sent.items()}
            reply = await self.client.request("GET", api.url, headers=headers, params=params)
        else:
            reply = await self.client.request("POST", api.url, headers=headers, json=sent)
        value = _json(reply, self.name)
        rows = _results(value, api.results)
        if not rows:
            _refuse_errors(self.name, reply, value)
        hits = [self._hit(cast("Mapping[str, Any]", row)) for row in rows if isinstance(row, Mapping)]
        return [hit for hit in hits if hit.url][: request.count], left_out

    def _values(self, request: SearchRequest) -> tuple[dict[str, Any], str]:
        """What the fields are filled with, and what cannot be said to this provider."""
        api = self.api
        country = "" if request.country.upper() == "ALL" else request.country
        values: dict[str, Any] = {
            "query": request.query, "count": min(request.count, api.most), "country": country.upper(),
            "country_lower": country.lower(), "language": request.language, "freshness": "",
        }  # fmt: skip
        start, _, end = request.freshness.partition("..")
        missing: list[str] = []
        if end:
            values["freshness"] = api.date_range.format(start=start, end=end)
            missing += ["freshness"] if not api.date_range else []
        elif request.freshness != "any":
            if api.since:
                values["freshness"] = api.since.format(
                    date=self.today() - timedelta(days=_DAYS[request.freshness])
                )
            else:
                values["freshness"] = api.freshness.get(request.freshness, "")
            missing += ["freshness"] if not values["freshness"] else []
        used = json.dumps(dict(api.fields))
        missing += ["country"] if country and "{country" not in used else []
        missing += ["language"] if request.language and "{language}" not in used else []
        return values, f"{self.name} does not take {' and '.join(missing)}." if missing else ""

    def _hit(self, row: Mapping[str, Any]) -> SearchHit:
        api = self.api
        return SearchHit(
            title=_first(row, api.title), url=_first(row, api.link), description=_first(row, api.description),
            age=_first(row, api.age),
        )  # fmt: skip


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A field's value: `{count}` alone keeps its type; a text with an empty part is nothing."""
    if isinstance(value, Mapping):
        return {k: _filled(v, values) for k, v in cast("Mapping[str, Any]", value).items()}
    if not isinstance(value, str) or "{" not in value:
        return value
    for name, one in values.items():
        if value == "{" + name + "}":
            return one
        if "{" + name + "}" in value:
            return value.replace("{" + name + "}", str(one)) if one != "" else ""
    return value


def _json(reply: HttpReply, name: str) -> Any:
    if reply.status >= 400:
        raise refusal(name, reply)
    try:
        return json.loads(reply.body)
    except ValueError:
        raise Unavailable(f"{name} answered with something that is not JSON") from None


def _refuse_errors(name: str, reply: HttpReply, value: Any) -> None:
    """An answer without results that holds an error is no empty one, whatever its status says."""
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {"error": value}
    status = str(found.get("code") or found.get("status") or "")
    if status.isdecimal() and 400 <= int(status) < 600:
        raise refusal(name, replace(reply, status=int(status)))
    # SearXNG names the engines that failed; what the others would have found nobody knows.
    if said := found.get("error") or found.get("errors") or found.get("unresponsive_engines"):
        raise Unavailable(f"{name} answered with an error: {' '.join(str(said).split())[:200]}")


def refusal(name: str, reply: HttpReply) -> Unavailable:
    """What a provider's error status means, with its own words."""
    said = " ".join(reply.body[:2000].decode("utf-8", "replace").split())[:200]
    if reply.status in (401, 403):
        return Unavailable(
            f"{name} refused the key ({reply.status}): {said}", hint="Check the key in the settings."
        )
    if reply.status in (202, 429):
        wait = reply.headers.get("retry-after", "")
        asks = f"; it asks to wait {wait} s" if wait.isdigit() else ""
        return Unavailable(f"{name} limits its searches ({reply.status}){asks}: {said}", retryable=True)
    return Unavailable(f"{name} answered {reply.status}: {said}", retryable=reply.status >= 500)


def _results(value: Any, path: str) -> list[Any]:
    for key in path.split("."):
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return cast("list[Any]", value) if isinstance(value, list) else []


def _first(row: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = row.get(key)
        if isinstance(value, list):
            value = " … ".join(str(v) for v in cast("list[Any]", value))
        if value:
            return " ".join(html.unescape(_MARKS.sub("", str(value))).split())
    return ""
