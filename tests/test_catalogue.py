"""The catalogue: table, file, function, test and page of every tool have one name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pegboard.app.builtins import builtin
from pegboard.app.executor import Executor
from pegboard.core.policy.approval import AllowOnce
from pegboard.core.tool import Tool, tool
from pegboard.core.toolkit import import_object
from pegboard.mcp.client import MCPServer
from pegboard.tools import DEFAULT, TOOLS
from tests.ledger import owes

ROOT = Path(__file__).resolve().parents[1]
TESTS = [p for p in (ROOT / "tests").rglob("test_*.py") if p.name != Path(__file__).name]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_found_by_its_name_everywhere(name: str) -> None:
    tool = import_object(TOOLS[name])

    assert isinstance(tool, Tool)
    assert tool.name == name
    assert TOOLS[name].startswith(f"pegboard.tools.{name}:")
    assert (ROOT / f"docs/tools/{name}.md").is_file()
    assert any(name in p.read_text(encoding="utf-8") for p in TESTS)


def test_no_tool_file_is_missing_from_the_table() -> None:
    files = {p.stem for p in (ROOT / "src/pegboard/tools").glob("*.py") if not p.stem.startswith("_")}

    assert files == set(TOOLS)
    assert set(DEFAULT) <= set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_every_schema_builds_and_describes_every_parameter(name: str) -> None:
    tool = import_object(TOOLS[name])

    assert tool.schema["type"] == "object"
    assert len(tool.description) > 20
    undescribed = [p for p, s in tool.schema["properties"].items() if not s.get("description")]
    assert undescribed == []


FAMILIES = {
    "files": (
        "read_file",
        "write_file",
        "edit_file",
        "list_dir",
        "glob",
        "grep",
        "apply_patch",
        "delete_file",
    ),
    "shell": ("exec", "process"),
    "web": ("web_search", "web_fetch"),
    "browser": ("browser",),
    "message": ("message",),
    "cron": ("cron",),
    "subagents": ("spawn", "sessions_spawn", "call_subagent", "subagents"),
    "sessions": ("sessions_list", "sessions_history", "sessions_send", "session_status", "agents_list"),
    "canvas": ("canvas",),
    "image": ("image", "image_generate", "image_describe"),
    "gateway": ("gateway",),
}
"""The families that the documents list, and the tools that each of them is."""


SERVER = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    reply = {"code": -32601, "message": "no"}
    if m.get("method") == "initialize":
        reply = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif m.get("method") == "tools/list":
        reply = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
    elif m.get("method") == "tools/call":
        reply = {"content": [{"type": "text", "text": "five"}]}
    if "id" in m:
        key = "error" if "code" in reply else "result"
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], key: reply}), flush=True)
"""
"""A server of the simplest kind, which starts at once."""


@owes("N-01", "D-02", "M-01")
async def test_one_agent_can_have_every_family_with_tools_of_mcp_and_of_its_own(tmp_path: Path) -> None:
    @tool(effects=[])
    async def greet(name: str) -> str:
        """Greet somebody.

        Args:
            name: Whom.
        """
        return f"Hello, {name}."

    names = [name for family in FAMILIES.values() for name in family]
    served = MCPServer("s", command=sys.executable, args=["-c", SERVER])
    async with Executor(
        [builtin(*names), greet, served], workspace=tmp_path, mode="full", approver=AllowOnce()
    ) as executor:
        await executor.refresh_tools()
        offered = set(executor.toolkit.names)
        calls = [
            await executor.call(name, arguments)
            for name, arguments in (
                ("greet", {"name": "Ann"}), ("mcp_s_add", {"a": 2}), ("exec", {"command": "echo hello"}),
                ("write_file", {"path": "a.txt", "content": "x"}), ("cron", {"action": "list"}),
                ("subagents", {"action": "list"}), ("gateway", {}),
            )
        ]  # fmt: skip

    assert {*names, "greet", "mcp_s_add"} <= offered
    assert [call.error for call in calls] == [None] * len(calls)
    assert str(calls[0]) == "Hello, Ann." and str(calls[1]) == "five" and "hello" in str(calls[2])
