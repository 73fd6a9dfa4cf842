"""Theme 13: what a model gets fits, is whole at every border, and is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegboard import PURE, Agent, Executor, Image, Limits, ToolResult, tool
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
        {"calls": [{"name": "write", "arguments": {"path": f"p{n}.txt", "content": "x" * 4000}}]}
        for n in range(12)
    ]
    model = ScriptedModel([*turns, {"text": "done"}])
    agent = Agent(tools=[write], model=model, limits=Limits(context_tokens=6_000))

    assert (await agent.run("write")).status == "done"

    for message in wire(sent(model)):
        for one in message.get("tool_calls", []):
            arguments = json.loads(one["function"]["arguments"])
            assert arguments["path"].startswith("p")
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

    @tool(effects=PURE)
    def shot() -> ToolResult:
        """Screenshot."""
        return ToolResult(content=(Image(data=pixel, media_type="image/png"),))

    model = ScriptedModel(
        [*[{"calls": [{"name": "shot", "arguments": {}}]} for _ in range(20)], {"text": "done"}]
    )
    agent = Agent(tools=[shot], model=model, limits=Limits(context_tokens=8_000))

    assert (await agent.run("look")).status == "done"

    last = sent(model)
    pictures = sum(isinstance(p, Image) for m in last for r in getattr(m, "results", ()) for p in r.content)
    assert pictures < 20
    texts = json.dumps([m for m in wire(last) if m["role"] == "tool"])
    assert "iVBOR" not in texts
    await agent.aclose()
