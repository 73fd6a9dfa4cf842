"""Limits of a run, and the executor's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_CHARS: Final = 10_000
"""Characters of one result's text that a model sees (DESIGN 5, ledger N-67, X-19)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What ends a run.

    Attributes:
        turns: model turns.
        tokens: input and output tokens of all turns together; None = no limit.
        money: US dollars; None = no limit.
        wall_s: seconds from start to end; None = no limit.
    """

    turns: int = 40
    tokens: int | None = None
    money: float | None = None
    wall_s: float | None = None
