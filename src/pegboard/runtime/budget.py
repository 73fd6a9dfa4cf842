"""Budget: what a run may spend, with a notice before each end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pegboard.core.content import ToolCall
from pegboard.core.errors import PermissionDenied
from pegboard.core.limits import Clock, Limits
from pegboard.core.transcript import Usage

WALL: Final = "wall_s"
USED_UP: Final = " are used up"
"""What stands behind a limit in the notice of its end."""
BEYOND: Final = "beyond"
"""Key in the details of an error: the limit for which a call did not run. It was not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """One limit and what has been spent of it.

    Attributes:
        limit: its field in Limits.
        spent, most: in the limit's unit.
    """

    limit: str
    spent: float
    most: float

    def __str__(self) -> str:
        """`5 of 40 turns`, `$0.1000 of $0.2000`, `61 of 60 s`."""
        match self.limit:
            case "money":
                return f"${self.spent:.4f} of ${self.most:.4f}"
            case "wall_s":
                return f"{self.spent:.0f} of {self.most:.0f} s"
            case unit:
                return f"{self.spent:.0f} of {self.most:.0f} {unit}"


class RunBudget:
    """One run's budget.

    Args:
        limits: what ends the run.
        clock: measures its time, from now on.
        spent_s: seconds that it took before, where it is taken up again.
        calls: calls that it made before, by tool.
        noticed: limits of which a notice was given before.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        *,
        spent_s: float = 0.0,
        calls: Mapping[str, int] | None = None,
        noticed: Iterable[str] = (),
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._started = clock.monotonic() if limits.wall_s is not None else 0.0
        self._before = spent_s
        self._noticed = set(noticed)
        self._by_tool = dict(calls or {})
        self._calls = sum(self._by_tool.values())
        # Most runs have a limit of turns only, and this is asked in every turn.
        self._turns_only = limits.tokens is None and limits.money is None and limits.wall_s is None
        self._near = limits.turns * limits.soft if limits.soft else float("inf")

    def check(self, turns: int, usage: Usage) -> tuple[LimitUse | None, LimitUse | None]:
        """The first limit that is used up, and one of which the `soft` share is spent, once for each."""
        if self._turns_only and turns < self._near and turns < self._limits.turns:
            return None, None
        spent = tuple(self._spent(turns, usage))
        over = next((s for s in spent if s.spent >= s.most), None)
        share = self._limits.soft
        if over is not None or not share:
            return over, None
        for one in spent:
            if one.spent >= one.most * share and one.limit not in self._noticed:
                self._noticed.add(one.limit)
                return None, one
        return None, None

    def count(self, tool: str) -> None:
        """Count a call that was made in the run's earlier part and has its result only now."""
        self._calls += 1
        self._by_tool[tool] = self._by_tool.get(tool, 0) + 1

    def over_limit(
        self, calls: Sequence[ToolCall], named: Callable[[ToolCall], str] = lambda call: call.name
    ) -> dict[str, PermissionDenied]:
        """The calls of a turn that are beyond a limit, by id; the others are counted.

        Args:
            calls: of the turn.
            named: the tool's own name for a call: a limit holds whatever the model calls it.
        """
        most, each, turn = self._limits.calls, self._limits.tool_calls, self._limits.calls_per_turn
        if most is None and turn is None and not each:
            return {}
        out: dict[str, PermissionDenied] = {}
        for place, call in enumerate(calls):
            if turn is not None and place >= turn:
                out[call.id or ""] = PermissionDenied(
                    f"{call.name} did not run: at most {turn} calls may be made at once, and this is call {place + 1}",
                    hint="Make it again in your next turn if it is still needed.",
                    details={BEYOND: "calls_per_turn"},
                )
                continue
            name = named(call)
            done = self._by_tool.get(name, 0)
            limit = each.get(name)
            if most is not None and self._calls >= most:
                out[call.id or ""] = _denied(call, f"{self._calls} of {most} tool calls of this run")
            elif limit is not None and done >= limit:
                out[call.id or ""] = _denied(call, f"{done} of {limit} calls of {name} in this run")
            else:
                self._calls += 1
                self._by_tool[name] = done + 1
        return out

    def _spent(self, turns: int, usage: Usage) -> Iterator[LimitUse]:
        limits = self._limits
        yield LimitUse(limit="turns", spent=turns, most=limits.turns)
        if limits.tokens is not None:
            yield LimitUse(limit="tokens", spent=usage.input_tokens + usage.output_tokens, most=limits.tokens)
        if limits.money is not None:
            yield LimitUse(limit="money", spent=usage.cost_usd or 0.0, most=limits.money)
        if limits.wall_s is not None:
            # To the millisecond, so that a replay's sum is the same to the last bit.
            spent = round(self._before + (self._clock.monotonic() - self._started), 3)
            yield LimitUse(limit=WALL, spent=spent, most=limits.wall_s)


def _denied(call: ToolCall, what: str) -> PermissionDenied:
    return PermissionDenied(
        f"{call.name} did not run: {what} are used up",
        hint="Continue without it, or answer with what you have.",
        details={BEYOND: "calls"},
    )


def overspent(limits: Limits, usage: Usage) -> str:
    """Why a run may not ask its model again when its subagents' turns are counted too; empty where it may."""
    money = usage.cost_usd or 0.0
    for limit, spent, most in (
        ("tokens", usage.input_tokens + usage.output_tokens, limits.tokens),
        ("money", money, limits.money),
    ):
        if most is not None and spent >= most:
            return f"budget of the run: {LimitUse(limit=limit, spent=spent, most=most)}, with its subagents"
    return ""
