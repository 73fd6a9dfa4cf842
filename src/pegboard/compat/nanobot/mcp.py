"""MCPToolWrapper: one tool of an MCP server as a registry tool.

For code that holds a session of its own. Servers from the config go through `pegboard.mcp`, with pinning and
reconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from pegboard.core import adapters
from pegboard.core.effects import Effect
from pegboard.core.errors import TimedOut, ToolError
from pegboard.core.tool import Tool as CoreTool

_EMPTY: Mapping[str, Any] = {"type": "object", "properties": {}}


class MCPToolWrapper:
    """Both documents' constructors.

    `MCPToolWrapper(session, server_name, tool_def, tool_timeout=30)` (000) has the name
    `mcp_{server}_{tool}` and the whole input schema; `MCPToolWrapper(client, tool_def)` (001) keeps the
    server's name for the tool and shows its properties.

    Args:
        session: has `async call_tool(name, arguments)`.
        server: the server's name, or 001's tool definition as a dict.
        tool_def: 000's definition: an object or dict with name, description, inputSchema.
        tool_timeout: seconds for one call.
    """

    def __init__(
        self,
        session: Any,
        server: Any,
        tool_def: Any = None,
        tool_timeout: float = 30,
        *,
        server_name: str = "",
    ) -> None:
        definition = server if tool_def is None else tool_def
        self._session = session
        self._original = str(_field(definition, "name"))
        self._server = str(server) if tool_def is not None else server_name or "mcp"
        self._timeout_s = float(tool_timeout)
        schema = cast("Mapping[str, Any]", _field(definition, "inputSchema") or _EMPTY)
        self.name = f"mcp_{self._server}_{self._original}" if tool_def is not None else self._original
        self.description = str(_field(definition, "description") or self._original)
        self.parameters: dict[str, Any] = (
            dict(schema) if tool_def is not None else dict(schema.get("properties") or {})
        )
        self._schema = schema
        self._texts_only = tool_def is None

    async def execute(self, **kwargs: Any) -> str:
        """Call it; the blocks as text, other kinds by `str` (N-115).

        Raises:
            TimedOut: no answer within the timeout.
            ToolError: the server reported an error.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await self._session.call_tool(self._original, arguments=kwargs)
        except TimeoutError:
            raise TimedOut(
                f"(MCP tool call timed out after {self._timeout_s:g}s)", hint="Ask for less at once."
            ) from None
        blocks = list(result.content)
        parts = [
            b.text if hasattr(b, "text") else str(b)
            for b in blocks
            if hasattr(b, "text") or not self._texts_only
        ]
        text = "\n".join(parts) or "(no output)"
        if getattr(result, "isError", False) or getattr(result, "is_error", False):
            raise ToolError(text, code="mcp_tool_error")
        return text

    async def run(self, **kwargs: Any) -> str:
        """The same by 001's name: text blocks joined with newlines."""
        return await self.execute(**kwargs)

    def to_schema(self) -> dict[str, Any]:
        """000's OpenAI form, or 001's Anthropic form."""
        if not self._texts_only:
            return {
                "type": "function",
                "function": {
                    "name": self.name,
                    "description": self.description,
                    "parameters": self.parameters,
                },
            }
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": {
                "type": "object",
                "properties": self.parameters,
                "required": list(self._schema.get("required", ())),
            },
        }

    def to_tool(self) -> CoreTool:
        """The same as a Pegboard tool: its effect is `call server/tool`."""
        shape = {
            "name": self.name,
            "description": self.description,
            "parameters": self._schema,
            "execute": self.execute,
            "effects": (Effect("call", f"{self._server}/{self._original}"),),
        }
        return adapters.adapt(shape)


def _field(definition: Any, key: str) -> Any:
    if isinstance(definition, Mapping):
        return cast("Mapping[str, Any]", definition).get(key)
    found = getattr(definition, key, None)
    return getattr(definition, "input_schema", None) if found is None and key == "inputSchema" else found
