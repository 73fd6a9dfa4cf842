"""Decode: from raw input to a call of a known tool with arguments that fit. No later stage sees raw input."""

from __future__ import annotations

from typing import Any, cast

from pegboard.core.call.call import Call, Parts, new_call_id
from pegboard.core.call.provide import Provided
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.effects import Plan
from pegboard.core.errors import BuildError, UnknownTool
from pegboard.core.schema.problems import format_json, short_name
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit


def decode(parts: Parts, sent: ToolCall, outer: Context) -> Call:
    """Resolve the tool's name, and decode the arguments by its signature.

    Raises:
        UnknownTool: no tool has that name or alias.
        InvalidArguments: every problem with the arguments at once.
    """
    started_s = parts.clock.monotonic()
    sent = parts.toolkit.unwrap_call(sent)
    name = cast(object, sent.name)
    tool = (parts.toolkit.get(name) if isinstance(name, str) else None) or _resolve(parts.toolkit, name)
    return Call(
        parts=parts,
        tool=tool,
        id=sent.id or new_call_id(),
        outer=outer,
        decoded=tool.signature.decode(sent.arguments),
        started_s=started_s,
    )


def _resolve(toolkit: Toolkit, name: object) -> Tool:
    if not isinstance(name, str):
        # A model can send any JSON here; it is shown as what it is.
        name = format_json(name)
    tool = toolkit.resolve(name)
    if tool is not None:
        return tool
    nearest = toolkit.nearest(name)
    names = ", ".join(toolkit.names) or "none"
    suggestion = f" Did you mean '{nearest[0]}'?" if nearest else ""
    raise UnknownTool(
        f"Tool {short_name(name)} not found. Available: {names}",
        hint=f"Call one of the available tools by its exact name.{suggestion}",
        details={"available": list(toolkit.names), "nearest": nearest},
    )


def ports_of(toolkit: Toolkit, provide: Provided) -> dict[str, tuple[tuple[str, Any], ...]]:
    """By tool, what fills each injected parameter; found when the toolkit is built.

    Raises:
        BuildError: nothing provides a port that a tool needs.
    """
    return {tool.name: _ports_of(tool, provide) for tool in toolkit}


def _ports_of(tool: Tool, provide: Provided) -> tuple[tuple[str, Any], ...]:
    ports: list[tuple[str, Any]] = []
    for name, port in tool.signature.inject.items():
        if port in (Plan, Context):
            ports.append((name, port))
        elif (provided := provide.find(port)) is not None:
            ports.append((name, provided))
        elif name not in tool.signature.optional_inject:
            needed = getattr(port, "__name__", str(port))
            raise BuildError(
                f"tool {tool.name!r} needs {needed} for its parameter {name!r}, and nothing provides it; "
                f"pass provide=[…] with a {needed} to the Executor or Agent, or leave the tool out with "
                f".without({tool.name!r})"
            )
    return tuple(ports)
