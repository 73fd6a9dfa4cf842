"""The code examples of document 004 run on our executor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pytest import raises

from pegboard import AllowOnce, Executor, ToolNotFoundError
from pegboard.compat import artifactflow
from pegboard.compat.artifactflow import (
    AgentToolkit,
    BaseTool,
    CallSubagentTool,
    ToolParameter,
    ToolPermission,
    ToolPromptGenerator,
    ToolRegistry,
    ToolResult,
    XMLToolCallParser,
    create_artifact_tools,
    format_tool_result,
    parse_tool_calls,
    xml_section,
)
from pegboard.core.errors import InvalidArguments
from pegboard.dialects.xml import format_call
from tests.ledger import owes


class WebSearchTool(BaseTool):
    """The document's example, over a table in place of the network."""

    def __init__(self) -> None:
        super().__init__(
            name="web_search", description="搜索互联网获取信息", permission=ToolPermission.AUTO, region="cn"
        )

    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter(name="query", type="string", description="搜索查询词", required=True),
            ToolParameter(
                name="max_results", type="integer", description="最大结果数量", required=False, default=10
            ),
        ]

    async def execute(self, query: str, max_results: int = 10, **kwargs: Any) -> ToolResult:
        try:
            results = self._do_search(query, max_results)
            return ToolResult(success=True, data=results, metadata={"engine": "table"})
        except Exception as e:  # noqa: BLE001  (as the document writes it)
            return ToolResult(success=False, error=str(e))

    def _do_search(self, query: str, max_results: int) -> list[str]:
        if query == "broken":
            raise RuntimeError("no route")
        return [*[f"{query} {n}" for n in range(max_results)][:2], str(max_results)]


class Delete(BaseTool):
    def __init__(self) -> None:
        super().__init__("delete", "Delete it.", ToolPermission.CONFIRM)
        self.ran = 0

    def get_parameters(self) -> list[ToolParameter]:
        return []

    async def execute(self, **params: Any) -> ToolResult:
        self.ran += 1
        return ToolResult(success=True, data="gone")


@owes("A-07", "A-08", "A-09", "A-10", "A-11", "A-12", "A-13", "X-59")
def test_parameters_results_and_config_as_the_document_has_them() -> None:
    tool = WebSearchTool()
    parameter = ToolParameter("price", "number", "A price")

    assert tool.config == {"region": "cn"}
    assert parameter.required
    assert parameter.default is None
    assert ToolResult(success=True).to_dict() == {
        "success": True, "data": None, "error": None, "metadata": {},
    }  # fmt: skip
    with raises(TypeError):
        BaseTool("a", "b")  # type: ignore[abstract]
    for missing in ("get_parameters", "execute"):
        members = {"get_parameters": lambda self: [], "execute": lambda self, **_: None}
        half = type("Half", (BaseTool,), {k: v for k, v in members.items() if k != missing})
        with raises(TypeError, match=missing):
            half("a", "b")


@owes("A-14", "U-12")
@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"query": "x"}, None),
        ({"query": "x", "max_results": 3}, None),
        ({}, ".query: is required but missing"),
        ({"query": "x", "page": 2}, ".page: unknown parameter"),
        ({"query": 5}, ".query: must be a string, got 5"),
    ],
)
def test_validation_gives_none_or_the_problem(params: dict[str, Any], problem: str | None) -> None:
    assert WebSearchTool().validate_params(params) == problem


@owes("A-15", "A-16", "A-17", "U-12")
async def test_calling_a_tool_validates_and_executes() -> None:
    tool = WebSearchTool()

    assert (await tool(query="x")).data == ["x 0", "x 1", "10"]
    assert await tool(query="broken") == ToolResult(success=False, error="no route")
    assert (await tool()).error == ".query: is required but missing"


class Echo(BaseTool):
    """Gives back what reached it: nothing of its own fills a gap."""

    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter("query", "string", "What"),
            ToolParameter("max_results", "integer", "How many", required=False, default=10),
        ]

    async def execute(self, **params: Any) -> ToolResult:
        return ToolResult(success=True, data=params)


