"""OpenAI Agents SDK: our tools as FunctionTools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pegboard.core.effects import Effect
from pegboard.core.errors import Unavailable
from pegboard.core.tool import Tool
from pegboard.interop.door import imported, open_door


def to_openai_agents(tools: Any, **options: Any) -> list[Any]:
    """Our tools for `Agent(tools=…)` of the Agents SDK; every call goes through the executor.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Raises:
        Unavailable: openai-agents is not installed.
    """
    try:
        from agents import FunctionTool
    except ImportError as error:
        raise Unavailable(
            "the Agents SDK is not installed", hint="pip install 'pegboard[interop]'"
        ) from error
    door = open_door(tools, options)

    def exported(tool: Tool) -> Any:
        async def call(context: Any, arguments: str) -> str:
            return str(await door.call(tool.name, arguments, id=getattr(context, "tool_call_id", None)))

        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.schema),
            on_invoke_tool=call,
            # Our own signature validates; the strict subset would lose defaults and open objects.
            strict_json_schema=False,
        )

    return [exported(t) for t in door.toolkit]


def from_openai_agents(tool: Any, *, effects: Iterable[Effect] | None = None, context: Any = None) -> Tool:
    """A FunctionTool of the Agents SDK as ours.

    Args:
        tool: a FunctionTool, for example made with `@function_tool`.
        effects: what it does; None = opaque, `call openai_agents/NAME`, which asks.
        context: what its RunContextWrapper holds.
    """
    from agents.tool_context import ToolContext

    from pegboard.core.context import current_context

    async def call(**arguments: Any) -> Any:
        text = json.dumps(arguments)
        inner = ToolContext(
            context=context,
            tool_name=tool.name,
            tool_call_id=current_context().call_id,
            tool_arguments=text,
        )
        return await tool.on_invoke_tool(inner, text)

    return imported(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=tool.params_json_schema,
        framework="openai_agents",
        effects=effects,
        timeout_s=tool.timeout_seconds,
    )
