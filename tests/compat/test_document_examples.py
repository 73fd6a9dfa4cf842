"""Every code example of the five documents runs here or in a test that the table names.

Where an example is of a tool that a later part brings (web, messages, sessions, browser …), a tool of that name and
shape is written as the document writes it: schema, calls, results and texts hold; what such a tool does is tested where
it is built.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import Effect, Executor, ToolResult
from pegboard.compat import moltbot
from pegboard.compat.nanobot import BaseTool, ToolRegistry
from pegboard.compat.nanobot_net import AIFunctionFactoryOptions, create_tool
from pegboard.core.events import CallUpdate
from pegboard.dialects import DIALECTS
from tests.compat.documents import block, blocks, literals, typescript_schema
from tests.interop.server import loopback
from tests.ledger import owes

HERE = "compat.test_document_examples"
NANOBOT, NET, MOLTBOT, FLOW = (
    f"compat.test_{n}" for n in ("nanobot", "nanobot_net", "moltbot", "artifactflow")
)
PROFILES, RULES = "compat.test_profiles", "compat.test_rules"
DECLARED, CALLED, RETURNED = (
    f"{HERE}::test_a_documented_parameter_list_is_a_tool_that_takes_what_it_says",
    f"{HERE}::test_the_documents_calls_reach_a_tool_of_that_shape",
    f"{HERE}::test_the_documents_results_come_back_as_they_stand",
)
SETTINGS = "cli.test_document_settings::test_003s_settings_file_is_read_as_it_stands"

WHERE: dict[str, str] = {
    # 000: file tree, class Tool, to_schema, ToolRegistry, execute, _resolve_path, deny_patterns, guard, execute
    # of exec, MCP servers, the way to the model, its list, the bug.
    "000-1": f"{NANOBOT}::test_the_package_shows_both_bases_and_the_registry",
    "000-2": f"{NANOBOT}::test_a_000_tool_is_four_members_and_its_schema_is_the_openai_form_unchanged",
    "000-3": f"{NANOBOT}::test_a_000_tool_is_four_members_and_its_schema_is_the_openai_form_unchanged",
    "000-4": f"{NANOBOT}::test_the_registry_keeps_tools_by_name",
    "000-5": f"{NANOBOT}::test_every_way_of_000s_execute_has_its_text",
    "000-6": f"{HERE}::test_000s_path_rule_resolves_before_it_checks",
    "000-7": f"{RULES}::test_000s_default_deny_patterns",
    "000-8": f"{RULES}::test_allow_patterns_must_fit_every_whole_segment",
    "000-9": f"{PROFILES}::test_nanobots_texts",
    "000-10": f"{NANOBOT}::test_000s_mcp_wrapper_has_prefix_schema_and_all_blocks_as_text",
    "000-11": f"{HERE}::test_000s_way_from_schema_to_result",
    "000-12": f"{PROFILES}::test_000s_read_file_is_serialised_exactly_as_shown",
    "000-13": f"{HERE}::test_000s_search_sends_the_key_of_the_instance",
    # 001: diagram, registry, BaseTool, parallel, read, exec, glob, ask_user, cron, MCP diagram, wrapper, servers,
    # discovery, database tool, registration, self-check, hook, sandboxed exec.
    "001-1": f"{NANOBOT}::test_the_package_shows_both_bases_and_the_registry",
    "001-2": f"{NANOBOT}::test_asking_001s_registry_for_a_missing_tool_raises",
    "001-3": f"{NANOBOT}::test_a_001_tool_shows_the_anthropic_form_and_a_default_makes_optional",
    "001-4": f"{NANOBOT}::test_parallel_calls_meet_and_answer_in_call_order",
    "001-5": f"{NANOBOT}::test_a_tool_without_parameters_takes_them_from_run",
    "001-6": f"{HERE}::test_001s_exec_and_glob_tools_run_as_written",
    "001-7": f"{HERE}::test_001s_exec_and_glob_tools_run_as_written",
    "001-8": f"{HERE}::test_001s_ask_and_cron_tools_take_their_services",
    "001-9": f"{HERE}::test_001s_ask_and_cron_tools_take_their_services",
    "001-10": f"{NANOBOT}::test_001s_mcp_wrapper_keeps_the_name_shows_properties_and_joins_texts",
    "001-11": f"{NANOBOT}::test_001s_mcp_wrapper_keeps_the_name_shows_properties_and_joins_texts",
    "001-12": "cli.test_document_settings::test_both_documents_server_lists_load_from_a_settings_file",
    "001-13": f"{NANOBOT}::test_001s_mcp_wrapper_keeps_the_name_shows_properties_and_joins_texts",
    "001-14": f"{NANOBOT}::test_the_documents_own_check_of_its_tool_passes",
    "001-15": f"{NANOBOT}::test_registries_share_nothing_and_the_modules_own_is_empty_until_asked",
    "001-16": f"{NANOBOT}::test_the_documents_own_check_of_its_tool_passes",
    "001-17": f"{NANOBOT}::test_the_safety_hook_asks_with_name_and_input_and_a_no_is_a_result",
    "001-18": f"{NANOBOT}::test_the_sandboxed_exec_example_is_a_subclass_with_the_same_signature",
    # 002: the three ways, agent, files, shell, web, message, MCP, client, servers, DI, context, middleware,
    # dependencies, what not to write, what to write, typed, safe exec.
    "002-1": f"{NET}::test_way_3_defaults_and_types_become_the_schema",
    "002-2": f"{NET}::test_the_framework_runs_the_loop_and_middleware_sees_every_call",
    "002-3": f"{NET}::test_the_documents_tool_factories_work_as_plain_functions",
    "002-4": f"{NET}::test_the_safe_exec_example_blocks_dangerous_commands",
    "002-5": f"{HERE}::test_002s_web_tools_are_functions_with_defaults",
    "002-6": f"{NET}::test_the_documents_tool_factories_work_as_plain_functions",
    "002-7": f"{NET}::test_mcp_tools_stand_beside_built_in_tools_in_one_list",
    "002-8": f"{NET}::test_mcp_tools_stand_beside_built_in_tools_in_one_list",
    "002-9": "cli.test_document_settings::test_both_documents_server_lists_load_from_a_settings_file",
    "002-10": f"{NET}::test_add_nanobot_tools_registers_one_read_only_list_over_the_workspace",
    "002-11": f"{NET}::test_any_tool_reads_session_and_agent_of_the_run",
    "002-12": f"{NET}::test_the_framework_runs_the_loop_and_middleware_sees_every_call",
    "002-13": f"{HERE}::test_tools_depend_on_the_abstraction_and_never_the_reverse",
    "002-14": f"{HERE}::test_002s_wrong_way_is_not_needed_and_the_right_way_and_typed_lambdas_work",
    "002-15": f"{HERE}::test_002s_wrong_way_is_not_needed_and_the_right_way_and_typed_lambdas_work",
    "002-16": f"{HERE}::test_002s_wrong_way_is_not_needed_and_the_right_way_and_typed_lambdas_work",
    "002-17": f"{NET}::test_the_safe_exec_example_blocks_dangerous_commands",
    # 003: parameter lists and results of the tools; then factory, readers, results, sets, settings.
    "003-2": f"{MOLTBOT}::test_the_coding_set_is_read_write_edit",
    "003-6": f"{HERE}::test_003s_commands_run_by_milliseconds_and_in_the_background",
    "003-17": SETTINGS,
    "003-19": RETURNED,
    "003-30": f"{MOLTBOT}::test_a_factory_tool_gets_call_id_params_signal_and_streams_updates",
    "003-31": f"{MOLTBOT}::test_the_parameter_readers",
    "003-32": f"{MOLTBOT}::test_json_image_and_text_results",
    "003-33": f"{MOLTBOT}::test_the_native_set_has_sixteen_tools_in_the_documents_order",
    "003-34": f"{MOLTBOT}::test_the_coding_set_is_read_write_edit",
    "003-35": f"{MOLTBOT}::test_the_full_set_adds_exec_process_patch_plugins_and_channels",
    "003-36": SETTINGS,
    "003-37": SETTINGS,
    "003-38": SETTINGS,
    # 004: tree, permission, flow, parameter, result, BaseTool, sample, registry, kit, start-up, XML, parser,
    # generator, its text.
    "004-1": f"{FLOW}::test_parameters_results_and_config_as_the_document_has_them",
    "004-2": f"{FLOW}::test_confirm_asks_and_a_refusal_is_a_result",
    "004-3": f"{FLOW}::test_confirm_asks_and_a_refusal_is_a_result",
    "004-4": f"{FLOW}::test_parameters_results_and_config_as_the_document_has_them",
    "004-5": f"{FLOW}::test_parameters_results_and_config_as_the_document_has_them",
    "004-6": f"{FLOW}::test_calling_a_tool_validates_and_executes",
    "004-7": f"{FLOW}::test_a_004_tool_stands_in_any_executor",
    "004-8": f"{FLOW}::test_library_and_kits",
    "004-9": f"{FLOW}::test_execute_tool_gives_a_result_whatever_happens",
    "004-10": f"{FLOW}::test_the_start_up_of_the_document",
    "004-11": f"{FLOW}::test_the_documents_call_is_read",
    "004-12": f"{FLOW}::test_without_schemas_the_four_rules_type_and_with_them_the_schema_does",
    "004-13": f"{FLOW}::test_the_generated_text_is_the_documents",
    "004-14": f"{FLOW}::test_the_generated_text_is_the_documents",
}

PARAMETERS = {
    "003-1": "read", "003-3": "write", "003-4": "edit", "003-5": "exec", "003-7": "process",
    "003-8": "sessions_list", "003-10": "sessions_send", "003-12": "sessions_spawn", "003-14": "sessions_history",
    "003-15": "web_search", "003-18": "web_fetch", "003-20": "message", "003-22": "browser", "003-23": "canvas",
    "003-24": "cron", "003-26": "gateway", "003-27": "nodes", "003-28": "image",
}  # fmt: skip
"""Block of 003 → the tool whose parameters it lists."""

CALLS = {"003-11": "003-10", "003-21": "003-20", "003-25": "003-24"}
"""Block of example calls → block of that tool's parameters."""

