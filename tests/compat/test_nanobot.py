"""The code examples and promises of documents 000 and 001 run on our executor."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import raises

from pegboard import Executor, ToolCall, builtin
from pegboard.compat import nanobot
from pegboard.compat.nanobot import (
    _HINT,
    BaseTool,
    MCPToolWrapper,
    SafetyHook,
    Tool,
    ToolCallRequest,
    ToolExecutionDenied,
    ToolNotFoundError,
    ToolRegistry,
)
from tests.ledger import owes

HINT = "\n\n[Analyze the error above and try a different approach.]"


class Echo(Tool):
    """000's form: properties and execute."""

    @property
    def name(self) -> str:
        return "echo"

    @property
    def description(self) -> str:
        return "Say it again."

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": 5},
                "times": {"type": "integer", "minimum": 1, "maximum": 3},
                "mode": {"type": "string", "enum": ["plain", "loud"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {
                    "type": "object",
                    "properties": {"working_dir": {"type": "string"}},
                    "required": ["working_dir"],
                },
                "ratio": {"type": "number"},
                "on": {"type": "boolean"},
            },
            "required": ["text"],
        }

    async def execute(self, **kwargs: Any) -> str:
        text = kwargs["text"]
        if text == "boom":
            raise ValueError("no such sound")
        if text == "lock":
            raise PermissionError(13, "Permission denied", "/root/secret")
        return "Error: too quiet" if text == "soft" else text * kwargs.get("times", 1)


class DatabaseQueryTool(BaseTool):
    """001 §5.1, over sqlite where the document has PostgreSQL."""

    name = "query_database"
    description = (
        "查询业务数据库。当需要获取订单、用户、产品等业务数据时使用。支持 SQL 查询,返回 JSON 格式结果。"
    )
    parameters = {  # noqa: RUF012  (as the document writes it)
        "sql": {"type": "string", "description": "SQL 查询语句(只支持 SELECT)"},
        "limit": {"type": "integer", "description": "最大返回行数", "default": 100},
    }

    def __init__(self, db_url: str) -> None:
        self.db_url = db_url

    async def run(self, sql: str, limit: int = 100) -> str:
        if not sql.strip().upper().startswith("SELECT"):
            return "Error: 只允许 SELECT 查询"
        with closing(sqlite3.connect(self.db_url)) as connection, connection:
            rows = connection.execute(f"{sql} LIMIT {limit}").fetchall()
        connection.close()
        return json.dumps(rows, ensure_ascii=False)


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "orders.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (item TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?)", [("茶",), ("米",)])
    connection.close()
    return path


# -- 000: Tool --------------------------------------------------------------------------------


@owes("N-05", "N-06", "N-07", "N-08", "N-09", "N-14")
def test_a_000_tool_is_four_members_and_its_schema_is_the_openai_form_unchanged() -> None:
    tool = Echo()

    assert Tool._TYPE_MAP["number"] == (int, float)
    assert Tool._TYPE_MAP["object"] is dict
    assert tool.to_schema() == {
        "type": "function",
        "function": {"name": "echo", "description": "Say it again.", "parameters": tool.parameters},
    }
    with raises(TypeError):
        Tool()  # type: ignore[abstract]


@owes("N-06", "N-07", "N-08", "N-09", "D-10")
@pytest.mark.parametrize(
    ("whole", "missing"),
    [
        *((Echo, member) for member in ("name", "description", "parameters", "execute")),
        (DatabaseQueryTool, "run"),
    ],
)
def test_a_tool_that_lacks_a_member_of_its_document_cannot_be_made(whole: type, missing: str) -> None:
    members = {k: v for k, v in vars(whole).items() if k != missing and not k.startswith("_")}
    partial = type("Partial", whole.__bases__, members)

    with raises(TypeError, match=missing):
        partial()


@owes("N-10", "N-11", "N-12", "N-13", "K-03")
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"text": 5}, ".text"),
        ({"text": ""}, ".text"),
        ({"text": "toolong"}, ".text"),
        ({"text": "a", "times": 0}, ".times"),
        ({"text": "a", "times": 4}, ".times"),
        ({"text": "a", "times": True}, ".times"),
        ({"text": "a", "mode": "shy"}, ".mode"),
        ({"text": "a", "tags": ["a", 5]}, ".tags[1]"),
        ({"text": "a", "where": {}}, ".where.working_dir"),
        ({"text": "a", "where": {"working_dir": 1}}, ".where.working_dir"),
        ({"text": "a", "ratio": "x"}, ".ratio"),
        ({"text": "a", "on": "yes"}, ".on"),
        ({}, ".text"),
    ],
)
def test_validation_names_the_place(params: dict[str, Any], path: str) -> None:
    errors = Echo().validate_params(params)

    assert len(errors) == 1
    assert errors[0].startswith(path)


