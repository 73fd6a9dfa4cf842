"""Pipeline: the one path of a call: decode, plan, authorise, run, shape, record; and the calls of one turn.

Each stage is a function beside this module. They share the `Call` and its parts, and never import the pipeline.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

from pegboard.core.call.authorise import authorise, check_secrets, evaluate
from pegboard.core.call.call import (
    Call,
    CallHooks,
    GrantStore,
    Middleware,
    Parts,
    Preview,
    Questions,
    Turn,
    TurnHook,
    WriteChecks,
    new_call_id,
)
from pegboard.core.call.diagnostics import add_diagnostics
from pegboard.core.call.hooks import after_call
from pegboard.core.call.plan import decode, marked_effects, plan, ports_of, situation_of
from pegboard.core.call.provide import Provided
from pegboard.core.call.run import run
from pegboard.core.call.shape import (
    as_tool_error,
    charge,
    record,
    record_finish,
    shape,
    shape_error,
    was_cancelled,
)
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan, Verdict
from pegboard.core.errors import (
    CallCancelled,
    OutsideWorkspace,
    PermissionDenied,
    ToolError,
    check_callables,
)
from pegboard.core.events import CallFinished, MemoryRecorder, Recorder
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import NOBODY, Approver, decide_all_of
from pegboard.core.policy.guards import NO_GUARDS, Guards
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Situation
from pegboard.core.result import Shaper, ToolResult
from pegboard.core.schema.numerals import comparable
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
        hooks: the user's own programs around calls; see CallHooks.
        turn_hooks: see the calls that a running call makes together, as TurnExecutor's hooks see those of a turn.
        write_checks: says behind a result what the call's writes broke; see WriteChecks.

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
        hooks: CallHooks | None = None,
        turn_hooks: Sequence[TurnHook] = (),
        write_checks: WriteChecks | None = None,
    ) -> None:
        provided = provide if isinstance(provide, Provided) else Provided(provide)
        self.parts = Parts(
            toolkit=toolkit,
            policy=policy,
            approver=approver or NOBODY,
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
            hooks=hooks,
            turn_hooks=tuple(turn_hooks),
            write_checks=write_checks,
        )

    @classmethod
    def of(cls, parts: Parts) -> Pipeline:
        """A pipeline over parts that another one was made of."""
        pipeline = cls.__new__(cls)
        pipeline.parts = parts
        return pipeline

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
            call.turn = turn
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
                    # Shielded: who cancels twice would else have used it for nothing.
                    await asyncio.shield(charge(call))
                raise
        changed = call is not None and bool(call.plan.changes.changes or call.inner_changes)
        if call is not None and (changed or parts.hooks is not None):
            try:
                if changed:
                    result = await add_diagnostics(call, result)
                result = await after_call(call, result)
            except asyncio.CancelledError:
                # The call has happened: its result is kept.
                await asyncio.shield(record(call, result))
                raise
        return record_finish(parts, result) if call is None else await record(call, result)

    async def examine(self, sent: ToolCall, context: Context) -> Call:
        """The call decoded, planned and decided, as `call` would do it; changes nothing and asks nobody.

        Raises:
            ToolError: it cannot be decoded or planned.
        """
        call = decode(self.parts, sent, context)
        await self._decide(call)
        return call

    async def _decide(self, call: Call) -> None:
        await plan(call)
        check_secrets(call)
        await self.parts.guards.refresh(call.workspace)
        call.decision = evaluate(call)

    async def preview(self, sent: ToolCall, context: Context) -> Preview:
        """What `call` would do with these arguments; changes nothing and asks nobody."""
        call: Call | None = None
        try:
            call = decode(self.parts, sent, context)
            await self._decide(call)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  The boundary of a preview: a failed plan is its answer.
            return await self._preview_of_failure(call, as_tool_error(error))
        return Preview(
            effects=call.plan.effects,
            changes=call.plan.changes.changes,
            decision=call.decision.verdict,
            rule=call.decision.rule,
            reason=call.decision.reason,
            detail=call.decision,
        )

    async def _preview_of_failure(self, call: Call | None, failure: ToolError) -> Preview:
        """A call that cannot run: what its arguments alone say that it would do, and the decision on that."""
        refused = isinstance(failure, PermissionDenied | OutsideWorkspace)
        verdict: Verdict = "deny" if refused else "allow"
        if call is None:
            return Preview(decision=verdict, error=failure, reason=str(failure))
        rule = ""
        with suppress(ToolError):
            if not call.plan.effects:
                call.plan = Plan(await marked_effects(call))
            if not refused:
                decision = evaluate(call)
                verdict, rule = decision.verdict, decision.rule
        return Preview(
            effects=call.plan.effects, decision=verdict, rule=rule, error=failure, reason=str(failure)
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


CallStep: TypeAlias = Callable[[ToolCall, Callable[[], Awaitable[ToolResult]]], Awaitable[ToolResult]]
"""Carries out a call, given it and what runs it."""

_ORDERED: Final = frozenset({"send", "control", "call", "schedule", "spawn", "spend"})


def distinct_calls(calls: Sequence[ToolCall], taken: Container[str] = ()) -> tuple[ToolCall, ...]:
    """The calls with ids that are present and unique; an exact repeat of a call is dropped.

    Two calls with one id, name and arguments are one call that was sent twice. Two
    different calls with one id are two calls, and the later one gets an id of its own. Applying
    it again changes nothing. `taken` holds ids that earlier turns have used: some models count
    from one again in every turn, and then the later call gets an id of its own too.
    """
    sent: dict[str, ToolCall] = {}
    used: set[str] = set()
    out: list[ToolCall] = []
    for call in calls:
        call_id = call.id if isinstance(call.id, str) and call.id else new_call_id()
        before = sent.setdefault(call_id, call)
        if before is not call and before.name == call.name and _same(before.arguments, call.arguments):
            continue
        if call_id in used or call_id in taken:
            base = call_id
            call_id = next(c for n in count(2) if (c := f"{base}-{n}") not in used and c not in taken)
        if call_id != call.id:
            call = ToolCall(call_id, call.name, call.arguments, call.raw)
        used.add(call_id)
        out.append(call)
    return tuple(out)


class Executor(Protocol):
    """Runs the calls of a turn: what the agent's loop needs of an executor."""

    @property
    def toolkit(self) -> Toolkit:
        """The tools that may be called now."""
        ...

    async def turn(
        self,
        calls: Sequence[ToolCall],
        context: Context,
        shared: Turn | None = None,
        *,
        step: CallStep | None = None,
    ) -> tuple[ToolResult, ...]:
        """Results in call order, one for each distinct id."""
        ...


