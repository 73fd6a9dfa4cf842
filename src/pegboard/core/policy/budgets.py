"""Budgets: how much tools may be used, per run, session or day.

A budget near its end asks (the soft stop); one that is used up refuses with a text that tells the model to
answer with what it has (the hard stop). A call may use what is left and no more: its deadline is the seconds
that are left, its result is cut to the bytes that are left.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final, Literal, Protocol, TypeAlias

from pegboard.core.context import Context
from pegboard.core.errors import BudgetExceeded, ConfigError
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.rules import glob

Span: TypeAlias = Literal["run", "session", "day", "ever"]
SPANS: Final[tuple[Span, ...]] = ("run", "session", "day", "ever")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was used: calls, wall seconds, bytes of result text, US dollars."""

    calls: float = 0
    seconds: float = 0.0
    bytes_out: float = 0
    money: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls + other.calls,
            seconds=self.seconds + other.seconds,
            bytes_out=self.bytes_out + other.bytes_out,
            money=self.money + other.money,
        )


MEASURES: Final = tuple(f.name for f in fields(Spent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget.

    Attributes:
        name: shown when it asks or refuses.
        per: run, session, day (UTC) or ever; each has its own account.
        tool, agent, session: globs; what it counts. `each` lists those of them that get an account each.
        calls, seconds, bytes_out, money: the hard stop; None = not limited.
        soft: share of the hard stop from which calls ask; 1 = never.

    Raises:
        ConfigError: no limit at all, one below zero, or a share outside 0 to 1.
    """

    name: str
    per: Span = "session"
    tool: str = "*"
    agent: str = "*"
    session: str = "*"
    each: tuple[str, ...] = ()
    calls: float | None = None
    seconds: float | None = None
    bytes_out: float | None = None
    money: float | None = None
    soft: float = 0.8

    def __post_init__(self) -> None:
        limits = [getattr(self, m) for m in MEASURES]
        if all(v is None for v in limits) or any(v is not None and v < 0 for v in limits):
            raise ConfigError(
                f"budget {self.name!r} needs a limit of zero or more: one of {', '.join(MEASURES)}"
            )
        if not 0 <= self.soft <= 1:
            raise ConfigError(f"budget {self.name!r}: soft is {self.soft!r}; write a share from 0 to 1")
        if self.per not in SPANS:
            raise ConfigError(f"budget {self.name!r}: per is {self.per!r}; use {', '.join(SPANS)}")
        if wrong := [e for e in self.each if e not in ("tool", "agent", "session")]:
            raise ConfigError(f"budget {self.name!r}: each holds {wrong[0]!r}; use tool, agent, session")

    def counts(self, tool: str, context: Context) -> bool:
        """Whether a call is counted here."""
        return (
            glob(self.tool)(tool) and glob(self.agent)(context.agent) and glob(self.session)(context.session)
        )

    def account(self, tool: str, context: Context, now: float) -> str:
        """The key of the account that a call is booked on."""
        span = {
            "run": context.run,
            "session": context.session,
            "day": time.strftime("%Y-%m-%d", time.gmtime(now)),
            "ever": "",
        }[self.per]
        own = {"tool": tool, "agent": context.agent, "session": context.session}
        return "\x1f".join([self.name, self.per, span, *(own[e] for e in self.each)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What one call may use.

    Attributes:
        seconds, bytes_out: the least that is left of any budget; None = not limited.
        budget: the one that limits the seconds.
    """

    seconds: float | None = None
    bytes_out: int | None = None
    budget: Budget | None = None


UNLIMITED: Final = Remaining()


class Accounts(Protocol):
    """Where what was used is kept."""

    async def add(self, account: str, spent: Spent) -> Spent:
        """Book something; the account's sum afterwards. As a whole, whoever else books."""
        ...

    async def sum(self, account: str) -> Spent:
        """What was used so far."""
        ...


class MemoryAccounts:
    """Accounts of one process."""

    def __init__(self) -> None:
        self._sums: dict[str, Spent] = {}

    async def add(self, account: str, spent: Spent) -> Spent:
        """See Accounts."""
        total = self._sums[account] = self._sums.get(account, Spent()) + spent
        return total

    async def sum(self, account: str) -> Spent:
        """See Accounts."""
        return self._sums.get(account, Spent())


class Meter:
    """Books calls on budgets, and says when one is near its end or used up.

    Args:
        budgets: all that hold.
        accounts: where sums are kept; in memory where None.
        clock: says which day it is.
    """

    def __init__(
        self, budgets: Iterable[Budget], *, accounts: Accounts | None = None, clock: Clock | None = None
    ) -> None:
        self.budgets = tuple(budgets)
        self._accounts = accounts or MemoryAccounts()
        self._now = (clock or SystemClock()).now
        self._eased: set[str] = set()

    async def soft_limit_warning(self, tool: str, context: Context) -> str:
        """Which budget is near its end, with its figures; empty where none is.

        Raises:
            BudgetExceeded: one is used up.
        """
        asks = ""
        for budget, account in self._mine(tool, context):
            spent = await self._accounts.sum(account)
            _refuse_over(budget, spent, tool)
            for measure, used, limit in _measures(budget, spent):
                if (
                    budget.soft < 1
                    and used >= budget.soft * limit
                    and account not in self._eased
                    and not asks
                ):
                    asks = f"budget {budget.name!r} has used {_format_measure(measure, used, limit)}"
        return asks

    async def reserve(self, tool: str, context: Context) -> None:
        """Book the call itself, before it runs.

        Raises:
            BudgetExceeded: another call was faster and used the budget up.
        """
        booked: list[str] = []
        for budget, account in self._mine(tool, context):
            total = await self._accounts.add(account, Spent(calls=1))
            booked.append(account)
            if budget.calls is not None and total.calls > budget.calls:
                for one in booked:
                    await self._accounts.add(one, Spent(calls=-1))
                _refuse_over(budget, total + Spent(calls=-1), tool)

    async def remaining(self, tool: str, context: Context) -> Remaining:
        """What a call that begins now may use."""
        out = UNLIMITED
        for budget, account in self._mine(tool, context):
            if budget.seconds is None and budget.bytes_out is None:
                continue
            spent = await self._accounts.sum(account)
            if budget.seconds is not None:
                seconds = max(budget.seconds - spent.seconds, 0.0)
                if out.seconds is None or seconds < out.seconds:
                    out = replace(out, seconds=seconds, budget=budget)
            if budget.bytes_out is not None:
                size = max(int(budget.bytes_out - spent.bytes_out), 0)
                if out.bytes_out is None or size < out.bytes_out:
                    out = replace(out, bytes_out=size)
        return out

    async def exhausted_reason(self, context: Context) -> str:
        """Why no further turn of a model may be paid for; empty where one may."""
        for budget, account in self._mine("", context):
            if (
                budget.money is not None
                and (used := (await self._accounts.sum(account)).money) >= budget.money
            ):
                return (
                    f"budget {budget.name!r} (per {budget.per}) is used up, {_format_measure('money', used, budget.money)}; "
                    + _raise_it(budget, "money")
                )
        return ""

    async def charge(self, tool: str, context: Context, spent: Spent) -> None:
        """Book what a call, or a model's turn (`tool` is then empty), has used."""
        for _, account in self._mine(tool, context):
            await self._accounts.add(account, spent)

    def lift_soft_limit(self, tool: str, context: Context) -> None:
        """A person said yes for longer than once: these accounts ask no more; their hard stop stands."""
        self._eased.update(account for _, account in self._mine(tool, context))

    def _mine(self, tool: str, context: Context) -> list[tuple[Budget, str]]:
        now = self._now()
        return [(b, b.account(tool, context, now)) for b in self.budgets if b.counts(tool, context)]


def _refuse_over(budget: Budget, spent: Spent, tool: str) -> None:
    for measure, used, limit in _measures(budget, spent):
        if used >= limit:
            raise BudgetExceeded(
                f"{tool} did not run: budget {budget.name!r} (per {budget.per}) is used up, {_format_measure(measure, used, limit)}",
                hint="Do not try it another way; answer with what you have and say what is missing. "
                + _raise_it(budget, measure),
                details={"budget": budget.name, "measure": measure, "used": used, "limit": limit},
            )


def out_of_time(budget: Budget, seconds: float, tool: str) -> BudgetExceeded:
    """A call was ended because its budget's seconds were used up."""
    limit = budget.seconds or 0.0
    return BudgetExceeded(
        f"{tool} was ended after {seconds:g} s: that was all that was left of budget {budget.name!r} "
        f"(per {budget.per}), {limit:.10g} seconds",
        hint="Do not try it another way; answer with what you have and say what is missing. "
        + _raise_it(budget, "seconds"),
        details={"budget": budget.name, "measure": "seconds", "used": limit, "limit": limit},
    )


def _raise_it(budget: Budget, measure: str) -> str:
    return f"The user can raise it in the settings: [budgets.{budget.name}] {measure} = … (now {getattr(budget, measure):.10g})."


def _measures(budget: Budget, spent: Spent) -> list[tuple[str, float, float]]:
    rows = [(m, float(getattr(spent, m)), getattr(budget, m)) for m in MEASURES]
    return [(m, used, float(limit)) for m, used, limit in rows if limit is not None]


def _format_measure(measure: str, used: float, limit: float) -> str:
    if measure == "money":
        return f"${used:.4f} of ${limit:.4f}"
    return f"{used:.10g} of {limit:.10g} {measure.replace('_', ' ')}"
