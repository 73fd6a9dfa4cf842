"""Replanning: what the tools and rules of now make of a recorded call: arguments, effects, decision.

The same stages as for a live call, up to the act: decode, plan, decide. No function runs, nobody is asked,
nothing is written. What people (grants, approvals) and hooks answered, and budgets, are taken from the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pegboard.core.call.authorise import REFUSED_BEFORE, check_secrets, evaluate
from pegboard.core.call.call import Call
from pegboard.core.call.pipeline import Pipeline
from pegboard.core.call.plan import decode, plan, situation_of
from pegboard.core.call.shape import as_tool_error, denial, shape_error
from pegboard.core.codec import event_to_dict
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Change
from pegboard.core.errors import PermissionDenied
from pegboard.core.events import CallFinished, CallStarted, Event, MemoryRecorder, UserSaid
from pegboard.core.policy.policy import ALLOWED, Decision
from pegboard.core.policy.taint import MemoryProvenance, TaintTracker
from pegboard.core.result import SOURCE, ToolResult, text_of
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import Tool

if TYPE_CHECKING:
    from pathlib import Path

_BORDERS: Final = frozenset({"outside_workspace", "permission_denied"})
"""Errors of a plan that say what may be done; the others say how the world is now."""
_UNREAD: Final = frozenset({"invalid_arguments", "unknown_tool"})
"""Errors of decoding: they hang on nothing but the call and the tools."""
_MARK: Final = "[redacted:"


@dataclass(slots=True)
class _Seen:
    """A call of the record on its way."""

    sent: ToolCall
    result: ToolResult | None
    call: Call | None = None
    decision: Decision | None = None


@dataclass(slots=True, kw_only=True)
class Replanner:
    """Plans and decides the calls of a record again.

    Args:
        pipeline: the tools, rules and ports of now; it is copied, and neither records nor remembers.
        policy: revision of the rules that the run had, empty where nobody knows: then decisions are not compared.
        then: where the run worked, as its record says; None where nobody knows.
        workspace: where the pipeline works; in another folder than then nothing can be planned again.
        absent: whether more tools than these may be there when their servers run.
        offers: whether a model may have a tool, None = all.
        lenient: collect what differs and go on with the record; else the replay ends at the first difference.

    Attributes:
        now: the run's events as they would be now, where `lenient`.
        untold: calls that cannot be compared, one sentence each.
        otherwise: how many calls other rules than those of then would decide otherwise.
        checked: how many calls were decoded, planned and decided again.
    """

    pipeline: Pipeline
    policy: str = ""
    then: str | None = None
    workspace: Path | None = None
    absent: bool = False
    offers: Callable[[str, str], bool] | None = None
    lenient: bool = False
    now: list[Event] = field(default_factory=list[Event])
    untold: list[str] = field(default_factory=list[str])
    otherwise: int = 0
    checked: int = 0
    _pipeline: Pipeline = field(init=False, repr=False)
    _taints: TaintTracker | None = field(init=False, repr=False)
    _provenance: MemoryProvenance = field(default_factory=MemoryProvenance, repr=False)
    _seen: dict[str, _Seen] = field(default_factory=dict[str, "_Seen"], repr=False)
    _results: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult], repr=False)
    _lost: dict[str, CallFinished] = field(default_factory=dict[str, CallFinished], repr=False)

    def __post_init__(self) -> None:
        parts = self.pipeline.parts
        known = parts.guards.taints
        self._taints = None if known is None else TaintTracker(known.rules, provenance=self._provenance)
        # What a person has allowed for longer is an answer and no rule: the record says what it was then.
        self._pipeline = self.pipeline.with_parts(
            policy=replace(parts.policy, grants=None),
            grants=None,
            recorder=MemoryRecorder(keep=0),
            shaper=replace(parts.shaper, spills=None),
            guards=replace(parts.guards, taints=self._taints, meter=None, novelty=None, stored=()),
            hooks=None,
        )

    @property
    def _same_rules(self) -> bool:
        return self.lenient or self.policy == self.pipeline.parts.policy.revision

    def on_user_message(self, event: UserSaid, session: str) -> None:
        """A person said something: addresses in it may be fetched."""
        if self._taints is not None and event.by == "user":
            self._taints.add_user_text(session, text_of(event.message.content))

    def on_turn(self, calls: Mapping[str, ToolCall], results: Mapping[str, ToolResult]) -> None:
        """The calls of a model turn come, with the results that the record has of them."""
        self._results = results
        self._seen = {id: _Seen(call, results.get(id)) for id, call in calls.items()}

    async def on_call_started(self, recorded: CallStarted, context: Context) -> Event:
        """The start of a call as it would be recorded now, or its failure where it would not start."""
        seen = self._seen.get(recorded.call_id)
        if seen is None and recorded.parent in self._seen:
            # A call of a program: what was sent is known by what was decoded.
            sent = ToolCall(recorded.call_id, recorded.tool, dict(recorded.arguments))
            seen = self._seen[recorded.call_id] = _Seen(sent, self._results.get(recorded.call_id))
        if seen is None:
            return recorded
        if _MARK in json.dumps(event_to_dict(recorded), default=str):
            self._tell(recorded.tool, "a secret was taken out of the record")
            return recorded
        if self._pipeline.toolkit.resolve(seen.sent.name) is None and self.absent:
            self._tell(recorded.tool, "its server is not asked in a replay")
            return recorded
        context = replace(context, workspace=self.workspace)
        try:
            call = seen.call = self._decode(seen, recorded.call_id, context)
        except Exception as error:  # noqa: BLE001  As in the pipeline: whatever decoding raises is the call's error.
            self.checked += 1
            return self._stopped(seen, as_tool_error(error))
        now = replace(recorded, tool=call.tool.name, arguments=dict(call.decoded.sent))
        if self.workspace is not None and self.then not in (None, str(self.workspace)):
            self._tell(recorded.tool, f"the run worked in {self.then}")
            return now
        self._labelled(seen, recorded, context)
        try:
            await plan(call)
            check_secrets(call)
        except Exception as error:  # noqa: BLE001  As in the pipeline: whatever a plan raises is the call's error.
            failure = as_tool_error(error)
            if failure.code in _BORDERS:
                self.checked += 1
                stopped = self._stopped(seen, failure)
                if not isinstance(failure, PermissionDenied):
                    return stopped
                denied = denial(ALLOWED, failure)
                return replace(
                    now,
                    effects=call.plan.effects,
                    changes=(),
                    decision="deny",
                    rule=denied.rule,
                    reason=denied.reason,
                )
            self._tell(
                recorded.tool,
                f"what it was planned on has changed since ({clip(failure.message, 0, 160)})",
            )
            call.plan = replace(call.plan, effects=recorded.effects)
        else:
            # The files may have changed since, perhaps by this very run: what they were then is in the record.
            scripts = [e.bound for e in call.plan.effects] != [e.bound for e in recorded.effects]
            if scripts or _shown(call.plan.changes.changes) != _shown(recorded.changes):
                verb = "run" if scripts else "change"
                self._tell(recorded.tool, f"the files that it would {verb} have changed since")
                call.plan = replace(call.plan, effects=recorded.effects)
        self.checked += 1
        return self._decided(seen, call, replace(now, effects=call.plan.effects), recorded)

    async def on_call_finished(self, recorded: CallFinished, context: Context) -> Event:
        """The result of a call as it would be recorded now, as far as that hangs on no act."""
        result = recorded.result
        if (lost := self._lost.pop(result.call_id, None)) is not None:
            return lost
        seen = self._seen.get(result.call_id)
        if seen is None:
            return recorded
        context = replace(context, workspace=self.workspace)
        if seen.call is None and result.error is not None and result.error.code in _UNREAD:
            return self._unread(seen, recorded, context)
        if seen.call is not None and self._taints is not None:
            self._trace(seen.call, result, context)
        if self.lenient and seen.call is not None and seen.decision is not None:
            return await self._act(seen, seen.call, seen.decision, recorded, context)
        return recorded

    # -- parts --------------------------------------------------------------------------------

    def _tell(self, tool: str, why: str) -> None:
        self.untold.append(f"{tool}: {why}")

    def _decode(self, seen: _Seen, call_id: str, context: Context) -> Call:
        return decode(self._pipeline.parts, replace(seen.sent, id=call_id), context)

    def _failed(self, seen: _Seen, error: Any) -> CallFinished:
        """The failure, with the recorded duration: how long it takes is not behaviour."""
        duration_s = 0.0 if seen.result is None else seen.result.notes.duration_s
        return CallFinished(
            shape_error(self._pipeline.parts, seen.sent, seen.call, error, duration_s=duration_s)
        )

    def _stopped(self, seen: _Seen, error: Any) -> CallFinished:
        """The failure of a call that started then and would not start now."""
        made = self._failed(seen, error)
        self._lost[made.result.call_id] = made
        return made

    def _unread(self, seen: _Seen, recorded: CallFinished, context: Context) -> Event:
        """A call that could not be read then: the same words now."""
        tool = self._pipeline.toolkit.resolve(seen.sent.name)
        if tool is not None and self.offers is not None and not self.offers(tool.name, context.model):
            return recorded
        if recorded.result.error is not None and recorded.result.error.code == "unknown_tool" and self.absent:
            self._tell(seen.sent.name, "the names of the tools that servers had are not known in a replay")
            return recorded
        told = (event_to_dict(recorded), seen.sent.name, seen.sent.arguments, seen.sent.raw)
        if _MARK in json.dumps(told, default=str):
            # Its words hang on what was sent: what names the nearest argument, or where a text was cut off.
            self._tell(seen.sent.name, "a secret was taken out of the record")
            return recorded
        self.checked += 1
        try:
            call = self._decode(seen, recorded.result.call_id, context)
        except Exception as error:  # noqa: BLE001  As in the pipeline: whatever decoding raises is the call's error.
            made = self._failed(seen, as_tool_error(error))
            notes = recorded.result.notes
            return CallFinished(replace(made.result, notes=notes))
        return CallStarted(
            call_id=recorded.result.call_id, tool=call.tool.name, arguments=dict(call.decoded.sent)
        )

    def _decided(self, seen: _Seen, call: Call, now: CallStarted, recorded: CallStarted) -> CallStarted:
        """With the decision of now where it can be compared, else that of then."""
        tool = call.tool
        decision = ALLOWED
        if call.plan.effects or tool.level != "auto" or self._pipeline.parts.policy.rules:
            decision = evaluate(call)
        seen.decision = decision
        verdict = decision.verdict
        if recorded.rule == REFUSED_BEFORE:
            # A person's answer, or a rule's to another call: neither hangs on this one.
            return now
        if recorded.decision == "deny" and recorded.approver and verdict == "ask":
            # It asked then too, and a person (or nobody) said no.
            verdict = "deny"
        by_answer = recorded.rule.startswith(("grant ", "hook ")) or recorded.rule == "budget"
        if by_answer and decision.verdict != "deny":
            seen.decision = None
            return now
        told = replace(
            now, decision=verdict, rule=decision.rule, reason=decision.reason, observed=decision.observed
        )
        if self._same_rules:
            return told
        if (told.decision, told.rule) != (recorded.decision, recorded.rule):
            self.otherwise += 1
        return now

    def _labelled(self, seen: _Seen, recorded: CallStarted, context: Context) -> None:
        """Labels of files from before the run: the record's results have them, and nothing else here does."""
        if self._taints is None or seen.result is None:
            return
        held = self._taints.labels(context.session, context.labels)
        for label in seen.result.notes.labels:
            if label not in held:
                for effect in recorded.effects:
                    if effect.kind == "read":
                        self._provenance.add_labels(
                            str(context.workspace or ""), effect.target, {label: "before this run"}
                        )

    def _trace(self, call: Call, result: ToolResult, context: Context) -> None:
        """Let taint follow the recorded result, as it followed the real one."""
        assert self._taints is not None
        here = situation_of(call.tool, context)
        own = self._taints.labels_of_result(call.plan, here) if result.ok or call.plan.effects else {}
        held = self._taints.labels(context.session, context.labels)
        for label in result.notes.labels:
            if label not in held and label not in own:
                own[label] = str(result.notes.extra.get(SOURCE) or call.tool.name)
        own = {label: source for label, source in own.items() if label in result.notes.labels}
        self._taints.propagate(
            call.plan, context.session, context.labels, own, result.data, str(context.workspace or "")
        )

    async def _act(
        self, seen: _Seen, call: Call, decision: Decision, recorded: CallFinished, context: Context
    ) -> Event:
        """What would come of it now: a refusal where rules refuse, the result of a pure function anew."""
        result = recorded.result
        refused = result.error is not None and result.error.code == "permission_denied"
        if decision.verdict == "deny" and not refused:
            why = decision.reason or decision.rule
            return self._failed(seen, PermissionDenied(f"{call.tool.name} may not run: {why}"))
        if decision.verdict == "allow" and _is_pure(call.tool, self._pipeline):
            again = await self._pipeline.call(seen.sent, context)
            return CallFinished(replace(again, notes=result.notes))
        return recorded


def _shown(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """File changes as a record has them: without contents."""
    return [c.to_dict() for c in changes]


def _is_pure(tool: Tool, pipeline: Pipeline) -> bool:
    """Whether a function may run in a comparison: it says that it touches nothing, and is given nothing."""
    return not (tool.effects or tool.plan or tool.markers or pipeline.parts.ports.get(tool.name))


def results_in(events: Sequence[Event]) -> dict[str, ToolResult]:
    """The last result of each call, by its id."""
    return {e.result.call_id: e.result for e in events if isinstance(e, CallFinished)}