@owes("N-10", "N-26")
def test_every_problem_is_in_the_list_and_not_the_first_alone() -> None:
    errors = Echo().validate_params({"times": 0, "ratio": "x"})

    assert [error.partition(":")[0] for error in errors] == [".text", ".times", ".ratio"]


@owes("N-10")
def test_valid_parameters_give_an_empty_list() -> None:
    assert Echo().validate_params({"text": "a", "times": 2, "ratio": 1, "where": {"working_dir": "x"}}) == []
    assert Echo()._validate(5, {"type": "array"}, "[0]") == ["[0]: must be an array, got 5"]


# -- the registry -----------------------------------------------------------------------------


@owes("N-15", "N-16", "N-17", "N-18", "N-19", "N-20", "N-22", "N-23", "D-01", "D-04", "X-03")
def test_the_registry_keeps_tools_by_name() -> None:
    registry = ToolRegistry()
    first, second = Echo(), Echo()
    registry.register(first)
    registry.register(second)

    assert registry._tools == {"echo": second}
    assert registry.get("echo") is second
    assert registry.get("nothing") is None
    assert registry.has("echo")
    assert not registry.has("nothing")
    assert "echo" in registry
    assert len(registry) == 1
    assert registry.tool_names == ["echo"]
    assert registry.get_definitions() == [second.to_schema()]
    registry.unregister("echo")
    registry.unregister("echo")
    assert len(registry) == 0


@owes("D-05", "X-03")
def test_asking_001s_registry_for_a_missing_tool_raises() -> None:
    strict = ToolRegistry(strict_get=True)

    for ask in (strict.get, strict.require, ToolRegistry().require, ToolRegistry().__getitem__):
        with raises(ToolNotFoundError, match="Tool 'x' not registered"):
            ask("x")


@owes("D-03", "D-47")
def test_registries_share_nothing_and_the_modules_own_is_empty_until_asked() -> None:
    one, two = ToolRegistry(), ToolRegistry()
    one.register(Echo())

    assert len(two) == 0
    assert len(nanobot.tool_registry) == 0
    with raises(ToolNotFoundError, match="'echo' not registered"):
        nanobot.tool_registry.get("echo")
    assert two.get("echo") is None


@owes("N-21", "N-24", "N-25", "N-26", "N-27", "N-28", "N-29", "N-119", "X-05", "X-06")
@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("echo", {"text": "hi", "times": 2}, "hihi"),
        ("shout", {}, f"Error: Tool 'shout' not found. Available: echo{HINT}"),
        ("echo", {}, f"Error: Invalid parameters for tool 'echo': .text: is required but missing{HINT}"),
        ("echo", {"text": "soft"}, f"Error: too quiet{HINT}"),
        ("echo", {"text": "boom"}, f"Error executing echo: no such sound{HINT}"),
    ],
)
async def test_every_way_of_000s_execute_has_its_text(name: str, params: dict[str, Any], text: str) -> None:
    assert await ToolRegistry([Echo()]).execute(name, params) == text
    assert _HINT == HINT


@owes("N-121")
async def test_the_operating_systems_text_does_not_reach_the_model() -> None:
    text = await ToolRegistry([Echo()]).execute("echo", {"text": "lock"})

    assert text.startswith("Error executing echo: ")
    assert "/root/secret" not in text


@owes("N-26")
async def test_all_problems_of_a_call_are_told_at_once() -> None:
    text = await ToolRegistry([Echo()]).execute("echo", {"text": "a", "times": 9, "mode": "shy"})

    assert text.startswith("Error: Invalid parameters for tool 'echo': ") and text.endswith(HINT)
    problems = text.removesuffix(HINT).partition("'echo': ")[2].split("; ")
    assert sorted(p.partition(":")[0] for p in problems) == [".mode", ".times"]


# -- 001 --------------------------------------------------------------------------------------


@owes("D-06", "D-09", "D-11", "D-12", "D-45", "D-48")
def test_a_001_tool_shows_the_anthropic_form_and_a_default_makes_optional() -> None:
    (schema,) = ToolRegistry([DatabaseQueryTool(":memory:")]).list_schemas()

    assert (schema["name"], schema["description"]) == ("query_database", DatabaseQueryTool.description)
    assert schema["description"]
    assert schema["input_schema"] == {
        "type": "object",
        "properties": DatabaseQueryTool.parameters,
        "required": ["sql"],
    }


