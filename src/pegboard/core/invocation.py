"""Invocation: a call on its way, and what the stages of the pipeline know and use of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pegboard.core.approval import ApprovalRequest, Approved, Refused
from pegboard.core.budgets import UNLIMITED, Remaining
from pegboard.core.call import ValidCall
from pegboard.core.context import Context
from pegboard.core.deadlines import Deadline
from pegboard.core.decode import Decoded
from pegboard.core.effects import EMPTY_PLAN, Effect, Plan
from pegboard.core.errors import (
    ToolError,
)
from pegboard.core.inside import call_context
from pegboard.core.policy import ALLOWED, Decision
from pegboard.core.rules import Situation
from pegboard.core.tool import Tool
from pegboard.core.values import record

if TYPE_CHECKING:
    from pegboard.core.lanes import ToolBinding
    from pegboard.core.pipeline import Pipeline

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
