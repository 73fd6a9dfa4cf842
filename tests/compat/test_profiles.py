"""Profiles advertise another system's names, schemas and texts, and accept its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest import raises

from pegboard import PURE, BuildError, Executor, Policy, Toolkit, builtin, tool
from pegboard.compat.locale import message
from pegboard.compat.profiles import PROFILES
from pegboard.core.errors import NotUnique
from pegboard.core.profiles import find
from tests.ledger import owes

HINT = "\n\n[Analyze the error above and try a different approach.]"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    yield tmp_path


def door(profile: str, workspace: Path, **options: Any) -> Executor:
    return Executor(builtin().profile(profile), workspace=workspace, **options)


async def said(executor: Executor, name: str, **arguments: Any) -> str:
    return str(await executor.call(name, arguments))


@owes("N-120", "N-03")
def test_000s_read_file_is_serialised_exactly_as_shown() -> None:
    (schema,) = builtin("read_file").profile("nanobot").schemas("openai-chat")

    assert schema == {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read the contents of a file at the given path.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "The file path to read"}},
                "required": ["path"],
            },
        },
    }


@owes("X-62", "G-20", "K-19")
@pytest.mark.parametrize(
    ("profile", "names"),
    [
        ("nanobot", "read_file write_file edit_file list_dir glob grep exec ask_user delete_file apply_patch process web_search web_fetch"),
        ("nanobot_net", "read_file write_file edit_file list_dir glob grep exec ask_user delete_file apply_patch process web_search web_fetch"),
        ("moltbot", "read write edit list_dir glob grep exec ask_user delete_file apply_patch process web_search web_fetch"),
        ("claude-code", "Read Write Edit LS Glob Grep Bash AskUserQuestion delete_file apply_patch BashOutput KillShell WebSearch WebFetch"),
    ],
)  # fmt: skip
def test_a_profile_shows_its_names_in_the_kits_order(profile: str, names: str) -> None:
    assert builtin().profile(profile).names == tuple(names.split())


@owes("X-62", "K-09")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini", "mcp", "xml"])
def test_every_profile_renders_in_every_dialect(profile: str, dialect: str) -> None:
    kit = builtin().profile(profile).check()

    assert len(kit.schemas(dialect)) > 0


@owes("G-20")
@pytest.mark.parametrize("profile", PROFILES)
def test_every_row_of_a_profile_maps_to_parameters_that_the_tool_has(profile: str) -> None:
    from pegboard.tools import TOOLS

    for row in find(profile).rows:
        if row.tool not in TOOLS or row.parameters is None:
            continue
        (canonical,) = builtin(row.tool)
        known = {*canonical.schema["properties"], *canonical.signature.aliases, "-A", "-B", "questions"}
        assert {p.target for p in row.parameters if p.target} <= known, row.name


@owes("N-35", "N-38", "N-39", "N-43", "X-10", "X-13", "X-15", "X-16")
async def test_nanobots_texts(workspace: Path) -> None:
    made = door("nanobot", workspace)

    assert await said(made, "read_file", path="a.txt") == "one\ntwo\nthree\n"
    assert await said(made, "write_file", path="ü.txt", content="ü") == "Successfully wrote 2 bytes to ü.txt"
    assert await said(made, "list_dir", path=".") == "📄 a.txt\n📁 src\n📄 ü.txt"
    await said(made, "edit_file", path="a.txt", old_text="two", new_text="2")
    await said(made, "edit_file", path="a.txt", old_string="three", new_string="3")
    assert (workspace / "a.txt").read_text() == "one\n2\n3\n"
    missing = await said(made, "read_file", path="none.txt")
    assert missing.startswith("Error: ")
    assert missing.endswith(HINT)


@owes("C-08", "C-09", "C-10", "C-11", "C-12", "C-13", "C-14", "C-15", "C-16", "C-18", "X-12", "X-14")
async def test_nanobot_nets_texts(workspace: Path) -> None:
    made = door("nanobot-net", workspace)

    assert await said(made, "read_file", path="a.txt", startLine=2, endLine=3) == "2→two\n3→three"
    assert await said(made, "read_file", path="no.txt") == "Error: File not found: no.txt"
    assert await said(made, "write_file", path="b.txt", content="x") == "Successfully wrote to b.txt"
    assert (
        await said(made, "edit_file", path="a.txt", oldText="one", newText="1") == "Successfully edited a.txt"
    )
    long = "z" * 60
    assert (
        await said(made, "edit_file", path="a.txt", oldText=long, newText="other")
        == f"Error: Text not found in file: {'z' * 50}..."
    )
    assert await said(made, "list_dir", path=".") == "[DIR] src/\n[FILE] a.txt\n[FILE] b.txt"
    assert await said(made, "list_dir", path="no") == "Error: Directory not found: no"
    (workspace / "twice.txt").write_text("x\nx\n")
    twice = await made.call("edit_file", {"path": "twice.txt", "oldText": "x", "newText": "y"})
    assert isinstance(twice.error, NotUnique)
    assert (workspace / "twice.txt").read_text() == "x\nx\n"


@owes("C-20", "C-21", "C-23", "C-27", "C-28")
@pytest.mark.slow
async def test_nanobot_nets_exec_lets_the_exit_code_decide(workspace: Path) -> None:
    made = door("nanobot-net", workspace, mode="full")

    warned = await made.call("exec", {"command": "echo out; echo warning >&2"})
    failed = await made.call("exec", {"command": "echo out; echo bad >&2; exit 3", "timeout": 20})
    long = await made.call("exec", {"command": "head -c 12000 /dev/zero | tr '\\0' x"})
    blocked = await door("nanobot-net", workspace, policy=["deny exec:mkfs **"]).call(
        "exec", {"command": "mkfs x"}
    )

    assert str(warned) == "out\n\nSTDERR:\nwarning\n"
    assert str(failed) == "Error: bad\n\nOutput: out\n"
    assert str(long) == "x" * 10_000 + "\n... (truncated)"
    assert str(blocked) == "Error: Command contains blocked pattern"
    await made.aclose()


@owes("M-02", "M-03", "M-04", "M-05", "M-06", "M-07", "M-08", "M-09", "M-10", "M-11", "X-11", "X-17")
@pytest.mark.slow
async def test_moltbots_calls_as_the_document_makes_them(workspace: Path) -> None:
    made = door("moltbot", workspace, mode="full")

    assert (await said(made, "read", file_path="a.txt", offset=2, limit=1)).startswith("     2→two")
    listed = await said(made, "exec", command="ls", description="List files in current directory")
    assert listed.startswith("a.txt\nsrc")
    late = await made.call("exec", {"command": "sleep 30", "timeout": 200})
    assert late.error is not None
    assert late.error.code == "timeout"
    assert "0.2 seconds" in late.error.message
    started = await made.call("exec", {"command": "sleep 30", "run_in_background": True, "timeout": 300000})
    task = started.data["process_id"]
    assert task in await said(made, "process", action="list")
    assert (await made.call("process", {"action": "output", "task_id": task})).ok
    assert (await made.call("process", {"action": "stop", "task_id": task})).ok
    await made.aclose()


@owes("X-17")
@pytest.mark.parametrize(
    ("profile", "name", "unit"),
    [("moltbot", "exec", "milliseconds"), ("claude-code", "Bash", "milliseconds"), ("nanobot-net", "exec", "Seconds")],
)  # fmt: skip
def test_only_two_profiles_advertise_milliseconds(profile: str, name: str, unit: str) -> None:
    schema = builtin().profile(profile)[name].schema

    assert unit in schema["properties"]["timeout"]["description"]
    assert "timeout" not in builtin().profile("nanobot")["exec"].schema["properties"]


@owes("G-20")
async def test_claude_codes_calls_and_texts(workspace: Path) -> None:
    made = door("claude-code", workspace)

    assert (
        await said(made, "Read", file_path="a.txt", limit=1)
        == "     1→one\n[lines 1-1 of 3; offset=2 goes on]"
    )
    assert await said(made, "Write", file_path="n.txt", content="x") == "File created successfully at: n.txt"
    assert await said(made, "Write", file_path="n.txt", content="y") == "The file n.txt has been updated."
    edited = await said(made, "Edit", file_path="a.txt", old_string="one", new_string="1", replace_all=False)
    assert edited.startswith("The file a.txt has been updated.\n")
    assert await said(made, "Grep", pattern="t", **{"-i": True, "-n": True, "output_mode": "content"}) == (
        "a.txt:2:two\na.txt:3:three"
    )
    assert await said(made, "Grep", pattern="two", **{"-A": 1, "output_mode": "content"}) != ""
    assert await said(made, "Grep", pattern="two") == "a.txt"
    assert await said(made, "Glob", pattern="*.md") == "No files found"
    assert HINT not in await said(made, "Read", file_path="no.txt")
    wrong = await said(made, "Edit", file_path="a.txt", new_string="1")
    assert ".old_string: is required but missing" in wrong


def test_artifactflows_web_fetch_takes_the_documents_list_and_limits() -> None:
    (row,) = [r for r in PROFILES["artifactflow"].rows if r.name == "web_fetch"]

    given = {g.name: g for g in row.parameters or ()}
    assert {n: (g.required, g.schema.get("default"), g.canonical) for n, g in given.items()} == {
        "url_list": (True, None, "urls"),
        "max_content_length": (False, 10000, "max_chars"),
        "max_concurrent": (False, 3, None),
    }
    assert given["url_list"].schema["items"] == {"type": "string"}
    assert "max 5" in given["max_concurrent"].schema["description"]


@owes("G-20")
@pytest.mark.slow
async def test_claude_codes_background_command_is_read_and_ended(workspace: Path) -> None:
    made = door("claude-code", workspace)

    started = await made.call("Bash", {"command": "echo up; sleep 600", "run_in_background": True})
    id = started.data["process_id"]
    async with asyncio.timeout(10):
        while "up" not in (said_now := await said(made, "BashOutput", bash_id=id)):
            await asyncio.sleep(0.02)
    killed = await made.call("KillShell", {"shell_id": id})
    after = await said(made, "BashOutput", bash_id=id)
    await made.aclose()

    assert "up" in said_now
    assert killed.ok
    assert "running" not in after.lower()


@owes("G-20")
@pytest.mark.slow
async def test_claude_codes_bash_shows_output_and_a_failing_exit_code(workspace: Path) -> None:
    made = door("claude-code", workspace, mode="full")

    assert await said(made, "Bash", command="echo hi") == "hi"
    assert await said(made, "Bash", command="true") == "(no output)"
    assert await said(made, "Bash", command="echo no >&2; exit 4", timeout=5000) == "Exit code 4\nno"
    started = await made.call("Bash", {"command": "sleep 30", "run_in_background": True})
    name = started.data["process_id"]
    assert (await made.call("BashOutput", {"bash_id": name})).ok
    assert (await made.call("KillShell", {"shell_id": name})).ok
    await made.aclose()


async def test_a_structured_question_reaches_the_person(workspace: Path) -> None:
    class Someone:
        async def ask(self, questions: Any) -> list[str]:
            self.asked = questions
            return ["b"]

    someone = Someone()
    made = Executor(builtin("ask_user").profile("claude-code"), provide=[someone])

    answer = await made.call(
        "AskUserQuestion",
        {
            "questions": [
                {"question": "Which?", "options": [{"label": "a"}, {"label": "b"}], "multiSelect": True}
            ]
        },
    )

    assert str(answer) == "b"
    assert someone.asked[0].options == ("a", "b")
    assert someone.asked[0].multi_select


@owes("X-08", "N-13")
async def test_errors_speak_of_the_names_that_the_model_knows(workspace: Path) -> None:
    result = await door("nanobot-net", workspace).call("edit_file", {"path": "a.txt", "newText": "x"})

    assert result.error is not None
    assert result.error.details["errors"] == [{"path": ".oldText", "message": "is required but missing"}]


@owes("X-22", "X-25")
async def test_a_rule_about_a_tool_holds_under_every_profile(workspace: Path) -> None:
    for profile, name in (("claude-code", "Bash"), ("moltbot", "exec")):
        made = door(profile, workspace, policy=Policy.of(["deny tool=exec"], mode="full"))

        assert (await made.preview(name, {"command": "ls"})).decision == "deny"


@owes("G-20", "G-01")
async def test_preview_approval_and_journal_work_the_same_under_a_profile(workspace: Path) -> None:
    preview = await door("claude-code", workspace).preview(
        "Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    )

    assert [str(e) for e in preview.effects] == ["write a.txt"]
    assert "-one\n+1" in preview.changes[0].diff


@owes("X-62")
async def test_canonical_calls_still_resolve_where_one_tool_stands_for_them(workspace: Path) -> None:
    made = door("moltbot", workspace)

    assert (await made.call("read_file", {"path": "a.txt"})).ok


@owes("X-60")
def test_the_chinese_catalogue() -> None:
    kit = builtin().profile("nanobot", locale="zh")

    assert kit["exec"].description == "执行 Shell 命令并返回输出。"
    assert kit["read_file"].description == "读取指定路径的文件内容。支持文本文件、PDF 和 Office 文档。"
    assert message("scheduled", "zh", task="报告", cron_expr="0 9 * * *") == "任务已创建:报告,调度:0 9 * * *"
    assert message("select_only", "zh") == "Error: 只允许 SELECT 查询"
    assert message("denied", "zh", name="exec") == "用户拒绝执行 exec"
    assert message("pattern", "zh", pattern="sudo") == "命令包含危险模式: sudo"
    assert message("denied", name="exec") == "The user refused to run exec"
    with raises(BuildError, match="no text"):
        message("nothing")


@owes("X-60", "D-56")
async def test_a_refusal_is_told_in_chinese(workspace: Path) -> None:
    kit = builtin("delete_file").profile("nanobot", locale="zh")

    result = await Executor(kit, workspace=workspace).call("delete_file", {"path": "a.txt"})

    assert str(result) == "用户拒绝执行 delete_file"


def test_an_unknown_profile_or_locale_is_named() -> None:
    with raises(BuildError, match="unknown profile 'clippy'; known are nanobot"):
        builtin().profile("clippy")
    with raises(BuildError, match="unknown locale 'de'"):
        builtin().profile("nanobot", locale="de")


def test_tools_that_a_profile_does_not_know_stay_as_they_are() -> None:
    @tool(effects=PURE)
    def mine(x: int) -> int:
        """Mine."""
        return x

    kit = (Toolkit([mine]) + builtin("read_file")).profile("claude-code")

    assert kit.names == ("mine", "Read")
    assert kit["mine"](3) == 3
