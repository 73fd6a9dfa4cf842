"""PydanticAI: our tools as its Tools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.result import ToolResult, to_jsonable
from pegboard.core.tool import Tool
from pegboard.dialects.schemas import sendable
from pegboard.interop.executor import as_executor, images, wrap_foreign


def to_pydantic_ai(tools: Any, **options: Any) -> list[Any]:
    """Our tools for `Agent(tools=…)` of PydanticAI; every call goes through the executor.

    A failed call comes back as text, so that the model may correct itself; a wrong argument and an unknown
    thing are told as ModelRetry.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Raises:
        Unavailable: pydantic-ai-slim is not installed.
    """
    try:
        from pydantic_ai import BinaryContent, ModelRetry, ToolReturn
        from pydantic_ai import Tool as TheirTool
    except ImportError as error:
        raise Unavailable("PydanticAI is not installed", hint="pip install 'pegboard[interop]'") from error
    door = as_executor(tools, options)

    def exported(tool: Tool) -> Any:
        async def call(**arguments: Any) -> Any:
            result = await door.call(tool.name, arguments)
            if result.error is not None and result.error.code == "invalid_arguments":
                raise ModelRetry(str(result.error))
            shown = [BinaryContent(i.data, media_type=i.mime_type) for i in images(result)]
            return ToolReturn(str(result), content=shown) if shown else str(result)

        return TheirTool.from_schema(
            call, name=tool.name, description=tool.description, json_schema=sendable(tool.schema)
        )

    return [exported(t) for t in door.toolkit]


def from_pydantic_ai(tool: Any, *, effects: Iterable[Effect] | None = None, deps: Any = None) -> Tool:
    """A PydanticAI Tool as ours.

    Args:
        tool: a `pydantic_ai.Tool`.
        effects: what it does; None = opaque, `call pydantic_ai/NAME`, which asks.
        deps: what its RunContext holds, for tools that take one.
    """
    from pydantic_ai import ModelRetry, RunContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    schema = tool.function_schema

    async def call(**arguments: Any) -> Any:
        context: Any = RunContext(deps=deps, model=TestModel(), usage=RunUsage(), tool_name=tool.name)
        try:
            valid = schema.validator.validate_python(arguments)
            return _content(await schema.call(valid, context))
        except ModelRetry as retry:
            raise ToolError(str(retry), code="retry", retryable=True) from retry

    return wrap_foreign(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=schema.json_schema,
        framework="pydantic_ai",
        effects=effects,
    )


def _content(value: Any) -> Any:
    """PydanticAI's return: a ToolReturn or binary content becomes ours, anything else stays."""
    from pydantic_ai import BinaryContent, ToolReturn

    if isinstance(value, BinaryContent):
        return ToolResult(content=(_binary(value),))
    if not isinstance(value, ToolReturn):
        return value
    more: Any = value.content
    extra: list[Any] = [] if more is None else [more] if isinstance(more, str) else list(more)
    first: Any = value.return_value
    text = (
        first if isinstance(first, str) else json.dumps(to_jsonable(first), ensure_ascii=False, default=str)
    )
    blocks = [_binary(b) if isinstance(b, BinaryContent) else Text(str(b)) for b in extra]
    return ToolResult(content=(Text(text), *blocks), data=first)


def _binary(value: Any) -> Image | Audio | File:
    mime, data = str(value.media_type), bytes(value.data)
    if mime.startswith("image/"):
        return Image(data=data, mime_type=mime)
    if mime.startswith("audio/"):
        return Audio(data=data, mime_type=mime)
    return File(name="file", mime_type=mime, data=data)
