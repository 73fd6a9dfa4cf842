"""artifactflow: ArtifactFlow's way: permission levels, parameter lists, kits for agents, calls in XML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, cast

from pegboard.compat.builtin import BuiltinTool, bound, builtin_tool, searching
from pegboard.compat.executor import LazyExecutor
from pegboard.core import adapters
from pegboard.core.errors import ToolNotFoundError
from pegboard.core.result import ToolResult as CoreResult
from pegboard.core.schema.foreign import ForeignSchema, ToolParameter, from_parameters
from pegboard.core.schema.problems import did_you_mean
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, as_tool

_STYLE: Final = adapters.AdapterOptions(at_least="allow", by_position=False)


class ToolPermission(Enum):
    """Whether a tool runs by itself."""

    AUTO = "auto"
    CONFIRM = "confirm"


@dataclass
class ToolResult:
    """What a tool gives."""

    success: bool
    data: Any = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """The four fields."""
        return {
            "success": self.success,
            "data": self.data,
            "error": self.error,
            "metadata": self.metadata,
        }

    @classmethod
    def of(cls, result: CoreResult) -> ToolResult:
        """An executor's result in this form."""
        return cls(**result.to_dict())


def _problems(schema: Mapping[str, Any], name: str, params: Mapping[str, Any]) -> str | None:
    found = ForeignSchema(schema, name=name, closed=True)
    problems = [f"{p.path}: {p.message}" if p.path else p.message for p in found.errors(dict(params))]
    problems += [f".{k}: unknown parameter" for k in params if k not in found.names]
    return "; ".join(problems) or None


class BaseTool(ABC):
    """ArtifactFlow's tool: a parameter list and `execute(**params) -> ToolResult`.

    Calling an instance validates and runs it, with no runtime around it; a kit's `execute_tool`, an Executor
    and an Agent go through the policy.
    """

    def __init__(
        self, name: str, description: str, permission: ToolPermission = ToolPermission.AUTO, **kwargs: Any
    ) -> None:
        self.name = name
        self.description = description
        self.permission = permission
        self.config = kwargs

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """What it takes."""

    @abstractmethod
    async def execute(self, **params: Any) -> ToolResult:
        """Do it."""

    def validate_params(self, params: Mapping[str, Any]) -> str | None:
        """What does not fit, None = nothing: missing, unknown and wrongly typed parameters."""
        return _problems(from_parameters(self.get_parameters()), self.name, params)

    async def __call__(self, **params: Any) -> ToolResult:
        """Fill the defaults, validate, execute."""
        schema = ForeignSchema(from_parameters(self.get_parameters()), fill_defaults=True)
        filled = schema.with_defaults(params)
        problem = self.validate_params(filled)
        if problem is not None:
            return ToolResult(success=False, error=problem)
        return await self.execute(**filled)

    def to_tool(self) -> Tool:
        """The same as a Pegboard tool; CONFIRM asks before every call."""
        return adapters.adapt(self, _STYLE)


class AgentToolkit:
    """One agent's tools.

    Args:
        agent_name: named in errors and in the calls' context.
        options: as `Executor` takes them: workspace, mode, policy, approver, provide.
    """

    def __init__(self, agent_name: str, **options: Any) -> None:
        self.agent_name = agent_name
        self.tools: dict[str, Any] = {}
        self._made: dict[str, tuple[Any, Tool]] = {}
        self._door = LazyExecutor(self._current, agent=agent_name, **options)

    def add_tool(self, tool: Any) -> None:
        """Add one."""
        self.tools[tool.name] = tool

    def add_tools(self, tools: Iterable[Any]) -> None:
        """Add many."""
        for tool in tools:
            self.add_tool(tool)

    def get_tool(self, name: str) -> Any | None:
        """The tool, or None."""
        return self.tools.get(name)

    def list_tools(self) -> list[Any]:
        """The tools as they were added."""
        return list(self.tools.values())

    async def execute_tool(self, name: str, params: Mapping[str, Any]) -> ToolResult:
        """One call through the policy; a failure is a result too."""
        if name not in self.tools:
            return ToolResult(
                success=False, error=f"Tool '{name}' not available in {self.agent_name}'s toolkit"
            )
        return ToolResult.of(await self._door.call(name, params))

    def toolkit(self) -> Toolkit:
        """The same as a Toolkit, for an Agent or an Executor."""
        return Toolkit(self._current())

    async def aclose(self) -> None:
        """End what was started."""
        await self._door.aclose()

    def _current(self) -> list[Tool]:
        for name, tool in self.tools.items():
            kept = self._made.get(name)
            if kept is None or kept[0] is not tool:
                self._made[name] = (tool, as_tool(tool))
        return [self._made[name][1] for name in self.tools]


