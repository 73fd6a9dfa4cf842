"""web_search: each provider's documented format, the chain of providers, and what a search may not be taken for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pegboard import Executor, builtin
from pegboard.app.search import searcher
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.web import SearchProvider, SearchSettings
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.net.client import HttpClient
from pegboard.ports.web import SearchHit, SearchRequest
from pegboard.web.search import Choice, Searcher
from pegboard.web.search.duckduckgo import DuckDuckGo
from pegboard.web.search.json_api import JsonSearch
from pegboard.web.search.providers import PROVIDERS
from tests.ledger import owes
from tests.web.site import Asked, Site, site

ROW = {"title": "Otters", "url": "https://otters.example/", "text": "They eat fish.", "age": "2026-11-02"}


def reply_of(name: str) -> dict[str, Any]:
    """A result in each provider's documented form."""
    t, u, d, a = ROW.values()
    return {
        "brave": {"type": "search", "web": {"type": "search", "results": [{"title": t, "url": u, "description": d, "age": a}]}},
        "perplexity": {"id": "x", "results": [{"title": t, "url": u, "snippet": d, "date": a, "last_updated": a}]},
        "bocha": {"code": 200, "data": {"webPages": {"value": [
            {"name": t, "url": u, "snippet": "short", "summary": d, "datePublished": a}]}}},
        "tavily": {"query": "q", "results": [{"title": t, "url": u, "content": d, "score": 0.9, "published_date": a}]},
        "exa": {"requestId": "r", "results": [{"title": t, "url": u, "publishedDate": a, "highlights": [d]}]},
        "serper": {"searchParameters": {}, "organic": [{"title": t, "link": u, "snippet": d, "date": a, "position": 1}]},
        "searxng": {"query": "q", "results": [{"title": t, "url": u, "content": d, "publishedDate": a}]},
    }[name]  # fmt: skip


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


def provider(name: str, here: Site, key: str = "k1") -> JsonSearch:
    from dataclasses import replace

    api = replace(PROVIDERS[name], url=here.url(f"/{name}"))
    client = HttpClient(allow=(here.place,))
    return JsonSearch(name=name, api=api, client=client, key=lambda: key, today=lambda: date(2026, 11, 10))


def sent(asked: Asked) -> dict[str, Any]:
    if asked.body:
        return json.loads(asked.body)
    return {k: v[0] for k, v in parse_qs(urlsplit(asked.path).query).items()}


FULL = SearchRequest(query="otters & fish", count=7, country="de", language="en", freshness="week")


@owes("N-69", "M-22", "M-23", "M-24", "M-25", "K-53")
@pytest.mark.parametrize(
    ("name", "expected", "header"),
    [
        ("brave", {"q": "otters & fish", "count": "7", "country": "DE", "search_lang": "en", "freshness": "pw"},
         ("x-subscription-token", "k1")),
        ("perplexity", {"query": "otters & fish", "max_results": 7, "country": "DE", "search_recency_filter": "week"},
         ("authorization", "Bearer k1")),
        ("bocha", {"query": "otters & fish", "count": 7, "freshness": "oneWeek", "summary": True}, ("authorization", "Bearer k1")),
        ("tavily", {"query": "otters & fish", "max_results": 7, "time_range": "week"}, ("authorization", "Bearer k1")),
        ("exa", {"query": "otters & fish", "numResults": 7, "startPublishedDate": "2026-11-03T00:00:00.000Z",
                 "contents": {"highlights": True}}, ("x-api-key", "k1")),
        ("serper", {"q": "otters & fish", "num": 7, "gl": "de", "hl": "en", "tbs": "qdr:w"}, ("x-api-key", "k1")),
        ("searxng", {"q": "otters & fish", "format": "json", "language": "en", "time_range": "week"}, None),
    ],
)  # fmt: skip
async def test_each_provider_is_asked_and_read_in_its_own_words(
    here: Site, name: str, expected: dict[str, Any], header: tuple[str, str] | None
) -> None:
    here.answer(f"/{name}", json.dumps(reply_of(name)), "application/json")
    hits, _ = await provider(name, here, key="k1" if header else "").search(FULL)

    t, u, d, a = ROW.values()
    assert hits == [SearchHit(title=t, url=u, description=d, age=a)]
    assert sent(here.asked[0]) == expected
    if header:
        assert here.asked[0].headers[header[0]] == header[1]


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("bocha", {"code": 429, "msg": "too many requests"}, "bocha limits its searches (429)"),
        ("bocha", {"code": "403", "message": "not enough money"}, "bocha refused the key (403)"),
        ("exa", {"error": "the index is closed"}, "exa answered with an error: the index is closed"),
        ("searxng", {"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]}, "CAPTCHA"),
        ("tavily", ["nonsense"], "nonsense"),
    ],
)
async def test_an_error_within_an_answer_is_no_empty_result(
    here: Site, name: str, body: Any, says: str
) -> None:
    here.answer(f"/{name}", json.dumps(body), "application/json")

    with pytest.raises(Unavailable) as caught:
        await provider(name, here).search(FULL)

    assert says in caught.value.message


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("brave", {"type": "search", "query": {"original": "q"}}),
        ("bocha", {"code": 200, "data": {"webPages": {"value": []}}}),
        ("searxng", {"results": [], "unresponsive_engines": []}),
    ],
)
async def test_an_answer_without_results_is_an_empty_one(here: Site, name: str, body: Any) -> None:
    here.answer(f"/{name}", json.dumps(body), "application/json")

    assert (await provider(name, here).search(FULL))[0] == []


