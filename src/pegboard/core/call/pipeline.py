"""Pipeline: the one path of a call: decode, plan, authorise, run, shape, record.

Each stage is a function in a module of its own beside this one. They share the `Call`, and never import each other's
pipeline.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from pegboard.core.call.authorise import authorise, check_secrets, evaluate
from pegboard.core.call.call import (
    PATH_RESOLVER,
    Call,
    GrantStore,
    Invocation,
    Middleware,
    Next,
    Parts,
    Preview,
    Turn,
    new_call_id,
    new_id,
)
from pegboard.core.call.decode import decode, ports_of
from pegboard.core.call.plan import plan, situation_of
from pegboard.core.call.provide import Provided
from pegboard.core.call.record import charge, record, record_finish
from pegboard.core.call.run import run
from pegboard.core.call.shape import as_tool_error, shape, shape_error, was_cancelled
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import check_callables
from pegboard.core.events import MemoryRecorder, Recorder
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import Approver, DenyAll
from pegboard.core.policy.guards import NO_GUARDS, Guards
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Situation
from pegboard.core.result import Shaper, ToolResult
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit

DEFAULT_TIMEOUT_S: Final = 600.0
"""Wall seconds of a call whose tool sets no limit of its own."""

_DEFAULT_POLICY: Final = Policy()


class Pipeline:
    """Takes calls through all stages; one place catches everything.

    Args:
        toolkit: the tools that may be called.
        policy: decides; see Policy.
        approver: answers if the policy asks.
        recorder: where events go.
        shaper: how results become readable.
        provide: what `Inject[T]` is filled from, by type.
        middleware: around every authorised run, outermost first.
        grants: remembers approvals; None = they hold once.
        clock: the time.
        threads: how many blocking functions run at once.
        timeout_s: wall seconds of a call whose tool sets none; None = no deadline.
        guards: taint, secrets and budgets; see Guards.

    Attributes:
        parts: all of these, as the stages use them.

    Raises:
        BuildError: a tool asks for a port that nothing provides.
    """

    def __init__(
        self,
        toolkit: Toolkit,
        *,
        policy: Policy = _DEFAULT_POLICY,
        approver: Approver | None = None,
        recorder: Recorder | None = None,
        shaper: Shaper | None = None,
        provide: Mapping[Any, Any] | None = None,
        middleware: Sequence[Middleware] = (),
        grants: GrantStore | None = None,
        clock: Clock | None = None,
        threads: int = 64,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        guards: Guards = NO_GUARDS,
    ) -> None:
        provided = provide if isinstance(provide, Provided) else Provided(provide)
        self.parts = Parts(
            toolkit=toolkit,
            policy=policy,
            approver=approver or DenyAll(),
            recorder=recorder or MemoryRecorder(),
            shaper=shaper or Shaper(),
            provide=provided,
            middleware=check_callables(middleware, "middleware=…", "functions of an invocation and proceed"),
            grants=grants,
            clock=clock or SystemClock(),
            timeout_s=timeout_s,
            guards=guards,
            ports=ports_of(toolkit, provided),
            threads=ThreadPoolExecutor(threads, "pegboard-tool"),
        )

    @property
    def toolkit(self) -> Toolkit:
        """The tools that may be called now."""
        return self.parts.toolkit

    async def call(
        self, sent: ToolCall, context: Context, turn: Turn | None = None, *, planned: Call | None = None
    ) -> ToolResult:
        """Run one call to its one result. Raises nothing but cancellation of the surrounding task.

        Args:
            sent: the call as it came.
            context: where it runs.
            turn: what the calls of one turn share.
            planned: the same call, already decoded and planned while nothing could have changed since.
        """
        parts = self.parts
        started_s = parts.clock.monotonic()
        call = planned
        try:
            if call is None:
                call = decode(parts, sent, context)
                await plan(call)
            await authorise(call, turn)
            result = await shape(call, await run(call))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            if not sent.id and call is None:
                sent = replace(sent, id=new_call_id())
            duration_s = parts.clock.monotonic() - started_s
            result = shape_error(parts, sent, call, error, duration_s=duration_s)
            if isinstance(error, asyncio.CancelledError) and was_cancelled():
                record_finish(parts, result)
                if call is not None:
                    charge(call)
                raise
        return record_finish(parts, result) if call is None else await record(call, result)

    async def examine(self, sent: ToolCall, context: Context) -> Call:
        """The call decoded, planned and decided, as `call` would do it; changes nothing and asks nobody.

        Raises:
            ToolError: it cannot be decoded or planned.
        """
        call = decode(self.parts, sent, context)
        await plan(call)
        check_secrets(call)
        await self.parts.guards.refresh(call.workspace)
        call.decision = evaluate(call)
        return call

    async def preview(self, sent: ToolCall, context: Context) -> Preview:
        """What `call` would do with these arguments; changes nothing and asks nobody."""
        try:
            call = await self.examine(sent, context)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  The boundary of a preview: a failed plan is its answer.
            failure = as_tool_error(error)
            return Preview(decision="deny", error=failure, reason=str(failure))
        return Preview(
            effects=call.plan.effects,
            changes=call.plan.changes.changes,
            decision=call.decision.verdict,
            rule=call.decision.rule,
            reason=call.decision.reason,
            detail=call.decision,
        )

    async def plan(self, sent: ToolCall, context: Context) -> Call | None:
        """The call decoded and planned, None if that fails; the call itself then says why."""
        try:
            call = decode(self.parts, sent, context)
            await plan(call)
        except Exception:  # noqa: BLE001  Whatever a plan raises is reported by the call itself.
            return None
        return call

    def set_toolkit(self, toolkit: Toolkit) -> None:
        """Offer another set of tools from now on; calls under way keep theirs.

        Raises:
            BuildError: a tool asks for a port that nothing provides.
        """
        self.parts = replace(self.parts, toolkit=toolkit, ports=ports_of(toolkit, self.parts.provide))

    def situation(self, tool: Tool, context: Context) -> Situation:
        """What rules' conditions see of a call here, with what its session has read."""
        taints = self.parts.guards.taints
        labels = None if taints is None else taints.labels(context.session, context.labels)
        return situation_of(tool, context, labels)

    def with_parts(self, **changes: Any) -> Pipeline:
        """The same pipeline with some parts replaced; cheap."""
        pipeline = copy.copy(self)
        pipeline.parts = replace(self.parts, **changes)
        return pipeline

    def with_recorder(
        self,
        recorder: Recorder,
        *,
        approver: Approver | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Pipeline:
        """The same pipeline with another recorder, approver and further middleware, for one run; cheap."""
        parts = self.parts
        return self.with_parts(
            recorder=recorder,
            approver=approver or parts.approver,
            middleware=(*middleware, *parts.middleware),
        )

    def close(self) -> None:
        """Let the threads end."""
        self.parts.threads.shutdown(wait=False, cancel_futures=True)


__all__ = [
    "PATH_RESOLVER",
    "GrantStore",
    "Invocation",
    "Middleware",
    "Next",
    "Pipeline",
    "Preview",
    "Turn",
    "as_tool_error",
    "new_call_id",
    "new_id",
]
