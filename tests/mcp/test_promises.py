"""What a server's settings and its own words promise: order, names, output schemas; peers are real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pegboard import AllowOnce, Executor, ToolCall
from pegboard import tool as our_tool
from pegboard.core.effects import PURE
from pegboard.mcp.client import MCPServer
from tests.ledger import owes
from tests.mcp.conftest import tool

Make = Callable[..., MCPServer]
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def call(server: MCPServer, name: str, arguments: dict[str, Any] | None = None) -> Any:
    async with Executor([server], approver=AllowOnce()) as door:
        return await door.call(name, arguments or {})


# -- order ------------------------------------------------------------------------------------


@owes("X-46")
@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.slow
async def test_calls_of_one_turn_go_side_by_side_only_where_the_server_opted_in(
    peer: Make, parallel: bool
) -> None:
    server = peer(
        tools=[tool("one"), tool("two")],
        behave={"one": "pair", "two": "pair"},
        _parallel=parallel,
        _timeout_s=1.0,
    )
    async with Executor([server], approver=AllowOnce()) as door:
        await door.refresh_tools()
        results = await door.turn(
            [
                ToolCall(id="a", name="mcp_s_one", arguments={}),
                ToolCall(id="b", name="mcp_s_two", arguments={}),
            ]
        )

    # The peer answers when both calls are there: in order the first one ends at its limit.
    assert [r.ok for r in results] == ([True, True] if parallel else [False, True])


# -- names ------------------------------------------------------------------------------------


@our_tool(effects=PURE)
async def search() -> str:
    """Search here."""
    return "ours"


@owes("X-39")
@pytest.mark.slow
async def test_the_chosen_style_names_the_tools_and_calls_reach_the_original(peer: Make) -> None:
    server = peer(tools=[tool("look.up")], results={"look.up": {"content": [{"type": "text", "text": "found"}]}},
                  _naming="double_underscore")  # fmt: skip

    (offered,) = await server.tools()
    result = await call(server, offered.name)

    assert offered.name.startswith("s__look_up_")
    assert str(result) == "found"


@owes("X-39")
@pytest.mark.slow
async def test_raw_names_refuse_a_collision_and_say_so(peer: Make) -> None:
    server = peer(tools=[tool("search"), tool("other")], _naming="raw")
    async with Executor([search, server], approver=AllowOnce()) as door:
        await door.refresh_tools()
        names = list(door.toolkit.names)
        result = await door.call("search", {})
        warnings = server.warnings

    assert names == ["search", "other"]
    assert str(result) == "ours"
    assert any("'search'" in w and "raw" in w for w in warnings)


# -- output schemas ---------------------------------------------------------------------------


@owes("G-13")
@pytest.mark.slow
async def test_structured_content_that_breaks_its_schema_is_an_error_that_forbids_to_repeat(
    peer: Make,
) -> None:
    lying = {"content": [{"type": "text", "text": "it is seven"}], "structuredContent": {"n": "seven"}}
    server = peer(tools=[tool("count", outputSchema=NUMBER)], results={"count": lying})

    result = await call(server, "mcp_s_count")

    assert result.error is not None and result.error.code == "invalid_output"
    assert ".n" in result.error.message and "'s'" in result.error.message
    assert result.data is None
    assert "it is seven" in str(result)
    assert "untrusted" in result.notes.labels


@owes("G-13")
@pytest.mark.slow
async def test_structured_content_that_fits_is_the_data_and_its_schema_is_ours_too(peer: Make) -> None:
    server = peer(
        tools=[tool("count", outputSchema=NUMBER)],
        results={"count": {"content": [], "structuredContent": {"n": 7}}},
    )

    (offered,) = await server.tools()
    result = await call(server, "mcp_s_count")

    assert result.ok and result.data == {"n": 7}
    assert offered.output_schema == NUMBER


@pytest.mark.parametrize(
    ("answer", "ok", "words"),
    [
        ({"content": [{"type": "text", "text": "7"}]}, True, "promises structured content and gave none"),
        ({"content": [{"type": "text", "text": "no"}], "isError": True, "structuredContent": {"why": "x"}}, False, "no"),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_a_missing_promise_is_told_and_an_error_owes_none(
    answer: Any, ok: bool, words: str, peer: Make
) -> None:
    server = peer(tools=[tool("count", outputSchema=NUMBER)], results={"count": answer})

    result = await call(server, "mcp_s_count")

    assert result.ok is ok
    assert words in str(result)


@pytest.mark.parametrize(
    "schema", ["x", {"$ref": "http://127.0.0.1:9/x"}, {"type": "object", "properties": 7}]
)
@pytest.mark.slow
async def test_an_output_schema_out_of_bounds_costs_the_check_and_not_the_tool(
    schema: Any, peer: Make
) -> None:
    server = peer(
        tools=[tool("count", outputSchema=schema)],
        results={"count": {"content": [], "structuredContent": {"n": 7}}},
    )

    async with asyncio.timeout(10):
        result = await call(server, "mcp_s_count")

    assert result.ok and result.data == {"n": 7}
