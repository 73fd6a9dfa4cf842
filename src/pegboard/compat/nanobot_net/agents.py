"""Agents with middleware around their calls, and the context that a running tool can ask for."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pegboard.core.call.call import Invocation, Next
from pegboard.core.call.call import Middleware as CoreMiddleware
from pegboard.core.context import Context
from pegboard.core.context import current_context as _context
from pegboard.core.toolkit import import_object


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """The function that is called."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class FunctionInvocationContext:
    """What a middleware sees of a call.

    Attributes:
        function: its name and description.
        arguments: a copy of the decoded arguments.
        call_id: which call.
    """

    function: FunctionInfo
    arguments: Mapping[str, Any]
    call_id: str


NextStep = Callable[..., Awaitable[Any]]
Middleware = Callable[[Any, FunctionInvocationContext, NextStep, Any], Any]


def middleware(function: Middleware, *, agent: Any = None) -> CoreMiddleware:
    """`(agent, context, next, cancellation)` as a middleware of the Executor.

    It stands inside authorisation: it can watch, replace the result or refuse, and neither skip the policy
    nor change the arguments.
    """

    async def around(invocation: Invocation, following: Next) -> Any:
        async def step(*_: Any) -> Any:
            return await following()

        seen = FunctionInvocationContext(
            FunctionInfo(invocation.tool.name, invocation.tool.description),
            invocation.call.arguments,
            invocation.call.id,
        )
        done = function(agent, seen, step, invocation.context.cancelled)
        return await done if inspect.isawaitable(done) else done

    return around


class AIAgentBuilder:
    """`as_ai_agent(…).as_builder().use(…).build()`."""

    def __init__(self, options: Mapping[str, Any], layers: Sequence[Middleware] = ()) -> None:
        self._options = dict(options)
        self._layers = tuple(layers)

    def use(self, layer: Middleware) -> AIAgentBuilder:
        """Put a middleware around every call; the first is the outermost."""
        return AIAgentBuilder(self._options, (*self._layers, layer))

    def build(self) -> AIAgent:
        """The agent."""
        return AIAgent(self._options, self._layers)


class AIAgent:
    """An agent with its tools; the framework runs the loop.

    Attributes:
        tools: what it may call.
    """

    def __init__(self, options: Mapping[str, Any], layers: Sequence[Middleware] = ()) -> None:
        self._options = dict(options)
        self._layers = tuple(layers)
        self.tools: tuple[Any, ...] = tuple(self._options.get("tools") or ())
        given = dict(self._options)
        given["middleware"] = [
            *(given.get("middleware") or ()),
            *(middleware(layer, agent=self) for layer in self._layers),
        ]
        self._agent: Any = import_object("pegboard.app.agent:Agent")(**given)

    @property
    def id(self) -> str:
        """Its id, as the run context shows it."""
        return str(self._agent.name)

    @property
    def executor(self) -> Any:
        """The executor that its calls go through."""
        return self._agent.executor

    def as_builder(self) -> AIAgentBuilder:
        """A builder that starts from this agent."""
        return AIAgentBuilder(self._options, self._layers)

    async def run(self, message: str, *, session: str | None = None) -> Any:
        """Run one message to the end; see `pegboard.Agent.run`."""
        return await self._agent.run(message, session=session)

    async def aclose(self) -> None:
        """End the model and what the executor started."""
        await self._agent.aclose()


def as_ai_agent(
    model: Any, *, instructions: str = "", tools: Iterable[Any] = (), name: str = "main", **options: Any
) -> AIAgent:
    """`chatClient.AsAIAgent(instructions, tools)`: an agent over a model."""
    return AIAgent(
        {"model": model, "instructions": instructions, "tools": list(tools), "name": name, **options}
    )


@dataclass(frozen=True, slots=True)
class Identified:
    """Something with an id."""

    id: str


@dataclass(frozen=True, slots=True)
class AgentRunContext:
    """Where the running tool runs."""

    session: Identified
    agent: Identified
    run: Identified
    workspace: Path | None
    context: Context = field(repr=False)


def current_run_context() -> AgentRunContext | None:
    """The context of the call that is running here, None outside one."""
    try:
        context = _context()
    except LookupError:
        return None
    return AgentRunContext(
        Identified(context.session),
        Identified(context.agent),
        Identified(context.run),
        context.workspace,
        context,
    )
