"""policy_diff: recorded calls under the policy of now (ledger G-08)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pegboard.core.events import CallStarted
from pegboard.core.policy.rules import Situation

if TYPE_CHECKING:
    from pegboard.app.home import App


def policy_diff(app: App, since_s: float) -> list[dict[str, Any]]:
    """Calls that would be decided differently now: `{run, call, tool, before, now, rule}` of each."""
    out: list[dict[str, Any]] = []
    oldest = time.time() - since_s
    for row in app.store.runs(limit=-1):
        if row.started < oldest:
            continue
        for event in app.events(row):
            if not isinstance(event, CallStarted):
                continue
            tool = app.toolkit.get(event.tool)
            situation = Situation(
                values={"tool": event.tool, "agent": row.agent, "session": row.stream, "model": row.model,
                        "channel": "", "sender": ""},
                workspace=str(app.workspace),
            )  # fmt: skip
            now = app.policy(event.effects, situation, tool.level if tool else "auto")
            # What taint or a budget asked, or a person refused, was no answer of the policy.
            refused = event.decision == "deny" and event.approver and now.verdict == "ask"
            if now.verdict != event.decision and not refused and event.rule not in ("taint", "budget"):
                out.append(
                    {"run": row.id, "call": event.call_id, "tool": event.tool, "before": event.decision,
                     "now": now.verdict, "rule": now.rule}
                )  # fmt: skip
    return out
