"""PydanticAI: our tools as its Tools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.tool import Tool
from pegboard.interop.door import imported, open_door


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
        from pydantic_ai import ModelRetry
        from pydantic_ai import Tool as TheirTool
    except ImportError as error:
        raise Unavailable("PydanticAI is not installed", hint="pip install 'pegboard[interop]'") from error
    door = open_door(tools, options)

    def exported(tool: Tool) -> Any:
        async def call(**arguments: Any) -> str:
            result = await door.call(tool.name, arguments)
            if result.error is not None and result.error.code == "invalid_arguments":
                raise ModelRetry(str(result.error))
            return str(result)

        return TheirTool.from_schema(
            call, name=tool.name, description=tool.description, json_schema=dict(tool.schema)
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
            return await schema.call(valid, context)
        except ModelRetry as retry:
            raise ToolError(str(retry), code="retry", retryable=True) from retry

    return imported(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=schema.json_schema,
        framework="pydantic_ai",
        effects=effects,
    )
