"""Policies: why a call would be allowed, asked or denied, and what is odd about the rules."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pegboard.config.load import read_rules
from pegboard.core.context import Context
from pegboard.core.errors import ConfigError
from pegboard.core.events import CallStarted
from pegboard.core.policy.rules import CONDITIONS, Rule, Situation
from pegboard.services.history import History
from pegboard.services.lint import LintFinding, lint
from pegboard.services.runtime import NOBODY, Interaction, Runtime
from pegboard.store.encoding import without_secrets
from pegboard.store.grants import StoredGrants


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """How many rules were looked at, and what is odd about them."""

    rules: int
    findings: tuple[LintFinding, ...]


class Policies:
    """The policy of a workspace, asked about calls.

    Args:
        runtime: the workspace, its tools and its policy.
        history: recorded calls, for `diff`.
        now: the time, in seconds since the epoch.
    """

    def __init__(self, runtime: Runtime, history: History, *, now: Callable[[], float] = time.time) -> None:
        self._runtime = runtime
        self._history = history
        self._now = now

    def show(self) -> dict[str, Any]:
        """The mode and the rules that hold, in their order: `{mode, rules: [{text, source}]}`."""
        policy = self._runtime.policy
        return {
            "mode": policy.mode, "rules": [{"text": str(r), "source": r.source} for r in policy.every_rule],
        }  # fmt: skip

    async def explain(
        self, tool: str, arguments: str | Mapping[str, Any], interaction: Interaction = NOBODY
    ) -> dict[str, Any]:
        """The answer with every rule that was tried: `{decision, rule, reason, effects}`, or `{error}`; no secrets."""
        async with self._runtime.executor(interaction, recorded=False) as executor:
            answer = await executor.explain(tool, arguments)
        return without_secrets(answer, self._runtime.redactor.redact)

    async def test(self, file: Path) -> list[dict[str, Any]]:
        """The cases of a TOML file of `[[case]] tool=…, arguments={…}, expect="deny"`, each with `got`, `ok`, `rule`.

        Raises:
            ConfigError: the file or a case of it cannot be read.
        """
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"cannot read the policy test {file}: {why}") from None
        cases = cast("list[dict[str, Any]]", table.get("case", []))
        if not cases:
            raise ConfigError(f"{file} has no [[case]]; each needs tool, arguments and expect")
        for number, case in enumerate(cases, 1):
            if not isinstance(case.get("tool"), str) or case.get("expect") not in ("allow", "ask", "deny"):
                raise ConfigError(
                    f'{file}: case {number} needs tool = "NAME" and expect = "allow", "ask" or "deny"'
                )
        return await self.test_calls(cases)

    async def test_calls(
        self, calls: Sequence[Mapping[str, Any]], *, rules: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """What rules decide about calls.

        Args:
            calls: `{tool, arguments, expect}`; the last two may be left out.
            rules: in the place of the user's and the project's; None = those that hold.

        Returns:
            The calls, each with `got` (a verdict or `error`), the `rule` that decided, its `reason`, and `ok`: whether
            that was expected, None where nothing was.

        Raises:
            ConfigError: a rule cannot be read.
        """
        rows: list[dict[str, Any]] = []
        async with self._runtime.executor(recorded=False) as executor:
            if rules is not None:
                read = tuple(Rule.parse(rule) for rule in rules)
                executor.set_policy(replace(executor.policy, rules=read))
            for call in calls:
                answer = await executor.explain(call["tool"], call.get("arguments", {}))
                got = answer.get("decision", "error")
                reason = (
                    answer.get("reason", "") if "error" not in answer else answer["error"].get("message", "")
                )
                wanted = call.get("expect")
                rows.append(
                    {**call, "got": got, "ok": None if wanted is None else got == wanted,
                     "rule": answer.get("rule", ""), "reason": reason}
                )  # fmt: skip
        return rows

    async def lint(self, file: Path | None = None) -> LintReport:
        """What is odd about the rules of a file, or about those that hold here.

        Raises:
            ConfigError: a rule of the file cannot be read.
        """
        rules = self._runtime.policy.rules if file is None else read_rules(file)
        return LintReport(rules=len(rules), findings=tuple(lint(rules)))

    async def diff(self, since_s: float) -> list[dict[str, Any]]:
        """Calls of the last `since_s` seconds that would be decided differently now.

        Each is `{run, call, tool, before, now, rule}`.
        """
        out: list[dict[str, Any]] = []
        policy, toolkit = self._runtime.policy, self._runtime.toolkit
        if isinstance(policy.grants, StoredGrants):
            await policy.grants.refresh()
        oldest = self._now() - since_s
        for row in await self._history.runs():
            if row.started < oldest:
                continue
            context = Context(agent=row.agent, session=row.stream, model=row.model)
            known = {"agent": row.agent, "session": row.stream, "model": row.model}
            for event in await self._history.events(row.stream, run=row.id, types=(CallStarted.type,)):
                if not isinstance(event, CallStarted):
                    continue
                tool = toolkit.get(event.tool)
                # A server's tool is not offered before the server is started.
                values = (
                    {**dict.fromkeys(CONDITIONS, ""), **known, "tool": event.tool}
                    if tool is None
                    else {name: value_of(context, tool) for name, value_of in CONDITIONS.items()}
                )
                situation = Situation(values=values, workspace=str(self._runtime.workspace))
                now = policy(event.effects, situation, tool.level if tool else "auto")
                # What taint or a budget asked, or a person refused, was no answer of the policy.
                refused = event.decision == "deny" and event.approver and now.verdict == "ask"
                if now.verdict != event.decision and not refused and event.rule not in ("taint", "budget"):
                    out.append(
                        {"run": row.id, "call": event.call_id, "tool": event.tool, "before": event.decision,
                         "now": now.verdict, "rule": now.rule}
                    )  # fmt: skip
        return out
