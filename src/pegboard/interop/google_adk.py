"""Google ADK: our tools as its BaseTools, and its tools as ours (extra `adk`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, cast

from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.effects import Effect
from pegboard.core.errors import ToolError, Unavailable
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.dialects.schemas import sendable
from pegboard.interop.executor import as_executor, framework_approver, images, question, wrap_foreign


def to_google_adk(tools: Any, **options: Any) -> list[Any]:
    """Our tools for `LlmAgent(tools=…)` of ADK; every call goes through the executor.

    A call that the policy asks about becomes a tool confirmation of ADK, with its effects and changes as payload. The
    yes holds for exactly that call. An approver of the executor is asked in its place.

    Args:
        tools: an Executor, a Toolkit or tools.
        options: for the Executor that is made where none was given.

    Returns:
        Tools whose response is `{"result": text}`, with images as parts, or `{"error": text}`.

    Raises:
        Unavailable: google-adk is not installed.
    """
    framework, types = _module("google.adk.tools"), _module("google.genai.types")
    door = as_executor(tools, options)
    approver = framework_approver(door)

    class Exported(framework.BaseTool):
        def __init__(self, tool: Tool) -> None:
            framework.BaseTool.__init__(self, name=tool.name, description=tool.description)
            self._schema = sendable(tool.schema)

        def _get_declaration(self) -> Any:
            return types.FunctionDeclaration(
                name=self.name, description=self.description, parameters_json_schema=self._schema
            )

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            given = tool_context.tool_confirmation
            if given is not None and not given.confirmed:
                return {"error": f"{self.name} was refused by the user; stop and say what you need"}
            id = str(tool_context.function_call_id)
            result, asked = await approver.call(
                door, self.name, args, id=id, confirmed=given is not None, by="the user of Google ADK"
            )
            if asked is not None and given is not None:
                # ADK asks only about calls that a model makes.
                return {
                    "error": f"what {self.name} would do has changed since the user approved it; call it again"
                }
            if asked is not None:
                tool_context.request_confirmation(
                    hint=f"{self.name} needs approval: {asked.reason}", payload=question(asked)
                )
                tool_context.actions.skip_summarization = True
                return {"error": f"{self.name} needs approval by the user"}
            if not result.ok:
                return {"error": str(result)}
            shown = [types.Part.from_bytes(data=i.data, mime_type=i.mime_type) for i in images(result)]
            return {"result": str(result), **({"images": shown} if shown else {})}

    return [Exported(tool) for tool in door.toolkit]


def from_google_adk(tool: Any, *, effects: Iterable[Effect] | None = None, context: Any = None) -> Tool:
    """A tool of ADK as ours.

    Args:
        tool: a BaseTool that runs here, for example a FunctionTool.
        effects: what it does; None = opaque, `call google_adk/NAME`, which asks.
        context: its ToolContext, for tools that use one.

    Raises:
        Unavailable: it is declared to the model alone, so nothing here can run it.
    """
    declared = tool._get_declaration()
    if declared is None:
        raise Unavailable(f"{tool.name} runs at the model's provider and not here")
    given: Any = declared.parameters_json_schema
    if given is None and declared.parameters is not None:
        given = declared.parameters.json_schema.model_dump(mode="json", exclude_none=True)
    schema = cast("Mapping[str, Any] | None", given)

    async def call(**arguments: Any) -> Any:
        return _content(await tool.run_async(args=arguments, tool_context=context))

    return wrap_foreign(
        call,
        name=tool.name,
        description=tool.description or "",
        schema=schema,
        framework="google_adk",
        effects=effects,
    )


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise Unavailable("Google ADK is not installed", hint="pip install 'pegboard[adk]'") from error


def _content(value: Any) -> Any:
    """ADK's return: an error is raised, parts with data become ours, anything else stays."""
    part_type = _module("google.genai.types").Part
    if isinstance(value, Mapping):
        row = cast("Mapping[str, Any]", value)
        if set(row) == {"error"}:
            raise ToolError(str(row["error"]))
        if set(row) == {"result"}:
            return row["result"]
        found = [p for v in row.values() for p in (cast("list[Any]", v) if isinstance(v, list) else [v])]
    else:
        found = cast("list[Any]", value) if isinstance(value, list) else [value]
    blocks = [_block(part) for part in found if isinstance(part, part_type) and part.inline_data is not None]
    if not blocks:
        return cast("object", value)
    texts = [Text(part) for part in found if isinstance(part, str)]
    return ToolResult(content=(*texts, *blocks))


def _block(part: Any) -> Text | Image | Audio | File:
    mime, data = str(part.inline_data.mime_type), bytes(part.inline_data.data)
    if mime.startswith("image/"):
        return Image(data=data, mime_type=mime)
    if mime.startswith("audio/"):
        return Audio(data=data, mime_type=mime)
    return File(name="file", mime_type=mime, data=data)
