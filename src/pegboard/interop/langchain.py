"""LangChain: our tools as StructuredTools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pegboard.core.content import Image, Text
from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.dialects.schemas import sendable
from pegboard.interop.executor import as_executor, from_data_url, images, wrap_foreign

_MISSING = "LangChain is not installed"
_HINT = "pip install 'pegboard[interop]'"


def to_langchain(tools: Any, **options: Any) -> list[Any]:
    """Our tools as LangChain StructuredTools; every call goes through the executor.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Returns:
        Tools whose message has our text, images as blocks of their own (status `error` where the call failed),
        and whose artifact is the ToolResult.

    Raises:
        Unavailable: langchain-core is not installed.
    """
    try:
        from langchain_core.tools import StructuredTool, ToolException
    except ImportError as error:
        raise Unavailable(_MISSING, hint=_HINT) from error
    door = as_executor(tools, options)

    def exported(tool: Tool) -> Any:
        async def call(**arguments: Any) -> tuple[Any, Any]:
            result = await door.call(tool.name, arguments)
            if not result.ok:
                raise ToolException(str(result))
            shown = [
                {"type": "image", "base64": base64.b64encode(i.data).decode(), "mime_type": i.mime_type}
                for i in images(result)
            ]
            return [{"type": "text", "text": str(result)}, *shown] if shown else str(result), result

        def blocking(**arguments: Any) -> tuple[Any, Any]:
            from pegboard.core.toolkit import import_object

            return cast("tuple[Any, Any]", import_object("pegboard.app.builtins:run_sync")(call(**arguments)))

        return StructuredTool.from_function(
            func=blocking,
            coroutine=call,
            name=tool.name,
            description=tool.description,
            args_schema=sendable(tool.schema),
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
        return _content(message.content) if hasattr(message, "content") else message

    return wrap_foreign(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=schema,
        framework="langchain",
        effects=effects,
    )


def _content(content: Any) -> Any:
    """LangChain's content: text, or blocks of which images become ours."""
    if not isinstance(content, list):
        return content
    out: list[Any] = []
    for block in cast("list[Any]", content):
        made = _block(block)
        if made is None:
            return cast("list[Any]", content)
        out.append(made)
    return ToolResult(content=tuple(out))


def _block(block: Any) -> Text | Image | None:
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, Mapping):
        return None
    row = cast("Mapping[str, Any]", block)
    match row.get("type"):
        case "text":
            return Text(str(row.get("text", "")))
        case "image" if "base64" in row:
            mime = str(row.get("mime_type", "image/png"))
            return from_data_url(f"data:{mime};base64,{row['base64']}")
        case "image_url":
            given: Any = row.get("image_url")
            url = cast("Mapping[str, Any]", given).get("url") if isinstance(given, Mapping) else given
            return from_data_url(str(url))
        case _:
            return None
