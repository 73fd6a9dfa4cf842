"""Limits of a run, and the executor's defaults."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from pegboard.core.errors import BuildError, format_value, is_number


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the epoch (wall clock)."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


class SystemClock:
    """The machine's clocks."""

    # The functions themselves: methods around them would be called several times in every call.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


MAX_CHARS: Final = 10_000
"""Characters of one result's text that a model sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What ends a run.

    Attributes:
        turns: model turns.
        tokens: input and output tokens of all turns together; None = no limit.
        money: US dollars; None = no limit.
        wall_s: seconds that it takes, without those in which it waits for somebody; None = no limit.
        calls: tool calls; None = no limit. A call beyond it is refused, and the run goes on.
        tool_calls: calls of single tools, by their names; refused in the same way.
        calls_per_turn: calls of one model turn; those behind are refused.
        context_tokens: tokens of one request, answer included; None = the model's window where it is known.
        soft: share of a limit at which a notice is given; 0 = none.
    """

    turns: int = 40
    tokens: int | None = None
    money: float | None = None
    wall_s: float | None = None
    calls: int | None = None
    tool_calls: Mapping[str, int] = field(default_factory=dict[str, int])
    calls_per_turn: int | None = None
    context_tokens: int | None = None
    soft: float = 0.8

    def __post_init__(self) -> None:
        if not isinstance(cast(object, self.tool_calls), Mapping):
            raise BuildError(
                f"Limits(tool_calls=…) takes {{tool name: calls}}, got {format_value(self.tool_calls)}"
            )
        most = {
            "turns": self.turns, "tokens": self.tokens, "money": self.money, "wall_s": self.wall_s,
            "calls": self.calls, "calls_per_turn": self.calls_per_turn, "context_tokens": self.context_tokens,
            **{f"tool_calls[{name!r}]": count for name, count in self.tool_calls.items()},
        }  # fmt: skip
        for name, value in most.items():
            if value is not None and not (is_number(value) and value > 0):
                raise BuildError(
                    f"Limits({name}={value!r}): a limit is a number above 0; leave it out for none"
                )
        if not is_number(self.soft) or not 0 <= self.soft <= 1:
            raise BuildError(f"Limits(soft={self.soft!r}): a share is a number between 0 (no notice) and 1")
