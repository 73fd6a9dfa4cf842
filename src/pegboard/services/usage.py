"""Usage: what models and tools took, a fold of the recorded runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from pegboard.core.errors import SuspendedCall
from pegboard.core.events import BRANCHED, CallFinished, Event, ModelReplied, PermissionJudged, RunStarted
from pegboard.core.policy.budgets import MEASURES, Budget, Spent
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import Usage
from pegboard.runtime.tokens import result_tokens, toolkit_tokens
from pegboard.services.history import History
from pegboard.store.provenance import StoredAccounts


@dataclass(slots=True)
class ToolUse:
    """What one tool took.

    Attributes:
        calls, failed: how often it was called, and failed.
        seconds: each call's.
        result_tokens: estimated tokens of its results.
        schema_tokens: estimated tokens of its description in every request; 0 where it is not offered now.
        cost_usd: what its calls paid for (pictures, speech, descriptions); None where no price is known.
    """

    calls: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list[float])
    result_tokens: int = 0
    schema_tokens: int = 0
    cost_usd: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, with `total_s` and `median_s`."""
        return {
            "calls": self.calls, "failed": self.failed, "total_s": round(sum(self.seconds), 6),
            "median_s": round(median(self.seconds), 6) if self.seconds else 0.0,
            "result_tokens": self.result_tokens, "schema_tokens": self.schema_tokens, "cost_usd": self.cost_usd,
        }  # fmt: skip


@dataclass(slots=True)
class UsageReport:
    """What was used in a time.

    Attributes:
        models: usage by model.
        days: usage by day (`YYYY-MM-DD`, local); what tools paid for is in its cost.
        sessions: usage by session, likewise.
        tools: by tool.
        workspaces: usage by workspace.
        runs: how many runs.
    """

    models: dict[str, Usage] = field(default_factory=dict[str, Usage])
    days: dict[str, Usage] = field(default_factory=dict[str, Usage])
    sessions: dict[str, Usage] = field(default_factory=dict[str, Usage])
    tools: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    workspaces: dict[str, Usage] = field(default_factory=dict[str, Usage])
    runs: int = 0

    def add(self, events: Iterable[Event], *, day: str, session: str, workspace: str = "") -> None:
        """Count the events of one run; the copy of one in a branch has cost nothing."""
        asked = ""
        for event in events:
            match event:
                case RunStarted() if BRANCHED in event.detail:
                    return
                case RunStarted():
                    self.runs += 1
                    asked = event.model
                case ModelReplied(message):
                    self._count(message.model or asked, message.usage, day, session, workspace)
                case PermissionJudged() if event.model:
                    self._count(event.model, event.usage, day, session, workspace)
                case CallFinished(result) if result.error and result.error.code == SuspendedCall.default_code:
                    pass  # It waits; its end comes once it is answered.
                case CallFinished(result):
                    use = self.tools.setdefault(result.tool, ToolUse())
                    use.calls += 1
                    use.failed += not result.ok
                    use.seconds.append(result.notes.duration_s)
                    use.result_tokens += result_tokens(result)
                    cost: Any = result.notes.extra.get("cost_usd")
                    if isinstance(cost, int | float) and cost > 0:
                        use.cost_usd = (use.cost_usd or 0.0) + cost
                        for table, key in ((self.days, day), (self.sessions, session)):
                            table[key] = table.get(key, Usage()) + Usage(cost_usd=float(cost))
                case _:
                    pass

    def _count(self, model: str, usage: Usage, day: str, session: str, workspace: str) -> None:
        for table, key in (
            (self.models, model), (self.days, day), (self.sessions, session), (self.workspaces, workspace or "-"),
        ):  # fmt: skip
            table[key] = table.get(key, Usage()) + usage

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "runs": self.runs,
            **{
                name: {key: usage.to_dict() for key, usage in getattr(self, name).items()}
                for name in ("models", "days", "sessions", "workspaces")
            },
            "tools": {name: use.to_dict() for name, use in sorted(self.tools.items())},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """A budget, and how far its accounts are used.

    Attributes:
        budget: as the settings have it.
        accounts: those that are used most, what each is for (a run, session or day, then the tool, agent or session
            where each has its own) and what was used.
        count: how many there are in all.
    """

    budget: Budget
    accounts: tuple[tuple[tuple[str, ...], Spent], ...] = ()
    count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; `limits` are the measures that are limited."""
        budget = self.budget
        limits = {m: getattr(budget, m) for m in MEASURES if getattr(budget, m) is not None}
        return {
            "name": budget.name, "per": budget.per, "tool": budget.tool, "agent": budget.agent,
            "session": budget.session, "soft": budget.soft, "limits": limits, "count": self.count,
            "accounts": [
                {"of": list(of), "used": {m: getattr(spent, m) for m in limits}} for of, spent in self.accounts
            ],
        }  # fmt: skip


class UsageReports:
    """Tokens, money and time of the recorded runs.

    Args:
        history: the runs.
        toolkit: gives the tools that are offered now, whose descriptions cost tokens in every request.
        now: the time, in seconds since the epoch.
    """

    def __init__(
        self, history: History, toolkit: Callable[[], Toolkit], *, now: Callable[[], float] = time.time
    ) -> None:
        self._history = history
        self._toolkit = toolkit
        self._now = now

    async def report(self, since_s: float, *, workspace: str | None = None) -> UsageReport:
        """What the runs took that began in the last `since_s` seconds; those of one workspace, or None = of all."""
        report = UsageReport()
        oldest = self._now() - since_s
        for row in await self._history.runs(workspace=workspace):
            if row.started >= oldest:
                day = time.strftime("%Y-%m-%d", time.localtime(row.started))
                report.add(
                    await self._history.events(row.stream, run=row.id, types=_TYPES),
                    day=day,
                    session=row.stream,
                    workspace=row.workspace,
                )
        for name, tokens in toolkit_tokens(self._toolkit()).items():
            report.tools.setdefault(name, ToolUse()).schema_tokens = tokens
        return report

    async def budgets(self, budgets: Iterable[Budget], *, most: int = 5) -> list[BudgetUse]:
        """How far each budget is used; of those per day only today (UTC).

        Args:
            budgets: those of the settings.
            most: accounts of each that are given.
        """
        today = time.strftime("%Y-%m-%d", time.gmtime(self._now()))
        accounts = StoredAccounts(lambda: self._history.store)
        out: list[BudgetUse] = []
        for budget in budgets:
            rows: list[tuple[float, tuple[str, ...], Spent]] = []
            for account, spent in (await accounts.of_budget(budget.name)).items():
                _, per, *of = account.split("\x1f")
                if per == budget.per and (per != "day" or of[0] == today):
                    rows.append((_share(budget, spent), tuple(filter(None, of)), spent))
            rows.sort(key=lambda row: row[0], reverse=True)
            used = tuple((of, spent) for _, of, spent in rows[:most])
            out.append(BudgetUse(budget=budget, accounts=used, count=len(rows)))
        return out


def _share(budget: Budget, spent: Spent) -> float:
    """How much of the measure that is used most is used, 1 = all."""
    limits = ((m, getattr(budget, m)) for m in MEASURES)
    return max(getattr(spent, m) / (limit or 1) for m, limit in limits if limit is not None)


_TYPES = (RunStarted.type, ModelReplied.type, PermissionJudged.type, CallFinished.type)