@owes("D-07", "D-46", "D-50", "D-53")
async def test_the_documents_own_check_of_its_tool_passes(database: str) -> None:
    registry = ToolRegistry([DatabaseQueryTool(database)])

    schemas = registry.list_schemas()
    found = next(s for s in schemas if s["name"] == "query_database")
    assert json.loads(json.dumps(found)) == found
    assert await registry.execute("query_database", {"sql": "SELECT item FROM orders"}) == '[["茶"], ["米"]]'
    assert (
        await registry.execute("query_database", {"sql": "SELECT item FROM orders", "limit": 1}) == '[["茶"]]'
    )
    assert (
        await registry.execute("query_database", {"sql": "DROP TABLE orders"}) == "Error: 只允许 SELECT 查询"
    )


@owes("D-08")
async def test_what_a_001_tool_raises_is_told_by_type_and_message(database: str) -> None:
    text = await ToolRegistry([DatabaseQueryTool(database)]).execute("query_database", {"sql": "SELECT x"})

    assert text == "Tool error: OperationalError: no such column: x"


@owes("D-10", "D-15", "D-18")
async def test_a_tool_without_parameters_takes_them_from_run(tmp_path: Path) -> None:
    class ReadFileTool(BaseTool):
        name = "read_file"
        description = "读取指定路径的文件内容。支持文本文件、PDF 和 Office 文档。"

        async def run(self, path: str, encoding: str = "utf-8") -> str:
            return Path(path).read_text(encoding=encoding)

    (tmp_path / "a.txt").write_bytes("Grüße".encode("latin-1"))
    tool = ReadFileTool()

    assert tool.to_schema()["input_schema"]["required"] == ["path"]
    assert tool.validate_params({}) == [".path: is required but missing"]
    text = await ToolRegistry([tool]).execute(
        "read_file", {"path": str(tmp_path / "a.txt"), "encoding": "latin-1"}
    )
    assert text == "Grüße"
    with raises(TypeError):
        BaseTool()  # type: ignore[abstract]


@owes("D-13", "D-14", "K-11")
async def test_parallel_calls_meet_and_answer_in_call_order() -> None:
    meeting = asyncio.Barrier(3)

    class Meet(BaseTool):
        name = "meet"
        description = "Wait for the others."

        async def run(self, who: str) -> str:
            # Only calls that run at the same time get past this.
            await asyncio.wait_for(meeting.wait(), 5)
            if who == "c":
                raise RuntimeError("late")
            return who

    texts = await ToolRegistry([Meet()]).execute_parallel(
        [ToolCallRequest("meet", {"who": w}) for w in "abc"]
    )

    assert texts == ["a", "b", "Tool error: RuntimeError: late"]


@owes("K-10", "K-11")
async def test_an_exclusive_tool_runs_one_call_at_a_time() -> None:
    running = 0

    class Alone(BaseTool):
        name = "alone"
        description = "One at a time."
        exclusive = True

        async def run(self, n: int) -> str:
            nonlocal running
            running += 1
            seen = running
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            running -= 1
            return str(seen)

    assert await ToolRegistry([Alone()]).execute_parallel(
        [ToolCallRequest("alone", {"n": n}) for n in range(3)]
    ) == ["1", "1", "1"]


@owes("D-27", "D-25", "D-23", "D-28")
async def test_the_built_in_tools_register_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    registry = ToolRegistry(
        [*builtin("glob", "read_file", "grep").profile("nanobot", locale="zh")], workspace=tmp_path
    )

    assert await registry.execute("glob", {"pattern": "*.py"}) == "a.py"
    assert await registry.execute("read_file", {"path": "a.py"}) == "x = 1\n"
    assert await registry.execute("grep", {"pattern": "x ="}) == "a.py:1:x = 1"
    assert "按修改时间排序" in registry.toolkit()["glob"].description
    assert registry.list_schemas()[0]["function"]["name"] == "glob"
    await registry.aclose()


# -- safety -----------------------------------------------------------------------------------


class Exec(BaseTool):
    name = "exec"
    description = "执行 Shell 命令并返回输出。"

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(self, command: str, timeout: int = 30) -> str:
        self.ran.append(command)
        return f"ran {command}"