class ToolRegistry:
    """All tools, and a kit for each agent.

    Args:
        strict: an unknown name in `create_agent_toolkit` is an error; False skips it, as the
            document does.
        options: given to every kit.
    """

    def __init__(self, *, strict: bool = True, **options: Any) -> None:
        self.tool_library: dict[str, Any] = {}
        self.agent_toolkits: dict[str, AgentToolkit] = {}
        self._strict = strict
        self._options = options

    def register_tool_to_library(self, tool: Any) -> None:
        """Add a tool by its name."""
        self.tool_library[tool.name] = tool

    def create_agent_toolkit(self, agent_name: str, tool_names: Iterable[str] | None = None) -> AgentToolkit:
        """A kit for one agent; without names it is empty.

        Raises:
            ToolNotFoundError: an unknown name; the message has the nearest.
        """
        kit = AgentToolkit(agent_name, **self._options)
        for name in tool_names or ():
            if name in self.tool_library:
                kit.add_tool(self.tool_library[name])
            elif self._strict:
                meant = did_you_mean(name, self.tool_library, otherwise=".")
                raise ToolNotFoundError(f"toolkit '{agent_name}' asks for '{name}'{meant}")
        self.agent_toolkits[agent_name] = kit
        return kit

    def get_agent_toolkit(self, agent_name: str) -> AgentToolkit | None:
        """That agent's kit, or None."""
        return self.agent_toolkits.get(agent_name)


class _Builtin(BuiltinTool):
    """A tool of ours as ArtifactFlow makes and calls it."""

    profile = "artifactflow"
    permission = ToolPermission.AUTO

    def validate_params(self, params: Mapping[str, Any]) -> str | None:
        """What does not fit, None = nothing."""
        return _problems(self.parameters, self.name, params)

    async def execute(self, **arguments: Any) -> ToolResult:
        """One call through the policy; a failure is a result too."""
        return ToolResult.of(await self.call(**arguments))

    async def __call__(self, **arguments: Any) -> ToolResult:
        """See `execute`."""
        return await self.execute(**arguments)


class _ArtifactTool(_Builtin):
    def __init__(self, manager: Any = None, **options: Any) -> None:
        """
        Args:
            manager: an object that fills the Artifacts port; None = the executor's own.
            options: as `Executor` takes them.
        """
        made = builtin_tool(self.tool)
        super().__init__(made=made if manager is None else bound(made, artifacts=manager), **options)


class CreateArtifactTool(_ArtifactTool):
    """`create_artifact`."""

    tool = "create_artifact"


class ReadArtifactTool(_ArtifactTool):
    """`read_artifact`."""

    tool = "read_artifact"


class UpdateArtifactTool(_ArtifactTool):
    """`update_artifact`."""

    tool = "update_artifact"


class RewriteArtifactTool(_ArtifactTool):
    """`rewrite_artifact`."""

    tool = "rewrite_artifact"


class WebSearchTool(_Builtin):
    """`web_search` with Bocha.

    Args:
        api_key: None = `BOCHA_API_KEY`, read at each search.
        options: as `Executor` takes them.
    """

    tool = "web_search"

    def __init__(self, api_key: str | None = None, **options: Any) -> None:
        super().__init__(made=searching("bocha", api_key), defaults={"count": 10}, **options)


class WebFetchTool(_Builtin):
    """`web_fetch`."""

    tool = "web_fetch"

    def __init__(self, **options: Any) -> None:
        super().__init__(defaults={"max_chars": 10_000}, **options)


def create_artifact_tools(manager: Any = None) -> list[Tool]:
    """The four artifact tools.

    Args:
        manager: an object that fills the Artifacts port, bound to the tools; None = the executor's own.
    """
    kinds = (CreateArtifactTool, ReadArtifactTool, UpdateArtifactTool, RewriteArtifactTool)
    return [kind(manager).to_tool() for kind in kinds]


