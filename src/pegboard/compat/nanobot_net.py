"""nanobot_net: document 002's way: any function is a tool, middleware around calls, services, a run context
(ledger C-01..C-07, C-36..C-50)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pegboard.core.adapters import Style, opaque
from pegboard.core.context import Context
from pegboard.core.context import current_context as _context
from pegboard.core.errors import BuildError
from pegboard.core.families import load
from pegboard.core.pipeline import Invocation, Next
from pegboard.core.pipeline import Middleware as CoreMiddleware
from pegboard.core.signature import Signature
from pegboard.core.tool import Tool

T = TypeVar("T")

DEFAULT_TOOLS: Final = (
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "exec",
    "web_search",
    "web_fetch",
)
"""What `add_nanobot_tools` registers, as far as this installation has it (C-44)."""

_ALLOWED: Final = Style(at_least="allow")


@dataclass(frozen=True, slots=True)
class AIFunctionFactoryOptions:
    """Name and description of a tool made from a function."""

    name: str | None = None
    description: str | None = None


def create_tool(
    function: Callable[..., Any],
    options: AIFunctionFactoryOptions | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    effects: Any = None,
    **more: Any,
) -> Tool:
    """A tool from any function or lambda (C-01..C-04, C-07).

    The function's types and defaults make the schema. Where neither parameter types (`ReadPath` …) nor
    `effects` say what it does, it counts as opaque: effect `call python/NAME`, which runs in mode
    `workspace` and asks in mode `ask`.

    Args:
        function: sync or async.
        options: name and description in the document's form.
        name, description: the same by keyword.
        effects, more: as `@tool` takes them.

    Raises:
        BuildError: a lambda without a name, or types that JSON cannot say.
    """
    name = name or (options.name if options else None) or getattr(function, "__name__", None)
    description = description or (options.description if options else None)
    if not name or name == "<lambda>":
        raise BuildError("a lambda has no name of its own; give create_tool(…, name='…')")
    signature = Signature.of(function, name=name)
    marked = any(p.marker is not None for p in signature.parameters)
    if effects is None and "plan" not in more and not marked:
        effects = opaque(name, _ALLOWED)
    return Tool(function, name=name, description=description, effects=effects, **more)


class AIFunctionFactory:
    """The document's spelling of `create_tool`."""

    create = staticmethod(create_tool)


# -- middleware -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """The function that is called."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class FunctionInvocationContext:
    """What a middleware sees of a call (C-46).

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
    """`as_ai_agent(…).as_builder().use(…).build()` (C-46)."""

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
    """An agent with its tools; the framework runs the loop (C-05, C-06).

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
        self._agent: Any = load("pegboard.app.agent:Agent")(**given)

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
    """`chatClient.AsAIAgent(instructions, tools)`: an agent over a model (C-05)."""
    return AIAgent(
        {"model": model, "instructions": instructions, "tools": list(tools), "name": name, **options}
    )


# -- run context ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identified:
    """Something with an id."""

    id: str


@dataclass(frozen=True, slots=True)
class AgentRunContext:
    """Where the running tool runs (C-45)."""

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


# -- services ---------------------------------------------------------------------------------


class ServiceCollection:
    """What may be asked for, by type or name; each made once, when it is first asked for (C-42)."""

    def __init__(self) -> None:
        self._factories: dict[Any, Callable[[ServiceProvider], Any]] = {}

    def add_singleton(self, key: Any, made: Any = None) -> ServiceCollection:
        """Register an object, or a function of the provider that makes it.

        Args:
            key: a type or a name; an object alone is registered under its type.
            made: the object or factory.
        """
        if made is None:
            key, made = cast(Any, type(key)), key
        is_factory = inspect.isfunction(made) or inspect.ismethod(made)
        self._factories[key] = (
            cast("Callable[[ServiceProvider], Any]", made) if is_factory else lambda _p: made
        )
        return self

    def build_service_provider(self) -> ServiceProvider:
        """The provider."""
        return ServiceProvider(dict(self._factories))


class ServiceProvider:
    """Gives what was registered."""

    def __init__(self, factories: Mapping[Any, Callable[[ServiceProvider], Any]]) -> None:
        self._factories = factories
        self._made: dict[Any, Any] = {}

    def get_service(self, key: Any) -> Any | None:
        """The service, None where there is none."""
        if key not in self._made:
            if key not in self._factories:
                return next((self._get(k) for k in self._factories if _fits(k, key)), None)
            self._get(key)
        return self._made[key]

    def get_required_service(self, key: Any) -> Any:
        """The service.

        Raises:
            BuildError: nothing provides it.
        """
        found = self.get_service(key)
        if found is None:
            name = getattr(key, "__name__", key)
            raise BuildError(f"no service {name} is registered; add it with services.add_singleton(…)")
        return found

    def _get(self, key: Any) -> Any:
        if key not in self._made:
            self._made[key] = self._factories[key](self)
        return self._made[key]