@owes("D-54", "D-55", "D-56", "X-26")
async def test_the_safety_hook_asks_with_name_and_input_and_a_no_is_a_result() -> None:
    tool, asked = Exec(), []

    def ask(question: str) -> bool:
        asked.append(question)
        return "ls" in question

    registry = ToolRegistry([tool, Echo()], hooks=[SafetyHook(ask)])

    assert await registry.execute("exec", {"command": "ls"}) == "ran ls"
    assert asked == ["⚠️ 即将执行: exec ({'command': 'ls'}),确认继续?"]
    texts = await registry.execute_parallel(
        [ToolCallRequest("exec", {"command": "make"}), ToolCallRequest("echo", {"text": "hi"})]
    )
    assert texts[0] == "Error: 用户拒绝执行 exec"
    assert len(texts) == 2
    assert tool.ran == ["ls"]
    with raises(ToolExecutionDenied, match="用户拒绝执行 exec"):
        await registry.execute_parallel([ToolCallRequest("exec", {"command": "make"})], raise_errors=True)


@owes("D-57")
@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("rm -rf build", "rm -rf"),
        ("sudo ls", "sudo"),
        ("psql -c 'DROP TABLE users'", "DROP TABLE"),
        ("rm --recursive --force build", "rm -rf"),
        ("rm -r -f build", "rm -rf"),
    ],
)
async def test_a_dangerous_pattern_is_refused_before_anyone_is_asked(command: str, pattern: str) -> None:
    def nobody(_: str) -> bool:
        raise AssertionError("nobody should be asked")

    call = ToolCallRequest("exec", {"command": command})

    with raises(ToolExecutionDenied, match=f"命令包含危险模式: {pattern}"):
        await SafetyHook(nobody).before_execute_tools([call])


@owes("D-54", "D-56")
async def test_the_hook_works_in_an_executor_and_every_call_has_its_result() -> None:
    async def no(_: str) -> bool:
        return False

    tool = Exec()
    door = Executor([tool, Echo()], hooks=[SafetyHook(no, locale="en").before_turn])

    results = await door.turn(
        [ToolCall("1", "echo", {"text": "hi"}), ToolCall("2", "exec", {"command": "ls"})]
    )

    assert [r.call_id for r in results] == ["1", "2"]
    assert {r.error.code for r in results if r.error} == {"permission_denied"}
    assert "The user refused to run exec" in str(results[0])
    assert tool.ran == []


@owes("D-58", "D-59", "D-60")
async def test_the_sandboxed_exec_example_is_a_subclass_with_the_same_signature() -> None:
    started: list[tuple[str, ...]] = []

    class SandboxedExecTool(Exec):
        """在 Docker 容器中执行命令"""

        async def run(self, command: str, timeout: int = 30) -> str:
            started.append(("docker", "run", "--rm", "--memory=256m", "--cpus=0.5", "--network=none",
                            "nanobot-sandbox:latest", "bash", "-c", command))  # fmt: skip
            return "done"

    tool = SandboxedExecTool()

    assert tool.to_schema()["input_schema"] == Exec().to_schema()["input_schema"]
    assert await ToolRegistry([tool]).execute("exec", {"command": "echo '$HOME'"}) == "done"
    assert started[0][-1] == "echo '$HOME'"


# -- context ----------------------------------------------------------------------------------


@owes("X-35")
async def test_two_concurrent_chats_keep_their_own_target_on_one_shared_tool() -> None:
    class Message(nanobot.ContextAware, BaseTool):
        name = "message"
        description = "Send."

        async def run(self, content: str) -> str:
            await both.wait()
            before = self._sent_in_turn
            nanobot.context.mark_sent()
            return f"{self.origin.channel}:{self.origin.chat_id} {content} {before}->{self._sent_in_turn}"

    both, tool = asyncio.Barrier(2), Message()
    registry = ToolRegistry([tool])

    async def chat(chat_id: str) -> list[str]:
        tool.set_context("telegram", chat_id, "m1")
        first = await registry.execute("message", {"content": "one"})
        tool.start_turn()
        return [first, await registry.execute("message", {"content": "two"})]

    assert await asyncio.gather(chat("1"), chat("2")) == [
        ["telegram:1 one False->True", "telegram:1 two False->True"],
        ["telegram:2 one False->True", "telegram:2 two False->True"],
    ]


async def test_without_set_context_the_origin_is_the_running_calls() -> None:
    assert nanobot.current_origin() == nanobot.context.Origin()
    nanobot.context.mark_sent()


# -- MCP --------------------------------------------------------------------------------------


class ProtocolSession:
    def __init__(self, *, hangs: bool = False) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._hangs = hangs

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        if self._hangs:
            await asyncio.Event().wait()
        picture = SimpleNamespace(type="image")
        content = [SimpleNamespace(text="one"), picture, SimpleNamespace(text="two")]
        return SimpleNamespace(content=content, isError=arguments.get("path") == "bad")