class TurnExecutor:
    """Runs the calls of a turn through one pipeline.

    Args:
        pipeline: the path of each call.
        hooks: see all calls of a turn before any runs.
        parallel: how many calls run at once.
        exclusive: names of Python tools without known effects that keep their order; None = all of them do.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        hooks: Sequence[TurnHook] = (),
        parallel: int = 64,
        exclusive: Collection[str] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._hooks = tuple(hooks)
        self._parallel = parallel
        self._exclusive = exclusive

    @property
    def toolkit(self) -> Toolkit:
        """The tools that may be called now."""
        return self.pipeline.toolkit

    async def turn(
        self,
        calls: Sequence[ToolCall],
        context: Context,
        shared: Turn | None = None,
        *,
        step: CallStep | None = None,
    ) -> tuple[ToolResult, ...]:
        """Results in call order, one for each distinct id; see `distinct_calls`.

        Calls whose effects do not conflict run side by side, the others in call order. A failed call never takes a
        sibling with it. What the calls ask is one list for an approver with `decide_all`. When the surrounding task is cancelled every call has its result recorded, cancelled ones
        too, and CancelledError goes on.

        Args:
            calls: as the model sent them.
            context: where they run.
            shared: what a person refused before, so that nobody is asked twice for the same call.
            step: carries out each call as a step of a run; None = it just runs.
        """
        distinct = distinct_calls(calls)
        shared = Turn() if shared is None else shared
        if len(distinct) == 1 and not self._hooks:
            call = partial(self.pipeline.call, distinct[0], context, shared)
            return (await (call() if step is None else step(distinct[0], call)),)
        try:
            refusal = await self._ask_hooks(distinct, context)
            planned = [] if refusal else [await self.pipeline.plan(call, context) for call in distinct]
        except asyncio.CancelledError:
            for call in distinct:
                self._record_cancelled(call)
            raise
        if refusal is not None:
            return tuple(self.refuse(call, refusal) for call in distinct)
        if decide_all_of(self.pipeline.parts.approver) is not None:
            # What was refused and allowed in the run is shared with the turn's own.
            shared = replace(shared, questions=Questions(open={c.id or "": c for c in distinct}))
        return await self._side_by_side(distinct, planned, context, shared, step)

    async def _side_by_side(
        self,
        calls: tuple[ToolCall, ...],
        planned: Sequence[Call | None],
        context: Context,
        shared: Turn,
        step: CallStep | None,
    ) -> tuple[ToolResult, ...]:
        gate = asyncio.Semaphore(self._parallel)
        finished = [asyncio.Event() for _ in calls]
        results: list[ToolResult | None] = [None] * len(calls)
        started: set[int] = set()
        effects = [self._effects(call) for call in planned]

        async def run(index: int) -> None:
            try:
                plan = planned[index]
                for earlier in range(index):
                    if conflict(effects[earlier], effects[index]):
                        await finished[earlier].wait()
                        plan = None  # What it waited for may have changed what it would do.
                async with gate:
                    # From here on the pipeline itself records the result, a cancelled one too.
                    started.add(index)
                    call = partial(self.pipeline.call, calls[index], context, shared, planned=plan)
                    results[index] = await (call() if step is None else step(calls[index], call))
            finally:
                finished[index].set()
                if shared.questions is not None:
                    shared.questions.open.pop(calls[index].id or "", None)

        tasks = [asyncio.ensure_future(run(i)) for i in range(len(calls))]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for index, call in enumerate(calls):
                if index not in started:
                    self._record_cancelled(call)
            raise
        return tuple(r for r in results if r is not None)

    def _effects(self, call: Call | None) -> tuple[Effect, ...] | None:
        """What decides the order; None = unknown."""
        if call is None:
            return None
        if self._exclusive is None or call.tool.name in self._exclusive:
            return call.plan.effects
        return tuple(
            e for e in call.plan.effects if not (e.kind == "call" and e.target.startswith("python/"))
        )

    async def _ask_hooks(self, calls: tuple[ToolCall, ...], context: Context) -> ToolError | None:
        for hook in self._hooks:
            try:
                await hook(calls, context)
            except ToolError as error:
                return error
            except Exception as error:  # noqa: BLE001  A hook guards: one that breaks must not let calls pass.
                return PermissionDenied(f"a turn hook failed with {type(error).__name__}, so nothing ran")
        return None

    def refuse(self, call: ToolCall, error: ToolError) -> ToolResult:
        """The recorded result of a call that does not run."""
        parts = self.pipeline.parts
        result = parts.shaper.shape(ToolResult.failed(error), call_id=call.id or "", tool=call.name)
        with suppress(Exception):
            # Nothing ran, so nothing is lost with a recorder that breaks; the refusal still holds.
            parts.recorder.record(CallFinished(result))
        return result

    def _record_cancelled(self, call: ToolCall) -> None:
        self.refuse(call, CallCancelled("the call was cancelled before it started"))


def conflict(first: tuple[Effect, ...] | None, second: tuple[Effect, ...] | None) -> bool:
    """Whether two calls must stay in order. None = unknown effects = yes."""
    if first is None or second is None:
        return True
    return any(_clash(a, b) for a in first for b in second)


def _clash(a: Effect, b: Effect) -> bool:
    if a.kind in _ORDERED and a.kind == b.kind:
        return _thing(a) == _thing(b) and not (a.unordered and b.unordered)
    if _changes(a) and _touches_files(b):
        return _overlap(a, b)
    return _changes(b) and _touches_files(a) and _overlap(a, b)


def _changes(effect: Effect) -> bool:
    return effect.kind in ("write", "delete") or (effect.kind == "exec" and not effect.read_only)


def _touches_files(effect: Effect) -> bool:
    return effect.kind in ("read", "write", "delete", "exec")


def _overlap(a: Effect, b: Effect) -> bool:
    """Same path, ancestor or descendant; an exec stands for the whole workspace."""
    one = "." if a.kind == "exec" else a.target
    two = "." if b.kind == "exec" else b.target
    if one == two:
        return True
    return _above(one, two) or _above(two, one)


def _above(folder: str, path: str) -> bool:
    if folder == ".":
        return not path.startswith("/")
    return path.startswith(folder.rstrip("/") + "/")


def _thing(effect: Effect) -> str:
    """What keeps order: a server for `call server/tool`, else the target."""
    return effect.target.partition("/")[0] if effect.kind == "call" else effect.target


def _same(a: str | Mapping[str, Any] | None, b: str | Mapping[str, Any] | None) -> bool:
    return _parsed(a) == _parsed(b)


def _parsed(arguments: str | Mapping[str, Any] | None) -> Any:
    if not isinstance(arguments, str):
        return dict(arguments or {})
    try:
        return json.loads(arguments, parse_float=comparable)
    except ValueError:
        return arguments