RESULTS = {
    "003-9": "sessions_list",
    "003-13": "session_status",
    "003-16": "web_search",
    "003-29": "agents_list",
}
"""Block of an example result → its tool."""

WHERE |= dict.fromkeys(PARAMETERS, DECLARED) | dict.fromkeys(CALLS, CALLED) | dict.fromkeys(RESULTS, RETURNED)


@pytest.mark.parametrize("number", ["000", "001", "002", "003", "004"])
def test_every_code_block_of_the_documents_has_its_test(number: str) -> None:
    found = {b.id for b in blocks(number)}

    assert {i for i in WHERE if i.startswith(number)} == found
    for identity in found:
        module, _, name = WHERE[identity].partition("::")
        assert callable(getattr(importlib.import_module(f"tests.{module}"), name))


# -- 003 --------------------------------------------------------------------------------------


def echo(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A tool in the document's form that gives back what it was given."""

    async def execute(tool_call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
        on_update({"got": sorted(params)})
        return moltbot.json_result({"call": tool_call_id, "params": params})

    return {"name": name, "description": f"{name} of the document.", "parameters": schema, "execute": execute}


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """A value for every parameter."""
    values = {"string": "text", "number": 3, "boolean": True, "array": [{"type": "rect", "x": 1, "y": 2}]}
    return {n: s["enum"][-1] if "enum" in s else values[s["type"]] for n, s in schema["properties"].items()}


@owes("M-43", "M-44")
@pytest.mark.parametrize(("identity", "name"), PARAMETERS.items())
async def test_a_documented_parameter_list_is_a_tool_that_takes_what_it_says(
    identity: str, name: str
) -> None:
    schema = typescript_schema(block(identity).text)
    door = Executor([moltbot.agent_tool(echo(name, schema))])
    given = sample(schema)

    whole = await door.call(name, json.dumps(given), id="c1")
    least = await door.call(name, {n: given[n] for n in schema["required"]})
    wrong = await door.call(name, {**given, next(iter(given)): {"not": "this"}})

    assert schema["properties"]
    assert whole.data == {"call": "c1", "params": given}
    assert least.ok
    assert wrong.error is not None
    assert wrong.error.code == "invalid_arguments"
    assert next(iter(given)) in wrong.error.message
    assert {"got": sorted(given)} in [e.update for e in door.events if isinstance(e, CallUpdate)]
    assert door.toolkit[name].schema["properties"].keys() == schema["properties"].keys()
    for dialect in DIALECTS:
        assert door.toolkit.schemas(dialect)


@owes("M-44")
@pytest.mark.parametrize(("identity", "parameters"), CALLS.items())
async def test_the_documents_calls_reach_a_tool_of_that_shape(identity: str, parameters: str) -> None:
    schema = typescript_schema(block(parameters).text)
    # The example uses `caption`, which the list of parameters forgets (ledger 1.6, M-32).
    schema["properties"].setdefault("caption", {"type": "string"})
    name = PARAMETERS[parameters]
    door = Executor([moltbot.agent_tool(echo(name, schema))])
    calls = literals(block(identity).text)

    results = [await door.call(name, call) for call in calls]

    assert calls
    assert [r.data["params"] for r in results] == calls


@owes("M-48", "M-50")
@pytest.mark.parametrize(("identity", "name"), [*RESULTS.items(), ("003-19", "web_fetch")])
async def test_the_documents_results_come_back_as_they_stand(identity: str, name: str) -> None:
    text = block(identity).text
    value = literals(text)[0] if identity in RESULTS else None
    made = moltbot.text_result(text) if value is None else moltbot.json_result(value)
    schema = {"type": "object", "properties": {}}
    tool = {"name": name, "description": name, "parameters": schema, "execute": lambda call_id, params: made}

    result = await Executor([moltbot.agent_tool(tool)]).call(name, {})

    assert result.ok
    if value is None:
        assert str(result) == text
    else:
        assert result.data == value
        assert json.loads(str(result)) == value


@owes("M-06", "M-07", "M-08", "M-09", "M-10", "M-11")
async def test_003s_commands_run_by_milliseconds_and_in_the_background(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"scripts": {"build": "echo built"}}', encoding="utf-8")
    first, second = literals(block("003-6").text)
    kit = [t for t in moltbot.create_moltbot_coding_tools() if t.name in ("exec", "process")]
    async with Executor(kit, workspace=tmp_path, policy=["allow exec:*", "allow control:*"]) as door:
        listed = await door.call("exec", first)
        started = await door.call("exec", {**second, "command": "echo built"})
        task = started.data["session_id"] if "session_id" in started.data else started.data["process_id"]
        output = await door.call("process", {"action": "output", "task_id": task})
        preview = await door.preview("exec", second)

    assert "package.json" in str(listed)
    assert started.ok
    assert "built" in f"{started}{output}"
    assert (preview.effects[0].kind, preview.effects[0].target) == ("exec", "npm run build")


# -- 000 and 001 ------------------------------------------------------------------------------


@owes("N-30", "N-31", "N-32", "N-33", "N-121")
async def test_000s_path_rule_resolves_before_it_checks(tmp_path: Path) -> None:
    from pegboard import builtin

    root, outside = tmp_path / "ws", tmp_path / "out"
    root.mkdir()
    outside.mkdir()
    (root / "a.txt").write_text("inside", encoding="utf-8")
    (outside / "s.txt").write_text("secret", encoding="utf-8")
    (root / "link").symlink_to(outside)
    door = Executor(builtin("read_file").profile("nanobot"), workspace=root)

    assert str(await door.call("read_file", {"path": "a.txt"})) == "inside"
    assert str(await door.call("read_file", {"path": str(root / "a.txt")})) == "inside"
    for path in ("../out/s.txt", "link/s.txt", str(outside / "s.txt"), "~/s.txt", "/etc/shadow"):
        result = await door.call("read_file", {"path": path})
        assert str(result).startswith("Error")
        assert "secret" not in str(result)


@owes("N-03", "N-119")
async def test_000s_way_from_schema_to_result() -> None:
    from tests.compat.test_nanobot import Echo

    registry = ToolRegistry()
    registry.register(Echo())
    shown = registry.get_definitions()
    reply = {"id": "call_1", "name": shown[0]["function"]["name"], "arguments": {"text": "hi", "times": "2"}}

    assert shown[0]["type"] == "function"
    assert await registry.execute(reply["name"], reply["arguments"]) == "hihi"


async def test_000s_search_sends_the_key_of_the_instance() -> None:
    import httpx2

    class WebSearchTool(BaseTool):
        name = "web_search"
        description = "Search the web."
        parameters = {"query": {"type": "string"}, "count": {"type": "integer", "default": 5}}  # noqa: RUF012

        def __init__(self, url: str, api_key: str | None = None) -> None:
            self.url, self.api_key = url, api_key

        async def run(self, query: str, count: int = 5) -> str:
            async with httpx2.AsyncClient(trust_env=False) as client:
                answer = await client.get(
                    self.url,
                    params={"q": query, "count": count},
                    headers={"X-Subscription-Token": self.api_key},
                )
            return f"Results for: {query}\n{answer.text}"

    with loopback() as server:
        server.answer = lambda _: (200, {}, b"1. Title")
        registry = ToolRegistry()
        registry.register(WebSearchTool(f"{server.url}/res/v1/web/search", api_key="instance-key"))
        text = await registry.execute("web_search", {"query": "cats"})

    assert text == "Results for: cats\n1. Title"
    assert server.seen[0].headers["x-subscription-token"] == "instance-key"
    assert server.seen[0].query == [("q", "cats"), ("count", "5")]


@owes("D-09", "D-10")
async def test_001s_ask_and_cron_tools_take_their_services() -> None:
    asked: list[str] = []
    jobs: list[dict[str, str]] = []

    class AskUserTool(BaseTool):
        name = "ask_user"
        description = "向用户提问,等待用户回复后继续。适用于需要用户确认的操作。"

        async def run(self, question: str) -> str:
            asked.append(question)
            return "是"

    class CronTool(BaseTool):
        name = "schedule_task"
        description = "创建定时任务,在指定时间或按 cron 表达式重复执行。"

        async def run(self, task: str, schedule: str, channel: str) -> str:
            cron_expr = {"每天早上九点": "0 9 * * *"}.get(schedule, schedule)
            jobs.append({"task": task, "schedule": cron_expr, "channel": channel})
            return f"任务已创建:{task},调度:{cron_expr}"

    registry = ToolRegistry()
    registry.register(AskUserTool())
    registry.register(CronTool())

    assert await registry.execute("ask_user", {"question": "继续吗?"}) == "是"
    job = {"task": "日报", "schedule": "每天早上九点", "channel": "telegram"}
    assert await registry.execute("schedule_task", job) == "任务已创建:日报,调度:0 9 * * *"
    assert asked == ["继续吗?"]
    assert jobs == [{"task": "日报", "schedule": "0 9 * * *", "channel": "telegram"}]
    ask, cron = registry.list_schemas()
    assert ask["description"] == "向用户提问,等待用户回复后继续。适用于需要用户确认的操作。"
    assert cron["input_schema"]["required"] == ["task", "schedule", "channel"]
    assert await registry.execute("schedule_task", {"task": "x"}) != job


@owes("D-09", "D-10", "D-11")
async def test_001s_exec_and_glob_tools_run_as_written(tmp_path: Path) -> None:
    import asyncio
    import glob as globbing
    import os

    class ExecTool(BaseTool):
        name = "exec"
        description = "执行 Shell 命令并返回输出。"

        async def run(self, command: str, timeout: int = 30) -> str:
            pipe = asyncio.subprocess.PIPE
            proc = await asyncio.create_subprocess_shell(command, stdout=pipe, stderr=pipe)
            stdout, stderr = await asyncio.wait_for(proc.communicate(), timeout=timeout)
            return stdout.decode() or stderr.decode()

    class GlobTool(BaseTool):
        name = "glob"
        description = "用 glob 模式匹配文件路径,按修改时间排序返回。"

        async def run(self, pattern: str, path: str = ".") -> str:
            files = globbing.glob(f"{path}/{pattern}", recursive=True)
            files.sort(key=os.path.getmtime, reverse=True)
            return "\n".join(files[:100])

    for age, name in enumerate(("new.py", "old.py")):
        (tmp_path / name).write_text("x", encoding="utf-8")
        os.utime(tmp_path / name, (1_000 - age, 1_000 - age))
    registry = ToolRegistry([ExecTool(), GlobTool()])

    assert await registry.execute("exec", {"command": "echo out"}) == "out\n"
    assert await registry.execute("exec", {"command": "echo err >&2", "timeout": "5"}) == "err\n"
    found = await registry.execute("glob", {"pattern": "*.py", "path": str(tmp_path)})
    assert found == f"{tmp_path}/new.py\n{tmp_path}/old.py"
    assert registry.list_schemas()[0]["input_schema"]["required"] == ["command"]


# -- 002 --------------------------------------------------------------------------------------


@owes("C-02", "C-04")
async def test_002s_web_tools_are_functions_with_defaults() -> None:
    import httpx2

    def create_web_search_tool(url: str, api_key: str | None = None) -> Any:
        async def search(query: str, count: int = 5) -> str:
            if not api_key:
                return "Error: BRAVE_API_KEY not configured"
            async with httpx2.AsyncClient(trust_env=False) as http:
                headers = {"X-Subscription-Token": api_key}
                answer = await http.get(url, params={"q": query, "count": count}, headers=headers)
            return answer.text

        options = AIFunctionFactoryOptions("web_search", "Search the web using Brave Search API.")
        return create_tool(search, options, effects=(Effect("connect", url.split("/")[2]),))

    def create_web_fetch_tool(host: str) -> Any:
        async def fetch(url: str, maxChars: int = 50000) -> str:
            async with httpx2.AsyncClient(trust_env=False) as http:
                content = (await http.get(url)).text
            return f"{content[:maxChars]}\n... (truncated)" if len(content) > maxChars else content

        options = AIFunctionFactoryOptions("web_fetch", "Fetch and extract main content from a URL.")
        return create_tool(fetch, options, effects=(Effect("connect", host),))

    with loopback() as server:
        server.answer = lambda _: (200, {"Content-Type": "text/plain"}, b"0123456789")
        tools = [create_web_search_tool(server.url, "k"), create_web_fetch_tool(server.host)]
        refused = await Executor(tools).call("web_fetch", {"url": server.url})
        door = Executor(tools, policy=[f"allow connect:{server.host}"])
        found = await door.call("web_search", {"query": "a b"})
        page = await door.call("web_fetch", {"url": server.url, "maxChars": "4"})
    keyless = Executor([create_web_search_tool("http://127.0.0.1:9")], policy=["allow connect:*"])

    assert not refused.ok
    assert str(found) == "0123456789"
    assert str(page) == "0123\n... (truncated)"
    assert dict(server.seen[0].query) == {"q": "a b", "count": "5"}
    assert str(await keyless.call("web_search", {"query": "x"})).startswith(
        "Error: BRAVE_API_KEY not configured"
    )
    assert tools[1].schema["properties"]["maxChars"]["default"] == 50000


@owes("C-01", "C-07", "C-50")
async def test_002s_wrong_way_is_not_needed_and_the_right_way_and_typed_lambdas_work() -> None:
    seen: list[tuple[str, int, bool]] = []

    async def my_function(text: str) -> str:
        return text.upper()

    def do_something(path: str, line: int, recursive: bool) -> str:
        seen.append((path, line, recursive))
        return "done"

    tool = create_tool(my_function, AIFunctionFactoryOptions(name="my_tool", description="Tool description"))
    typed = create_tool(do_something, name="my_typed_tool")
    door = Executor([tool, typed])

    result: ToolResult = await door.call("my_tool", {"text": "a"})
    await door.call("my_typed_tool", '{"path": "a", "line": "3", "recursive": "true"}')
    wrong = await door.call("my_typed_tool", {"path": "a", "line": "three", "recursive": True})

    assert str(result) == "A"
    assert (tool.name, tool.description) == ("my_tool", "Tool description")
    assert seen == [("a", 3, True)]
    assert wrong.error is not None
    assert wrong.error.code == "invalid_arguments"
    kinds = {n: s["type"] for n, s in typed.schema["properties"].items()}
    assert kinds == {"path": "string", "line": "integer", "recursive": "boolean"}


@owes("C-48")
def test_tools_depend_on_the_abstraction_and_never_the_reverse() -> None:
    import ast

    import pegboard

    root = Path(pegboard.__file__).parent
    for layer, forbidden in (
        ("core", ("tools", "app", "compat", "runtime")),
        ("tools", ("app", "runtime", "files")),
    ):
        for file in (root / layer).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    assert not node.module.startswith(tuple(f"pegboard.{f}" for f in forbidden)), file
