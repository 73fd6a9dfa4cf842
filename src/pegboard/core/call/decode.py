"""Lanes: what a pipeline settles about a tool with its first call, so that no later one looks it up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.call.call import PATH_RESOLVER
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Plan
from pegboard.core.errors import BuildError, UnknownTool
from pegboard.core.schema.decode import Decoded
from pegboard.core.schema.problems import format_json, short_name
from pegboard.core.tool import Tool

if TYPE_CHECKING:
    from pegboard.core.call.pipeline import Pipeline


class ToolBinding:
    """A tool in its pipeline.

    Attributes:
        tool: the tool.
        decode: reads its arguments; see `Signature.decode`.
        ports: what fills each injected parameter.
        opens: whether it opens its paths itself: it has some, and no port that resolves them.
        bare: whether its function is called with the decoded arguments and nothing else.
    """

    __slots__ = ("bare", "decode", "opens", "ports", "tool")

    def __init__(
        self,
        tool: Tool,
        decode: Callable[[str | Mapping[str, Any] | None], Decoded],
        ports: tuple[tuple[str, Any], ...],
        *,
        opens: bool,
    ) -> None:
        self.tool = tool
        self.decode = decode
        self.ports = ports
        self.opens = opens
        self.bare = not (ports or opens)


def bind_tool(
    pipeline: Pipeline, name: object, arguments: str | Mapping[str, Any] | None
) -> tuple[ToolBinding, str | Mapping[str, Any] | None]:
    """The lane of the tool that a call means, and the arguments that are meant for it.

    Raises:
        UnknownTool: there is none.
        InvalidArguments: a `call_tool` that names none.
    """
    called = ToolCall(None, cast(str, name), arguments)
    meant = pipeline.toolkit.unwrap_call(called)
    name = cast(object, meant.name)
    tool = (pipeline.toolkit.get(name) if isinstance(name, str) else None) or _resolve(pipeline, name)
    ports = pipeline.injected[tool.name]
    lane = ToolBinding(tool, tool.signature.reader(), ports, opens=_opens(pipeline, tool, ports))
    if meant is called and name == tool.name:
        pipeline.lanes[tool.name] = lane
    return lane, meant.arguments


def _opens(pipeline: Pipeline, tool: Tool, ports: tuple[tuple[str, Any], ...]) -> bool:
    resolver = pipeline.provide.get(PATH_RESOLVER)
    if resolver is None or tool.plan is not None or not tool.markers:
        return False
    return not any(port is resolver for _, port in ports)


def ports_of(pipeline: Pipeline, tool: Tool) -> tuple[tuple[str, Any], ...]:
    """What fills each injected parameter; found once, when the kit is built.

    Raises:
        BuildError: nothing does.
    """
    out: list[tuple[str, Any]] = []
    for name, port in tool.signature.inject.items():
        if port in (Plan, Context):
            out.append((name, port))
        elif (given := pipeline.provide.find(port)) is not None:
            out.append((name, given))
        elif name not in tool.signature.optional_inject:
            wanted = getattr(port, "__name__", str(port))
            raise BuildError(
                f"tool {tool.name!r} needs {wanted} for its parameter {name!r}, and nothing provides it; "
                f"pass provide=[…] with a {wanted} to the Executor or Agent, or leave the tool out with "
                f".without({tool.name!r})"
            )
    return tuple(out)


def _resolve(pipeline: Pipeline, name: object) -> Tool:
    if not isinstance(name, str):
        # What a model can send instead is JSON; a Python object here is its sender's mistake, told as well.
        name = format_json(name)
    tool = pipeline.toolkit.resolve(name)
    if tool is not None:
        return tool
    near = pipeline.toolkit.nearest(name)
    names = ", ".join(pipeline.toolkit.names) or "none"
    meant = f" Did you mean '{near[0]}'?" if near else ""
    raise UnknownTool(
        f"Tool {short_name(name)} not found. Available: {names}",
        hint=f"Call one of the available tools by its exact name.{meant}",
        details={"available": list(pipeline.toolkit.names), "nearest": near},
    )