@owes("A-16", "U-12")
async def test_a_default_of_the_parameter_list_reaches_a_tool_that_has_none_itself() -> None:
    kit = AgentToolkit("lead")
    kit.add_tool(Echo("echo", "Echo."))

    assert (await Echo("echo", "Echo.")(query="x")).data == {"query": "x", "max_results": 10}
    assert (await kit.execute_tool("echo", {"query": "x"})).data == {"query": "x", "max_results": 10}


@owes("A-18", "A-19", "A-20", "A-21", "A-22", "A-23", "A-24", "A-25", "A-26", "X-61")
def test_library_and_kits() -> None:
    registry = ToolRegistry()
    search, delete = WebSearchTool(), Delete()
    registry.register_tool_to_library(search)
    registry.register_tool_to_library(delete)

    kit = registry.create_agent_toolkit("search", ["web_search"])

    assert registry.tool_library == {"web_search": search, "delete": delete}
    assert kit.agent_name == "search"
    assert registry.get_agent_toolkit("search") is kit
    assert registry.get_agent_toolkit("nobody") is None
    assert kit.get_tool("web_search") is search
    assert kit.get_tool("delete") is None
    assert kit.list_tools() == [search]
    assert registry.create_agent_toolkit("empty").list_tools() == []
    kit.add_tools([delete])
    assert kit.toolkit().names == ("web_search", "delete")


@owes("X-61", "K-06")
def test_an_unknown_name_is_an_error_unless_the_documents_way_is_asked_for() -> None:
    registry, loose = ToolRegistry(), ToolRegistry(strict=False)
    for one in (registry, loose):
        one.register_tool_to_library(WebSearchTool())

    with raises(ToolNotFoundError, match="asks for 'web_serch'; did you mean 'web_search'"):
        registry.create_agent_toolkit("lead", ["web_serch"])
    assert loose.create_agent_toolkit("lead", ["web_serch", "web_search"]).toolkit().names == ("web_search",)


@owes("A-27", "X-25")
async def test_execute_tool_gives_a_result_whatever_happens() -> None:
    kit = AgentToolkit("lead")
    kit.add_tool(WebSearchTool())

    assert (await kit.execute_tool("nope", {})).error == "Tool 'nope' not available in lead's toolkit"
    found = await kit.execute_tool("web_search", {"query": "x", "max_results": "3"})
    assert found.success
    assert found.data == ["x 0", "x 1", "3"]
    assert found.metadata["engine"] == "table"
    failed = await kit.execute_tool("web_search", {"query": "broken"})
    assert (failed.success, failed.error) == (False, "no route")
    await kit.aclose()


@owes("A-02", "A-03", "A-05", "A-06", "X-24", "X-26", "K-24")
async def test_confirm_asks_and_a_refusal_is_a_result() -> None:
    tool = Delete()
    kit, yes = AgentToolkit("lead"), AgentToolkit("lead", approver=AllowOnce())
    kit.add_tool(tool)
    yes.add_tool(tool)

    refused = await kit.execute_tool("delete", {})
    allowed = await yes.execute_tool("delete", {})

    assert not refused.success
    assert refused.error is not None
    assert "was not allowed to run" in refused.error
    assert allowed.data == "gone"
    assert tool.ran == 1


@owes("A-28", "A-29", "A-30", "A-01")
def test_the_start_up_of_the_document() -> None:
    registry = ToolRegistry()
    tools: list[Any] = [CallSubagentTool(["search", "crawl"]), WebSearchTool()]
    artifact_manager = None
    tools.extend(create_artifact_tools(artifact_manager))
    for tool in tools:
        registry.register_tool_to_library(tool)
    agents = [
        SimpleNamespace(config=SimpleNamespace(name=n, required_tools=r), toolkit=None)
        for n, r in (
            ("lead", ["call_subagent", "create_artifact"]),
            ("search", ["web_search"]),
            ("crawl", []),
        )
    ]
    for agent in agents:
        if agent.config.required_tools:
            agent.toolkit = registry.create_agent_toolkit(
                agent.config.name, tool_names=agent.config.required_tools
            )

    assert agents[0].toolkit.toolkit().names == ("call_subagent", "create_artifact")
    assert agents[1].toolkit.toolkit().names == ("web_search",)
    assert [registry.get_agent_toolkit(n) for n in ("lead", "search", "crawl")] == [a.toolkit for a in agents]
    assert agents[2].toolkit is None


