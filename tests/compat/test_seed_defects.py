"""The documents' known defects stay out (ledger 1.6): one promise each, through the surface that has the defect.

The other rows are promises of the part that they are about: the killed container in tests/shell/sandbox/test_docker.py,
the swapped link in tests/files/test_jail.py, the pinned address in tests/net.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pegboard import PURE, Executor, ToolCall, ToolResult, builtin, tool
from pegboard.compat.artifactflow import ToolRegistry as FlowRegistry
from pegboard.compat.artifactflow import parse_tool_calls
from pegboard.compat.nanobot import (
    BaseTool,
    SafetyHook,
    ToolCallRequest,
    ToolRegistry,
    current_origin,
    set_context,
)
from pegboard.core.errors import BuildError
from pegboard.core.toolkit import Toolkit
from pegboard.dialects import dialect
from tests.ledger import owes


class Say(BaseTool):
    name = "say"
    description = "Say it."

    async def run(self, text: str) -> str:
        if text == "boom":
            raise RuntimeError("no voice")
        return text


def shell(folder: Path, profile: str = "nanobot-net") -> Executor:
    return Executor(builtin("exec").profile(profile), workspace=folder, policy=["allow exec:*"])


@owes("D-03", "D-47")
def test_two_registries_share_no_tools_and_nothing_registers_itself() -> None:
    from pegboard.compat import nanobot

    first, second = ToolRegistry(), ToolRegistry()
    first.register(Say())

    assert "say" in first
    assert len(second) == 0
    assert "say" not in nanobot.tool_registry


@owes("D-60", "N-65")
@pytest.mark.slow
async def test_a_timeout_ends_the_command_and_its_children(tmp_path: Path) -> None:
    # Found by its words, since in a sandbox its process number is its own.
    mark = f"mark-{os.urandom(8).hex()}"
    command = f": {mark}; (while :; do touch beat; sleep 0.05; done) & sleep 30"
    async with shell(tmp_path) as door:
        began = time.monotonic()
        result = await door.call("exec", {"command": command, "timeout": 1})

        assert not result.ok
        assert time.monotonic() - began < 15
        assert (tmp_path / "beat").exists()
        assert [line for line in _command_lines() if mark in line] == []


def _command_lines() -> list[str]:
    lines: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(file.read_text(errors="replace"))
    return lines


@owes("D-24", "C-27", "X-18")
async def test_both_streams_are_kept_and_text_on_stderr_is_no_failure(tmp_path: Path) -> None:
    async with shell(tmp_path) as door:
        result = await door.call("exec", {"command": "echo out; echo warn >&2"})
        failed = await door.call("exec", {"command": "echo quiet; exit 3"})

    assert result.ok
    assert "out" in str(result)
    assert "warn" in str(result)
    assert not str(result).startswith("Error")
    assert failed.data["exit_code"] == 3


@owes("C-24")
@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("""printf '%s' 'a"b'""", 'a"b'),
        (r"""printf '%s' 'back\slash $HOME `x`'""", r"back\slash $HOME `x`"),
        ("""printf '%s' "$(printf 'in"ner')" """, 'in"ner'),
        ("printf '%s' \"it's\"", "it's"),
    ],
)
async def test_a_command_reaches_the_shell_byte_for_byte(tmp_path: Path, command: str, out: str) -> None:
    async with shell(tmp_path) as door:
        result = await door.call("exec", {"command": command})

    assert result.data["stdout"] == out


@owes("C-09", "C-10")
async def test_a_slice_starts_at_line_one_and_keeps_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    door = Executor(builtin("read_file").profile("nanobot-net"), workspace=tmp_path)

    shown = str(await door.call("read_file", {"path": "a.txt", "startLine": 2, "endLine": 3}))

    assert [line.strip() for line in shown.splitlines()[:2]] == ["2→b", "3→c"]
    assert "4→d" not in shown


@owes("C-13", "X-12")
@pytest.mark.parametrize(
    ("profile", "old", "new"),
    [
        ("nanobot-net", "oldText", "newText"),
        ("nanobot", "old_text", "new_text"),
        ("moltbot", "old_string", "new_string"),
    ],
)
async def test_no_profile_replaces_all_in_silence(tmp_path: Path, profile: str, old: str, new: str) -> None:
    (tmp_path / "a.txt").write_text("x\nx\n", encoding="utf-8")
    kit = builtin("edit_file").profile(profile)
    door = Executor(kit, workspace=tmp_path)
    path = "file_path" if profile == "moltbot" else "path"

    result = await door.call(kit.names[0], {path: "a.txt", old: "x", new: "y"})

    assert not result.ok
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "x\nx\n"


@owes("C-19", "N-33")
async def test_a_sibling_folder_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "s.txt").write_text("secret", encoding="utf-8")
    door = Executor(builtin("read_file", "list_dir").profile("nanobot-net"), workspace=tmp_path / "a")

    for name, path in (("read_file", "ab/s.txt"), ("list_dir", "ab")):
        result = await door.call(name, {"path": str(tmp_path / path)})
        # `/srv/ab` starts with `/srv/a` as text and lies outside it: not the workspace's to read without a question.
        assert result.error is not None
        assert result.error.code in ("outside_workspace", "permission_denied")
        assert "secret" not in str(result)


