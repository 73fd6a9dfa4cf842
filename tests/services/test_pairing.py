"""Nobody is let in without a code that the owner has approved, and codes cannot be guessed or hoarded."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import pytest

from pegboard.core.errors import InvalidArguments, NotFound, Unavailable
from pegboard.services.pairing import Pairings
from pegboard.store.memory import MemoryStore
from tests.ledger import owes


@dataclass
class Time:
    at: float = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def pairings() -> tuple[Pairings, Time]:
    store, clock = MemoryStore(), Time()
    return Pairings(lambda: store, clock=clock), clock


@owes("K-59")
async def test_a_sender_is_let_in_by_the_code_that_it_was_shown_until_that_is_revoked() -> None:
    pairs, _ = pairings()

    code = await pairs.request("telegram", "42", "Ann")
    before = await pairs.allowed("telegram", "42")
    made = await pairs.approve(f" {code[:4].lower()}-{code[4:]} ", by="owner")

    assert re.fullmatch("[2-9A-HJKMNP-Z]{8}", code) and not before
    assert (made.kind, made.who, made.name, made.by, made.role) == ("telegram", "42", "Ann", "owner", "user")
    assert await pairs.allowed("telegram", "42")
    assert not await pairs.allowed("slack", "42") and not await pairs.allowed("telegram", "4")
    assert await pairs.list("telegram") == await pairs.list() == [made]
    assert await pairs.pending() == []
    assert await pairs.revoke("telegram", "42") and not await pairs.revoke("telegram", "42")
    assert not await pairs.allowed("telegram", "42")


async def test_a_code_holds_for_ten_minutes_and_once() -> None:
    pairs, clock = pairings()
    first = await pairs.request("telegram", "1")
    clock.at += 599
    again = await pairs.request("telegram", "1")
    clock.at += 1

    with pytest.raises(NotFound):
        await pairs.approve(first)
    new = await pairs.request("telegram", "1")
    await pairs.approve(new)
    with pytest.raises(NotFound):
        await pairs.approve(new)

    assert first == again != new


async def test_three_wait_at_once_for_each_kind() -> None:
    pairs, clock = pairings()
    codes = [await pairs.request("telegram", str(n)) for n in range(3)]

    with pytest.raises(Unavailable):
        await pairs.request("telegram", "3")
    other = await pairs.request("slack", "3")
    await pairs.refuse(codes[0])
    instead = await pairs.request("telegram", "3")

    assert {r.code for r in await pairs.pending()} == {*codes[1:], other, instead}
    clock.at += 600
    assert await pairs.pending() == []


async def test_wrong_codes_are_limited_for_the_right_one_too() -> None:
    pairs, clock = pairings()
    code = await pairs.request("device", "1")
    for guess in ("", "ÄÖÜ", *(f"AAAAAAA{n}" for n in range(8))):
        with pytest.raises(NotFound):
            await pairs.approve(guess)

    with pytest.raises(Unavailable):
        await pairs.approve(code)
    clock.at += 600
    await pairs.approve(await pairs.request("device", "1"))

    assert await pairs.allowed("device", "1")


async def test_of_two_answers_at_once_one_holds() -> None:
    pairs, _ = pairings()
    code = await pairs.request("device", "1")

    answers = await asyncio.gather(pairs.approve(code), pairs.refuse(code), return_exceptions=True)

    assert sum(isinstance(a, NotFound) for a in answers) == 1
    assert await pairs.allowed("device", "1") is not isinstance(answers[0], NotFound)


@pytest.mark.parametrize("who", ["", "x" * 201, "a\x1fb"])
async def test_an_odd_id_is_refused(who: str) -> None:
    pairs, _ = pairings()

    with pytest.raises(InvalidArguments):
        await pairs.request("device", who)
