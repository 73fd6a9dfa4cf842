"""The code examples of document 002, in Python, run on our executor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import raises

from pegboard import BuildError, Executor, ReadPath, builtin, tool
from pegboard.compat.nanobot_net import (
    MESSAGE_BUS,
    AIFunctionFactory,
    AIFunctionFactoryOptions,
    NanoBotMcpClient,
    NanoBotTools,
    ServiceCollection,
    WorkspaceManager,
    add_nanobot_tools,
    as_ai_agent,
    create_tool,
    current_run_context,
    middleware,
    workspace_of,
)
from pegboard.models import ScriptedModel
from tests.ledger import owes

# -- creation ---------------------------------------------------------------------------------


@owes("C-01", "C-02", "X-01", "K-01")
async def test_way_1_a_lambda_with_name_and_description(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    read = AIFunctionFactory.create(
        lambda path: Path(path).read_text(),
        AIFunctionFactoryOptions(name="read_file", description="Read the contents of a file"),
    )

    assert read.name == "read_file"
    assert read.description == "Read the contents of a file"
    assert str(await Executor([read]).call("read_file", {"path": str(tmp_path / "a.txt")})) == "hello"


@owes("C-03")
async def test_way_2_a_named_async_method(tmp_path: Path) -> None:
    async def write_file(path: str, content: str) -> str:
        Path(path).write_text(content)
        return f"Successfully wrote to {path}"

    write = create_tool(write_file, name="write_file", description="Write content to a file")
    target = tmp_path / "b.txt"

    result = await Executor([write]).call("write_file", {"path": str(target), "content": "x"})

    assert str(result) == f"Successfully wrote to {target}"
    assert target.read_text() == "x"
    assert write.description == "Write content to a file"
    assert set(write.schema["properties"]) == {"path", "content"}


@owes("C-04", "C-07")
async def test_way_3_defaults_and_types_become_the_schema() -> None:
    execute = create_tool(
        lambda command, timeout=60: f"{command} {timeout}",
        name="exec",
        description="Execute a shell command",
    )

    def do_something(path: str, line: int, recursive: bool) -> str:
        return f"{path} {line + 1} {recursive}"

    mine = create_tool(do_something, name="my_tool")

    assert execute.schema["properties"]["timeout"]["default"] == 60
    assert execute.schema["required"] == ["command"]
    assert [p["type"] for p in mine.schema["properties"].values()] == ["string", "integer", "boolean"]
    assert str(await Executor([execute]).call("exec", {"command": "ls"})) == "ls 60"
    assert (
        str(await Executor([mine]).call("my_tool", {"path": "a", "line": "3", "recursive": "true"}))
        == "a 4 True"
    )


@owes("C-01")
def test_a_lambda_without_a_name_says_what_to_do() -> None:
    with raises(BuildError, match="name='…'"):
        create_tool(lambda x: x)


@owes("C-49")
async def test_an_unlabelled_function_is_opaque_and_a_typed_one_shows_its_effects(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")

    async def read(path: ReadPath) -> str:
        return path

    opaque = create_tool(lambda x: x, name="f")
    door = Executor([opaque, create_tool(read)], workspace=tmp_path)

    assert [str(e) for e in (await door.preview("f", {"x": 1})).effects] == ["call python/f"]
    assert [str(e) for e in (await door.preview("read", {"path": "a.txt"})).effects] == ["read a.txt"]
    asked = Executor([opaque], mode="ask")
    assert (await asked.preview("f", {"x": 1})).decision == "ask"


@owes("C-49")
async def test_the_safe_exec_example_blocks_dangerous_commands() -> None:
    from pegboard.shell.guard import deny_matches

    def safe_exec(command: str) -> str:
        found = deny_matches("nanobot-net-safe", command, as_written=True)
        return found.text if found else f"ran {command}"

    door = Executor([create_tool(safe_exec, name="exec")])

    assert str(await door.call("exec", {"command": "mkfs /dev/sda"})).startswith(
        "Error: Command blocked for security reasons"
    )
    assert str(await door.call("exec", {"command": "ls"})) == "ran ls"


# -- agent and middleware ---------------------------------------------------------------------


@owes("C-05", "C-06", "C-46", "C-50", "K-12")
async def test_the_framework_runs_the_loop_and_middleware_sees_every_call() -> None:
    seen: list[Any] = []

    async def log(agent: Any, context: Any, following: Any, cancellation: Any) -> Any:
        seen.append((agent.id, context.function.name, dict(context.arguments)))
        return await following(context, cancellation)

    model = ScriptedModel([{"calls": [{"name": "double", "arguments": {"n": 4}}]}, {"text": "8"}])
    agent = (
        as_ai_agent(model, instructions="You are a helpful assistant.",
                    tools=[create_tool(lambda n: n * 2, name="double", description="Twice.")])
        .as_builder().use(log).build()
    )  # fmt: skip

    answer = await agent.run("double four")

    assert answer.answer == "8"
    assert seen == [("main", "double", {"n": 4})]
    first, second = model.requests
    assert "You are a helpful assistant." in first.instructions
    assert "double four" in str(first.messages)
    assert "8" in str(second.messages[-1])
    assert first.tools.names == ("double",)
    await agent.aclose()


@owes("C-46")
async def test_a_middleware_may_replace_the_result_and_cannot_reach_what_was_denied() -> None:
    ran: list[str] = []
    door = Executor(
        [create_tool(lambda: "real", name="f"), create_tool(lambda: "x", name="g")],
        middleware=[middleware(lambda agent, context, following, ct: ran.append(context.function.name) or "cached")],
        policy=["deny call:python/g"],
    )  # fmt: skip

    assert str(await door.call("f", {})) == "cached"
    assert not (await door.call("g", {})).ok
    assert ran == ["f"]


@owes("C-45", "K-13")
async def test_any_tool_reads_session_and_agent_of_the_run() -> None:
    def where() -> str:
        context = current_run_context()
        assert context is not None
        return f"{context.session.id}/{context.agent.id}"

    door = Executor([create_tool(where)], session="telegram:1", agent="helper")

    assert str(await door.call("where", {})) == "telegram:1/helper"
    assert current_run_context() is None


# -- services ---------------------------------------------------------------------------------


@owes("C-42", "C-43")
async def test_add_nanobot_tools_registers_one_read_only_list_over_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    services = ServiceCollection().add_singleton(WorkspaceManager(tmp_path))
    provider = add_nanobot_tools(services).build_service_provider()

    tools = provider.get_required_service(NanoBotTools)
    names = [t.name for t in tools]

    assert isinstance(tools, tuple)
    assert names[:5] == ["read_file", "write_file", "edit_file", "list_dir", "exec"]
    assert "message" not in names
    assert provider.get_service(NanoBotTools) is tools
    door = Executor(list(tools[:4]), workspace=workspace_of(provider))
    assert "hello" in str(await door.call("read_file", {"path": "a.txt"}))


def test_message_comes_with_a_bus_only() -> None:
    from pegboard.tools import TOOLS

    services = ServiceCollection().add_singleton(MESSAGE_BUS, object())
    tools = add_nanobot_tools(services, "/tmp").build_service_provider().get_required_service(NanoBotTools)

    assert ("message" in [t.name for t in tools]) == ("message" in TOOLS)


@owes("C-43")
def test_without_a_workspace_or_its_manager_the_services_say_so() -> None:
    provider = add_nanobot_tools(ServiceCollection()).build_service_provider()

    with raises(BuildError, match="WorkspaceManager"):
        provider.get_required_service(NanoBotTools)
    assert provider.get_service("nothing") is None


def test_a_service_is_found_by_its_base_class() -> None:
    class Base:
        pass

    class Special(Base):
        pass

    made: list[Special] = []

    def make(_: Any) -> Special:
        made.append(Special())
        return made[-1]

    provider = ServiceCollection().add_singleton(Special, make).build_service_provider()

    assert provider.get_service(Base) is provider.get_service(Special)
    assert len(made) == 1


# -- MCP --------------------------------------------------------------------------------------


class Server:
    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name, self.config, self.closed = name, config, False

    async def list_tools(self) -> Any:
        return SimpleNamespace(
            tools=[SimpleNamespace(name=f"{self.name}_read", description="Read.", inputSchema=None)]
        )

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return SimpleNamespace(content=[SimpleNamespace(text=f"{self.name}:{name}")])

    async def aclose(self) -> None:
        self.closed = True


CONFIG = {
    "Tools": {
        "McpServers": {
            "filesystem": {
                "Command": "npx",
                "Args": ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/dir"],
            },
            "github": {
                "Command": "npx",
                "Args": ["-y", "@modelcontextprotocol/server-github"],
                "Env": {"GITHUB_TOKEN": "your-token"},
                "ToolTimeout": 7,
            },
        }
    }
}


@owes("C-36", "C-37", "C-38", "C-39", "C-40")
async def test_mcp_tools_stand_beside_built_in_tools_in_one_list() -> None:
    opened: dict[str, Server] = {}

    async def connect(name: str, config: Mapping[str, Any]) -> Server:
        opened[name] = Server(name, config)
        return opened[name]

    async with NanoBotMcpClient(connect) as client:
        for name, config in CONFIG["Tools"]["McpServers"].items():
            await client.connect(name, config)
        tools = [create_tool(lambda: "local", name="local"), *await client.get_all_tools()]
        door = Executor(tools, policy=["allow call:github/*"])

        assert client.connected_servers == ("filesystem", "github")
        assert [t.name for t in await client.list_tools("github")] == ["github_read"]
        assert opened["github"].config["env"] == {"GITHUB_TOKEN": "your-token"}
        assert str(await door.call("local", {})) == "local"
        assert str(await door.call("github_read", {})) == "github:github_read"
        assert not (await door.call("filesystem_read", {})).ok
        await client.disconnect("filesystem")
        await client.disconnect("filesystem")
        with raises(BuildError, match="connected already"):
            await client.connect("github", {})
        with raises(BuildError, match="connected are github"):
            await client.list_tools("filesystem")
    assert opened["github"].closed
    assert client.connected_servers == ()


# -- the document's own tools, as functions ----------------------------------------------------


@owes("C-08", "C-12", "C-16", "C-48")
async def test_the_documents_tool_factories_work_as_plain_functions(tmp_path: Path) -> None:
    sent: list[Any] = []

    def create_read_file_tool(workspace: Path) -> Any:
        def read_file(path: str, startLine: int | None = None, endLine: int | None = None) -> str:
            full = workspace / path
            if not full.exists():
                return f"Error: File not found: {path}"
            lines = full.read_text().split("\n")
            first = startLine or 1
            return "\n".join(f"{n}→{t}" for n, t in enumerate(lines[first - 1 : endLine], first))

        return create_tool(read_file, description="Read the contents of a file.")

    def create_message_tool(bus: list[Any]) -> Any:
        async def message(content: str, channel: str | None = None, chatId: str | None = None) -> str:
            bus.append((content, channel, chatId))
            return "Message sent successfully"

        return create_tool(message, description="Send a message to a specific channel and chat.")

    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    door = Executor([create_read_file_tool(tmp_path), create_message_tool(sent)])

    assert (
        str(await door.call("read_file", {"path": "a.txt", "startLine": 2, "endLine": 3})) == "2→two\n3→three"
    )
    assert str(await door.call("read_file", {"path": "x"})) == "Error: File not found: x"
    assert str(await door.call("message", {"content": "hi", "chatId": "5"})) == "Message sent successfully"
    assert sent == [("hi", None, "5")]


@owes("C-01")
def test_the_advertised_way_is_the_decorator_all_the_same() -> None:
    @tool(effects=())
    def plain(x: int) -> int:
        """Give it back."""
        return x

    assert plain(3) == 3
    with raises(BuildError, match="declares no effects"):
        tool(name="f")(lambda x: x)


@pytest.mark.parametrize("name", ["read_file"])
@owes("C-02")
def test_options_may_leave_the_name_to_the_function(name: str) -> None:
    def read_file(path: str) -> str:
        """Read it."""
        return path

    assert create_tool(read_file, AIFunctionFactoryOptions()).name == name


@owes("C-47")
def test_every_tool_of_the_documents_list_is_there_with_the_parameters_that_it_names() -> None:
    listed = {
        "read_file": (), "write_file": (), "edit_file": (), "list_dir": (), "exec": (), "web_search": (), "web_fetch": (),
        "message": (), "spawn": ("task", "label"), "cron": ("action", "name", "schedule", "message"),
    }  # fmt: skip

    kit = {tool.name: tool for tool in builtin(*listed)}

    assert set(kit) == set(listed)
    for name, parameters in listed.items():
        assert set(parameters) <= set(kit[name].schema["properties"]), name