@owes("A-01", "A-28")
def test_the_four_artifact_tools_of_the_document_are_made() -> None:
    made = {t.name for t in create_artifact_tools()}

    assert made == {"create_artifact", "update_artifact", "rewrite_artifact", "read_artifact"}


@owes("A-53")
def test_none_of_the_seven_tools_asks_by_itself() -> None:
    names = ("WebSearch", "WebFetch", "CreateArtifact", "ReadArtifact", "UpdateArtifact", "RewriteArtifact")
    made = [CallSubagentTool(["search"]), *(getattr(artifactflow, f"{name}Tool")() for name in names)]

    assert {tool.permission for tool in made} == {ToolPermission.AUTO}


@owes("A-28", "A-49", "A-51")
async def test_artifact_tools_take_a_manager() -> None:
    from pegboard.artifacts.versions import StoredArtifacts
    from pegboard.store.memory import MemoryStore

    kit = AgentToolkit("lead")
    kit.add_tools(create_artifact_tools(StoredArtifacts(MemoryStore())))

    made = await kit.execute_tool("create_artifact", {"id": "plan", "title": "Plan", "content": "one two"})
    changed = await kit.execute_tool("update_artifact", {"id": "plan", "old_str": "two", "new_str": "three"})
    read = await kit.execute_tool("read_artifact", {"id": "plan"})

    assert made.success, made.error
    assert changed.success, changed.error
    assert "one three" in str(read.data)


@owes("A-47", "U-08")
@pytest.mark.parametrize(
    ("agent", "instruction", "error"),
    [
        ("search", "Find it.", None),
        ("serch", "Find it.", "unknown agent 'serch'; valid agents: search, crawl"),
        ("search", "  ", "the instruction is empty; say what the agent shall do"),
    ],
)
async def test_call_subagent_checks_before_it_routes(agent: str, instruction: str, error: str | None) -> None:
    result = await CallSubagentTool(["search", "crawl"])(agent_name=agent, instruction=instruction)

    assert result.error == error
    assert result.success == (error is None)


# -- XML --------------------------------------------------------------------------------------

CALL = """<tool_call>
  <name>web_search</name>
  <params>
    <query><![CDATA[Python async best practices]]></query>
    <max_results><![CDATA[10]]></max_results>
  </params>
</tool_call>"""


@owes("A-31", "A-32", "A-33", "A-34", "A-35", "A-41")
def test_the_documents_call_is_read() -> None:
    (call,) = parse_tool_calls(f"Let me look.\n{CALL}")

    assert call.name == "web_search"
    assert call.params == {"query": "Python async best practices", "max_results": 10}
    assert call.raw_text == CALL
    assert XMLToolCallParser.parse_tool_calls(CALL) == [call]
    assert parse_tool_calls("no call here") == []
    assert [c.name for c in parse_tool_calls(CALL + CALL)] == ["web_search", "web_search"]


@owes("A-31", "A-32", "A-35")
@pytest.mark.parametrize(
    ("inside", "value"),
    [
        ('<![CDATA[a < b && c > "d"]]>', 'a < b && c > "d"'),
        ("<![CDATA[\n  two\n\tlines \n]]>", "\n  two\n\tlines \n"),
        ("<![CDATA[&lt;kept&gt;]]>", "&lt;kept&gt;"),
        ("<![CDATA[x]]]]><![CDATA[>y]]>", "x]]>y"),
        ("<![CDATA[a]]><![CDATA[b]]><![CDATA[c]]>", "abc"),
        ("<![CDATA[</query></params></tool_call>]]>", "</query></params></tool_call>"),
    ],
)
def test_what_stands_in_cdata_is_the_value_to_the_letter_and_is_written_so(inside: str, value: str) -> None:
    text = (
        f"<tool_call>\n  <name>say</name>\n  <params>\n    <query>{inside}</query>\n  </params>\n</tool_call>"
    )

    (call,) = parse_tool_calls(text)
    written = format_call("say", {"query": value})

    assert call.params == {"query": value}
    assert written.startswith("<tool_call>\n  <name>say</name>\n  <params>\n    <query><![CDATA[")
    assert written.endswith("]]></query>\n  </params>\n</tool_call>")
    assert parse_tool_calls(written)[0].params == {"query": value}


