"""create_tool: any function is a tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from pegboard.core.adapters import AdapterOptions, opaque
from pegboard.core.errors import BuildError
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Tool
from pegboard.core.toolkit import import_object

_ALLOWED: Final = AdapterOptions(at_least="allow")


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
    """A tool from any function or lambda.

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


def BrowserTool() -> Tool:
    """The tool `browser`, as its class is called where it stands beside functions."""
    return cast(Tool, import_object("pegboard.tools.browser:browser"))


class AIFunctionFactory:
    """The document's spelling of `create_tool`."""

    create = staticmethod(create_tool)
