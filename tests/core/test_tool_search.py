"""Beyond thirty tools a model sees a search, and every found tool is called through the same stages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pegboard import PURE, Agent, Effect, Executor, Tool, ToolCall, Toolkit, builtin
from pegboard.core.tool_search import SearchableToolkit, TextIndex, ToolIndex, with_tool_search
from pegboard.models import ScriptedModel
from tests.ledger import DATA, owes

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))


def city(n: int) -> Tool:
    return Tool(
        lambda day="today": f"sunny {day}", name=f"weather_{n}", description=f"Weather of region {n}.",
        effects=PURE,
    )  # fmt: skip


def many(count: int = 40) -> Toolkit:
    return Toolkit(city(n) for n in range(count))


@owes("K-84")
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "xml"])
def test_thirty_tools_are_shown_whole_and_one_more_is_deferred(dialect: str) -> None:
    assert with_tool_search(many(30)) is not None
    assert not isinstance(with_tool_search(many(30)), SearchableToolkit)
    assert isinstance(with_tool_search(many(31)), SearchableToolkit)
    kit = with_tool_search(many(31) + builtin("read_file"))

    assert kit.advertised().names == ("read_file", "search_tools", "call_tool")
    assert "weather_7" not in json.dumps(kit.schemas(dialect))
    assert len(kit) == 34
    assert with_tool_search(kit) is kit


@owes("K-84", "G-14")
async def test_a_tool_is_found_by_words_and_called(tmp_path: Path) -> None:
    door = Executor(with_tool_search(many()))

    found = await door.call("search_tools", {"query": "weather region 7"})
    called = await door.call("call_tool", {"name": "weather_7", "arguments": {"day": "tomorrow"}})

    assert found.data["tools"][0]["name"] == "weather_7"
    assert 'parameters: {"type":"object"' in str(found)
    assert str(called) == "sunny tomorrow"
    assert called.tool == "weather_7"


@owes("K-84")
async def test_tools_are_selected_by_name() -> None:
    door = Executor(with_tool_search(many()))

    found = await door.call("search_tools", {"query": "select:weather_3, weather_1,nothing"})
    missing = await door.call("search_tools", {"query": "select:wether_3"})
    none = await door.call("search_tools", {"query": "zzz"})

    assert [t["name"] for t in found.data["tools"]] == ["weather_3", "weather_1"]
    assert missing.error is not None
    assert "weather_3" in missing.error.hint
    assert none.error is not None
    assert none.error.code == "not_found"


@owes("K-84", "X-25")
async def test_a_rule_about_the_real_tool_holds_through_call_tool() -> None:
    send = Tool(lambda to: "sent", name="send_mail", description="Send.", effects=[Effect("send", "mail:x")])
    door = Executor(SearchableToolkit([send]), policy=["deny tool=send_mail"])

    result = await door.call("call_tool", {"name": "send_mail", "arguments": {"to": "x"}})
    preview = await door.preview("call_tool", {"name": "send_mail", "arguments": {"to": "x"}})

    assert result.error is not None
    assert result.error.code == "permission_denied"
    assert [str(e) for e in preview.effects] == ["send mail:x"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": "weather_1", "day": "x"}, None),
        ({"name": "weather_1", "arguments": '{"day": "x"}'}, None),
        ('{"name": "weather_1"}', None),
        ({"name": "wether_1"}, "unknown_tool"),
        ({}, "invalid_arguments"),
        ({"name": "call_tool", "arguments": {}}, "invalid_arguments"),
        ({"name": "weather_1", "arguments": {"hour": 1}}, "invalid_arguments"),
    ],
)
async def test_call_tool_reads_what_models_send(arguments: Any, code: str | None) -> None:
    result = await Executor(with_tool_search(many())).call("call_tool", arguments)

    assert (result.error.code if result.error else None) == code


async def test_outside_a_deferred_kit_call_tool_says_so() -> None:
    lone = Toolkit([SearchableToolkit([])["call_tool"]])

    result = await Executor(lone).call("call_tool", {"name": "x"})

    assert result.error is not None
    assert result.error.code == "unsupported"


@owes("K-84")
async def test_an_agent_defers_by_itself_and_the_list_stays_the_same_for_the_prompt_cache() -> None:
    model = ScriptedModel([
        {"calls": [{"name": "search_tools", "arguments": {"query": "region 5"}}]},
        {"calls": [{"name": "call_tool", "arguments": {"name": "weather_5", "arguments": {}}}]},
        {"text": "sunny"},
    ])  # fmt: skip
    agent = Agent(tools=many(), model=model)

    answer = await agent.run("weather in region 5?")

    assert answer.answer == "sunny"
    assert agent.executor.toolkit.advertised().names == ("search_tools", "call_tool")
    assert [e.result.tool for e in answer.events if e.type == "call.finished"] == [
        "search_tools",
        "weather_5",
    ]


async def test_calls_of_one_turn_keep_their_order_by_the_real_tools_effects() -> None:
    order: list[int] = []

    async def act(n: int) -> str:
        order.append(n)
        return str(n)

    kit = SearchableToolkit(
        [Tool(act, name="act", description="Act.", effects=[Effect("control", "x", at_least="allow")])]
    )

    results = await Executor(kit).turn(
        [ToolCall(str(n), "call_tool", {"name": "act", "arguments": {"n": n}}) for n in range(5)]
    )

    assert order == [0, 1, 2, 3, 4]
    assert all(r.ok for r in results)


@owes("G-14")
def test_search_works_in_any_language() -> None:
    kit = Toolkit([
        Tool(lambda: None, name="a1", description="读取文件内容", effects=PURE),
        Tool(lambda: None, name="a2", description="天気予報を調べる", effects=PURE),
        Tool(lambda: None, name="a3", description="Überweisung ausführen", effects=PURE),
        Tool(lambda: None, name="a4", description="Показать погоду", effects=PURE),
    ])  # fmt: skip
    index = ToolIndex(kit)

    for query, name in (("请读取这个文件", "a1"), ("天気", "a2"), ("überweisung", "a3"), ("погоду", "a4")):
        assert index.search(query)[0].name == name
    assert len(index) == 4


def test_an_empty_index_finds_nothing_and_function_words_alone_are_a_query_all_the_same() -> None:
    assert TextIndex([], {"a": 1.0}).search("x") == []
    assert TextIndex([{"a": "what is this"}], {"a": 1.0}).search("what is")[0][0] == 0
    assert len(TextIndex([{}], {"a": 1.0})) == 1


@owes("G-14")
@pytest.mark.slow
def test_recall_over_all_tools_of_the_outside_set() -> None:
    import tool_search

    tools, requests = tool_search.load(DATA)

    assert len(tools) > 1000
    assert tool_search.recall(tools, requests) >= 0.85


@pytest.mark.full
@owes("G-14")
@pytest.mark.slow
def test_a_search_over_five_thousand_tools_costs_less_than_a_plain_scan() -> None:
    import tool_search

    ours, floor = tool_search.speed(*tool_search.load(DATA))

    assert ours < floor


def test_a_property_whose_schema_is_true_is_found_by_its_name() -> None:
    whole = {"type": "object", "properties": {"zeppelin": True, "other": {"type": "string"}}}
    one = Tool(lambda **given: "", name="odd", description="Odd.", parameters=whole, effects=PURE)
    index = ToolIndex(Toolkit([one, *many(5)]))

    assert [found.name for found in index.search("zeppelin", limit=1)] == ["odd"]
