"""A typed function becomes a tool: validated, authorised, run, shaped, recorded."""

from __future__ import annotations

import asyncio

from pegboard import PURE, Executor, ToolCall, tool


@tool(effects=PURE)
def add(a: int, b: int = 2) -> int:
    """Add two whole numbers."""
    return a + b


async def main() -> None:
    """Call it well, badly, and twice in one turn."""
    executor = Executor([add])
    print(await executor.call("add", '{"a": "40"}'))
    print(await executor.call("add", {"c": 1}))
    for result in await executor.turn([ToolCall("1", "add", {"a": 1}), ToolCall("2", "ad", {"a": 1})]):
        print(result.call_id, result.ok)


asyncio.run(main())
