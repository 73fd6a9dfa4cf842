"""Calls: one tool call in a run of its own, carried out and recorded, or only previewed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pegboard.core.call.call import Preview, new_id
from pegboard.core.content import ToolCall
from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError
from pegboard.core.events import CallStarted, Event, MemoryRecorder, RunFinished, RunStarted
from pegboard.core.result import Notes, ToolResult
from pegboard.core.text import escape_invisible
from pegboard.services.history import History
from pegboard.services.redaction import shown_preview
from pegboard.services.runtime import NOBODY, Interaction, Runtime, ToolExecutor
from pegboard.store.encoding import Redact, without_secrets
from pegboard.store.log import Log

REFUSALS = frozenset({"permission_denied", "outside_workspace"})
"""Codes of errors by which a rule, a person or the workspace's border refused a call."""

SESSION = "cli"
"""The session that single calls are recorded in."""


def error_fields(error: ToolError) -> dict[str, Any]:
    """`{code, message, hint, retryable}`."""
    row = error.to_dict()
    row.pop("details", None)
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a call.

    Attributes:
        result: its result.
        effects, changes: as JSON, without secrets.
        decision: allow, ask or deny.
        approver: who said yes where the policy asked, else empty.
        run: the id of its run.
    """

    result: ToolResult
    effects: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    decision: str
    approver: str
    run: str

    def to_dict(self) -> dict[str, Any]:
        """The object that `pegboard call --json` prints."""
        result, error = self.result, self.result.error
        return {
            "ok": result.ok,
            "text": result.text,
            "data": result.data,
            "error": None if error is None else error_fields(error),
            "effects": self.effects,
            "decision": self.decision,
            "changes": self.changes,
            "notes": {**result.notes.to_dict(), **_details(error)},
            "call_id": result.call_id,
            "run": self.run,
        }


def preview_to_dict(preview: Preview) -> dict[str, Any]:
    """The object that `pegboard call --preview --json` prints: an Outcome's keys, of a call that was not carried out."""
    error: ToolError | None = preview.error
    return {
        "ok": error is None,
        "text": f"would: {_effects_text(preview.effects)}" if error is None else f"Error: {error}",
        "data": None,
        "error": None if error is None else error_fields(error),
        "effects": [e.to_dict() for e in preview.effects],
        "decision": preview.decision,
        "changes": [c.to_dict() for c in preview.changes],
        "notes": {
            **Notes().to_dict(), "preview": True, "rule": preview.rule, "reason": preview.reason, **_details(error),
        },
        "call_id": None,
        "run": None,
    }  # fmt: skip


def _effects_text(effects: tuple[Effect, ...]) -> str:
    return ", ".join(escape_invisible(str(e)) for e in effects) or "no effects"


def _details(error: ToolError | None) -> dict[str, Any]:
    return {"details": error.details} if error is not None and error.details else {}


class Calls:
    """Single calls from outside a run.

    Args:
        runtime: the workspace, its tools and its policy.
        history: where they are recorded.
    """

    def __init__(self, runtime: Runtime, history: History) -> None:
        self._runtime = runtime
        self._history = history

    async def call(
        self,
        tool: str,
        arguments: str | Mapping[str, Any],
        interaction: Interaction = NOBODY,
        *,
        session: str = SESSION,
        origin: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Carry out a call and record it.

        Args:
            tool: its name, or an alias.
            arguments: a mapping, or JSON text.
            interaction: who answers.
            session: where it is recorded.
            origin: who sent it, as a call's context tells it; None = whoever is at this machine.

        Raises:
            StoreError: it cannot be recorded; then nothing was done.
        """
        async with self._runtime.executor(interaction, session=session, only=tool) as executor:
            async with self._history.log(session) as log:
                run = _RecordedCall(executor, log, str(self._runtime.workspace), origin or {})
                async with self._history.single_call(run.id):
                    await run.call(tool, arguments)
                    await log.flush()
        return run.outcome(self._runtime.redactor.redact)

    async def preview(
        self, tool: str, arguments: str | Mapping[str, Any], interaction: Interaction = NOBODY
    ) -> Preview:
        """What a call would do, without secrets; records nothing."""
        async with self._runtime.executor(interaction, only=tool, recorded=False) as executor:
            return shown_preview(await executor.preview(tool, arguments), self._runtime.redactor.redact)


class _RecordedCall:
    """A call in a run of its own; a Recorder that keeps its events for the outcome."""

    result: ToolResult
    outline: Preview = Preview()

    def __init__(self, executor: ToolExecutor, log: Log, workspace: str, origin: Mapping[str, str]) -> None:
        self._executor = executor
        self._origin = origin
        self._workspace = workspace
        self._log = log
        self._events = MemoryRecorder(keep=None)
        self.id = new_id("run")

    async def call(self, tool: str, arguments: str | Mapping[str, Any]) -> None:
        await self._executor.refresh_tools(tool)
        context = replace(self._executor.context, run=self.id, origin=self._origin)
        self.record(
            RunStarted(
                run=self.id,
                session=context.session,
                agent="cli",
                model="",
                task=f"call {tool}",
                detail={
                    "workspace": self._workspace,
                    **({"origin": dict(self._origin)} if self._origin else {}),
                },
            )
        )
        # Written before anything happens: where the history cannot be kept, nothing is done.
        await self._log.flush()
        pipeline = self._executor.pipeline.with_recorder(self)
        try:
            self.result = await pipeline.call(ToolCall(new_id("call"), tool, arguments), context)
        except asyncio.CancelledError:
            # Else it would stand as running for ever: a single call is not resumed.
            self.record(RunFinished(run=self.id, status="cancelled", answer=""))
            raise
        code = "" if self.result.error is None else self.result.error.code
        if code and not any(isinstance(e, CallStarted) for e in self._events.events):
            # It failed before it was decided: what it would have done is shown beside the failure.
            self.outline = await pipeline.preview(ToolCall(None, tool, arguments), context)
        status = "done" if not code else "denied" if code in REFUSALS else "failed"
        self.record(RunFinished(run=self.id, status=status, answer=self.result.text[:500]))

    def record(self, event: Event) -> None:
        """See Recorder."""
        self._events.record(event)
        self._log.record(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        await self._log.flush(power_loss=power_loss)

    def outcome(self, redact: Redact) -> Outcome:
        started = next((e for e in reversed(self._events.events) if isinstance(e, CallStarted)), None)
        result, error = self.result, self.result.error
        changes: Any = [] if started is None else [c.to_dict() for c in started.changes]
        data: Any = result.data
        if not changes and isinstance(data, dict):
            # A command's changes are known afterwards only; its tool reports them as data.
            changes = cast("dict[str, Any]", data).get("changes") or []
        planned = self.outline if started is None else started
        decision = "deny" if error is not None and error.code in REFUSALS else planned.decision
        effects = [e.to_dict() for e in planned.effects]
        # What was done is shown as it is recorded; the text was made without secrets.
        shown = without_secrets({"effects": effects, "changes": changes}, redact)
        return Outcome(
            result=result,
            effects=shown["effects"],
            changes=shown["changes"],
            decision=decision,
            approver="" if started is None else started.approver,
            run=self.id,
        )
