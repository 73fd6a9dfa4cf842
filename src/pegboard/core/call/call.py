"""Call: one tool call on its way through the stages, what the stages share, and its deadline."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import itertools
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, TypeAlias

from pegboard.core.call.provide import Provided
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import EMPTY_PLAN, Change, Effect, Plan
from pegboard.core.errors import ToolError
from pegboard.core.events import CallUpdate, DestinationTried, Recorder
from pegboard.core.limits import Clock
from pegboard.core.policy.approval import Answer, ApprovalRequest, Approved, Approver, Refused
from pegboard.core.policy.budgets import UNLIMITED, Remaining
from pegboard.core.policy.grants import does_the_same
from pegboard.core.policy.guards import Guards
from pegboard.core.policy.policy import ALLOWED, PROPOSE_PLAN, Decision, Policy
from pegboard.core.policy.rules import Situation
from pegboard.core.result import Shaper
from pegboard.core.schema.decode import Decoded
from pegboard.core.tool import Tool, ValidCall
from pegboard.core.toolkit import Toolkit

NEAR_S: Final = 10.0
"""Below this many seconds a deadline has a timer of its own; above, it is kept to within SWEEP_S."""

SWEEP_S: Final = 1.0

IN_A_ROW: Final = 3
"""Mode `auto`: so many answers in a row without a yes, and a person is asked for the rest of the run."""


class Deadline:
    """Something under a deadline: a call on its way is its own watch, so that none is made beside it.

    Attributes:
        task: cancelled when the time comes.
        limit: seconds that it has.
        at: event-loop time of the deadline.
        fired: whether that has happened.
        timer: fires it, where the deadline is near.
    """

    task: asyncio.Task[Any]
    limit: float
    at: float
    expired: bool = False
    timer: asyncio.TimerHandle | None = None

    def expire(self) -> None:
        """The time has come."""
        self.expired = True
        self.task.cancel()


class Deadlines:
    """The calls under way that have a deadline, of one event loop at a time."""

    __slots__ = ("_far", "_loop", "_sweeping")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._far: set[Deadline] = set()
        self._sweeping = False

    def start(self, watch: Deadline, task: asyncio.Task[Any] | None, limit_s: float | None) -> None:
        """Watch a task of the running loop; give the watch to `end` whatever happens.

        No task, no limit and one of 0 or less all mean that there is no deadline.
        """
        if limit_s is None or limit_s <= 0 or task is None:
            return
        loop = task.get_loop()
        watch.task, watch.limit = task, limit_s
        if limit_s < NEAR_S:
            # In an empty context, as below: a cancelled timer stays in the loop's heap until its time.
            watch.timer = loop.call_later(limit_s, watch.expire, context=contextvars.Context())
            return
        watch.at = loop.time() + limit_s
        if loop is not self._loop:
            # Another event loop than before: what the old one left behind can never fire.
            self._loop, self._far, self._sweeping = loop, set(), False
        self._far.add(watch)
        if not self._sweeping:
            self._sweeping = True
            # In an empty context: the timer would else keep the call's context, and all ports, alive.
            loop.call_later(SWEEP_S, self._sweep, loop, context=contextvars.Context())

    def end(self, watch: Deadline) -> bool:
        """The call has ended; whether that was its deadline."""
        if watch in self._far:
            self._far.remove(watch)
            return False
        if watch.timer is not None:
            watch.timer.cancel()
        return watch.expired

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        now = loop.time()
        late = [w for w in self._far if w.at <= now]
        for watch in late:
            self._far.discard(watch)
            watch.expire()
        self._sweeping = bool(self._far)
        if self._sweeping:
            # In an empty context: the timer would else keep the call's context, and all ports, alive.
            loop.call_later(SWEEP_S, self._sweep, loop, context=contextvars.Context())


PATH_RESOLVER: Final = "pegboard.path-resolver"
"""Key in `provide` of the object that resolves paths for effects (the Files port)."""

_PROCESS: Final = os.urandom(6).hex()
_COUNT: Final = itertools.count(10**9)


def new_id(prefix: str) -> str:
    """A fresh id: the prefix and 16 hex digits."""
    return f"{prefix}_{os.urandom(8).hex()}"


def call_id(prefix: str, context: Context) -> str:
    """An id that is the same for the same call of the same run, so that a call that is repeated does nothing twice."""
    if not context.run or not context.call_id:
        return new_id(prefix)
    named = f"{context.session}\0{context.run}\0{context.call_id}"
    return f"{prefix}-{hashlib.sha256(named.encode()).hexdigest()[:12]}"


def inner_id(outer: str, number: int) -> str:
    """The id of the `number`-th call that the call `outer` makes."""
    return f"{outer}/{number}"


def outer_id(call_id: str) -> str:
    """The id of the call that made this one; empty if it does not look like one that a call has made."""
    return call_id.rpartition("/")[0]


def new_call_id() -> str:
    """A fresh call id: a counter behind a random part that differs by process."""
    return f"call_{_PROCESS}{next(_COUNT)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What a middleware sees: an authorised call that is about to run. Read-only.

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
"""`async def m(invocation, next)`: return `await next()`, return another value, or raise ToolError."""


TurnHook: TypeAlias = Callable[[Sequence[ToolCall], Context], Awaitable[None]]
"""Sees all calls of a turn before any runs; raises PermissionDenied to refuse them all."""


class Resolver(Protocol):
    """Resolves a path to its canonical target; the Files port does it."""

    async def resolve(self, path: str, *, write: bool = False) -> Any:
        """An object with `.target`, and `.inside`: whether the resolver itself may open it."""
        ...


class GrantStore(Protocol):
    """Where approvals are remembered."""

    async def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> object:
        """Remember a `session` or `always` answer for exactly the effects that asked."""
        ...

    async def use(self, grant: str) -> None:
        """Count one use of a grant.

        Raises:
            PermissionDenied: it has ended meanwhile.
        """
        ...


HookDecision: TypeAlias = Literal["", "allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """What the hooks of one event say together.

    Attributes:
        decision: the strictest of their decisions; empty if none decides.
        by: which hook decided, as records name it: `hook guard.sh`.
        reason: why.
        context: texts for the model.
        failures: hooks that could not say anything, a sentence each.
    """

    decision: HookDecision = ""
    by: str = ""
    reason: str = ""
    context: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


class CallHooks(Protocol):
    """The user's own programs around calls."""

    def watches(self, event: str, call: Call) -> bool:
        """Whether a hook of this event matches the call."""
        ...

    async def on_call(self, event: str, call: Call, fields: Mapping[str, Any]) -> HookAnswer:
        """What the hooks of an event say to a call; one that breaks is a failure in the answer.

        Args:
            event: PreToolUse, PermissionRequest, Notification, PostToolUse or PostToolUseFailure.
            call: the call.
            fields: what they are told beside the call itself.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """What the writes of a call broke.

    Attributes:
        text: for the model.
        data: the same for programs, JSON-able.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


