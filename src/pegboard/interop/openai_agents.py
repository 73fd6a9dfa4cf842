"""OpenAI Agents SDK: our tools as FunctionTools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from pegboard.core.content import Image, Text
from pegboard.core.effects import Effect
from pegboard.core.errors import Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.dialects.schemas import sendable
from pegboard.interop.executor import as_executor, data_url, from_data_url, images, wrap_foreign


def to_openai_agents(tools: Any, **options: Any) -> list[Any]:
    """Our tools for `Agent(tools=…)` of the Agents SDK; every call goes through the executor.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Raises:
        Unavailable: openai-agents is not installed.
    """
    try:
        from agents import FunctionTool, ToolOutputImage, ToolOutputText
    except ImportError as error:
        raise Unavailable(
            "the Agents SDK is not installed", hint="pip install 'pegboard[interop]'"
        ) from error
    door = as_executor(tools, options)

    def exported(tool: Tool) -> Any:
        async def call(context: Any, arguments: str) -> Any:
            result = await door.call(tool.name, arguments, id=getattr(context, "tool_call_id", None))
            shown = [ToolOutputImage(image_url=data_url(i)) for i in images(result)]
            return [ToolOutputText(text=str(result)), *shown] if shown else str(result)

        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=sendable(tool.schema),
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
        return _content(await tool.on_invoke_tool(inner, text))

    return wrap_foreign(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=tool.params_json_schema,
        framework="openai_agents",
        effects=effects,
        timeout_s=tool.timeout_seconds,
    )


def _content(value: Any) -> Any:
    """The SDK's output: its texts and pictures become ours, anything else stays."""
    from agents import ToolOutputImage, ToolOutputText

    blocks = cast("list[Any]", value) if isinstance(value, list) else [value]
    out: list[Text | Image] = []
    for block in blocks:
        if isinstance(block, ToolOutputText):
            out.append(Text(block.text))
        elif isinstance(block, ToolOutputImage) and (image := from_data_url(block.image_url or "")):
            out.append(image)
        else:
            return cast(Any, value)
    return ToolResult(content=tuple(out))
