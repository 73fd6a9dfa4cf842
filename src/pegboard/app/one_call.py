"""OneCall: one call in a run of its own, recorded, and what a program reads of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from pegboard.app.executor import Executor
from pegboard.core.call.call import Preview, new_id
from pegboard.core.content import ToolCall
from pegboard.core.errors import ToolError
from pegboard.core.events import CallStarted, Event, MemoryRecorder, RunFinished, RunStarted
from pegboard.core.result import ToolResult
from pegboard.store.logs import SessionLog

REFUSALS = frozenset({"permission_denied", "outside_workspace"})
"""Codes of errors by which a rule, a person or the workspace's border refused a call."""


def error_fields(error: ToolError) -> dict[str, Any]:
    """`{code, message, hint, retryable}`."""
    row = error.to_dict()
    row.pop("details", None)
    return row


def details(error: ToolError | None) -> dict[str, Any]:
    """`{details: …}` for the notes, empty where there are none."""
    return {"details": error.details} if error is not None and error.details else {}


class OneCall:
    """One call in a run of its own.

    Attributes:
        run: its run's id.
        result: after `call`, its result.
        approver: after `call`, who said yes where the policy asked, else empty.
    """

    result: ToolResult
    approver: str = ""

    def __init__(self, executor: Executor, log: SessionLog) -> None:
        self._door = executor
        self._log = log
        self._events = MemoryRecorder(keep=None)
        self.run = new_id("run")

    def on_warning(self, listener: Callable[[str], None]) -> None:
        """Say by `listener` what goes wrong beside the call; see Executor.tell."""
        self._door.on_warning = listener

    async def preview(self, tool: str, arguments: str | Mapping[str, Any]) -> Preview:
        """What it would do; records nothing."""
        return await self._door.preview(tool, arguments)

    async def call(self, tool: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Carry it out and record it."""
        await self._door.refresh_tools(tool)
        context = replace(self._door.context, run=self.run)
        self.record(
            RunStarted(run=self.run, session=context.session, agent="cli", model="", task=f"call {tool}")
        )
        # Written before anything happens: where the history cannot be kept, nothing is done.
        await self._log.flush()
        pipeline = self._door.pipeline.with_recorder(self)
        try:
            self.result = await pipeline.call(ToolCall(new_id("call"), tool, arguments), context)
        except asyncio.CancelledError:
            # Else it would stand as running for ever: a single call is not taken up again.
            self.record(RunFinished(run=self.run, status="failed", answer="", error="cancelled"))
            raise
        status = "done" if self.result.ok else "failed"
        self.record(RunFinished(run=self.run, status=status, answer=self.result.text[:500]))
        return self.result

    def record(self, event: Event) -> None:
        """See Recorder."""
        self._events.record(event)
        self._log.record(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        await self._log.flush(power_loss=power_loss)

    def outcome(self) -> dict[str, Any]:
        """The object that `pegboard call --json` prints."""
        started = next((e for e in reversed(self._events.events) if isinstance(e, CallStarted)), None)
        result = self.result
        self.approver = "" if started is None else started.approver
        changes = [] if started is None else list(started.changes)
        # A command's changes are known afterwards only; its tool reports them as data (decisions 19).
        value: Any = result.data
        data = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        done = data.get("changes") if not changes else None
        error = result.error
        # What never came to a decision (a bad argument, a path outside) was not allowed either.
        decision = "deny" if started is None else started.decision
        if error is not None and error.code in REFUSALS:
            decision = "deny"
        return {
            "ok": result.ok,
            "text": result.text,
            "data": result.data,
            "error": None if error is None else error_fields(error),
            "effects": [] if started is None else [e.to_dict() for e in started.effects],
            "decision": decision,
            "changes": done if done is not None else [c.to_dict() for c in changes],
            "notes": {**result.notes.to_dict(), **details(error)},
            "call_id": result.call_id,
            "run": self.run,
        }
