"""Spellings: the words of the five documents for a tool's parameters, taken by tools of one's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegboard import PURE, Executor, tool
from pegboard.core.errors import InvalidArguments
from pegboard.core.profiles import (
    ChatId,
    ExtractMode,
    Freshness,
    JobId,
    JobText,
    MaxChars,
    MediaPaths,
    MessageText,
    SearchCount,
)


@tool(effects=PURE)
def web_search(query: str, count: SearchCount = 5, freshness: Freshness = "any") -> str:
    """Search."""
    return f"{query}, {count}, {freshness}"


@tool(effects=PURE)
def web_fetch(url: str, extract_mode: ExtractMode = "markdown", max_chars: MaxChars = 50_000) -> str:
    """Fetch."""
    return f"{url}, {extract_mode}, {max_chars}"


@tool
def message(
    content: MessageText,
    chat_id: ChatId,
    account_id: str = "",
    reply_to: str = "",
    media: MediaPaths | None = None,
) -> str:
    """Send."""
    return f"{content}, {chat_id}, {account_id}, {reply_to}, {media}"


@tool(effects=PURE)
def cron(action: str, message: JobText = "", job_id: JobId = "", every_seconds: int = 0) -> str:
    """Schedule."""
    return f"{action}, {message}, {job_id}, {every_seconds}"


async def answer(made: Any, arguments: dict[str, Any]) -> str:
    """What a call as a model sends it gives."""
    async with Executor([made], mode="full", policy=["allow send:*"]) as door:
        return str(await door.call(made.name, json.dumps(arguments)))


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({}, "q, 5, any"),
        ({"count": 50}, "q, 50, any"),
        ({"max_results": 10}, "q, 10, any"),
        ({"maxResults": 1}, "q, 1, any"),
        ({"freshness": "pd"}, "q, 5, day"),
        ({"freshness": "pw"}, "q, 5, week"),
        ({"freshness": "pm"}, "q, 5, month"),
        ({"freshness": "py"}, "q, 5, year"),
        ({"freshness": "noLimit"}, "q, 5, any"),
        ({"freshness": "oneDay"}, "q, 5, day"),
        ({"freshness": "oneWeek"}, "q, 5, week"),
        ({"freshness": "oneMonth"}, "q, 5, month"),
        ({"freshness": "oneYear"}, "q, 5, year"),
        ({"freshness": " Week "}, "q, 5, week"),
        ({"freshness": "2026-01-01to2026-01-31"}, "q, 5, 2026-01-01..2026-01-31"),
        ({"freshness": "2026-01-31..2026-01-01"}, "q, 5, 2026-01-01..2026-01-31"),
    ],
)
async def test_a_search_takes_the_words_of_every_document(sent: dict[str, Any], meant: str) -> None:
    assert await answer(web_search, {"query": "q", **sent}) == meant


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"count": 0}, ".count"),
        ({"count": 51}, ".count"),
        ({"max_results": 51}, ".count"),
        ({"freshness": "yesterday"}, ".freshness"),
        ({"freshness": "2026-02-30to2026-03-01"}, ".freshness"),
        ({"freshness": 7}, ".freshness"),
        ({"count": 3, "max_results": 4}, ".max_results"),
    ],
)
def test_a_search_refuses_what_means_nothing(sent: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        web_search.signature.decode(json.dumps({"query": "q", **sent}))

    assert [e["path"] for e in caught.value.details["errors"]] == [path]


async def test_a_fetch_takes_the_words_of_every_document() -> None:
    assert await answer(web_fetch, {"url": "u"}) == "u, markdown, 50000"
    assert await answer(web_fetch, {"url": "u", "extractMode": "text", "maxChars": 100}) == "u, text, 100"
    with pytest.raises(InvalidArguments, match="max_chars"):
        web_fetch.signature.decode({"url": "u", "maxChars": 99})
    with pytest.raises(InvalidArguments, match="extract_mode"):
        web_fetch.signature.decode({"url": "u", "extract_mode": "pdf"})


@pytest.mark.parametrize(
    "sent",
    [
        {"content": "hi", "chat_id": "c", "account_id": "a", "reply_to": "r", "media": ["m.png"]},
        {"content": "hi", "chatId": "c", "accountId": "a", "replyTo": "r", "media": ["m.png"]},
        {"message": "hi", "target": "c", "accountId": "a", "replyTo": "r", "media": "m.png"},
        {"message": "hi", "to": "c", "accountId": "a", "replyTo": "r", "media": "m.png"},
    ],
)
async def test_a_message_takes_the_words_of_every_document(sent: dict[str, Any]) -> None:
    assert await answer(message, sent) == "hi, c, a, r, ['m.png']"


async def test_where_a_message_goes_is_its_effect_whatever_the_word() -> None:
    async with Executor([message]) as door:
        shown = await door.preview("message", {"message": "hi", "target": "c"})

    assert [str(e) for e in shown.effects] == ["send c"]


@pytest.mark.parametrize(
    "sent",
    [
        {"message": "stand up", "job_id": "7", "every_seconds": 60},
        {"prompt": "stand up", "id": "7", "everySeconds": 60},
        {"task": "stand up", "jobId": "7", "every-seconds": "60"},
    ],
)
async def test_a_schedule_takes_the_words_of_every_document(sent: dict[str, Any]) -> None:
    assert await answer(cron, {"action": "add", **sent}) == "add, stand up, 7, 60"
    async with Executor([cron]) as door:
        assert str(await door.call("schedule_task", {"action": "add", **sent})) == "add, stand up, 7, 60"


def test_no_model_is_shown_any_but_the_canonical_names() -> None:
    shown = {made.name: list(made.schema["properties"]) for made in (web_search, web_fetch, message, cron)}

    assert shown == {
        "web_search": ["query", "count", "freshness"],
        "web_fetch": ["url", "extract_mode", "max_chars"],
        "message": ["content", "chat_id", "account_id", "reply_to", "media"],
        "cron": ["action", "message", "job_id", "every_seconds"],
    }