def _fits(registered: Any, wanted: Any) -> bool:
    return isinstance(registered, type) and isinstance(wanted, type) and issubclass(registered, wanted)


class WorkspaceManager:
    """Knows the workspace (C-43)."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def get_workspace_path(self) -> Path:
        """Its path."""
        return self._path


class NanoBotTools(tuple[Tool, ...]):
    """The registered tools: read-only, under this type in the services (C-42)."""

    __slots__ = ()


MESSAGE_BUS: Final = "message_bus"
"""Key of the message bus in the services; with one registered the set has `message` (C-44)."""


def add_nanobot_tools(
    services: ServiceCollection, workspace_path: str | Path | None = None
) -> ServiceCollection:
    """Register the tool set: seven tools, and `message` where a bus is registered (C-42..C-44).

    `provider.get_required_service(NanoBotTools)` gives the tuple. Give it to an Executor or Agent with the
    workspace of `workspace_of(provider, workspace_path)`.
    """

    def make(provider: ServiceProvider) -> NanoBotTools:
        workspace_of(provider, workspace_path)
        names = [*DEFAULT_TOOLS]
        if provider.get_service(MESSAGE_BUS) is not None:
            names.append("message")
        known = cast("Mapping[str, str]", load("pegboard.tools:TOOLS"))
        return NanoBotTools(cast(Tool, load(known[n])) for n in names if n in known)

    services.add_singleton(NanoBotTools, make)
    return services


def workspace_of(provider: ServiceProvider, workspace_path: str | Path | None = None) -> Path:
    """The workspace: as given, else the workspace manager's (C-43).

    Raises:
        BuildError: neither is there.
    """
    if workspace_path is not None:
        return Path(workspace_path)
    return cast(WorkspaceManager, provider.get_required_service(WorkspaceManager)).get_workspace_path()


# -- MCP --------------------------------------------------------------------------------------

Connect = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class NanoBotMcpClient:
    """Connected MCP servers by name; their tools stand beside any others (C-36..C-40).

    Args:
        connect: opens one server: `await connect(name, config)` gives an object with `async list_tools()`
            (objects or dicts with name, description, inputSchema), `async call_tool(name, arguments)`
            and `async aclose()`.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._servers: dict[str, Any] = {}
        self._timeouts: dict[str, float] = {}

    @property
    def connected_servers(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self._servers)

    async def connect(self, name: str, config: Mapping[str, Any]) -> None:
        """Connect a server; keys of the config in any casing, `ToolTimeout` in seconds (C-39, C-40).

        Raises:
            BuildError: a server of that name is connected already.
        """
        if name in self._servers:
            raise BuildError(f"the MCP server {name!r} is connected already")
        folded = {k.replace("_", "").replace("-", "").lower(): v for k, v in config.items()}
        self._timeouts[name] = float(folded.get("tooltimeout") or folded.get("timeout") or 30)
        self._servers[name] = await self._connect(name, folded)

    async def disconnect(self, name: str) -> None:
        """Disconnect a server; an unknown name is no error."""
        server = self._servers.pop(name, None)
        if server is not None:
            await server.aclose()

    async def list_tools(self, server: str) -> list[Tool]:
        """The tools of one server, under their own names.

        Raises:
            BuildError: no such server.
        """
        from pegboard.compat.nanobot.mcp import MCPToolWrapper

        session = self._servers.get(server)
        if session is None:
            raise BuildError(f"no MCP server {server!r}; connected are {', '.join(self._servers) or 'none'}")
        listed = await session.list_tools()
        definitions = getattr(listed, "tools", listed)
        return [
            MCPToolWrapper(
                session, _plain(d), tool_timeout=self._timeouts[server], server_name=server
            ).to_tool()
            for d in definitions
        ]

    async def get_all_tools(self) -> list[Tool]:
        """The tools of all servers."""
        return [tool for name in self._servers for tool in await self.list_tools(name)]

    async def aclose(self) -> None:
        """Disconnect all."""
        for name in list(self._servers):
            await self.disconnect(name)

    async def __aenter__(self) -> NanoBotMcpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _plain(definition: Any) -> Mapping[str, Any]:
    if isinstance(definition, Mapping):
        return cast("Mapping[str, Any]", definition)
    return {
        "name": definition.name,
        "description": getattr(definition, "description", None),
        "inputSchema": getattr(definition, "inputSchema", None) or getattr(definition, "input_schema", None),
    }


__all__ = [
    "AIAgent",
    "AIAgentBuilder",
    "AIFunctionFactory",
    "AIFunctionFactoryOptions",
    "FunctionInvocationContext",
    "NanoBotMcpClient",
    "NanoBotTools",
    "ServiceCollection",
    "ServiceProvider",
    "WorkspaceManager",
    "add_nanobot_tools",
    "as_ai_agent",
    "create_tool",
    "current_run_context",
    "middleware",
    "workspace_of",
]
