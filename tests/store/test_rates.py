"""Rates: no minute has more requests or tokens than the limit, whoever asks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pegboard.store import open_store
from pegboard.store.memory import MemoryStore
from pegboard.store.rates import RateLimit, Rates


class HandClock:
    def __init__(self) -> None:
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


async def test_requests_beyond_the_limit_get_the_next_minutes_in_their_order() -> None:
    clock = HandClock()
    rates = Rates(MemoryStore(), clock=clock)

    times = [(await rates.take("m", RateLimit(requests=3))).at - clock.at for _ in range(7)]

    # A second's requests may have been made at its end, so a minute later is 61 seconds after its start.
    assert times == [0, 0, 0, 61, 61, 61, 122]


async def test_tokens_count_and_a_request_over_the_limit_has_a_minute_of_its_own() -> None:
    clock = HandClock()
    rates = Rates(MemoryStore(), clock=clock)
    limit = RateLimit(tokens=1000)

    times = [(await rates.take("m", limit, tokens)).at - clock.at for tokens in (600, 400, 1, 5000, 1)]

    assert times == [0, 0, 61, 122, 183]


async def test_what_a_request_took_replaces_what_was_expected() -> None:
    clock = HandClock()
    rates = Rates(MemoryStore(), clock=clock)
    limit = RateLimit(tokens=1000)
    turn = await rates.take("m", limit, 900)
    await rates.settle("m", turn, 100)

    assert (await rates.take("m", limit, 900)).at == clock.at
    assert (await rates.take("m", limit, 1)).at == clock.at + 61


async def test_one_that_would_wait_for_too_long_is_not_counted() -> None:
    clock = HandClock()
    rates = Rates(MemoryStore(), clock=clock)
    limit = RateLimit(requests=1)
    await rates.take("m", limit)

    assert (await rates.take("m", limit, most_wait_s=30)).at == clock.at + 61
    assert (await rates.take("m", limit)).at == clock.at + 61


@pytest.mark.parametrize("seed", range(5))
async def test_no_minute_has_more_than_the_limit_whoever_of_several_workers_asks(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    clock = HandClock()
    store = await open_store(tmp_path / "s.sqlite")
    workers = [Rates(store, clock=clock) for _ in range(3)]
    limit = RateLimit(requests=7, tokens=2000)

    asked: list[tuple[float, int]] = []
    for _ in range(150):
        clock.at += chance.choice((0, 0, 0.3, 2.5, 20))
        tokens = chance.randrange(1, 900)
        asked.append(((await chance.choice(workers).take("m", limit, tokens)).at, tokens))
    await store.close()

    assert [at for at, _ in asked] == sorted(at for at, _ in asked)
    for start, _ in asked:
        within = [tokens for at, tokens in asked if start <= at < start + 60]
        assert len(within) <= 7
        assert sum(within) <= 2000
    # And not far less: the limit of tokens alone gives 4 to 5 of these a minute.
    assert len(asked) / ((asked[-1][0] - asked[0][0]) / 60) > 3