async def test_marks_and_entities_are_no_text_of_a_result(here: Site) -> None:
    row = {
        "title": "What&#x27;s &lt;b&gt;",
        "url": "https://x.example/?a=1",
        "description": "<strong>Otters</strong> eat",
    }
    here.answer("/brave", json.dumps({"web": {"results": [row]}}), "application/json")

    (hit,), _ = await provider("brave", here).search(FULL)

    assert (hit.title, hit.description) == ("What's <b>", "Otters eat")


@owes("X-28")
async def test_a_range_of_days_is_said_where_it_can_be_and_noted_where_it_cannot(here: Site) -> None:
    days = SearchRequest(query="q", freshness="2026-01-01..2026-01-31")
    for name in ("brave", "tavily"):
        here.answer(f"/{name}", json.dumps(reply_of(name)), "application/json")
    assert (await provider("brave", here).search(days))[1] == ""
    assert sent(here.asked[0])["freshness"] == "2026-01-01to2026-01-31"
    assert (await provider("tavily", here).search(days))[1] == "tavily does not take freshness."


async def test_more_results_than_a_provider_gives_are_asked_for_at_its_most(here: Site) -> None:
    here.answer("/brave", json.dumps(reply_of("brave")), "application/json")
    await provider("brave", here).search(SearchRequest(query="q", count=50))
    assert sent(here.asked[0])["count"] == "20"


@pytest.mark.parametrize(
    ("status", "body", "problem", "retryable"),
    [
        ("401 Unauthorized", '{"error": "bad token"}', "brave refused the key (401)", False),
        ("429 Too Many Requests", "slow down", "brave limits its searches (429)", True),
        ("500 Oops", "", "brave answered 500", True),
        ("200 OK", "<html>captcha</html>", "brave answered with something that is not JSON", False),
    ],
)
async def test_a_refusal_is_told_as_what_it_was(
    here: Site, status: str, body: str, problem: str, retryable: bool
) -> None:
    here.answer("/brave", body, "application/json", status=status)
    with pytest.raises(Unavailable) as refused:
        await provider("brave", here).search(SearchRequest(query="q"))
    assert problem in refused.value.message
    assert refused.value.retryable is retryable


# -- DuckDuckGo -----------------------------------------------------------------------------------

DUCK = """<html><body><div id="links" class="results">
<div class="result results_links results_links_deep result--ad"><h2><a class="result__a" href="//duckduckgo.com/y.js?ad=1">Ad</a></h2></div>
<div class="result results_links results_links_deep web-result"><div class="links_main">
<h2 class="result__title"><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fotters.example%2Fa%3Fb%3D1&amp;rut=x">Sea <b>otters</b></a></h2>
<a class="result__snippet" href="//duckduckgo.com/l/?uddg=x">They eat <b>fish</b>.</a></div></div>
</div></body></html>"""


@owes("D-29")
async def test_duckduckgos_page_is_read_without_a_key_and_without_its_advertisements(here: Site) -> None:
    url = here.answer("/html/", DUCK)
    client = HttpClient(allow=(here.place,))
    hits, note = await DuckDuckGo(client=client, url=url).search(FULL)
    assert hits == [
        SearchHit(title="Sea otters", url="https://otters.example/a?b=1", description="They eat fish.")
    ]
    assert note == ""
    assert sent(here.asked[0]) == {"q": "otters & fish", "df": "w", "kl": "de-en"}


