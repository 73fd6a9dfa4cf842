"""A limited model waits before its requests, and counts what they took."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.content import Text
from pegboard.core.errors import ConfigError, ModelError
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Usage, UserMessage
from pegboard.ports.messages import InboundMessage
from pegboard.ports.model import AskedAgain, ModelEvent, TurnEnd
from pegboard.ports.store import Store
from pegboard.runtime.rate_limits import RateLimitedModel, limited
from pegboard.store.inbox import Inbox
from pegboard.store.memory import MemoryStore
from pegboard.store.rates import RateLimit


class Time:
    """A clock that sleeping moves on."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


class Counting:
    """A model that takes 700 tokens for each answer, and asks again where it is told to."""

    name, destination = "openai:gpt-5@https://example.com/v1", "example.com"

    def __init__(self, *, again: bool = False) -> None:
        self.again = again
        self.closed = False

    def converse(self, **_: Any) -> Counting:
        return self

    def append(self, message: Any) -> None:
        """Nothing is kept."""

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        if self.again:
            yield AskedAgain("broke off")
        yield TurnEnd(
            AssistantMessage(content=(Text("Yes."),), usage=Usage(input_tokens=600, output_tokens=100))
        )

    async def aclose(self) -> None:
        self.closed = True


def model(inner: Counting, limit: RateLimit, store: Store, time: Time) -> RateLimitedModel:
    async def opened() -> Store:
        return store

    return RateLimitedModel(inner, limit, name="gpt-5", store=opened, clock=time, sleep=time.sleep)


async def ask(one: RateLimitedModel, times: int = 1) -> None:
    talk = one.converse(instructions="Be brief.", tools=Toolkit(()))
    for _ in range(times):
        talk.append(UserMessage.of("Well?"))
        async for event in talk.reply():
            if isinstance(event, TurnEnd):
                talk.append(event.message)


async def test_two_workers_together_ask_no_more_than_the_limit() -> None:
    store, time = MemoryStore(), Time()
    one, two = (model(Counting(), RateLimit(requests=2), store, time) for _ in range(2))

    await ask(one)
    await ask(two)
    assert time.slept == []
    await ask(two)

    assert time.slept == [61]


async def test_tokens_are_those_that_the_provider_counted() -> None:
    store, time = MemoryStore(), Time()
    # 700 tokens a turn, though a handful were expected of the first: the second waits, as it would make 1400.
    await ask(model(Counting(), RateLimit(tokens=1000), store, time), times=2)

    assert time.slept == [61]


async def test_a_request_that_is_made_again_counts_again() -> None:
    store, time = MemoryStore(), Time()

    await ask(model(Counting(again=True), RateLimit(requests=1), store, time))

    assert time.slept == [61]


async def test_a_wait_of_more_than_ten_minutes_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    store, time = MemoryStore(), Time()
    caplog.set_level(logging.INFO, "pegboard")

    async def awake(seconds: float) -> None:
        time.slept.append(seconds)

    one = model(Counting(), RateLimit(requests=1), store, time)
    one._sleep = awake  # pyright: ignore[reportPrivateUsage]  Nobody's time passes: they all ask at once.
    for _ in range(10):
        await ask(one)
    with pytest.raises(ModelError, match=r"'gpt-5' is used up for 610 s") as caught:
        await ask(one)

    assert caught.value.retryable
    assert time.slept == [61 * n for n in range(1, 10)]
    assert "waits 61 s for the rate limit 'gpt-5'" in caplog.text


async def test_the_first_pattern_that_names_the_model_holds() -> None:
    limits = {"anthropic:*": RateLimit(requests=1), "gpt-*": RateLimit(requests=2)}

    async def opened() -> Store:
        raise AssertionError

    inner = Counting()
    one = limited(inner, limits, store=opened)
    assert isinstance(one, RateLimitedModel)
    assert (one.name, one.destination, one.calls_tools) == (inner.name, "example.com", True)
    await one.aclose()
    assert inner.closed
    assert limited(inner, {"anthropic:*": RateLimit(requests=1)}, store=opened) is inner


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[rate_limits."openai:*"]\nrequests_per_minute = 0', "is not at least 1"),
        ('[rate_limits."openai:*"]\nper_hour = 3', "per_hour"),
        ('[rate_limits."openai:*"]\ntokens_per_minute = "many"', "tokens_per_minute"),
    ],
)
def test_wrong_limits_are_told(tmp_path: Path, own_home: Path, text: str, why: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=why):
        App.open(workspace=tmp_path, config=file)


async def test_a_workers_sessions_count_in_the_store(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "w").mkdir()
    turns = tmp_path / "turns.jsonl"
    turns.write_text('{"text": "Yes."}\n')
    file = tmp_path / "p.toml"
    file.write_text('[rate_limits."scripted:*"]\nrequests_per_minute = 100\n')
    with App.open(workspace=tmp_path / "w", config=file) as app:
        await app.store.connect()
        for number in range(3):
            await Inbox(app.store).add(InboundMessage(session=f"s{number}", content="Well?", id=f"m{number}"))

        await app.worker(model=f"scripted:{turns}").work(until_idle=True)

        assert [row.status for row in await app.runs.list()] == ["done"] * 3
        (row,) = await app.store.scan("rates")
        assert row.key == "scripted:*"
        assert sum(requests for _, requests, _ in json.loads(row.value)) == 3
