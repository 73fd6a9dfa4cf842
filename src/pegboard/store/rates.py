"""Rates: requests and tokens of a minute, shared by all processes of a store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.store import Store
from pegboard.store.table import Table

WINDOW_S: Final = 60
_COUNTED_S: Final = WINDOW_S + 1
"""Seconds for which a second's requests count: they may have been made at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """What may be asked within any 60 seconds.

    Attributes:
        requests: to the model; None = no limit.
        tokens: of the requests and their answers, cached ones too; None = no limit.
    """

    requests: int | None = None
    tokens: int | None = None


class _Second(NamedTuple):
    """What was asked in one second since the epoch, or is to be asked in one that comes."""

    at: int
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A request's place.

    Attributes:
        at: when it may be made, seconds since the epoch.
        tokens: those that were counted for it.
    """

    at: float
    tokens: int


class Rates:
    """Gives every request a time, in the order in which they are asked for.

    A limit's row holds the last minute and the requests that are still to come, second by second. Whoever asks takes
    the first second in which the request fits behind all others, so that nobody waits for longer than those before it.

    Args:
        store: where they are.
        clock: tells the time; the clocks of several machines should agree to a second.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._now = (clock or SystemClock()).now
        self._table = Table(store, "rates", list[_Second], lambda rows: [_Second(*row) for row in rows])

    async def take(
        self, name: str, limit: RateLimit, tokens: int = 0, *, most_wait_s: float = math.inf
    ) -> Turn:
        """Count a request; when it may be made. One that alone is over the limit of tokens has a minute of its own.

        Args:
            name: the limit's.
            limit: how much.
            tokens: as many as it will probably take.
            most_wait_s: seconds; a request that would have to wait for longer is not counted.
        """
        turn = Turn(at=0.0, tokens=tokens)

        def counted(rows: list[_Second] | None) -> list[_Second]:
            nonlocal turn
            now = self._now()
            kept = [row for row in rows or [] if row.at + _COUNTED_S > now]
            at = _first_free(kept, limit, tokens, math.floor(now))
            turn = Turn(at=max(now, at), tokens=tokens)
            return kept if turn.at - now > most_wait_s else _added(kept, at, 1, tokens)

        await self._table.change(name, counted)
        return turn

    async def settle(self, name: str, turn: Turn, tokens: int) -> None:
        """Replace what was counted for a request by what it took."""
        at = math.floor(turn.at)

        def counted(rows: list[_Second] | None) -> list[_Second]:
            known = any(row.at == at for row in rows or [])
            return _added(rows or [], at, 0, tokens - turn.tokens) if known else rows or []

        await self._table.change(name, counted)


def _first_free(rows: list[_Second], limit: RateLimit, tokens: int, start: int) -> int:
    at = max([start, *(row.at for row in rows[-1:])])
    while True:
        within = [row for row in rows if row.at + _COUNTED_S > at]
        requests, used = (sum(row.requests for row in within), sum(row.tokens for row in within))
        fits = limit.requests is None or requests < limit.requests
        if fits and (limit.tokens is None or used <= 0 or used + tokens <= limit.tokens):
            return at
        at = within[0].at + _COUNTED_S


def _added(rows: list[_Second], at: int, requests: int, tokens: int) -> list[_Second]:
    before = next((row for row in rows if row.at == at), _Second(at, 0, 0))
    after = _Second(at, before.requests + requests, max(0, before.tokens + tokens))
    return sorted([*(row for row in rows if row.at != at), after])
