"""Microsoft Agent Framework: our tools as its FunctionTools, and its tools as ours (extra `interop`)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, cast

from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.dialects.schemas import sendable
from pegboard.interop.executor import as_executor, framework_approver, images, question, wrap_foreign

_EXECUTOR = "pegboard_executor"
"""Where a tool of ours has its executor, for the middleware."""


def to_agent_framework(tools: Any, **options: Any) -> list[Any]:
    """Our tools for `Agent(tools=…)` of the Agent Framework; every call goes through the executor.

    Give the agent `middleware=[approval_middleware()]` too: then a call that the policy asks about becomes an
    approval request of the framework. Without it such a call is refused, unless the executor has an approver.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Raises:
        Unavailable: agent-framework-core is not installed.
    """
    make = _framework().FunctionTool
    door = as_executor(tools, options)
    # What it answers is only asked for within the middleware; elsewhere it refuses.
    framework_approver(door)

    def exported(tool: Tool) -> Any:
        async def call(**arguments: Any) -> Any:
            return _sent(await door.call(tool.name, arguments))

        return make(
            name=tool.name,
            description=tool.description,
            func=call,
            input_model=sendable(tool.schema),
            additional_properties={_EXECUTOR: door},
        )

    return [exported(tool) for tool in door.toolkit]


def approval_middleware() -> Any:
    """Middleware for `Agent(middleware=[…])` by which the framework's user approves calls of our tools.

    The request has effects and changes in its `additional_properties`. A yes (`to_function_approval_response(True)`)
    holds for exactly that call: if it would do something else by then, it is asked again.

    Raises:
        Unavailable: agent-framework-core is not installed.
    """
    framework = _framework()

    class Approvals(framework.FunctionMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            known: Any = getattr(context.function, "additional_properties", None)
            door = cast("dict[str, Any]", known or {}).get(_EXECUTOR)
            if door is None:
                await call_next()
                return
            name, arguments = context.function.name, dict(context.arguments)
            id, occurrence = context.metadata["call_id"], context.metadata.get("function_call_occurrence_id")
            answer = context.metadata.get("approval_response")
            result, asked = await framework_approver(door).call(
                door, name, arguments,
                id=str(occurrence or id), confirmed=getattr(answer, "approved", None) is True,
                by="the user of Agent Framework",
            )  # fmt: skip
            if asked is None:
                context.result = _sent(result)
                return
            asking = framework.Content.from_function_call(
                call_id=id, name=name, arguments=arguments, id=occurrence
            )
            context.result = framework.Content.from_function_approval_request(
                id=occurrence or id, function_call=asking, additional_properties=question(asked)
            )
            raise framework.MiddlewareTermination(f"{name} needs approval")

    return Approvals()


def _framework() -> Any:
    try:
        return import_module("agent_framework")
    except ImportError as error:
        raise Unavailable(
            "Microsoft Agent Framework is not installed", hint="pip install 'pegboard[interop]'"
        ) from error


def _sent(result: ToolResult) -> Any:
    """Our result as the framework's contents; the model reads the text of a failure."""
    make = _framework().Content
    return [make.from_text(str(result)), *(make.from_data(i.data, i.mime_type) for i in images(result))]


def from_agent_framework(tool: Any, *, effects: Iterable[Effect] | None = None) -> Tool:
    """A FunctionTool of the Agent Framework as ours.

    Args:
        tool: a FunctionTool, for example made with `@tool`.
        effects: what it does; None = opaque, `call agent_framework/NAME`, which asks.

    Raises:
        Unavailable: it is only declared, so nothing here can run it.
    """
    if tool.declaration_only:
        raise Unavailable(f"{tool.name} is declared only and cannot be run here")

    async def call(**arguments: Any) -> Any:
        from pegboard.core.context import current_context

        try:
            found = await tool.invoke(arguments=arguments, tool_call_id=current_context().call_id)
        except TypeError as error:
            raise ToolError(str(error), code="invalid_arguments") from error
        return ToolResult(content=tuple(_block(one) for one in found))

    return wrap_foreign(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=tool.parameters(),
        framework="agent_framework",
        effects=effects,
    )


def _block(content: Any) -> Text | Image | Audio | File:
    import base64

    if content.type == "data" and (uri := str(content.uri)).startswith("data:"):
        data = base64.b64decode(uri.partition(",")[2])
        mime = str(content.media_type)
        if mime.startswith("image/"):
            return Image(data=data, mime_type=mime)
        return (
            Audio(data=data, mime_type=mime)
            if mime.startswith("audio/")
            else File(name="file", mime_type=mime, data=data)
        )
    return Text(content.text if content.type == "text" else str(content.to_dict()))


__all__ = ["approval_middleware", "from_agent_framework", "to_agent_framework"]
