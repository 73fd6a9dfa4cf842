"""Pipeline: the one way of a call (DESIGN 2): decode, resolve, validate, plan, authorise, run, shape, record."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import itertools
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from pegboard.core import secrets as secret_references
from pegboard.core.approval import (
    Answer,
    ApprovalRequest,
    Approved,
    Approver,
    DenyAll,
    Refused,
    Waiting,
    answer_of,
)
from pegboard.core.budgets import UNLIMITED, Left, Spent, out_of_time
from pegboard.core.call import ToolCall, ValidCall
from pegboard.core.clock import Clock, SystemClock
from pegboard.core.context import Context, enter, leave
from pegboard.core.deadlines import Deadlines
from pegboard.core.digest import approval_digest
from pegboard.core.effects import EMPTY_PLAN, Effect, Plan
from pegboard.core.errors import (
    BudgetExceeded,
    BuildError,
    CallCancelled,
    Conflict,
    InternalError,
    InvalidArguments,
    PermissionDenied,
    SuspendedCall,
    TimedOut,
    ToolError,
    UnknownTool,
)
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    CallUpdate,
    DestinationTried,
    MemoryRecorder,
    PermissionRequested,
    Recorder,
)
from pegboard.core.marking import SOURCE
from pegboard.core.novelty import things_of
from pegboard.core.placing import MANY, PATH_KINDS, placed
from pegboard.core.policy import ALLOWED, Decision, Policy
from pegboard.core.provide import Provided
from pegboard.core.result import ToolResult
from pegboard.core.rules import Situation
from pegboard.core.safeguards import NO_SAFEGUARDS, Safeguards
from pegboard.core.shaping import Shaper, wrap
from pegboard.core.signature import Parameter
from pegboard.core.taint import PRIVATE, UNTRUSTED
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit

DEFAULT_TIMEOUT_S: Final = 600.0
"""Wall seconds of a call whose tool sets no limit of its own."""

_AUTO: Final = Policy()
_PROCESS: Final = uuid.uuid4().hex[:12]
_COUNT: Final = itertools.count(1)
_HARMLESS: Final = frozenset({"read"})
_BEYOND: Final = frozenset({"send", "spend", "control", "call"})
"""Effects outside this machine: their intent survives a power cut (decisions 18)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What a middleware sees: an authorised call about to run. Read-only.

    Attributes:
        tool: the tool.
        call: the valid call; its arguments are a copy.
        plan: the plan that was authorised.
        context: where it runs.
    """

    tool: Tool
    call: ValidCall
    plan: Plan
    context: Context


Next: TypeAlias = Callable[[], Awaitable[Any]]
Middleware: TypeAlias = Callable[[Invocation, Next], Awaitable[Any]]
"""`async def m(invocation, next)`: return `await next()`, another value, or raise ToolError (ledger C-46)."""


class Resolver(Protocol):
    """Gives a path its canonical target; the Files port does it."""

    async def resolve(self, path: str, *, write: bool = False) -> Any:
        """An object with `.target`."""
        ...


class GrantBook(Protocol):
    """Where yeses are remembered."""

    def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> object:
        """Remember a `session` or `always` answer for exactly the effects that asked."""
        ...

    def use(self, grant: str) -> None:
        """Count one use of a grant."""
        ...


@dataclass(slots=True, kw_only=True)
class Turn:
    """What the calls of one turn share: refusals that need no second question (case perm-19)."""

    refused: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a call would do (ledger G-01).

    Attributes:
        effects: every effect.
        changes: the exact file changes, with diffs.
        decision: allow, ask or deny.
        rule, reason: what decided, and why.
        error: why the call cannot run at all, None where it can.
        detail: the whole decision.
    """

    effects: tuple[Effect, ...] = ()
    changes: tuple[Any, ...] = ()
    decision: str = "allow"
    rule: str = ""
    reason: str = ""
    error: ToolError | None = None
    detail: Decision | None = None