class WriteChecks(Protocol):
    """Looks at files after a call has changed them."""

    async def check(self, changes: Sequence[Change]) -> WriteReport | None:
        """What these changes broke; None if there is nothing to say. Takes a few seconds at most."""
        ...


@dataclass(slots=True, kw_only=True)
class Questions:
    """What the calls of one turn ask; they ask it as one list.

    Attributes:
        open: the calls that may still ask, by id, in their order.
        answers: what was shown and answered, by call id.
        lock: one list is asked at a time.
    """

    open: dict[str, ToolCall]
    answers: dict[str, tuple[ApprovalRequest, Answer]] = field(
        default_factory=dict[str, tuple[ApprovalRequest, Answer]]
    )
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def answer(self, request: ApprovalRequest) -> Answer | None:
        """The answer to this very request; None if it was not shown, or asks for more than was shown."""
        if (before := self.answers.get(request.call.id or "")) is None:
            return None
        shown, answer = before
        more = (request.tainted and not shown.tainted) or (request.person and not shown.person)
        return None if more or shown.digest != request.digest else answer


@dataclass(slots=True, kw_only=True)
class Turn:
    """What the calls of one turn, or of a run, share: what was refused, by a person or a rule.

    A refusal holds for the effect: no other tool and no other spelling gets it another answer.

    Attributes:
        refused: by the digest of a call.
        effects: what was refused, and how.
        allowed: by tool, what it was allowed for the rest of the run, and by whom.
        questions: what this turn's calls ask together; None = each asks alone.
        check: which of the calls that a running call wants to make the run refuses, by id; None = none.
        answers: what was answered to calls that waited, by the key that they waited for.
        waited: the details of calls that waited when the run was resumed, by call id.
        doubts: mode `auto`: one entry for each answer in a row that was no yes.
    """

    refused: dict[str, Refused] = field(default_factory=dict[str, Refused])
    effects: list[tuple[Effect, Refused]] = field(default_factory=list[tuple[Effect, Refused]])
    allowed: dict[tuple[str, Effect], str] = field(default_factory=dict[tuple[str, Effect], str])
    questions: Questions | None = None
    check: Callable[[Sequence[ToolCall]], Mapping[str, ToolError]] | None = None
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    waited: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    doubts: list[None] = field(default_factory=list[None])

    def count_judgement(self, allowed: bool) -> None:
        """Count an answer of mode `auto`; once there were too many without a yes, a later yes changes nothing."""
        if not allowed:
            self.doubts.append(None)
        elif len(self.doubts) < IN_A_ROW:
            self.doubts.clear()

    def allow(self, tool: str, effects: Iterable[Effect], by: str) -> None:
        """Remember that a tool may do this until the run ends."""
        self.allowed.update({(tool, effect): by for effect in effects})

    def allows(self, tool: str, effects: Sequence[Effect]) -> str | None:
        """Who has allowed a tool all of these effects for this run; None if they were not all allowed."""
        answers = [self.allowed.get((tool, effect)) for effect in effects]
        return answers[0] if answers and None not in answers else None

    def refuse(self, effects: Iterable[Effect], answer: Refused) -> None:
        """Remember that these effects were refused."""
        self.effects += [(effect, answer) for effect in effects]

    def refusal(self, effects: Iterable[Effect]) -> tuple[Effect, Refused] | None:
        """The first of some effects that was refused before, with the answer."""
        if not self.effects:
            return None
        for effect in effects:
            for refused, answer in self.effects:
                if does_the_same(effect, refused):
                    return effect, answer
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a call would do.

    Attributes:
        effects: every effect.
        changes: the exact file changes, with diffs.
        decision: allow, ask or deny.
        rule, reason: what decided, and why.
        error: why the call cannot run at all, None if it can.
        detail: the whole decision.
    """

    effects: tuple[Effect, ...] = ()
    changes: tuple[Any, ...] = ()
    decision: str = "allow"
    rule: str = ""
    reason: str = ""
    error: ToolError | None = None
    detail: Decision | None = None

    def __str__(self) -> str:
        """Effects, decision and diffs, or the error, as the command line shows them."""
        if self.error is not None:
            lines = [f"▸ {self._effects()}  [{self.decision}]"] if self.effects else []
            lines.append(f"error: {self.error.message}")
            return "\n".join((*lines, *([f"  {self.error.hint}"] if self.error.hint else ())))
        why = self.reason or self.rule
        lines = [f"effects   {self._effects()}", f"decision  {self.decision}{f' ({why})' if why else ''}"]
        changes = (f"{c.summary()}\n{c.diff}".rstrip("\n") for c in self.changes)
        return "\n".join((*lines, *changes))

    def __repr__(self) -> str:
        outcome = self.decision if self.error is None else f"error {self.error.code}"
        return f"Preview({self._effects()}: {outcome})"

    def _effects(self) -> str:
        return ", ".join(map(repr, self.effects)) or "no effects"


@dataclass(slots=True, kw_only=True, eq=False)
class Parts:
    """What the stages of one pipeline use; see `Pipeline` for each.

    Attributes:
        ports: by tool, what fills each of its injected parameters.
        hooks: the user's own programs around calls; None = there are none.
        turn_hooks: see the calls that a running call makes together before any of them runs.
        write_checks: says what a write broke; None = nothing does.
    """

    toolkit: Toolkit
    policy: Policy
    approver: Approver
    recorder: Recorder
    shaper: Shaper
    provide: Provided
    middleware: tuple[Middleware, ...]
    grants: GrantStore | None
    clock: Clock
    timeout_s: float | None
    guards: Guards
    ports: dict[str, tuple[tuple[str, Any], ...]]
    threads: ThreadPoolExecutor
    deadlines: Deadlines = field(default_factory=Deadlines)
    hooks: CallHooks | None = None
    turn_hooks: tuple[TurnHook, ...] = ()
    write_checks: WriteChecks | None = None

    @property
    def resolver(self) -> Resolver | None:
        """Resolves the paths of tools whose effects come from their parameters' types."""
        return self.provide.get(PATH_RESOLVER)


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call, from its decoded arguments to its record; each stage fills in what it finds.

    Attributes:
        parts: the pipeline's parts.
        tool, id, decoded: the tool, the call's id and its decoded arguments.
        outer: the context of whoever makes the call.
        started_s: the clock's monotonic time at its start.
        plan: its effects and exact changes.
        situation: what rules see of it; None before it is evaluated.
        decision, approver, digest: what was decided, who answered, and what the answer is bound to.
        secrets: names of the secrets that its arguments refer to.
        budget_warning: which budget asks for this call; empty if none does.
        remaining: what budgets leave to this call.
        labels: taint labels that the call itself brought in, and their sources; None before it has run.
        ran: whether the function was called.
        booked: whether budgets have reserved it.
        recorded: whether its start is in the record.
        hook_yes: the hook that would answer its question with yes; empty if none does.
        hook_asks: the hook that wants a person to decide; empty if none does.
        hook_texts, hook_failures: what hooks have said to the model, and those that failed.
        inner_changes: the file changes of the calls that it has made.
        turn: what it shares with the other calls of its turn or run; None = it stands alone.
    """

    parts: Parts
    tool: Tool
    id: str
    outer: Context
    decoded: Decoded
    started_s: float
    plan: Plan = EMPTY_PLAN
    situation: Situation | None = None
    decision: Decision = ALLOWED
    approver: str = ""
    digest: str = ""
    secrets: frozenset[str] = frozenset()
    budget_warning: str = ""
    remaining: Remaining = UNLIMITED
    labels: dict[str, str] | None = None
    ran: bool = False
    booked: bool = False
    recorded: bool = False
    hook_yes: str = ""
    hook_asks: str = ""
    hook_texts: tuple[str, ...] = ()
    hook_failures: tuple[str, ...] = ()
    inner_changes: tuple[Change, ...] = ()
    turn: Turn | None = None
    _context: Context | None = None
    _valid: ValidCall | None = None

    @property
    def workspace(self) -> str:
        """The workspace as policy and guards name it; empty if there is none."""
        return str(self.outer.workspace or "")

    @property
    def valid(self) -> ValidCall:
        """The call as its tool's own code sees it."""
        if self._valid is None:
            decoded = self.decoded
            self._valid = ValidCall(self.id, self.tool.name, decoded.arguments, decoded.repairs, decoded)
        return self._valid

    @property
    def context(self) -> Context:
        """The context that the tool's code sees while it runs, made when it first looks."""
        if self._context is None:
            self._context = self.inner_context(self.plan.effects)
        return self._context

    @property
    def proposes(self) -> bool:
        """Whether its effects are those that it asks leave for, and not its own."""
        return (self.tool.canonical or self.tool.name) == PROPOSE_PLAN

    def inner_context(self, effects: tuple[Effect, ...] | None = None) -> Context:
        """A context for the tool's code; without effects for planning, where nothing is authorised yet."""
        outer, tool = self.outer, self.tool
        return replace(
            outer,
            call_id=self.id,
            tool=tool.name,
            parent=outer.call_id,
            cancelled=outer.cancelled if tool.is_async else outer.cancelled or asyncio.Event(),
            emit=UpdateEmitter(self.parts, outer.emit, self.id, tool.name),
            ports=self.parts.provide,
            effects=effects,
        )

    def elapsed_s(self) -> float:
        """Seconds since the call began."""
        return self.parts.clock.monotonic() - self.started_s


@dataclass(frozen=True, slots=True)
class UpdateEmitter:
    """`emit` of one call's context: redacted, recorded under the call, and passed on."""

    parts: Parts
    emit: Callable[[Any], None]
    call_id: str
    tool: str

    def __call__(self, value: Any) -> None:
        record = self.parts.recorder.record
        if isinstance(value, DestinationTried):
            # Not an update for a reader: the session's record of where a command went.
            record(replace(value, call_id=self.call_id, tool=self.tool))
            return
        value = self.parts.shaper.redacted(value)
        record(CallUpdate(call_id=self.call_id, tool=self.tool, update=value))
        self.emit(value)