# -- XML --------------------------------------------------------------------------------------


@dataclass
class ToolCall:
    """A call read from text."""

    name: str
    params: dict[str, Any]
    raw_text: str = ""


class XMLToolCallParser:
    """Reads calls in XML."""

    @staticmethod
    def parse_tool_calls(text: str, schemas: Any = None) -> list[ToolCall]:
        """The calls of a text, in order; see the module's function."""
        return parse_tool_calls(text, schemas)


def parse_tool_calls(text: str, schemas: Any = None) -> list[ToolCall]:
    """The calls of a model's text.

    Args:
        text: what the model wrote.
        schemas: a Toolkit or tools; values are then typed by their parameters. Without it the document's
            four rules hold: true and false are bool, digits int, digits with a point float, else str.

    Raises:
        InvalidArguments: the text ends inside a call, or holds a document type.
    """
    from pegboard.dialects import dialect
    from pegboard.dialects.wire import arguments_object

    kit = None if schemas is None else schemas if isinstance(schemas, Toolkit) else Toolkit(schemas)
    return [ToolCall(c.name, arguments_object(c.arguments), c.raw) for c in dialect("xml").decode(text, kit)]


class ToolPromptGenerator:
    """The text that teaches a model its tools."""

    @staticmethod
    def generate_tool_instruction(tools: Iterable[Any]) -> str:
        """The whole instruction for some tools, usually a kit's `list_tools()`."""
        from pegboard.dialects.xml import XMLDialect

        return XMLDialect().prompt(Toolkit(tools))

    @staticmethod
    def format_tool_result(name: str, result: Any) -> str:
        """A result as XML: a ToolResult of this module or of Pegboard, or its dict."""
        return format_tool_result(name, result)


def format_tool_result(name: str, result: Any) -> str:
    """A result as XML; no content can close the block or open another."""
    from pegboard.dialects.xml import format_tool_result as formatted

    if not isinstance(result, Mapping):
        result = result.to_dict()
    return formatted(name, cast("Mapping[str, Any]", result))


def xml_section(tool: Any) -> str:
    """One tool in the document's layout."""
    from pegboard.dialects.xml import tool_section

    return tool_section(as_tool(tool))


# -- the routing tool -------------------------------------------------------------------------


class CallSubagentTool(BaseTool):
    """Validates a hand-over to a subagent; the engine does the routing afterwards.

    Args:
        agents: the names that may be called.
    """

    def __init__(self, agents: Iterable[str] = ()) -> None:
        super().__init__("call_subagent", "Route the task to a subagent.")
        self._agents = tuple(agents)

    def get_parameters(self) -> list[ToolParameter]:
        """agent_name and instruction."""
        return [
            ToolParameter("agent_name", "string", f"One of: {', '.join(self._agents)}"),
            ToolParameter("instruction", "string", "The task in full"),
        ]

    async def execute(self, **params: Any) -> ToolResult:
        """Check the arguments; `data` says where to route."""
        agent, instruction = str(params.get("agent_name", "")), str(params.get("instruction", ""))
        if agent not in self._agents:
            return ToolResult(
                success=False, error=f"unknown agent '{agent}'; valid agents: {', '.join(self._agents)}"
            )
        if not instruction.strip():
            return ToolResult(success=False, error="the instruction is empty; say what the agent shall do")
        return ToolResult(
            success=True,
            data={"agent_name": agent, "instruction": instruction},
            metadata={"_is_routing_instruction": True},
        )


__all__ = [
    "AgentToolkit",
    "BaseTool",
    "CallSubagentTool",
    "CreateArtifactTool",
    "ReadArtifactTool",
    "RewriteArtifactTool",
    "ToolCall",
    "ToolParameter",
    "ToolPermission",
    "ToolPromptGenerator",
    "ToolRegistry",
    "ToolResult",
    "UpdateArtifactTool",
    "WebFetchTool",
    "WebSearchTool",
    "XMLToolCallParser",
    "create_artifact_tools",
    "format_tool_result",
    "parse_tool_calls",
    "xml_section",
]