@dataclass(slots=True, kw_only=True)
class _Planned:
    """A call on its way: what the stages have found so far."""

    tool: Tool
    call: ValidCall
    plan: Plan = EMPTY_PLAN
    decision: Decision = ALLOWED
    approver: str = ""
    digest: str = ""
    recorded: bool = False
    secrets: frozenset[str] = frozenset()
    near: str = ""
    """Which budget asks for this call; empty where none does."""
    booked: bool = False
    left: Left = UNLIMITED
    """What budgets leave to this call."""
    here: Situation | None = None
    own: dict[str, str] | None = None
    """Labels of what the call itself brought in, and their sources; None before it has run."""


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
        grants: GrantBook | None = None,
        clock: Clock | None = None,
        threads: int = 64,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        safeguards: Safeguards = NO_SAFEGUARDS,
    ) -> None:
        self.safeguards = safeguards
        self.toolkit = toolkit
        self.policy = policy
        self.approver: Approver = approver or DenyAll()
        self.recorder: Recorder = recorder or MemoryRecorder()
        self.shaper = shaper or Shaper()
        self.provide = provide if isinstance(provide, Provided) else Provided(provide)
        self.middleware = tuple(middleware)
        self.grants = grants
        self.clock = clock or SystemClock()
        self._now = self.clock.monotonic
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._deadlines = Deadlines()
        self._timeout_s = timeout_s
        self._injected: dict[str, tuple[tuple[str, Any], ...]] = {}
        self._opening: set[str] = set()
        for one in toolkit:
            self._injected[one.name] = self._ports_of(one)
            self._note_opening(one)

    # -- entry points -------------------------------------------------------------------------

    async def call(self, call: ToolCall, context: Context, turn: Turn | None = None) -> ToolResult:
        """Run one call to its one result. Raises nothing but cancellation of the surrounding task."""
        started = self._now()
        call_id = call.id or new_call_id()
        ready: _Planned | None = None
        try:
            ready = self._decode(call, call_id)
            if ready.tool.effects or ready.tool.plan or ready.tool.markers:
                ready.plan = await self._plan(ready, context)
            if self.safeguards.secrets is not None:
                ready.secrets = self._check_secrets(ready, self.safeguards.secrets)
            if (
                ready.plan.effects
                or ready.tool.level != "auto"
                or self.policy.rules
                or self.safeguards.meter is not None
            ):
                await self._authorise(ready, context, turn)
                if self.safeguards.novelty is not None:
                    self.safeguards.novelty.remember(
                        str(context.workspace or ""), things_of(ready.tool.name, ready.plan.effects)
                    )
            if self.safeguards.meter is not None:
                self.safeguards.meter.begin(ready.tool.name, context)
                ready.booked = True
                ready.left = self.safeguards.meter.left(ready.tool.name, context)
            self._record_start(ready)
            if ready.plan.effects:
                await self._keep_intent(ready)
            value = await self._run(ready, context)
            if isinstance(value, Waiting):
                raise _suspended(value)
            if ready.tool.render is not None:
                value = ready.tool.render(wrap(value), ready.call.arguments)
            result = self.shaper.shape(
                value,
                call_id=call_id,
                tool=ready.tool.name,
                max_chars=ready.tool.limits.max_chars
                if ready.left.bytes_out is None
                else self._room(ready.tool, ready.left.bytes_out),
                labels=self._labels(ready, context),
                repairs=ready.call.repairs,
                duration_s=self._now() - started,
            )
            if ready.plan.effects or result.notes.labels:
                result = self._traced(result, ready, context)
        except asyncio.CancelledError as cancelled:
            if not _cancelled():
                # Nobody cancelled us: the tool raised it by itself, which is that tool's failure (case args-24).
                error: ToolError = InternalError("the tool ended itself with CancelledError")
                result = self._failed(error, call, call_id, ready, started)
            else:
                error = CallCancelled("the call was cancelled before it finished")
                self._finish(self._failed(error, call, call_id, ready, started))
                self._book(ready, context, started, 0)
                raise cancelled from None
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            result = self._failed(as_tool_error(raised), call, call_id, ready, started)
        if ready is not None:
            if result.error is not None and ready.recorded and ready.plan.effects:
                # A foreign tool's refusal is foreign text too.
                result = self._traced(result, ready, context)
            if ready.booked:
                size = len(result.text.encode("utf-8", "replace"))
                self._book(ready, context, started, size, result.notes.extra.get("cost_usd"))
        return self._finish(result)

    async def preview(self, call: ToolCall, context: Context) -> Preview:
        """What `call` would do with these arguments; changes nothing and asks nobody."""
        try:
            ready = self._decode(call, call.id or "preview")
            ready.plan = await self._plan(ready, context)
            if self.safeguards.secrets is not None:
                self._check_secrets(ready, self.safeguards.secrets)
            ready.decision = self._decide(ready, context)
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
            ready = self._decode(call, "order")
            return (await self._plan(ready, context)).effects
        except Exception:  # noqa: BLE001  What a plan raises is told by the call itself; here it is unknown.
            return None

    def offer(self, toolkit: Toolkit) -> None:
        """Offer another set of tools from now on; calls under way keep theirs.

        Raises:
            BuildError: a tool asks for a port that nothing provides.
        """
        self._injected.update({one.name: self._ports_of(one) for one in toolkit})
        for one in toolkit:
            self._note_opening(one)
        self.toolkit = toolkit

    def situation(self, tool: Tool, context: Context) -> Situation:
        """What rules' conditions see of a call here, with what its session holds."""
        taints = self.safeguards.taints
        return situation(
            tool, context, None if taints is None else taints.labels(context.session, context.labels)
        )

    def _note_opening(self, tool: Tool) -> None:
        """A tool with paths and without the port that resolves them opens them itself."""
        resolver = self.provide.get(PATH_RESOLVER)
        ports = [port for _, port in self._injected[tool.name]]
        if resolver is None or tool.plan is not None or not tool.markers:
            return
        if not any(port is resolver for port in ports):
            self._opening.add(tool.name)

    def recording(
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
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    # -- stages -------------------------------------------------------------------------------

    def _decode(self, call: ToolCall, call_id: str) -> _Planned:
        """Resolve and validate: raw input ends here."""
        call = self.toolkit.route(call)
        tool = self.toolkit.get(call.name) or self._resolve(call.name)
        decoded = tool.signature.decode(call.arguments)
        return _Planned(
            tool=tool, call=ValidCall(call_id, tool.name, decoded.arguments, decoded.repairs, decoded)
        )

    def _resolve(self, name: str) -> Tool:
        tool = self.toolkit.resolve(name)
        if tool is not None:
            return tool
        near = self.toolkit.nearest(name)
        names = ", ".join(self.toolkit.names) or "none"
        meant = f" Did you mean '{near[0]}'?" if near else ""
        raise UnknownTool(
            f"Tool '{name[:80]}' not found. Available: {names}",
            hint=f"Call one of the available tools by its exact name.{meant}",
            details={"available": list(self.toolkit.names), "nearest": near},
        )

    async def _plan(self, ready: _Planned, context: Context) -> Plan:
        tool = ready.tool
        if tool.plan is not None:
            inner = self._within(context, ready.call.id, tool)
            # Planning looks through the ports, and they know a session's state by the current context.
            token = enter(inner)
            try:
                made = tool.plan(ready.call, inner)
                return await made if isinstance(made, Awaitable) else made
            finally:
                leave(token)
        declared = tool.effects
        effects: tuple[Effect, ...] = ()
        if callable(declared):
            effects = tuple(declared(ready.call.arguments))
        elif declared:
            effects = tuple(declared)
        marked = await self._marked(tool, ready.call.arguments, context)
        return Plan(effects + marked) if effects or marked else EMPTY_PLAN

    async def _marked(self, tool: Tool, arguments: Mapping[str, Any], context: Context) -> tuple[Effect, ...]:
        """The effects of parameters typed ReadPath, WritePath, Url, Command or Recipient."""
        out: list[Effect] = []
        markers: Sequence[Parameter] = tool.markers
        taints = self.safeguards.taints
        for parameter in markers:
            marker = parameter.marker
            value = arguments.get(parameter.name)
            if marker is None or value is None:
                continue
            for one in cast("list[Any]", value) if isinstance(value, MANY) else [value]:
                target = await self._target(marker.kind, str(one))
                endorsed = (
                    marker.kind == "connect"
                    and tool.idempotent
                    and taints is not None
                    and taints.endorses(context.session, str(one), context.labels)
                )
                # Only what may be repeated at will is a GET in the sense of decisions 8.
                out.append(Effect(marker.kind, target, at_least="allow" if endorsed else None))
        return tuple(out)

    async def _target(self, kind: str, value: str) -> str:
        if kind in PATH_KINDS:
            resolver = self.provide.get(PATH_RESOLVER)
            if resolver is None:
                return value
            return cast(str, (await cast(Resolver, resolver).resolve(value, write=kind != "read")).target)
        if kind == "connect":
            try:
                host = urlsplit(value).netloc.rpartition("@")[2]
            except ValueError:
                # No URL at all: the tool will say so; rules see the text as it is.
                host = ""
            return (host or value).lower()
        return value

    def _decide(self, ready: _Planned, context: Context) -> Decision:
        taints = self.safeguards.taints
        if taints is None:
            return self.policy(ready.plan.effects, situation(ready.tool, context), ready.tool.level)
        labels = taints.labels(context.session, context.labels)
        ready.here = here = situation(ready.tool, context, labels)
        decision = self.policy(ready.plan.effects, here, ready.tool.level)
        if not labels:
            return decision
        return taints.judge(
            decision, ready.plan, here, context.session, labels, confined=self.policy.sandboxed
        )

    def _labels(self, ready: _Planned, context: Context) -> frozenset[str]:
        """The labels under which the call ran; its spill carries them."""
        taints = self.safeguards.taints
        if taints is None:
            return context.labels
        labels = taints.labels(context.session, context.labels)
        if not ready.plan.effects:
            return labels
        ready.own = taints.reached(ready.plan, ready.here or situation(ready.tool, context))
        return labels.union(ready.own) if ready.own else labels

    def _traced(self, result: ToolResult, ready: _Planned, context: Context) -> ToolResult:
        """Let taint follow a result into its session and its files, and note where it comes from."""
        taints = self.safeguards.taints
        if taints is None:
            return result
        here = ready.here or situation(ready.tool, context)
        own = taints.reached(ready.plan, here) if ready.own is None else ready.own
        spill, spills = result.notes.spill, self.shaper.spills
        if PRIVATE not in own:
            # What was cut off was brought in too: it lies in the spill.
            text = result.text if spill is None or spills is None else spills.read(spill)
            if (path := taints.found(ready.plan, here, text)) is not None:
                own[PRIVATE] = f"read {path}"
                if spill is not None and spills is not None:
                    spills.add_labels(spill, frozenset({PRIVATE}))
        if (
            not own
            and not result.notes.labels
            and ready.plan.effects[0].kind == "read"
            and len(ready.plan.effects) == 1
        ):
            return result
        known = taints.labels(context.session, context.labels)
        for label in result.notes.labels:
            if label not in known and label not in own:
                # The tool itself says so: a subagent, an artifact or a spill that carries it.
                own[label] = ready.tool.name
        extra = result.notes.extra
        try:
            taints.finished(ready.plan, context.session, context.labels, own, result.data, here.workspace)
        except Exception as error:  # noqa: BLE001  The call has happened: its result is told, and that its trace is lost.
            extra = {**extra, "untraced": as_tool_error(error).message}
        if UNTRUSTED in own:
            # Programs read the text as it is; the loop puts marks around it for the model (core/marking.py).
            extra = {**extra, SOURCE: own[UNTRUSTED]}
        labels = tuple(sorted(known.union(own, result.notes.labels)))
        if labels != result.notes.labels or extra is not result.notes.extra:
            result = replace(result, notes=replace(result.notes, labels=labels, extra=extra))
        return result

    def _room(self, tool: Tool, bytes_left: int) -> int:
        """Characters that a result may have where a budget limits its bytes."""
        own = self.shaper.max_chars if tool.limits.max_chars is None else tool.limits.max_chars
        return max(min(own, bytes_left), 1)

    def _book(
        self, ready: _Planned | None, context: Context, started: float, bytes_out: int, cost: Any = None
    ) -> None:
        meter = self.safeguards.meter
        if meter is not None and ready is not None and ready.booked:
            # A tool that pays for something says so in its notes, as `cost_usd`.
            money = float(cost) if isinstance(cost, int | float) and cost > 0 else 0.0
            spent = Spent(seconds=self._now() - started, bytes_out=bytes_out, money=money)
            meter.end(ready.tool.name, context, spent)

    async def _authorise(self, ready: _Planned, context: Context, turn: Turn | None) -> None:
        """Return when the call may run; raise PermissionDenied or SuspendedCall where it may not."""
        tool = ready.tool
        meter = self.safeguards.meter
        ready.decision = decision = self._decide(ready, context)
        if meter is not None and decision.verdict != "deny":
            ready.near = meter.near(tool.name, context)
            if ready.near and decision.verdict == "allow":
                ready.decision = decision = replace(decision, verdict="ask", rule="budget", reason=ready.near)
        if decision.verdict == "allow":
            if self.grants is not None:
                for grant in decision.grants:
                    self.grants.use(grant)
            return
        if decision.verdict == "deny":
            raise _denied(ready, decision)
        await self._ask(ready, context, turn)

    async def _ask(self, ready: _Planned, context: Context, turn: Turn | None) -> None:
        ready.digest = self._digest(ready, context)
        if turn is not None and ready.digest in turn.refused:
            raise _refused(ready, Refused(turn.refused[ready.digest]))
        request = self._request(ready, context)
        self.recorder.record(
            PermissionRequested(
                approval=request.id,
                call_id=ready.call.id,
                tool=ready.tool.name,
                effects=request.effects,
                changes=request.changes,
                reason=request.reason,
                digest=request.digest,
                novel=request.novel,
            )
        )
        answer = await self._answer(request)
        match answer:
            case Waiting():
                raise _suspended(answer)
            case Refused():
                ready.approver = answer.by or "nobody"
                if turn is not None:
                    turn.refused[ready.digest] = answer.reason
                raise _refused(ready, answer)
            case _:
                ready.approver = answer.by or "approver"
        await self._confirm_unchanged(ready, context)
        if answer.scope == "once":
            return
        if ready.near and self.safeguards.meter is not None:
            self.safeguards.meter.ease(ready.tool.name, context)
        # A yes to a budget alone says nothing of the effects.
        if self.grants is not None and (request.asking or not ready.near):
            self.grants.add(request, answer, workspace=str(context.workspace or ""))

    async def _answer(self, request: ApprovalRequest) -> Answer:
        """What the approver says; one that breaks has refused."""
        try:
            return answer_of(await self.approver.decide(request))
        except asyncio.CancelledError:
            if _cancelled():
                raise
            return Refused("the approver ended itself with CancelledError")
        except Exception as error:  # noqa: BLE001  The approver is foreign code, and no answer is no yes.
            return Refused(f"the approver failed with {as_tool_error(error).message}")

    async def _confirm_unchanged(self, ready: _Planned, context: Context) -> None:
        """Plan again after the yes: what runs must be what was shown (decisions 5)."""
        shown = ready.digest
        ready.plan = await self._plan(ready, context)
        if self._digest(ready, context) != shown:
            raise Conflict(
                f"what {ready.tool.name} would do has changed since it was approved, so the approval is void",
                hint="Look at the current state and make the call again.",
            )

    def _request(self, ready: _Planned, context: Context) -> ApprovalRequest:
        decision = ready.decision
        novelty, where = self.safeguards.novelty, str(context.workspace or "")
        return ApprovalRequest(
            id=new_id("ap"),
            call=ToolCall(ready.call.id, ready.tool.name, dict(ready.call.sent)),
            tool=ready.tool.name,
            effects=ready.plan.effects,
            asking=tuple(e.effect for e in decision.effects if e.verdict == "ask"),
            changes=ready.plan.changes.changes,
            reason=decision.reason or decision.rule,
            digest=ready.digest,
            novel=()
            if novelty is None
            else novelty.first(where, things_of(ready.tool.name, ready.plan.effects)),
            tainted=decision.tainted,
            session=context.session,
            agent=context.agent,
            run=context.run,
        )

    def _digest(self, ready: _Planned, context: Context) -> str:
        return approval_digest(
            ready.tool,
            ready.call.sent,
            ready.plan,
            session=context.session,
            workspace=str(context.workspace or ""),
            policy=self.policy.revision,
            environment=self.safeguards.environment,
        )

    async def _run(self, ready: _Planned, context: Context) -> Any:
        """Run the function under its deadline, with the middleware around it."""
        inner = self._within(context, ready.call.id, ready.tool)
        token = enter(inner)
        try:
            if not self.middleware:
                return await self._function(ready, inner)
            step: Next = lambda: self._function(ready, inner)  # noqa: E731
            for layer in reversed(self.middleware):
                step = _around(layer, ready, inner, step)
            return await step()
        finally:
            leave(token)

    async def _function(self, ready: _Planned, context: Context) -> Any:
        """The function itself. One coroutine for deadline and call: this stands on every call's path."""
        tool = ready.tool
        arguments = ready.call.arguments
        injected = self._injected.get(tool.name)
        if injected:
            arguments = dict(arguments)
            for name, port in injected:
                arguments[name] = ready.plan if port is Plan else context if port is Context else port
        if tool.name in self._opening and context.workspace is not None:
            arguments = placed(arguments, tool.markers, ready.plan.effects, context.workspace)
        if ready.secrets:
            arguments = self._with_secrets(arguments, ready)
        limit = tool.limits.timeout_s
        limit = self._timeout_s if limit is None else limit
        if ready.left.seconds is not None:
            # An account that is empty to the last moment has refused before.
            limit = min(limit or ready.left.seconds, max(ready.left.seconds, 0.001))
        task = asyncio.current_task() if limit is not None and limit > 0 else None
        if task is None or limit is None:
            return await (
                tool.function(**arguments) if tool.is_async else self._threaded(tool, arguments, context)
            )
        watch = self._deadlines.start(task, limit)
        try:
            if tool.is_async:
                value = await tool.function(**arguments)
            else:
                value = await self._threaded(tool, arguments, context)
        except asyncio.CancelledError:
            if watch.fired and task.uncancel() == 0:
                raise _late(ready, limit) from None
            raise
        except BaseException:
            if watch.fired:
                # The tool turned our cancellation into an error of its own; the task is not cancelled.
                task.uncancel()
            raise
        finally:
            self._deadlines.end(watch)
        if watch.fired:
            # The tool swallowed our cancellation; the task must not stay marked as cancelled.
            task.uncancel()
            raise _late(ready, limit)
        return value

    async def _threaded(self, tool: Tool, arguments: Mapping[str, Any], context: Context) -> Any:
        """A blocking function, in a thread of our own pool, with the caller's context variables."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "pegboard-tool")
        run = contextvars.copy_context().run
        try:
            value = await asyncio.get_running_loop().run_in_executor(
                self._pool, lambda: run(tool.function, **arguments)
            )
        except asyncio.CancelledError:
            # A thread cannot be ended from outside; it can look at its context (ledger K-15).
            cast(asyncio.Event, context.cancelled).set()
            raise
        return await value if inspect.isawaitable(value) else value

    def _check_secrets(self, ready: _Planned, handles: secret_references.SecretHandles) -> frozenset[str]:
        return secret_references.check(
            ready.call.sent,
            ready.call.arguments,
            ready.plan,
            handles,
            placeholders=self.safeguards.placeholders is not None,
        )

    def _with_secrets(self, arguments: dict[str, Any], ready: _Planned) -> dict[str, Any]:
        """The arguments with the values of their secrets, or with place holders; seen by the function alone."""
        handles = self.safeguards.secrets
        assert handles is not None
        values: dict[str, str] = {}
        for name in ready.secrets:
            binding, value = handles.binding(name), handles.value(name)
            assert binding is not None
            if self.safeguards.placeholders is not None and not secret_references.outright(
                binding, ready.plan
            ):
                value = self.safeguards.placeholders.of(name, value, binding.hosts)
            values[name] = value
        return {key: secret_references.fill(value, values) for key, value in arguments.items()}

    # -- parts --------------------------------------------------------------------------------

    def _ports_of(self, tool: Tool) -> tuple[tuple[str, Any], ...]:
        """What fills each injected parameter; found once, when the kit is built."""
        out: list[tuple[str, Any]] = []
        for name, port in tool.signature.inject.items():
            if port in (Plan, Context):
                out.append((name, port))
            elif (given := self.provide.find(port)) is not None:
                out.append((name, given))
            elif name not in tool.signature.optional_inject:
                wanted = getattr(port, "__name__", str(port))
                raise BuildError(
                    f"tool {tool.name!r} needs {wanted} for its parameter {name!r}, and nothing provides it; "
                    f"pass provide=[…] with a {wanted} to the Executor or Agent, or leave the tool out with "
                    f".without({tool.name!r})"
                )
        return tuple(out)

    def _within(self, context: Context, call_id: str, tool: Tool) -> Context:
        # Built by hand: dataclasses.replace costs more than everything else on the path of a call.
        return Context(
            session=context.session,
            agent=context.agent,
            run=context.run,
            call_id=call_id,
            model=context.model,
            origin=context.origin,
            workspace=context.workspace,
            depth=context.depth,
            deadline=context.deadline,
            cancelled=context.cancelled if tool.is_async else context.cancelled or asyncio.Event(),
            emit=partial(self._update, context.emit, call_id, tool.name),
            labels=context.labels,
            ports=self.provide,
        )

    def _update(self, emit: Callable[[Any], None], call_id: str, tool: str, value: Any) -> None:
        if isinstance(value, DestinationTried):
            # No update for a reader: the session's record of where a command went.
            self.recorder.record(replace(value, call_id=call_id, tool=tool))
            return
        value = self.shaper.redacted(value)
        self.recorder.record(CallUpdate(call_id=call_id, tool=tool, update=value))
        emit(value)

    def _record_start(self, ready: _Planned) -> None:
        decision = ready.decision
        ready.recorded = True
        self.recorder.record(
            CallStarted(
                call_id=ready.call.id,
                tool=ready.tool.name,
                arguments=_lazy(ready.call),
                effects=ready.plan.effects,
                changes=ready.plan.changes.changes,
                decision=decision.verdict,
                rule=decision.rule,
                reason=decision.reason,
                approver=ready.approver,
                digest=ready.digest,
                observed=decision.observed,
            )
        )

    def _failed(
        self, error: ToolError, call: ToolCall, call_id: str, ready: _Planned | None, started: float
    ) -> ToolResult:
        data = {"pending": error.details.get("pending")} if isinstance(error, SuspendedCall) else None
        failed = ToolResult.failed(error)
        if ready is not None and ready.tool.render is not None:
            failed = ready.tool.render(failed, ready.call.arguments)
        shaped = self.shaper.shape(
            failed,
            call_id=call_id,
            tool=ready.tool.name if ready else call.name,
            repairs=ready.call.repairs if ready else (),
            duration_s=self._now() - started,
        )
        if isinstance(error, PermissionDenied | BudgetExceeded) and ready is not None and not ready.recorded:
            self._record_denied(ready)
        return replace(shaped, data=data)

    def _record_denied(self, ready: _Planned) -> None:
        ready.decision = replace(ready.decision, verdict="deny")
        with suppress(Exception):
            # A recorder that breaks must not turn a refusal into an exception; `_finish` tells of it.
            self._record_start(ready)

    async def _keep_intent(self, ready: _Planned) -> None:
        """What will be done is written before it is done, so that a crash leaves no unknown act (G-10)."""
        kinds = {e.kind for e in ready.plan.effects if not e.read_only}
        if kinds - _HARMLESS:
            await self.recorder.flush(power_loss=not kinds.isdisjoint(_BEYOND))

    def _finish(self, result: ToolResult) -> ToolResult:
        try:
            self.recorder.record(CallFinished(result))
        except Exception as error:  # noqa: BLE001  The call has happened: its result is told, and that it is unrecorded.
            extra = {**result.notes.extra, "unrecorded": as_tool_error(error).message}
            return replace(result, notes=replace(result.notes, extra=extra))
        return result


PATH_RESOLVER: Final = "pegboard.path-resolver"
"""Key in `provide` of the object that resolves paths for effects (the Files port)."""


def new_id(prefix: str) -> str:
    """A fresh id: the prefix and 16 hex digits."""
    return f"{prefix}_{uuid.uuid4().hex[:16]}"


def new_call_id() -> str:
    """A fresh call id: unique in this process by a count, elsewhere by the process's random part."""
    return f"call_{_PROCESS}{next(_COUNT):08x}"


def as_tool_error(error: BaseException) -> ToolError:
    """What a model may read of an exception: its type and message, no traceback, no system detail."""
    match error:
        case ToolError():
            return error
        case TimeoutError():
            return TimedOut(str(error) or "the operation timed out")
        case PermissionError():
            # The operating system's own text names real paths (ledger N-121).
            return PermissionDenied("the operating system does not permit this")
        case BuildError():
            return InternalError(str(error))
        case _:
            text = str(error).strip()
            name = type(error).__name__
            return InternalError(
                f"{name}: {text[:500]}" if text else f"{name} (it carries no message)",
                details={"type": name},
            )


def _around(layer: Middleware, ready: _Planned, context: Context, step: Next) -> Next:
    # A copy of the arguments: a middleware sees what runs and cannot change it.
    shown = replace(ready.call, arguments=dict(ready.call.arguments))
    invocation = Invocation(tool=ready.tool, call=shown, plan=ready.plan, context=context)
    return lambda: layer(invocation, step)


def situation(tool: Tool, context: Context, labels: frozenset[str] | None = None) -> Situation:
    """What rules' conditions see of a call; `labels` where more are known than its context holds."""
    origin = context.origin
    return Situation(
        values={
            # A rule about exec must hold although a profile shows it as Bash.
            "tool": tool.canonical or tool.name,
            "agent": context.agent,
            "session": context.session,
            "channel": origin.get("channel", ""),
            "sender": origin.get("sender", ""),
            "model": context.model,
        },
        workspace=str(context.workspace or ""),
        tainted=UNTRUSTED in (context.labels if labels is None else labels),
    )


def _denied(ready: _Planned, decision: Decision) -> PermissionDenied:
    why = decision.reason or decision.rule
    targets = ", ".join(str(e.effect) for e in decision.effects if e.verdict == "deny")
    what = f"{ready.tool.name} may not {targets}" if targets else f"{ready.tool.name} may not run"
    return PermissionDenied(
        f"{what}: {why}" + (f" (rule: {decision.rule})" if decision.reason else ""),
        hint="Do not try the same by another way; say what you need and why.",
        details={"rule": decision.rule, "decision": "deny"},
    )


def _refused(ready: _Planned, answer: Refused) -> PermissionDenied:
    why = answer.reason or "the request was refused"
    return PermissionDenied(
        f"{ready.tool.name} was not allowed to run: {why}",
        hint=f"It asked because: {ready.decision.reason or ready.decision.rule}. Go on without it, or ask the user.",
        details={"rule": ready.decision.rule, "decision": "ask", "by": answer.by},
    )


def _cancelled() -> bool:
    """Whether somebody cancelled the running task (or there is none, and nobody but the caller could)."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _late(ready: _Planned, limit: float) -> ToolError:
    if ready.left.budget is not None and limit == max(ready.left.seconds or 0.0, 0.001):
        return out_of_time(ready.left.budget, limit, ready.tool.name)
    ended = "was ended" if ready.tool.is_async else "was told to stop; it may still be at work"
    return TimedOut(
        f"{ready.tool.name} did not finish within {limit:g} s and {ended}",
        hint="Ask for less at once, or allow more time.",
        details={"timeout_s": limit},
    )


def _suspended(waiting: Waiting) -> SuspendedCall:
    return SuspendedCall(
        f"the call waits for {waiting.kind} {waiting.key}",
        hint=str(waiting.detail.get("how") or "It goes on when the answer comes."),
        details={
            "pending": waiting.key,
            "kind": waiting.kind,
            "deadline": waiting.deadline,
            **waiting.detail,
        },
    )


class _lazy(Mapping[str, Any]):
    """The sent arguments of a call, parsed when somebody looks: most calls are never looked at."""

    __slots__ = ("_call",)

    def __init__(self, call: ValidCall) -> None:
        self._call = call

    def __getitem__(self, key: str) -> Any:
        return self._call.sent[key]

    def __iter__(self) -> Any:
        return iter(self._call.sent)

    def __len__(self) -> int:
        return len(self._call.sent)


__all__ = [
    "InvalidArguments",
    "Invocation",
    "Middleware",
    "Pipeline",
    "Preview",
    "Turn",
    "as_tool_error",
    "new_id",
]
