"""Run: the function under its deadline, with the middleware around it (DESIGN 2)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.call.call import (
    Call,
    Invocation,
    Middleware,
    Next,
)
from pegboard.core.call.deadline import Deadline
from pegboard.core.call.plan import resolve_path_arguments
from pegboard.core.call.shape import as_tool_error
from pegboard.core.context import Context, attach, detach
from pegboard.core.effects import Plan
from pegboard.core.errors import (
    InternalError,
    TimedOut,
    ToolError,
)
from pegboard.core.policy.budgets import out_of_time
from pegboard.core.secrets import handles as secret_references

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pegboard.core.call.pipeline import Pipeline


async def run_with_middleware(pipeline: Pipeline, call: Call, context: Context) -> Any:
    """Run the function with the middleware around it, under its deadline."""
    call.pipeline, call.outer = pipeline, context
    before = attach(call.context())
    try:
        # A watch each time: a layer may call `next` again, or twice at once.
        step: Next = lambda: _function(pipeline, call, Deadline())  # noqa: E731
        for layer in reversed(pipeline.middleware):
            step = _wrap(layer, call, call.context(), step)
        return await step()
    finally:
        detach(before)


async def _function(pipeline: Pipeline, call: Call, watch: Deadline) -> Any:
    """The function itself, as `Pipeline.call` runs it where no middleware is."""
    arguments = build_arguments(pipeline, call)
    before = attach(call)
    try:
        pipeline.deadlines.start(watch, asyncio.current_task(), timeout_of(pipeline, call))
        return await (
            call.tool.function(**arguments)
            if call.tool.is_async
            else run_in_thread(pipeline, call, arguments)
        )
    finally:
        ended = pipeline.deadlines.end(watch)
        detach(before)
        if ended:
            raise_timeout(call, watch)


def build_arguments(pipeline: Pipeline, call: Call) -> dict[str, Any]:
    """What the function is called with: its arguments, ports, open files and secrets."""
    lane = call.lane
    arguments = call.decoded.arguments
    if lane.ports:
        arguments = dict(arguments)
        for name, port in lane.ports:
            arguments[name] = call.plan if port is Plan else call.context() if port is Context else port
    if lane.opens and call.outer.workspace is not None:
        arguments = resolve_path_arguments(
            arguments, call.tool.markers, call.plan.effects, call.outer.workspace
        )
    if call.secrets:
        arguments = _with_secrets(pipeline, arguments, call)
    return arguments


def timeout_of(pipeline: Pipeline, call: Call) -> float | None:
    """Seconds that a call may take, None where nothing limits it."""
    limit = call.tool.limits.timeout_s
    limit = pipeline.timeout_s if limit is None else limit
    if call.remaining.seconds is not None:
        # An account that is empty to the last moment has refused before.
        limit = min(limit or call.remaining.seconds, max(call.remaining.seconds, 0.001))
    return limit


def raise_timeout(call: Call, watch: Deadline) -> None:
    """The deadline has come; called in a `finally`, so that the function's own error goes on.

    Raises:
        TimedOut: in place of a value or of our own cancellation.
    """
    # Whatever the function made of our cancellation, the task must not stay marked as cancelled.
    others = watch.task.uncancel()
    raised = sys.exception()
    if raised is None or (isinstance(raised, asyncio.CancelledError) and others == 0):
        raise _timed_out(call, watch.limit) from None


async def run_in_thread(pipeline: Pipeline, call: Call, arguments: Mapping[str, Any]) -> Any:
    """A blocking function, in a thread of our own pool, with the caller's context variables."""
    context, function = call.context(), call.tool.function
    run = contextvars.copy_context().run
    try:
        value = await asyncio.get_running_loop().run_in_executor(
            pipeline.threads.open(), lambda: run(_call_blocking, function, arguments)
        )
    except asyncio.CancelledError:
        # A thread cannot be ended from outside; it can look at its context (ledger K-15).
        cast(asyncio.Event, context.cancelled).set()
        raise
    return await value if inspect.isawaitable(value) else value


def _call_blocking(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
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


def _with_secrets(pipeline: Pipeline, arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    """The arguments with the values of their secrets, or with place holders; seen by the function alone."""
    handles = pipeline.safeguards.secrets
    assert handles is not None
    values: dict[str, str] = {}
    for name in call.secrets:
        binding, value = handles.binding(name), handles.value(name)
        assert binding is not None
        if pipeline.safeguards.placeholders is not None and not secret_references.may_reveal(
            binding, call.plan
        ):
            value = pipeline.safeguards.placeholders.for_secret(name, value, binding.hosts)
        values[name] = value
    return {key: secret_references.fill_references(value, values) for key, value in arguments.items()}


def _timed_out(call: Call, limit: float) -> ToolError:
    if call.remaining.budget is not None and limit == max(call.remaining.seconds or 0.0, 0.001):
        return out_of_time(call.remaining.budget, limit, call.tool.name)
    ended = "was ended" if call.tool.is_async else "was asked to stop; it may still be running"
    return TimedOut(
        f"{call.tool.name} did not finish within {limit:g} s and {ended}",
        hint="Ask for less at a time, or allow more time.",
        details={"timeout_s": limit},
    )


def _wrap(layer: Middleware, call: Call, context: Context, step: Next) -> Next:
    # A copy of the arguments: a middleware sees what runs and cannot change it.
    shown = replace(call.call, arguments=dict(call.call.arguments))
    invocation = Invocation(tool=call.tool, call=shown, plan=call.plan, context=context)
    return lambda: layer(invocation, step)


class ThreadPool:
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