async def test_duckduckgo_finds_nothing_refuses_or_shows_a_riddle_and_these_are_three_answers(
    here: Site,
) -> None:
    duck = DuckDuckGo(client=HttpClient(allow=(here.place,)), url=here.url("/html/"))
    here.answer("/html/", "<html><div class='no-results'>No results.</div></html>")
    assert await duck.search(SearchRequest(query="q")) == ([], "")
    here.answer(
        "/html/", "<html><div class='anomaly-modal__title'>Select all squares containing a duck</div></html>"
    )
    with pytest.raises(Unavailable, match="takes this for a program"):
        await duck.search(SearchRequest(query="q"))
    here.answer("/html/", "", status="202 Accepted")
    with pytest.raises(Unavailable, match="limits its searches"):
        await duck.search(SearchRequest(query="q"))


# -- the chain ------------------------------------------------------------------------------------


class Scripted:
    """A provider that gives what it is told to."""

    def __init__(self, name: str, *outcomes: Any) -> None:
        self.name = name
        self.outcomes = list(outcomes)
        self.asked = 0

    async def search(self, request: SearchRequest) -> tuple[list[SearchHit], str]:
        self.asked += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, ""


class Time:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


HIT = SearchHit(title="t", url="https://x.example/", description="d")


def chain(*providers: Scripted, time: Time | None = None) -> Searcher:
    choices = [Choice(provider=p, url=f"https://{p.name}.example/") for p in providers]
    return Searcher(lambda: choices, clock=time or Time())


async def test_where_one_refuses_the_next_is_asked_and_the_answer_says_so() -> None:
    first = Scripted("a", Unavailable("a limits its searches (429)", retryable=True))
    second = Scripted("b", [HIT])
    time = Time()
    both = chain(first, second, time=time)
    answer = await both.search(SearchRequest(query="q"))
    assert (answer.provider, answer.hits, answer.note) == ("b", [HIT], "a limits its searches (429).")
    await both.search(SearchRequest(query="other"))
    assert first.asked == 1  # It limits its searches: for a minute it is left alone.
    time.at += 61
    await both.search(SearchRequest(query="third"))
    assert first.asked == 2


async def test_where_all_refuse_that_is_an_error_and_no_empty_result() -> None:
    both = chain(
        Scripted("a", Unavailable("a answered 500")), Scripted("b", Unavailable("b refused the key (401)"))
    )
    with pytest.raises(Unavailable, match=r"a answered 500; b refused the key \(401\)") as refused:
        await both.search(SearchRequest(query="q"))
    assert "empty result" in refused.value.hint


@owes("M-26")
async def test_the_same_search_is_not_sent_again_within_the_caches_minutes() -> None:
    one, time = Scripted("a", [HIT]), Time()
    searching = chain(one, time=time)
    for _ in range(3):
        await searching.search(SearchRequest(query="q"))
    assert one.asked == 1
    time.at += 901
    await searching.search(SearchRequest(query="q"))
    assert one.asked == 2


# -- settings -------------------------------------------------------------------------------------


@owes("X-27", "N-70", "C-31")
async def test_auto_takes_who_has_a_key_and_then_duckduckgo_and_a_pinned_one_needs_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [api.key_variable for api in PROVIDERS.values() if api.key_variable]:
        monkeypatch.delenv(name, raising=False)
    auto = searcher(SearchSettings(), HttpClient())
    assert auto.hosts() == ["html.duckduckgo.com"]
    monkeypatch.setenv("BRAVE_API_KEY", "later")
    assert auto.hosts() == ["api.search.brave.com", "html.duckduckgo.com"]
    monkeypatch.delenv("BRAVE_API_KEY")
    pinned = searcher(SearchSettings(provider=("brave",)), HttpClient())
    with pytest.raises(Unavailable, match="BRAVE_API_KEY not configured"):
        await pinned.search(SearchRequest(query="q"))
    with pytest.raises(ConfigError, match="'bing', which is not a provider"):
        searcher(SearchSettings(provider=("bing",)), HttpClient())