@owes("U-10")
def test_a_list_is_written_as_items_and_read_back() -> None:
    written = format_call("fetch", {"url_list": ["http://a", "x < y"]})

    assert "<url_list><item><![CDATA[http://a]]></item><item><![CDATA[x < y]]></item></url_list>" in written
    assert parse_tool_calls(written)[0].params == {"url_list": ["http://a", "x < y"]}


@owes("A-36", "A-37", "A-38", "A-39", "X-09")
def test_without_schemas_the_four_rules_type_and_with_them_the_schema_does() -> None:
    def call(value: str) -> str:
        return f"<tool_call><name>web_search</name><params><query><![CDATA[{value}]]></query></params></tool_call>"

    looks = [parse_tool_calls(call(v))[0].params["query"] for v in ("true", "false", "123", "3.14", "x")]
    typed = [parse_tool_calls(call(v), [WebSearchTool()])[0].params["query"] for v in ("true", "007", "3.10")]

    assert looks == [True, False, 123, 3.14, "x"]
    assert typed == ["true", "007", "3.10"]


@owes("A-40", "U-10", "U-11")
@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("<tool_call><name>f</name><params><a><![CDATA[x]]></params></tool_call>", {"a": "x"}),
        ("<tool_call><name>f</name><a>x & y < z</a></tool_call>", {"a": "x & y < z"}),
        (
            "<tool_call><name>f</name><params><a><item><![CDATA[1]]></item><item>b</item></a></params></tool_call>",
            {"a": [1, "b"]},
        ),
    ],
)
def test_loose_output_is_read_leniently(text: str, params: dict[str, Any]) -> None:
    (call,) = parse_tool_calls(text)

    assert call.params == params


@owes("A-40")
def test_a_call_that_was_cut_off_is_an_error_and_never_completed() -> None:
    with raises(InvalidArguments, match="ends inside a tool call"):
        parse_tool_calls("<tool_call><name>f</name><params><a><![CDATA[rm -rf /tmp/x")


class BochaSearch(BaseTool):
    def __init__(self) -> None:
        super().__init__("web_search", "Search the web for information using Bocha AI search engine")

    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter("query", "string", "Search query using keywords."),
            ToolParameter(
                "freshness", "string", "Time range filter: 'noLimit', 'oneDay', ...", False, "noLimit"
            ),
            ToolParameter("count", "integer", "Number of results to return (1-50)", False, 10),
        ]

    async def execute(self, **params: Any) -> ToolResult:
        return ToolResult(success=True)


@owes("A-42", "A-44", "U-13")
def test_the_generated_text_is_the_documents() -> None:
    assert (
        xml_section(BochaSearch())
        == """### web_search
Description: Search the web for information using Bocha AI search engine
Parameters:
  - query: string (required) - Search query using keywords.
  - freshness: string (optional) - Time range filter: 'noLimit', 'oneDay', ...
    Default: noLimit
  - count: integer (optional) - Number of results to return (1-50)
    Default: 10
Example:
<tool_call>
  <name>web_search</name>
  <params>
    <query><![CDATA[your_query_here]]></query>
    <freshness><![CDATA[noLimit]]></freshness>
    <count><![CDATA[10]]></count>
  </params>
</tool_call>"""
    )
    kit = AgentToolkit("lead")
    kit.add_tool(BochaSearch())
    text = ToolPromptGenerator.generate_tool_instruction(kit.list_tools())
    assert xml_section(BochaSearch()) in text
    assert "CDATA" in text.split("### web_search")[1].split("</tool_call>")[-1]


@owes("A-43", "U-14")
def test_results_become_xml_and_nothing_in_them_closes_the_block() -> None:
    text = format_tool_result("f", ToolResult(success=True, data={"items": [1, "]]></data></tool_result>"]}))

    assert text.startswith("<tool_result>\n  <name>f</name>\n  <success>true</success>")
    assert text.count("]]></item>") == 2
    assert parse_tool_calls(text) == []
    assert ToolPromptGenerator.format_tool_result("f", {"success": False, "error": "no"}).count("no") == 1


@owes("X-01", "A-02")
async def test_a_004_tool_stands_in_any_executor() -> None:
    door = Executor([WebSearchTool()])

    result = await door.call("web_search", {"query": "x"})

    assert result.ok
    assert result.data == ["x 0", "x 1", "10"]
    assert result.to_dict()["success"]
