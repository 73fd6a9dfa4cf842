"""Pipeline: the one way of a call (DESIGN 2): decode, resolve, validate, plan, authorise, run, shape, record.

Each stage is a function in a file of its own: `planning`, `authorising`, `running`, `shaping`, `recording`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from pegboard.core.call.authorise import authorise, check_secrets, evaluate
from pegboard.core.call.call import (
    PATH_RESOLVER,
    Call,
    GrantStore,
    Invocation,
    Middleware,
    Next,
    Preview,
    Turn,
    new_call_id,
    new_id,
)
from pegboard.core.call.deadline import Deadlines
from pegboard.core.call.decode import ToolBinding, bind_tool, ports_of
from pegboard.core.call.plan import decode, plan, situation
from pegboard.core.call.provide import Provided
from pegboard.core.call.record import (
    error_result,
    flush_intent,
    record_result,
    record_start,
    settle_result,
    shape_result,
)
from pegboard.core.call.run import (
    ThreadPool,
    build_arguments,
    raise_timeout,
    run_in_thread,
    run_with_middleware,
    timeout_of,
)
from pegboard.core.call.shape import Shaper, as_tool_error, suspended_error
from pegboard.core.content import NewArtifact, ToolCall
from pegboard.core.context import Context, get_current, set_current
from pegboard.core.effects import Effect
from pegboard.core.errors import (
    InvalidArguments,
    check_callables,
)
from pegboard.core.events import (
    MemoryRecorder,
    Recorder,
)
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import Approver, DenyAll, Waiting
from pegboard.core.policy.guards import NO_SAFEGUARDS, Guards
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Situation
from pegboard.core.result import ToolResult
from pegboard.core.tool import NO_LIMITS, Tool
from pegboard.core.toolkit import Toolkit

DEFAULT_TIMEOUT_S: Final = 600.0
"""Wall seconds of a call whose tool sets no limit of its own."""

_AUTO: Final = Policy()


class Pipeline:
    """Takes calls through all stages; one place catches everything.

    Args:
        toolkit: the tools that may be called.
        policy: decides; see Policy.
        approver: answers where the policy asks.
        recorder: where events go.
        shaper: how results become readable.
        provide: what `Inject[T]` is filled from, by type.
        middleware: around every authorised run, outermost first.
        grants: remembers yeses; None = they hold once.
        clock: where time comes from.
        threads: how many blocking functions run at once.
        timeout_s: wall seconds of a call whose tool sets none; None = no deadline.
        safeguards: taint, secrets and budgets; see Safeguards.

    Raises:
        BuildError: a tool asks for a port that nothing provides.
    """

    def __init__(
        self,
        toolkit: Toolkit,
        *,
        policy: Policy = _AUTO,
        approver: Approver | None = None,
        recorder: Recorder | None = None,
        shaper: Shaper | None = None,
        provide: Mapping[Any, Any] | None = None,
        middleware: Sequence[Middleware] = (),
        grants: GrantStore | None = None,
        clock: Clock | None = None,
        threads: int = 64,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        safeguards: Guards = NO_SAFEGUARDS,
    ) -> None:
        self.safeguards = safeguards
        self.toolkit = toolkit
        self.policy = policy
        self.approver: Approver = approver or DenyAll()
        self.recorder: Recorder = recorder or MemoryRecorder()
        self.shaper = shaper or Shaper()
        self.provide = provide if isinstance(provide, Provided) else Provided(provide)
        self.middleware = check_callables(
            middleware, "middleware=…", "functions of an invocation and proceed"
        )
        self.grants = grants
        self.clock = clock or SystemClock()
        self.now = self.clock.monotonic
        self.threads = ThreadPool(threads)
        self.deadlines = Deadlines()
        self.timeout_s = timeout_s
        self.injected = {one.name: ports_of(self, one) for one in toolkit}
        self.lanes: dict[str, ToolBinding] = {}

    def call(
        self, call: ToolCall, context: Context, turn: Turn | None = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run one call to its one result. Raises nothing but cancellation of the surrounding task."""
        return self.take(call.name, call.arguments, context, call.id, turn)

    async def take(
        self,
        name: str,
        arguments: str | Mapping[str, Any] | None,
        context: Context,
        id: str | None = None,
        turn: Turn | None = None,
    ) -> ToolResult:
        """What `call` does, for a call that is no object yet.

        What a thousand calls under way keep in this frame, the collector looks at again and again: so few names.
        """
        now = self.now
        started = now()
        id = id or new_call_id()
        ready: Call | None = None
        weighed = False
        try:
            lane = self.lanes.get(name) if type(name) is str else None
            if lane is None:
                lane, arguments = bind_tool(self, name, arguments)
            read, tool = lane.decode, lane.tool
            decoded = read(arguments)
            # What `planned` does, without its frame.
            ready = Call()
            ready.lane, ready.tool, ready.call_id, ready.decoded = lane, tool, id, decoded
            if (
                tool.effects
                or tool.markers
                or tool.plan
                or tool.level != "auto"
                or self.policy.rules
                or self.safeguards.secrets is not None
                or self.safeguards.meter is not None
            ):
                weighed = True
                await authorise(self, ready, context, turn)
            record_start(self, ready, weighed=weighed)
            if weighed and ready.plan.effects:
                await flush_intent(self, ready)
            if self.middleware:
                value = await run_with_middleware(self, ready, context)
            else:
                # The function's own coroutine: one more around it would stand on the path of every call.
                ready.pipeline, ready.outer = self, context
                inputs = build_arguments(self, ready) if weighed or not lane.bare else decoded.arguments
                before = get_current()
                set_current(ready)
                try:
                    self.deadlines.start(
                        ready,
                        asyncio.current_task(),
                        timeout_of(self, ready)
                        if weighed or tool.limits is not NO_LIMITS
                        else self.timeout_s,
                    )
                    value = await (
                        tool.function(**inputs) if tool.is_async else run_in_thread(self, ready, inputs)
                    )
                finally:
                    set_current(before)
                    if self.deadlines.end(ready):
                        raise_timeout(ready, ready)
            if isinstance(value, Waiting):
                raise suspended_error(value)
            if type(value) is NewArtifact or (type(value) is ToolResult and value.artifacts):
                # Loaded with the first of them: most tools never declare one.
                from pegboard.core.call.shape import save_artifacts

                value = await save_artifacts(self, value, ready, context)
            value = shape_result(self, ready, value, context, started, weighed=weighed)
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt | GeneratorExit):
                raise
            value = error_result(self, raised, name, id, ready, context, started)
        if weighed and ready is not None:
            value = settle_result(self, ready, value, context, started)
        return record_result(self, value)

    async def preview(self, call: ToolCall, context: Context) -> Preview:
        """What `call` would do with these arguments; changes nothing and asks nobody."""
        try:
            ready = decode(self, call, call.id or "preview")
            ready.plan = await plan(self, ready, context)
            if self.safeguards.secrets is not None:
                check_secrets(self, ready, self.safeguards.secrets)
            ready.decision = evaluate(self, ready, context)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  The boundary of a preview: a failed plan is its answer.
            return Preview(decision="deny", error=as_tool_error(error), reason=str(as_tool_error(error)))
        decision = ready.decision
        return Preview(
            effects=ready.plan.effects,
            changes=ready.plan.changes.changes,
            decision=decision.verdict,
            rule=decision.rule,
            reason=decision.reason,
            detail=decision,
        )

    async def effects_of(self, call: ToolCall, context: Context) -> tuple[Effect, ...] | None:
        """The effects of a call as far as they can be known now, None where they cannot."""
        try:
            ready = decode(self, call, "order")
            return (await plan(self, ready, context)).effects
        except Exception:  # noqa: BLE001  What a plan raises is told by the call itself; here it is unknown.
            return None

    def set_toolkit(self, toolkit: Toolkit) -> None:
        """Offer another set of tools from now on; calls under way keep theirs.

        Raises:
            BuildError: a tool asks for a port that nothing provides.
        """
        self.injected = {one.name: ports_of(self, one) for one in toolkit}
        self.toolkit, self.lanes = toolkit, {}

    def situation(self, tool: Tool, context: Context) -> Situation:
        """What rules' conditions see of a call here, with what its session holds."""
        taints = self.safeguards.taints
        return situation(
            tool, context, None if taints is None else taints.labels(context.session, context.labels)
        )

    def with_recorder(
        self,
        recorder: Recorder,
        *,
        approver: Approver | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Pipeline:
        """The same pipeline with another recorder, approver and further middleware, for one run; cheap."""
        twin = copy.copy(self)
        twin.recorder = recorder
        twin.approver = approver or self.approver
        twin.middleware = (*middleware, *self.middleware)
        return twin

    def close(self) -> None:
        """Let the threads end."""
        self.threads.close()


__all__ = [
    "PATH_RESOLVER",
    "GrantStore",
    "InvalidArguments",
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
