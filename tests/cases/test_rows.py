"""Rows of the ledger that are about several pieces together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard import PURE, AllowOnce, Executor, Toolkit, builtin, tool
from tests.cases.kit import door
from tests.ledger import owes


@owes("A-04", "A-05", "A-06")
async def test_an_auto_tool_runs_and_completes_and_a_confirm_tool_is_asked_first() -> None:
    @tool(effects=PURE)
    def auto() -> str:
        """Auto."""
        return "ran"

    @tool(effects=PURE, level="confirm")
    def confirm() -> str:
        """Confirm."""
        return "ran"

    def types(events: Any) -> list[str]:
        return [e.type for e in events]

    free = Executor([auto, confirm])
    assert str(await free.call("auto")) == "ran"
    assert types(free.events) == ["call.started", "call.finished"]

    refused = await free.call("confirm")
    assert not refused.ok and refused.error is not None and refused.error.code == "permission_denied"
    asked = Executor([confirm], approver=AllowOnce())
    assert str(await asked.call("confirm")) == "ran"
    before = types(asked.events)
    assert "permission.request" in before[: before.index("call.started")]


@owes("N-64", "N-02")
async def test_a_command_runs_in_the_named_folder_with_both_streams_kept(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with door(tmp_path, "exec", approver=AllowOnce()) as tools:
        result = await tools.call("exec", {"command": "pwd; echo err >&2", "working_dir": "sub"})

    assert result.data["stdout"].strip() == str((tmp_path / "sub").resolve())
    assert result.data["stderr"].strip() == "err"


@owes("N-02", "N-33", "K-30")
@pytest.mark.parametrize("name", ["read_file", "list_dir"])
async def test_files_outside_are_refused_and_commands_that_would_destroy_are_denied(
    name: str, tmp_path: Path
) -> None:
    inside = tmp_path / "w"
    inside.mkdir()
    (tmp_path / "w2").mkdir()
    (tmp_path / "w2" / "f").write_text("secret")
    async with door(inside, name, "exec") as tools:
        for path in ("../w2/f", str(tmp_path / "w2" / "f"), "/etc/passwd", str(tmp_path / "w2")):
            assert "secret" not in str(await tools.call(name, {"path": path}))
            assert not (await tools.call(name, {"path": path})).ok
        for command in ("rm -rf /", "mkfs.ext4 /dev/sda", "shutdown now"):
            denied = await tools.call("exec", {"command": command})
            assert denied.error is not None and denied.error.code == "permission_denied"


@owes("K-21", "A-20")
async def test_each_agent_has_the_tools_of_its_own_kit_alone() -> None:
    @tool(effects=PURE)
    def search() -> str:
        """Search."""
        return "found"

    @tool(effects=PURE)
    def erase() -> str:
        """Erase."""
        return "gone"

    everything = Toolkit([search, erase])
    lead, crawler = Executor(everything), Executor(everything.keep("search"))

    assert (await lead.call("erase")).ok
    refused = await crawler.call("erase")
    assert not refused.ok and refused.error is not None and refused.error.code == "unknown_tool"
    assert [t["function"]["name"] for t in everything.keep("search").schemas("openai-chat")] == ["search"]


@owes("K-75", "A-49", "A-50", "A-52", "U-05", "U-07")
async def test_an_artifact_keeps_every_version(tmp_path: Path) -> None:
    kit = builtin("create_artifact", "read_artifact", "rewrite_artifact")
    async with Executor(kit, workspace=tmp_path, mode="full") as tools:
        made = await tools.call("create_artifact", {"id": "plan", "title": "Plan", "content": "one\n"})
        again = await tools.call("create_artifact", {"id": "plan", "title": "Plan", "content": "x"})
        await tools.call("rewrite_artifact", {"id": "plan", "content": "two\n"})
        old = await tools.call("read_artifact", {"id": "plan", "version": 1})
        new = await tools.call("read_artifact", {"id": "plan"})
        none = await tools.call("read_artifact", {"id": "plan", "version": 9})

    assert made.ok and not again.ok
    assert "one" in str(old) and "two" in str(new)
    assert not none.ok and "Version 9 not found" in str(none)


def test_the_families_of_the_workspace_are_there() -> None:
    wanted = {"read_file", "write_file", "edit_file", "list_dir", "delete_file", "glob", "grep", "apply_patch",
              "exec", "process", "ask_user"}  # fmt: skip
    for name in wanted:
        one = builtin(name)
        described = one.schemas("openai-chat")[0]["function"]
        assert described["description"] and described["parameters"]["type"] == "object"
