"""LangChain: our tools as StructuredTools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.tool import Tool
from pegboard.interop.door import imported, open_door

_MISSING = "LangChain is not installed"
_HINT = "pip install 'pegboard[interop]'"


def to_langchain(tools: Any, **options: Any) -> list[Any]:
    """Our tools as LangChain StructuredTools; every call goes through the executor.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Returns:
        Tools whose message has our text (status `error` where the call failed) and whose artifact is the
        ToolResult.

    Raises:
        Unavailable: langchain-core is not installed.
    """
    try:
        from langchain_core.tools import StructuredTool, ToolException
    except ImportError as error:
        raise Unavailable(_MISSING, hint=_HINT) from error
    door = open_door(tools, options)

    def exported(tool: Tool) -> Any:
        async def call(**arguments: Any) -> tuple[str, Any]:
            result = await door.call(tool.name, arguments)
            if not result.ok:
                raise ToolException(str(result))
            return str(result), result

        def blocking(**arguments: Any) -> tuple[str, Any]:
            from pegboard.core.families import load

            return cast("tuple[str, Any]", load("pegboard.app.builtins:run_sync")(call(**arguments)))

        return StructuredTool.from_function(
            func=blocking,
            coroutine=call,
            name=tool.name,
            description=tool.description,
            args_schema=dict(tool.schema),
            response_format="content_and_artifact",
            infer_schema=False,
            handle_tool_error=True,
        )

    return [exported(t) for t in door.toolkit]


def from_langchain(tool: Any, *, effects: Iterable[Effect] | None = None) -> Tool:
    """A LangChain tool as ours.

    Args:
        tool: a BaseTool.
        effects: what it does; None = opaque, `call langchain/NAME`, which asks.
    """
    given: Any = tool.args_schema
    if not isinstance(given, Mapping):
        given = tool.tool_call_schema
    if not isinstance(given, Mapping):
        given = given.model_json_schema()
    schema = cast("Mapping[str, Any]", given)

    async def call(**arguments: Any) -> Any:
        message = await tool.ainvoke(
            {"type": "tool_call", "id": "pegboard", "name": tool.name, "args": arguments}
        )
        if getattr(message, "status", "success") == "error":
            raise ToolError(str(message.content))
        return message.content if hasattr(message, "content") else message

    return imported(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=schema,
        framework="langchain",
        effects=effects,
    )