READ = {
    "name": "read",
    "description": "Read it.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


@owes("N-111", "N-112", "N-113", "N-114", "N-115")
async def test_000s_mcp_wrapper_has_prefix_schema_and_all_blocks_as_text() -> None:
    session = ProtocolSession()
    tool = MCPToolWrapper(session, "files", SimpleNamespace(**READ))

    assert tool.name == "mcp_files_read"
    assert tool.description == "Read it."
    assert tool.parameters == READ["inputSchema"]
    assert tool.to_schema()["function"]["name"] == "mcp_files_read"
    assert await tool.execute(path="a") == "one\nnamespace(type='image')\ntwo"
    assert session.calls == [("read", {"path": "a"})]
    assert MCPToolWrapper(session, "s", {"name": "x"}).parameters == {"type": "object", "properties": {}}


@owes("D-38", "D-39", "D-36")
async def test_001s_mcp_wrapper_keeps_the_name_shows_properties_and_joins_texts() -> None:
    tool = MCPToolWrapper(ProtocolSession(), READ)

    assert tool.name == "read"
    assert tool.parameters == {"path": {"type": "string"}}
    assert tool.to_schema()["input_schema"]["required"] == ["path"]
    assert await tool.run(path="a") == "one\ntwo"


@owes("N-114")
async def test_an_mcp_tool_that_does_not_answer_ends_at_its_timeout() -> None:
    registry = ToolRegistry(
        [MCPToolWrapper(ProtocolSession(hangs=True), "files", READ, tool_timeout=0.05)],
        policy=["allow call:files/*"],
    )

    assert "MCP tool call timed out after 0.05s" in await registry.execute("mcp_files_read", {"path": "a"})


@owes("D-36")
async def test_an_mcp_tool_asks_like_any_foreign_tool_and_its_errors_are_errors() -> None:
    tool = MCPToolWrapper(ProtocolSession(), "files", READ)
    asking = await Executor([tool]).call("mcp_files_read", {"path": "a"})
    allowed = Executor([tool], policy=["allow call:files/read"])

    assert asking.error is not None
    assert asking.error.code == "permission_denied"
    assert (await allowed.call("mcp_files_read", {"path": "a"})).ok
    assert not (await allowed.call("mcp_files_read", {"path": "bad"})).ok
    assert [str(e) for e in (await allowed.preview("mcp_files_read", {"path": "a"})).effects] == [
        "call files/read"
    ]


@owes("N-04")
def test_the_package_shows_both_bases_and_the_registry() -> None:
    assert {"Tool", "ToolRegistry", "BaseTool", "SafetyHook"} <= set(nanobot.__all__)
    assert nanobot.Tool.__abstractmethods__ == {"name", "description", "parameters", "execute"}
    assert nanobot.BaseTool.__abstractmethods__ == {"run"}
    assert isinstance(nanobot.tool_registry, nanobot.ToolRegistry)


@owes("X-39", "N-111")
@pytest.mark.parametrize(
    ("style", "name"),
    [
        ("mcp", "mcp_github_create_issue"),
        ("double_underscore", "github__create_issue"),
        ("raw", "create_issue"),
    ],
)
def test_mcp_names_are_the_documents_unless_another_style_is_chosen(style: Any, name: str) -> None:
    from pegboard.mcp.naming import exposed_name

    assert exposed_name("github", "create_issue", style) == name
    if style == "mcp":
        assert exposed_name("github", "create_issue") == name


@owes("N-122")
async def test_each_feature_that_the_document_lists_is_there(tmp_path: Path) -> None:
    """The rows of its comparison: class, check, registry, schema, hint, MCP, subagents, paths, shell."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("hidden")
    registry = ToolRegistry(workspace=inside, mode="workspace")
    for one in (Echo(), nanobot.ReadFileTool(allowed_dir=inside), nanobot.ExecTool(working_dir=str(inside))):
        registry.register(one)

    assert issubclass(Echo, Tool)
    assert Echo().validate_params({"text": 5}) != []
    assert registry.has("echo")
    assert Echo().to_schema()["function"]["parameters"] == Echo().parameters
    assert str(await registry.execute("echo", {"text": "far too long"})).endswith(HINT)
    assert callable(nanobot.connect_mcp_servers)
    assert nanobot.SpawnTool(manager=nanobot.SubagentManager()).name == "spawn"
    assert "hidden" not in str(await registry.execute("read_file", {"path": str(tmp_path / "secret")}))
    assert "root" not in str(await registry.execute("exec", {"command": "cat /etc/shadow"}))