@owes("C-21", "N-52", "N-49", "N-59", "X-22")
@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git log --format=%H", "allow"),
        ("ls --format json", "allow"),
        ("x=1; format=2", "allow"),
        ("rm --recursive --force build", "deny"),
        ("'r'm -rf build", "deny"),
        ("R=rm; $R -rf build", "never"),
        ("$(echo r)m -rf build", "never"),
        ("find . -delete", "never"),
    ],
)
def test_the_word_decides_and_not_the_text(command: str, verdict: str) -> None:
    from pegboard.compat.rules import compile_rules
    from pegboard.core.policy.policy import Policy
    from pegboard.core.policy.rules import Situation
    from pegboard.shell.guard import judge

    here = Path("/work/here")
    rules = compile_rules("nanobot").rules
    effects = tuple(judge(command, here).effects)
    policy = Policy(mode="workspace", rules=rules)

    found = policy(effects, Situation(values={"tool": "exec"}, workspace=str(here))).verdict

    if verdict == "never":
        # What the parser cannot vouch for is never let through unseen: asked, or left to the sandbox' walls.
        assert found in ("deny", "ask") or judge(command, here).decision != "allow"
    elif verdict == "deny":
        assert found == "deny"
    else:
        assert not any(
            r.covers(e, Situation(workspace=str(here))) for r in rules if r.verdict == "deny" for e in effects
        )


@owes("A-36", "A-37", "A-38", "X-09")
def test_text_stays_text_where_the_schema_says_text() -> None:
    @tool(effects=PURE)
    def call_me(phone: str, version: str, note: str, count: int) -> str:
        """Call."""
        return phone

    text = (
        "<tool_call><name>call_me</name><params><phone><![CDATA[007]]></phone><version><![CDATA[3.10]]></version>"
        "<note><![CDATA[true]]></note><count><![CDATA[12]]></count></params></tool_call>"
    )

    (typed,) = dialect("xml").decode(text, toolkit=Toolkit([call_me]))
    (plain,) = parse_tool_calls(text)

    assert json.loads(json.dumps(typed.arguments)) == {
        "phone": "007",
        "version": "3.10",
        "note": "true",
        "count": 12,
    }
    # Without schemas the document's own four rules hold (A-36..A-39).
    assert plain.params["note"] is True
    assert plain.params["count"] == 12


@owes("A-20", "X-61")
def test_an_unknown_name_in_a_kit_is_an_error() -> None:
    with pytest.raises(BuildError, match="web_serch"):
        FlowRegistry().create_agent_toolkit("lead", ["web_serch"])


@owes("X-35")
async def test_two_chats_at_once_keep_their_own_target() -> None:
    ready = asyncio.Barrier(2)

    async def chat(name: str) -> str:
        set_context("telegram", name)
        await ready.wait()
        return current_origin().chat_id

    assert await asyncio.gather(chat("1"), chat("2")) == ["1", "2"]


@owes("D-56", "D-13", "X-26")
async def test_a_refused_turn_leaves_no_call_without_its_result() -> None:
    ran: list[str] = []

    class Exec(BaseTool):
        name = "exec"
        description = "Run."

        async def run(self, command: str) -> str:
            ran.append(command)
            return command

    async def no(question: str) -> bool:
        return False

    registry = ToolRegistry([Say(), Exec()], hooks=[SafetyHook(no)])
    calls = [
        ToolCallRequest("say", {"text": "one"}),
        ToolCallRequest("exec", {"command": "ls"}),
        ToolCallRequest("say", {"text": "boom"}),
        ToolCallRequest("nobody", {}),
        ToolCallRequest("say", {"text": "two"}),
    ]

    results = await registry.execute_parallel(calls)

    assert len(results) == len(calls)
    assert all(isinstance(r, str) and "用户拒绝执行 exec" in r for r in results)
    assert ran == []
    assert await registry.execute_parallel([calls[0], calls[2], calls[4]]) == [
        "one",
        "Tool error: RuntimeError: no voice",
        "two",
    ]


@owes("D-13", "K-49")
async def test_a_turn_has_one_result_a_call_in_call_order_whatever_happens() -> None:
    @tool(effects=PURE)
    async def odd(n: int) -> Any:
        """Odd."""
        if n == 0:
            return ValueError("returned, not raised")
        raise KeyError(n)

    calls = [
        ToolCall(id=str(i), name=name, arguments={"n": i}) for i, name in enumerate(["odd", "odd", "none"])
    ]

    results = await Executor([odd]).turn(calls)

    assert [r.call_id for r in results] == ["0", "1", "2"]
    assert all(isinstance(r, ToolResult) for r in results)
    assert os.sep not in str(results[1])
