"""Tools of foreign servers that our own server offers on."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from pytest import raises

from pegboard.app.executor import Executor
from pegboard.core.effects import PURE
from pegboard.core.errors import Unavailable
from pegboard.core.tool import Tool, tool
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.client import MCPServer
from pegboard.mcp.naming import Style
from pegboard.mcp.upstream import Upstream, could_name
from tests.ledger import owes
from tests.waiting import soon

PROGRAM = """
import json, sys
if len(sys.argv) > 1: open(sys.argv[1]).read()
for line in sys.stdin:
    m = json.loads(line)
    reply = {"code": -32601, "message": "no"}
    if m.get("method") == "initialize":
        reply = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "u", "version": "1"}}
    elif m.get("method") == "tools/list":
        reply = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("read_it", "drop_it")]}
    if "id" in m:
        key = "error" if "code" in reply else "result"
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], key: reply}), flush=True)
"""


@tool(effects=PURE)
async def own() -> str:
    """One of our own."""
    return "own"


def server(folder: Path, *words: str, name: str = "up", style: Style | None = None) -> MCPServer:
    (folder / "up.py").write_text(PROGRAM)
    return MCPServer(name, command=sys.executable, args=[str(folder / "up.py"), *words], style=style)


@owes("K-81")
async def test_only_named_tools_are_offered_on_and_each_is_told_once(tmp_path: Path) -> None:
    told: list[Tool] = []
    up = Upstream(server(tmp_path), ["mcp_up_read*"], offers=told.append)
    try:
        first, again = await up.tools(), await up.tools()
    finally:
        await up.aclose()

    assert [t.name for t in first] == [t.name for t in again] == ["mcp_up_read_it"] == [t.name for t in told]
    assert up.revision == 1
    assert first[0].kinds() == ("call",)


@owes("K-78", "K-81")
async def test_a_server_that_is_slow_to_start_holds_up_nobody_and_comes_later(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = server(tmp_path, str(gate))
    told: list[Tool] = []
    up = Upstream(slow, ["*"], offers=told.append, timeout_s=0.0)
    async with Executor([Toolkit([own]), up]) as door:
        await door.refresh_tools()
        before = list(door.toolkit.names)
        # Its start waits for somebody at the other end of this pipe.
        await asyncio.to_thread(gate.write_text, "go")
        await soon(lambda: door.tools_changed, "the list of the slow server")
        await door.refresh_tools()
        after = list(door.toolkit.names)

    assert before == ["own"]
    assert after == ["own", "mcp_up_read_it", "mcp_up_drop_it"] and len(told) == 2


@owes("K-78", "K-81")
async def test_a_call_of_a_tool_whose_server_is_still_starting_waits_for_that_start_alone(
    tmp_path: Path,
) -> None:
    gates = {name: tmp_path / f"gate-{name}" for name in ("up", "other")}
    for gate in gates.values():
        os.mkfifo(gate)
    slow = [
        Upstream(server(tmp_path, str(gate), name=name), ["*"], offers=lambda tool: None, timeout_s=0.0)
        for name, gate in gates.items()
    ]
    async with Executor([Toolkit([own]), *slow]) as door:
        await door.refresh_tools()
        waiting = asyncio.create_task(door.refresh_tools("mcp_up_read_it"))
        await door.refresh_tools("nobody_has_this")
        before = list(door.toolkit.names)
        await asyncio.to_thread(gates["up"].write_text, "go")
        await waiting
        after = list(door.toolkit.names)

    assert before == ["own"]
    assert after == ["own", "mcp_up_read_it", "mcp_up_drop_it"]


async def test_a_server_that_cannot_start_is_told_and_tried_again(tmp_path: Path) -> None:
    up = Upstream(MCPServer("gone", command=str(tmp_path / "nothing")), ["*"], offers=lambda tool: None)
    said: list[str] = []
    async with Executor([Toolkit([own]), up]) as door:
        door.on_warning = said.append
        await door.refresh_tools()

        assert list(door.toolkit.names) == ["own"]
        assert "gone" in said[0]
        with raises(Unavailable):
            await up.tools()


async def test_a_server_that_never_starts_is_ended_with_us(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    stuck = server(tmp_path, str(gate))
    up = Upstream(stuck, ["*"], offers=lambda tool: None, timeout_s=0.0)

    assert await up.tools() == []
    await up.aclose()

    with raises(Unavailable, match="closed"):
        await stuck.tools()


@pytest.mark.parametrize(
    ("pattern", "style", "could"),
    [
        ("mcp_up_read", "mcp", True), ("mcp_*", "mcp", True), ("*", "mcp", True), ("*_read", "mcp", True),
        ("write_file", "mcp", False), ("mcp_other_*", "mcp", False), ("mcp_upper_x", "mcp", False),
        ("[m]cp_up_x", "mcp", True), ("up__read", "double_underscore", True), ("mcp_up_x", "double_underscore", False),
        ("read", "raw", True),
    ],
)  # fmt: skip
def test_a_server_is_started_only_where_a_pattern_could_name_a_tool_of_it(
    pattern: str, style: Style, could: bool, tmp_path: Path
) -> None:
    assert could_name(pattern, server(tmp_path, style=style)) is could
