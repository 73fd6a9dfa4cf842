"""Context: where a call runs, reachable as `current_context()` too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from pegboard.core.errors import BuildError, CallCancelled

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.core.effects import Effect


class AbortSignal:
    """Set once, when the call is cancelled or its deadline has passed. Safe to read from any thread.

    Attributes:
        reason: why, empty while it is not set.
    """

    def __init__(self, context: Context | None = None) -> None:
        self.reason = ""
        self._context = context
        self._set = threading.Event()
        self._listeners: list[Callable[[], object]] = []

    @property
    def aborted(self) -> bool:
        """Whether the caller has given up."""
        cancelled = self._context.cancelled if self._context is not None else None
        return self._set.is_set() or (cancelled is not None and cancelled.is_set())

    def throw_if_aborted(self) -> None:
        """Raise where the caller has given up.

        Raises:
            CallCancelled: it has.
        """
        if self.aborted:
            raise CallCancelled(self.reason or "the call was cancelled")

    def add_event_listener(self, event: str, listener: Callable[[], object]) -> None:
        """Call `listener` when it is set; `event` is `abort`, there is no other."""
        if event != "abort":
            raise ValueError(f"an abort signal has the event 'abort', not {event!r}")
        if self.aborted:
            listener()
        else:
            self._listeners.append(listener)

    def abort(self, reason: str = "the call was cancelled") -> None:
        """Set it; listeners are called once."""
        if self._set.is_set():
            return
        self.reason = reason
        self._set.set()
        for listener in self._listeners:
            listener()
        self._listeners.clear()


T = TypeVar("T")


def _discard(_: Any) -> None:
    """Where a tool's partial updates go when nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where one call runs. Read-only.

    Attributes:
        session: session key, `cli` and the like outside a conversation.
        agent: the agent's id.
        run: the run's id.
        call_id: the id of the call that is running, empty outside one.
        tool: the name of its tool, empty outside one.
        model: the model that asked, empty where none did.
        origin: `{channel, chat_id, sender, account_id, thread_id, message_id}` of the message that
            started the run, as far as known; where it has none, of the chat that its answer goes to.
        workspace: the workspace's real path, None where a kit has no files.
        depth: 0 for the main agent, +1 for each subagent level.
        deadline: event-loop time at which the call must end, None = no deadline.
        cancelled: set when the caller has given up; long tools look at it.
        emit: gives a partial update to whoever listens.
        labels: taint labels of the run so far.
        ports: what `Inject[...]` is filled from, by port type.
        parent: the id of the call whose program makes this one, empty if a model or a person does.
        effects: what the running call may do, as it was authorised; None outside one and while it plans.
    """

    session: str = "local"
    agent: str = "main"
    run: str = ""
    call_id: str = ""
    model: str = ""
    origin: Mapping[str, str] = field(default_factory=dict[str, str])
    workspace: Path | None = None
    depth: int = 0
    deadline: float | None = None
    cancelled: asyncio.Event | None = None
    emit: Callable[[Any], None] = _discard
    labels: frozenset[str] = frozenset()
    ports: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    tool: str = ""
    parent: str = ""
    effects: tuple[Effect, ...] | None = None

    def port(self, wanted: type[T]) -> T:
        """The provided object for a port type.

        Raises:
            BuildError: nothing was provided for it.
        """
        find = getattr(self.ports, "find", self.ports.get)
        found = find(wanted)
        if found is None:
            name = getattr(wanted, "__name__", str(wanted))
            raise BuildError(f"nothing provides {name}; pass it in provide=[…] of the Executor or Agent")
        return cast(T, found)


class HasContext(Protocol):
    """A call on its way: it makes its context when somebody asks for it, and most tools never do."""

    @property
    def context(self) -> Context:
        """The context of the call's own code, always the same one."""
        ...


Entered: TypeAlias = Context | HasContext | None

_current: Final[ContextVar[Entered]] = ContextVar("pegboard_context", default=None)


def current_context() -> Context:
    """The context of the call that is running.

    Raises:
        LookupError: no call is running here.
    """
    here = _current.get()
    if here is None:
        raise LookupError("no tool call is running here; current_context() works inside a tool only")
    return here if isinstance(here, Context) else here.context


def entered() -> Entered:
    """What `attach` has made the current one here: a call on its way, a context, or None."""
    return _current.get()


def in_program() -> bool:
    """Whether the call that is running was made by another call's program, and not by a model or a person."""
    here = _current.get()
    return here is not None and bool((here if isinstance(here, Context) else here.context).parent)


def attach(context: Context | HasContext) -> Entered:
    """Make `context` the current one; give `detach` what was before it."""
    before = _current.get()
    _current.set(context)
    return before


def detach(before: Entered) -> None:
    """Undo one `attach`."""
    _current.set(before)
