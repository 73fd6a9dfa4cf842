"""Invocation: a call on its way, and what the stages of the pipeline know and use of it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pegboard.core.call.deadline import Deadline
from pegboard.core.context import Context
from pegboard.core.effects import EMPTY_PLAN, Effect, Plan
from pegboard.core.errors import (
    ToolError,
)
from pegboard.core.events import CallUpdate, DestinationTried
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused
from pegboard.core.policy.budgets import UNLIMITED, Remaining
from pegboard.core.policy.policy import ALLOWED, Decision
from pegboard.core.policy.rules import Situation
from pegboard.core.schema.decode import Decoded
from pegboard.core.tool import Tool, ValidCall
from pegboard.core.values import blank, record

if TYPE_CHECKING:
    from pegboard.core.call.decode import ToolBinding
    from pegboard.core.call.pipeline import Pipeline


def call_context(
    pipeline: Pipeline, context: Context, call_id: str, tool: Tool, effects: tuple[Effect, ...] | None = None
) -> Context:
    """The context that the function sees; `effects` once it runs, None while it plans."""
    # Field by field: a class packs thirteen keywords into a dict and unpacks them, at twice the price.
    inner = blank(Context)
    inner.session = context.session
    inner.agent = context.agent
    inner.run = context.run
    inner.call_id = call_id
    inner.model = context.model
    inner.origin = context.origin
    inner.workspace = context.workspace
    inner.depth = context.depth
    inner.deadline = context.deadline
    inner.cancelled = context.cancelled if tool.is_async else context.cancelled or asyncio.Event()
    inner.emit = UpdateEmitter(pipeline, context.emit, call_id, tool.name)
    inner.labels = context.labels
    inner.ports = pipeline.provide
    inner.tool = tool.name
    inner.effects = effects
    return inner


class UpdateEmitter:
    """`emit` of one call's context: redacted, recorded under the call, and passed on."""

    __slots__ = ("_call_id", "_emit", "_line", "_tool")

    def __init__(self, pipeline: Pipeline, emit: Callable[[Any], None], call_id: str, tool: str) -> None:
        self._line = pipeline
        self._emit = emit
        self._call_id = call_id
        self._tool = tool

    def __call__(self, value: Any) -> None:
        recorder = self._line.recorder
        if isinstance(value, DestinationTried):
            # No update for a reader: the session's record of where a command went.
            recorder.record(replace(value, call_id=self._call_id, tool=self._tool))
            return
        value = self._line.shaper.redacted(value)
        recorder.record(CallUpdate(call_id=self._call_id, tool=self._tool, update=value))
        self._emit(value)


_CALL: Final = f"call_{os.urandom(6).hex()}"
_COUNT: Final = itertools.count(10**9)

PATH_RESOLVER: Final = "pegboard.path-resolver"
"""Key in `provide` of the object that resolves paths for effects (the Files port)."""


def new_id(prefix: str) -> str:
    """A fresh id: the prefix and 16 hex digits."""
    return f"{prefix}_{os.urandom(8).hex()}"


def new_call_id() -> str:
    """A fresh call id: unique in this process by a count, elsewhere by the process's random part."""
    # Decimals of one width: a format with hex digits takes three times as long.
    return f"{_CALL}{next(_COUNT)}"


@record(kw_only=True)
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


class GrantStore(Protocol):
    """Where yeses are remembered."""

    def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> object:
        """Remember a `session` or `always` answer for exactly the effects that asked."""
        ...

    def use(self, grant: str) -> None:
        """Count one use of a grant."""
        ...


@dataclass(slots=True, kw_only=True)
class Turn:
    """What the calls of one turn share: a person's refusals, which need no second question (case perm-19)."""

    refused: dict[str, Refused] = field(default_factory=dict[str, Refused])


@record(kw_only=True)
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


class Call(Deadline):
    """A call on its way: what the stages have found so far, and its own watch for the deadline.

    Not a dataclass: most calls end with most of these as they are here. Setting them would be a cost that every
    call bears, and each is one thing more that the collector looks at; a call that nothing judges reads none.

    Attributes:
        lane, tool: the tool, and how it stands in its pipeline.
        call_id: the call's id.
        decoded: its arguments.
        line, outer: where it runs, and the context around it; set when it does.
    """

    lane: ToolBinding
    tool: Tool
    call_id: str
    decoded: Decoded
    pipeline: Pipeline
    outer: Context

    plan: Plan = EMPTY_PLAN
    decision: Decision = ALLOWED
    approver: str = ""
    digest: str = ""
    recorded: bool = False
    secrets: frozenset[str] = frozenset()
    budget_warning: str = ""
    """Which budget asks for this call; empty where none does."""
    booked: bool = False
    remaining: Remaining = UNLIMITED
    """What budgets leave to this call."""
    situation: Situation | None = None
    own_labels: dict[str, str] | None = None
    """Labels of what the call itself brought in, and their sources; None before it has run."""

    _call: ValidCall | None = None
    _inside: Context | None = None

    @property
    def call(self) -> ValidCall:
        """The call as its tool's own code sees it; most tools have none that looks."""
        if self._call is None:
            decoded = self.decoded
            self._call = ValidCall(self.call_id, self.tool.name, decoded.arguments, decoded.repairs, decoded)
        return self._call

    def context(self) -> Context:
        """The context that the function sees, made when it first looks; see `core.context.Inside`."""
        if self._inside is None:
            made = call_context(self.pipeline, self.outer, self.call_id, self.tool, self.plan.effects)
            # In one step: threads that the function started may look at the same moment.
            return self.__dict__.setdefault("_inside", made)
        return self._inside


def planned(lane: ToolBinding, call_id: str, decoded: Decoded) -> Call:
    """A call whose arguments are read."""
    made = Call()
    made.lane, made.tool, made.call_id, made.decoded = lane, lane.tool, call_id, decoded
    return made