@owes("N-72")
async def test_the_key_of_the_settings_is_the_one_that_is_sent(here: Site, tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("from-a-file")
    secret.chmod(0o600)
    here.answer("/brave", json.dumps(reply_of("brave")), "application/json")
    own = SearchProvider(key=f"file:{secret}", url=here.url("/brave"))
    await searcher(SearchSettings(provider=("brave",), providers={"brave": own}), HttpClient()).search(
        SearchRequest(query="q")
    )
    assert here.asked[0].headers["x-subscription-token"] == "from-a-file"


@owes("M-59", "M-60")
def test_the_settings_of_the_documents_are_taken(own_home: Path) -> None:
    paths = Paths.of()
    paths.config.mkdir(parents=True)
    (paths.config / "pegboard.json").write_text(json.dumps({
        "tools": {"web": {"search": {"provider": "perplexity", "cacheMinutes": 5, "timeoutSeconds": 4},
                          "fetch": {"cacheMinutes": 0, "timeoutSeconds": 20}}}
    }))  # fmt: skip
    web = load_config(paths, None).web
    assert (web.search.provider, web.search.cache_minutes, web.search.timeout_s) == (
        ("perplexity",),
        5.0,
        4.0,
    )
    assert (web.cache_minutes, web.timeout_s) == (0.0, 20.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[web]\nbrowser = 1", "unknown key web.browser"),
        ("[web.search]\nprovider = 3", "web.search.provider must be a name"),
        ("[web.search.brave]\ntoken = 'x'", "unknown key web.search.brave.token"),
        ("[web.search]\ntimeout_s = -1", "web.search.timeout_s must be a number"),
        ("[web]\nreader = 'ftp://x'", "web.reader must be an http or https address"),
    ],
)
def test_a_wrong_setting_names_its_file_and_key(own_home: Path, text: str, problem: str) -> None:
    paths = Paths.of()
    paths.config.mkdir(parents=True)
    (paths.config / "pegboard.toml").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_config(paths, None)


# -- the tool -------------------------------------------------------------------------------------


def executor(one: Scripted) -> Executor:
    return Executor(builtin("web_search"), provide=[chain(one)], mode="full")


@owes("N-68", "N-71", "X-29", "C-30", "M-20", "M-21", "M-25")
async def test_the_model_reads_numbered_text_and_programs_get_rows() -> None:
    result = await executor(Scripted("a", [HIT, HIT])).call(
        "web_search", {"query": "otters", "max_results": 2}
    )
    assert (
        str(result)
        == "Results for: otters\n1. t\n   https://x.example/\n   d\n2. t\n   https://x.example/\n   d"
    )
    row = {"title": "t", "url": "https://x.example/", "description": "d", "age": ""}
    assert result.data == {"query": "otters", "provider": "a", "results": [row, row]}
    assert "untrusted" in result.notes.labels


async def test_no_results_are_said_as_such() -> None:
    result = await executor(Scripted("a", [])).call("web_search", {"query": "zzz"})
    assert result.ok
    assert str(result) == "No results for: zzz"


@owes("M-24", "X-28")
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("pd", "day"),
        ("oneWeek", "week"),
        ("noLimit", "any"),
        ("py", "year"),
        ("2026-01-01to2026-01-31", "2026-01-01..2026-01-31"),
    ],
)
async def test_both_vocabularies_of_age_are_understood(said: str, meant: str) -> None:
    seen: list[SearchRequest] = []

    class Seeing(Scripted):
        async def search(self, request: SearchRequest) -> tuple[list[SearchHit], str]:
            seen.append(request)
            return [HIT], ""

    result = await executor(Seeing("a")).call("web_search", {"query": "q", "freshness": said, "count": 99})
    assert result.ok, result
    assert (seen[0].freshness, seen[0].count) == (meant, 50)


@pytest.mark.parametrize("age", ["yesterday", "2026-02-01..2026-01-01"])
async def test_an_age_that_is_none_is_refused_with_what_to_send(age: str) -> None:
    result = await executor(Scripted("a", [HIT])).call("web_search", {"query": "q", "freshness": age})
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert ".." in result.error.hint


async def test_the_hosts_that_may_be_asked_are_the_calls_effects() -> None:
    preview = await executor(Scripted("a", [HIT])).preview("web_search", {"query": "q"})
    assert [(e.kind, e.target) for e in preview.effects] == [("connect", "a.example")]
