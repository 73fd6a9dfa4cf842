"""mcp: tools, calls and results as the Model Context Protocol writes them.

No connection and no validation here: package `mcp` has those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pegboard.core.content import Audio, Block, File, Image, ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.result import ToolResult
from pegboard.core.schema.json_schema import modern
from pegboard.core.secrets.clip import clip
from pegboard.core.transcript import AssistantMessage, Message, UserMessage
from pegboard.dialects import media, wire
from pegboard.dialects.names import MCP as NAMES
from pegboard.dialects.names import wire_name
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, ToolkitView
from pegboard.dialects.rendering import RenderedTools, ToolRenderer
from pegboard.dialects.schemas import sendable


class MCP:
    """`tools/list`, `tools/call`, and its result."""

    name = "mcp"

    def __init__(self) -> None:
        self._catalogue = ToolRenderer(self.name, NAMES, _render)

    def render_tools(self, toolkit: ToolkitView) -> list[dict[str, Any]]:
        """`[{name, description, inputSchema, outputSchema?}]`."""
        return self._catalogue.tools(toolkit)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """Nothing: the protocol takes JSON Schema 2020-12."""
        return ()

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """Calls as `tools/call` requests, results as CallToolResult, a person's words as prompt messages."""
        if isinstance(message, UserMessage):
            return [{"role": "user", "content": content_block(b)} for b in message.content]
        if isinstance(message, AssistantMessage):
            return [
                {
                    "jsonrpc": "2.0",
                    "id": wire.clean_text(call.id or ""),
                    "method": "tools/call",
                    "params": {
                        "name": wire_name(call.name, NAMES),
                        "arguments": wire.arguments_object(call.arguments),
                    },
                }
                for call in message.calls
            ]
        return [call_result(result) for result in message.results]

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The call of a `tools/call` request or of its params; of each, where it is a list of requests.

        Raises:
            ModelError: it is none.
        """
        many = cast("list[Any]", reply) if isinstance(reply, list) else [reply]
        return [self._call(wire.reply_dict(one, "tools/call"), toolkit) for one in many]

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """The calls as a message.

        Raises:
            ModelError: there is none.
        """
        return AssistantMessage(content=tuple(self.decode(reply, toolkit)), stop="tools")

    def stream(self, toolkit: ToolkitView | None = None) -> MCPStream:
        """A reader for requests that arrive one by one."""
        return MCPStream(self, toolkit)

    def _call(self, body: dict[str, Any], toolkit: ToolkitView | None) -> ToolCall:
        params = wire.as_dict(body.get("params")) or body
        name = wire.string(params.get("name"))
        if not name or body.get("method", "tools/call") != "tools/call":
            raise ModelError(f"not a tools/call request: {clip(wire.to_json(body), 0, 200)}")
        id = body.get("id")
        call = wire.call_of(str(id) if isinstance(id, int) else id, name, params.get("arguments"))
        return ToolCall(call.id, self._catalogue.own_name(name, toolkit), call.arguments)


class MCPStream:
    """Requests arrive whole: each is a call."""

    def __init__(self, dialect: MCP, toolkit: ToolkitView | None) -> None:
        self._dialect = dialect
        self._toolkit = toolkit
        self._calls: list[ToolCall] = []

    def feed(self, chunk: Any) -> list[Delta]:
        """The calls of one request or list of requests.

        Raises:
            ModelError: it is none.
        """
        out: list[Delta] = []
        for call in self._dialect.decode(chunk, self._toolkit):
            index = len(self._calls)
            out += [
                CallStartChunk(index, call.id or "", call.name),
                CallChunk(index, wire.arguments_text(call.arguments)),
            ]
            self._calls.append(call)
        return out

    def flush(self) -> list[Delta]:
        """Nothing: no piece is held back."""
        return []

    def finish(self) -> AssistantMessage:
        """All calls as a message."""
        return AssistantMessage(content=tuple(self._calls), stop="tools" if self._calls else "end")


def call_result(result: ToolResult) -> dict[str, Any]:
    """CallToolResult: `{content, isError}`; structured content is for who knows the output schema."""
    blocks = [content_block(b) for b in result.content]
    return {"content": blocks or [{"type": "text", "text": ""}], "isError": not result.ok}


def content_block(block: Block) -> dict[str, Any]:
    """A block as MCP content: text, image, audio, embedded resource or link."""
    match block:
        case Image(data=data, mime_type=mime):
            return {"type": "image", "data": media.base64_text(data), "mimeType": mime}
        case Audio(data=data, mime_type=mime):
            return {"type": "audio", "data": media.base64_text(data), "mimeType": mime}
        case File(data=bytes() as data, mime_type=mime):
            uri = wire.clean_text(block.uri or f"file:///{block.name}")
            blob = {"uri": uri, "mimeType": mime, "blob": media.base64_text(data)}
            return {"type": "resource", "resource": blob}
        case File() if block.uri:
            name, uri = wire.clean_text(block.name), wire.clean_text(block.uri)
            return {"type": "resource_link", "name": name, "uri": uri, "mimeType": block.mime_type}
        case _:
            return {"type": "text", "text": media.block_text(block)}


def _render(toolkit: ToolkitView) -> RenderedTools:
    tools: list[dict[str, Any]] = []
    for tool in toolkit:
        rendered: dict[str, Any] = {
            "name": wire_name(tool.name, NAMES),
            "description": tool.description,
            "inputSchema": sendable(tool.schema),
        }
        output = getattr(tool, "output_schema", None)
        # The protocol wants an object here; a bare text result needs no schema.
        if isinstance(output, Mapping) and cast("Mapping[str, Any]", output).get("type") == "object":
            rendered["outputSchema"] = modern(cast("Mapping[str, Any]", output))
        tools.append(rendered)
    return RenderedTools(tools)
