"""Run: the function under its deadline, with the middleware around it (DESIGN 2)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pegboard.core import secrets as secret_references
from pegboard.core.budgets import out_of_time
from pegboard.core.context import Context, enter, leave
from pegboard.core.deadlines import Watch
from pegboard.core.effects import Plan
from pegboard.core.errors import (
    InternalError,
    TimedOut,
    ToolError,
)
from pegboard.core.failing import as_tool_error
from pegboard.core.invocation import (
    Invocation,
    Middleware,
    Next,
    Planned,
)
from pegboard.core.placing import placed

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pegboard.core.pipeline import Pipeline


async def layered(line: Pipeline, ready: Planned, context: Context) -> Any:
    """Run the function with the middleware around it, under its deadline."""
    ready.line, ready.outer = line, context
    before = enter(ready.inside())
    try:
        # A watch each time: a layer may call `next` again, or twice at once.
        step: Next = lambda: _function(line, ready, Watch())  # noqa: E731
        for layer in reversed(line.middleware):
            step = _around(layer, ready, ready.inside(), step)
        return await step()
    finally:
        leave(before)


async def _function(line: Pipeline, ready: Planned, watch: Watch) -> Any:
    """The function itself, as `Pipeline.call` runs it where no middleware is."""
    arguments = given(line, ready)
    before = enter(ready)
    try:
        line.deadlines.start(watch, asyncio.current_task(), limit_of(line, ready))
        return await (
            ready.tool.function(**arguments) if ready.tool.is_async else threaded(line, ready, arguments)
        )
    finally:
        ended = line.deadlines.end(watch)
        leave(before)
        if ended:
            late(ready, watch)


def given(line: Pipeline, ready: Planned) -> dict[str, Any]:
    """What the function is called with: its arguments, ports, open files and secrets."""
    lane = ready.lane
    arguments = ready.decoded.arguments
    if lane.ports:
        arguments = dict(arguments)
        for name, port in lane.ports:
            arguments[name] = ready.plan if port is Plan else ready.inside() if port is Context else port
    if lane.opens and ready.outer.workspace is not None:
        arguments = placed(arguments, ready.tool.markers, ready.plan.effects, ready.outer.workspace)
    if ready.secrets:
        arguments = _with_secrets(line, arguments, ready)
    return arguments


def limit_of(line: Pipeline, ready: Planned) -> float | None:
    """Seconds that a call may take, None where nothing limits it."""
    limit = ready.tool.limits.timeout_s
    limit = line.timeout_s if limit is None else limit
    if ready.left.seconds is not None:
        # An account that is empty to the last moment has refused before.
        limit = min(limit or ready.left.seconds, max(ready.left.seconds, 0.001))
    return limit


def late(ready: Planned, watch: Watch) -> None:
    """The deadline has come; called in a `finally`, so that the function's own error goes on.

    Raises:
        TimedOut: in place of a value or of our own cancellation.
    """
    # Whatever the function made of our cancellation, the task must not stay marked as cancelled.
    others = watch.task.uncancel()
    raised = sys.exception()
    if raised is None or (isinstance(raised, asyncio.CancelledError) and others == 0):
        raise _timed_out(ready, watch.limit) from None


async def threaded(line: Pipeline, ready: Planned, arguments: Mapping[str, Any]) -> Any:
    """A blocking function, in a thread of our own pool, with the caller's context variables."""
    context, function = ready.inside(), ready.tool.function
    run = contextvars.copy_context().run
    try:
        value = await asyncio.get_running_loop().run_in_executor(
            line.threads.open(), lambda: run(_to_its_end, function, arguments)
        )
    except asyncio.CancelledError:
        # A thread cannot be ended from outside; it can look at its context (ledger K-15).
        cast(asyncio.Event, context.cancelled).set()
        raise
    return await value if inspect.isawaitable(value) else value


def _to_its_end(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function in its thread, where sys.exit can only be its own (a command line's parser does that)."""
    try:
        return function(**arguments)
    except SystemExit as ended:
        # As an error of its own: asyncio ends the program for the real one.
        raise as_tool_error(ended) from None
    except StopIteration as error:
        # No future takes it: the call would wait for an answer until its deadline.
        raise InternalError(
            "StopIteration: the tool asked an iterator that has no more for its next"
        ) from error


def _with_secrets(line: Pipeline, arguments: dict[str, Any], ready: Planned) -> dict[str, Any]:
    """The arguments with the values of their secrets, or with place holders; seen by the function alone."""
    handles = line.safeguards.secrets
    assert handles is not None
    values: dict[str, str] = {}
    for name in ready.secrets:
        binding, value = handles.binding(name), handles.value(name)
        assert binding is not None
        if line.safeguards.placeholders is not None and not secret_references.outright(binding, ready.plan):
            value = line.safeguards.placeholders.of(name, value, binding.hosts)
        values[name] = value
    return {key: secret_references.fill(value, values) for key, value in arguments.items()}


def _timed_out(ready: Planned, limit: float) -> ToolError:
    if ready.left.budget is not None and limit == max(ready.left.seconds or 0.0, 0.001):
        return out_of_time(ready.left.budget, limit, ready.tool.name)
    ended = "was ended" if ready.tool.is_async else "was asked to stop; it may still be running"
    return TimedOut(
        f"{ready.tool.name} did not finish within {limit:g} s and {ended}",
        hint="Ask for less at a time, or allow more time.",
        details={"timeout_s": limit},
    )


def _around(layer: Middleware, ready: Planned, context: Context, step: Next) -> Next:
    # A copy of the arguments: a middleware sees what runs and cannot change it.
    shown = replace(ready.call, arguments=dict(ready.call.arguments))
    invocation = Invocation(tool=ready.tool, call=shown, plan=ready.plan, context=context)
    return lambda: layer(invocation, step)


class Threads:
    """The threads of blocking functions, started with the first of them; every run's pipeline shares them.

    Args:
        count: how many run at once.
    """

    __slots__ = ("_count", "_pool")

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None

    def open(self) -> ThreadPoolExecutor:
        """The pool."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._count, "pegboard-tool")
        return self._pool

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
