"""Tool and BaseTool: 000's and 001's base classes, each with its own schema form and failure texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from pegboard.core import adapters
from pegboard.core.call.shape import as_tool_error
from pegboard.core.content import Text
from pegboard.core.errors import InternalError, PermissionDenied, ToolError
from pegboard.core.result import ToolResult
from pegboard.core.schema.foreign import ForeignSchema, from_property_map, is_property_map
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool as CoreTool


class Tool(ABC):
    """000's tool: `name`, `description`, `parameters` (a JSON Schema) and `execute(**kwargs) -> str`.

    Subclassing it says that the tool may run in mode `workspace` like the document's do; `effects` may
    say more exactly what it does, `permission` that it asks first.
    """

    _TYPE_MAP: ClassVar[dict[str, Any]] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }

    @property
    @abstractmethod
    def name(self) -> str:
        """The function-call name."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What the model reads."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """A JSON Schema object."""

    @abstractmethod
    async def execute(self, **kwargs: Any) -> str:
        """Do it."""

    def validate_params(self, params: Mapping[str, Any]) -> list[str]:
        """Each thing that does not fit, with its path (`.working_dir`, `[0]`); empty = valid."""
        return self._validate(dict(params), self.parameters, "")

    def _validate(self, val: Any, schema: Mapping[str, Any], path: str = "") -> list[str]:
        problems = ForeignSchema(schema, name=self.name).errors(val)
        return [f"{path}{p.path}: {p.message}" if path or p.path else p.message for p in problems]

    def to_schema(self) -> dict[str, Any]:
        """The OpenAI function form, parameters unchanged."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }

    def to_tool(self) -> CoreTool:
        """The same as a Pegboard tool."""
        return adapters.adapt(self, _STYLE_000)


class BaseTool(ABC):
    """001's tool: class attributes and `run(**kwargs) -> str`.

    `parameters` holds the bare properties; one with a `default` is optional. Without it the types of
    `run` say what it takes.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    @abstractmethod
    async def run(self, **kwargs: Any) -> str:
        """Do it."""

    def to_schema(self) -> dict[str, Any]:
        """The Anthropic form."""
        schema = _schema_001(self)
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": {
                "type": "object",
                "properties": schema.get("properties", {}),
                "required": list(schema.get("required", ())),
            },
        }

    def validate_params(self, params: Mapping[str, Any]) -> list[str]:
        """As 000's."""
        return [str(p) for p in ForeignSchema(_schema_001(self), name=self.name).errors(dict(params))]

    def to_tool(self) -> CoreTool:
        """The same as a Pegboard tool."""
        return adapters.adapt(self, _STYLE_001)


def _schema_001(tool: Any) -> Mapping[str, Any]:
    given = getattr(tool, "parameters", None)
    if isinstance(given, Mapping):
        return from_property_map(given) if is_property_map(given) else given  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return Signature.of(tool.run, name=tool.name).schema


def _raised_000(name: str, error: Exception) -> ToolError:
    """`Error executing {name}: {e}`; the operating system's own text stays out (N-121)."""
    return InternalError(f"Error executing {name}: {_shown(error)}", details={"type": type(error).__name__})


def _raised_001(name: str, error: Exception) -> ToolError:
    """`Tool error: {TypeName}: {message}`."""
    kind = type(error).__name__
    return InternalError(f"Tool error: {kind}: {_shown(error)}", details={"type": kind, "worded": True})


def _shown(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        safe = as_tool_error(error)
        return (
            safe.message if isinstance(safe, PermissionDenied) else (error.strerror or type(error).__name__)
        )
    return str(error) or f"{type(error).__name__} (it carries no message)"


def _returned_000(value: Any) -> Any:
    """A text that starts with `Error` is a failure; the hint is put behind it."""
    if isinstance(value, str) and value.startswith("Error"):
        return ToolResult.failed(ToolError(value))
    return value


def _returned_001(value: Any) -> Any:
    """The same in 001: a failure, but its text stays exactly as it is."""
    if isinstance(value, str) and value.startswith("Error"):
        return ToolResult(content=(Text(value),), error=ToolError(value))
    return value


def _render_001(result: ToolResult, arguments: Mapping[str, Any]) -> ToolResult:
    """001 has no hint behind its own texts."""
    error = result.error
    if error is not None and error.details.get("worded"):
        return replace(result, content=(Text(error.message),))
    return result


_STYLE_000: Final = adapters.AdapterOptions(
    at_least="allow", by_position=False, map_error=_raised_000, map_result=_returned_000
)
_STYLE_001: Final = adapters.AdapterOptions(
    at_least="allow", by_position=False, map_error=_raised_001, map_result=_returned_001, render=_render_001
)
