"""Run: the function under its deadline, with the middleware around it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.call.call import Call, Deadline, Invocation, Middleware, Next
from pegboard.core.call.plan import absolute_paths, opens_own_paths
from pegboard.core.call.shape import as_tool_error, suspended_error
from pegboard.core.context import Context, attach, detach
from pegboard.core.effects import Plan
from pegboard.core.errors import InternalError, TimedOut, ToolError
from pegboard.core.policy.approval import Waiting
from pegboard.core.policy.budgets import out_of_time
from pegboard.core.secrets.handles import fill_references, may_reveal

if TYPE_CHECKING:
    from pegboard.core.isolation import IsolatedFunction


async def run(call: Call) -> Any:
    """What the function returns.

    Raises:
        TimedOut: it did not end before its deadline.
        SuspendedCall: it returned `Waiting`.
        Whatever the function or a middleware raises.
    """
    step: Next = partial(_call_function, call)
    before = attach(call)
    try:
        for layer in reversed(call.parts.middleware):
            step = _wrap(layer, call, step)
        value = await step()
    finally:
        detach(before)
    if isinstance(value, Waiting):
        raise suspended_error(value)
    return value


def _wrap(layer: Middleware, call: Call, step: Next) -> Next:
    # A copy of the arguments: a middleware sees what runs and cannot change it.
    valid = replace(call.valid, arguments=dict(call.valid.arguments))
    invocation = Invocation(tool=call.tool, call=valid, plan=call.plan, context=call.context)
    return lambda: layer(invocation, step)


async def _call_function(call: Call) -> Any:
    """The function itself. A deadline each time: a middleware may call `next` again, or twice at once."""
    tool, deadlines, deadline = call.tool, call.parts.deadlines, Deadline()
    arguments = _arguments(call)
    if tool.direct is not None:
        # Before its time begins: the first call of a function starts a process.
        arguments = await cast("IsolatedFunction", tool.function).prepared(arguments)
    try:
        deadlines.start(deadline, asyncio.current_task(), _timeout_s(call))
        call.ran = True
        if tool.is_async:
            return await tool.function(**arguments)
        return await _run_in_thread(call, arguments)
    finally:
        if deadlines.end(deadline):
            _raise_timeout(call, deadline)


def _arguments(call: Call) -> dict[str, Any]:
    """What the function is called with: its arguments, ports, open files and secrets."""
    arguments = call.decoded.arguments
    if call.outer.workspace is not None and opens_own_paths(call):
        arguments = absolute_paths(call)
    if call.secrets:
        arguments = _with_secrets(call, arguments)
    if ports := call.parts.ports[call.tool.name]:
        arguments = dict(arguments)
        for name, port in ports:
            arguments[name] = call.plan if port is Plan else call.context if port is Context else port
    return arguments


def _with_secrets(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the values of their secrets, or with placeholders; seen by the function alone."""
    handles, placeholders = call.parts.guards.secrets, call.parts.guards.placeholders
    assert handles is not None
    values: dict[str, str] = {}
    for name in call.secrets:
        binding, value = handles.binding(name), handles.value(name)
        assert binding is not None
        if placeholders is not None and not may_reveal(binding, call.plan):
            value = placeholders.for_secret(name, value, binding.hosts)
        values[name] = value
    return {key: fill_references(value, values) for key, value in arguments.items()}


def _timeout_s(call: Call) -> float | None:
    """Seconds that the call may take, None if nothing limits it."""
    limit = call.tool.limits.timeout_s
    limit = call.parts.timeout_s if limit is None else limit
    if call.remaining.seconds is not None:
        # A budget that is used up to the last moment has refused before.
        limit = min(limit or call.remaining.seconds, max(call.remaining.seconds, 0.001))
    return limit


def _raise_timeout(call: Call, deadline: Deadline) -> None:
    """Called in a `finally`, so that the function's own error goes on.

    Raises:
        TimedOut: in place of a value or of our own cancellation.
    """
    # Whatever the function made of our cancellation, the task must not stay marked as cancelled.
    others = deadline.task.uncancel()
    raised = sys.exception()
    if raised is None or (isinstance(raised, asyncio.CancelledError) and others == 0):
        raise _timed_out(call, deadline.limit) from None


def _timed_out(call: Call, limit: float) -> ToolError:
    left = call.remaining
    if left.budget is not None and limit == max(left.seconds or 0.0, 0.001):
        return out_of_time(left.budget, limit, call.tool.name)
    ended = "was ended" if call.tool.is_async else "was asked to stop; it may still be running"
    return TimedOut(
        f"{call.tool.name} did not finish within {limit:g} s and {ended}",
        hint="Ask for less at a time, or allow more time.",
        details={"timeout_s": limit},
    )


async def _run_in_thread(call: Call, arguments: Mapping[str, Any]) -> Any:
    """A blocking function, in a thread of our own pool, with the caller's context variables."""
    context, function = call.context, call.tool.function
    run_in_context = contextvars.copy_context().run
    try:
        value = await asyncio.get_running_loop().run_in_executor(
            call.parts.threads, lambda: run_in_context(_call_blocking, function, arguments)
        )
    except asyncio.CancelledError:
        # A thread cannot be ended from outside; it can look at its context.
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
        # A future refuses it: the call would wait for an answer until its deadline.
        raise InternalError(
            "StopIteration: the tool asked an iterator that has no more for its next"
        ) from error
