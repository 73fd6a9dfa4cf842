"""Theme 13: what a model gets fits, is whole at every border, and is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegboard import PURE, Agent, Executor, Image, Limits, ToolResult, tool
from pegboard.core.transcript import ResultsMessage
from pegboard.models import ScriptedModel
from tests.cases.kit import sent, wire
from tests.ledger import owes


@owes("context-02")
@pytest.mark.parametrize("unit", ["e\u0301", "👨‍👩‍👧", "🇩🇪", "𝒳", "한"])
async def test_a_cut_never_falls_inside_a_character(unit: str) -> None:
    for shift in range(6):

        @tool(effects=PURE)
        def long() -> str:
            """Long."""
            return "." * shift + (unit * 40 + "\n") * 1_200

        text = str(await Executor([long]).call("long"))
        text.encode("utf-8")
        lines = [line.lstrip(".") for line in text.splitlines() if unit[0] in line and "left out" not in line]
        assert "left out" in text and len(text) < 11_000
        assert all(set(line.split(unit)) == {""} for line in lines)


@owes("context-04")
@pytest.mark.parametrize("size", [1_000, 1_000_000])
async def test_data_is_a_dict_whatever_its_size(size: int) -> None:
    @tool(effects=PURE)
    def big() -> dict[str, str]:
        """Big."""
        return {"text": "x" * size}

    result = await Executor([big]).call("big")

    assert result.data == {"text": "x" * size}
    assert len(str(result)) < 12_000


@owes("context-05", "K-73")
@pytest.mark.parametrize("batch", [1, 2, 3, 5])
async def test_a_shortened_history_has_clean_borders(batch: int) -> None:
    @tool(effects=PURE)
    def look(n: int) -> str:
        """Look."""
        return f"{n}: " + "word " * 400

    turns: list[dict[str, Any]] = []
    for step in range(12):
        turns.append({"calls": [{"name": "look", "arguments": {"n": step * 10 + i}} for i in range(batch)]})
    model = ScriptedModel([*turns, {"text": "done"}])
    agent = Agent(tools=[look], model=model, limits=Limits(context_tokens=6_000))

    answer = await agent.run("look at them all")

    assert answer.status == "done"
    for request in model.requests:
        wire(list(request.messages))
    sizes = [len(json.dumps(wire(list(r.messages)))) for r in model.requests]
    assert sizes[-1] < 6_000 * 5
    await agent.aclose()


@owes("context-08")
async def test_old_arguments_shrink_and_stay_json_with_their_path() -> None:
    @tool(effects=PURE)
    def write(path: str, content: str) -> str:
        """Write."""
        return "ok"

    turns = [
        {"calls": [{"name": "write", "arguments": {"path": f"p{n}.txt", "content": "x" * 700}}]}
        for n in range(40)
    ]
    model = ScriptedModel([*turns, {"text": "done"}])
    agent = Agent(tools=[write], model=model, limits=Limits(context_tokens=6_000, turns=50))

    assert (await agent.run("write")).status == "done"

    arguments = [
        json.loads(one["function"]["arguments"])
        for message in wire(sent(model))
        for one in message.get("tool_calls", [])
    ]
    left = len(arguments)
    # The last calls stay, each with its own path; the content of the older ones is cut, and nothing else.
    assert [a["path"] for a in arguments] == [f"p{n}.txt" for n in range(40 - left, 40)]
    assert all(set(a) == {"path", "content"} for a in arguments)
    sizes = [len(a["content"]) for a in arguments]
    cut = sum(size < 300 for size in sizes)
    assert cut > 5 and left - cut > 2
    assert sizes[cut:] == [700] * (left - cut)
    assert all("500 characters left out" in a["content"] for a in arguments[:cut])
    await agent.aclose()


@owes("context-10")
async def test_schemas_count_in_the_budget_and_too_many_are_a_clear_error() -> None:
    def made(n: int) -> Any:
        return tool(effects=PURE, name=f"t{n}", description="words " * 160)(lambda: "ok")

    few = [made(n) for n in range(5)]
    many = [made(n) for n in range(60)]
    fits = Agent(tools=few, model=ScriptedModel([{"text": "done"}]), limits=Limits(context_tokens=4_000))
    bursts = Agent(tools=many, model=ScriptedModel([{"text": "done"}]), limits=Limits(context_tokens=4_000))

    assert (await fits.run("x")).status == "done"
    answer = await bursts.run("x")
    assert answer.status == "failed"
    assert "tool" in answer.error and "4,000" in answer.error.replace("4000", "4,000")


@owes("context-12")
async def test_old_pictures_become_notes_and_never_text() -> None:
    # A real PNG of one pixel, as RFC 2083 lays it out.
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002"
        "00000500015e2d7a2b0000000049454e44ae426082"
    )

    # What stands behind the end of a PNG is nothing to its readers.
    screenshot = pixel + b"\0" * (1_100_000 - len(pixel))

    @tool(effects=PURE)
    def shot() -> ToolResult:
        """Screenshot."""
        return ToolResult(content=(Image(data=screenshot, mime_type="image/png"),))

    model = ScriptedModel(
        [*[{"calls": [{"name": "shot", "arguments": {}}]} for _ in range(20)], {"text": "done"}]
    )
    agent = Agent(tools=[shot], model=model)

    assert (await agent.run("look")).status == "done"

    held = [pictures(list(request.messages)) for request in model.requests]
    # Up to 8 MiB, that is 7 of them, and then down to the last four.
    assert held == [0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4]
    results = [m for m in sent(model) if isinstance(m, ResultsMessage)]
    assert [pictures([m]) for m in results] == [0] * 16 + [1] * 4
    assert all("[image image/png" in m.results[0].text and m.results[0].ok for m in results[:16])
    texts = json.dumps([m for m in wire(sent(model)) if m["role"] == "tool"])
    assert "iVBOR" not in texts
    await agent.aclose()


def pictures(messages: list[Any]) -> int:
    """How many pictures the results among some messages hold."""
    return sum(isinstance(p, Image) for m in messages for r in getattr(m, "results", ()) for p in r.content)


@owes("context-09", "context-06", "K-49")
@pytest.mark.parametrize("missing", [0, 1, 2])
async def test_a_result_that_is_missing_in_the_middle_shifts_nothing(missing: int) -> None:
    @tool(effects=PURE)
    def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    calls = [{"name": "look", "arguments": {"n": n}} for n in range(3)]
    first = Agent(tools=[look], model=ScriptedModel([{"calls": calls}, {"text": "one"}]))
    events = list((await first.run("first", session="s")).events)
    ends = [e for e in events if e.type == "call.finished"]
    damaged = [e for e in events if e is not ends[missing]]

    model = ScriptedModel([{"text": "two"}, {"text": "three"}])
    second = Agent(tools=[look], model=model)
    second.remember("s", damaged)
    await second.run("second", session="s")
    await second.run("third", session="s")

    messages = wire(sent(model))
    said = [m["content"] for m in messages if m["role"] == "user"]
    assert [s for s in said if s in ("first", "second", "third")] == ["first", "second", "third"]
    assert [m["content"] for m in messages if m["role"] == "assistant" and m.get("content")] == ["one", "two"]
    results = [m["content"] for m in messages if m["role"] == "tool"]
    assert len(results) == 3
    assert [n for n in range(3) if f"saw {n}" in results[n]] == [n for n in range(3) if n != missing]
    await second.aclose()
    await first.aclose()


@owes("context-11", "K-84")
async def test_many_tools_stay_out_of_the_prompt_and_within_reach() -> None:
    kit = [
        tool(effects=PURE, name=f"weather_{n}", description=f"Weather of region {n}. " + "Words. " * 60)(
            lambda n=n: f"sunny {n}"
        )
        for n in range(300)
    ]
    model = ScriptedModel(
        [
            {"calls": [{"name": "search_tools", "arguments": {"query": "weather of region 207"}}]},
            {"calls": [{"name": "call_tool", "arguments": {"name": "weather_207", "arguments": {}}}]},
            {"text": "done"},
        ]
    )
    agent = Agent(tools=kit, model=model, defer_beyond=30)

    answer = await agent.run("weather in region 207")

    assert answer.status == "done"
    offered = json.dumps(model.requests[0].tools.advertised().schemas("openai-chat"))
    assert len(offered) < 8_000 < len(json.dumps([t.description for t in kit]))
    messages = str(wire(sent(model)))
    assert "weather_207" in messages and "sunny 207" in messages
    await agent.aclose()
