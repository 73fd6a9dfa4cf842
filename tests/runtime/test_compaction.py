"""Compaction keeps transcripts valid and says what it dropped (ledger K-73; cases context-05 to context-12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard import Agent, Limits, Toolkit, tool
from pegboard.core.content import Image, Text, ToolCall
from pegboard.core.effects import PURE
from pegboard.core.errors import ModelError
from pegboard.core.events import ContextCompacted, RunFinished
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Opaque, ResultsMessage, UserMessage
from pegboard.models import ScriptedModel
from pegboard.runtime.compaction import NOTE, ContextOverflow, Window, compact
from pegboard.runtime.fold import fold
from pegboard.runtime.shorten import shorten_call, shorten_calls, shorten_text
from pegboard.runtime.tokens import message_tokens, text_tokens, toolkit_tokens
from tests.ledger import owes
from tests.runtime.transcripts import picture, talk, valid


def size(messages: Any) -> int:
    return sum(map(message_tokens, messages))


@owes("K-73", "context-05")
@given(turns=st.integers(1, 25), seed=st.integers(0, 10**6), share=st.floats(0.05, 1.0))
@settings(max_examples=60, deadline=None)
def test_no_cut_point_parts_a_call_from_its_result(turns: int, seed: int, share: float) -> None:
    messages = talk(turns, seed=seed, chars=900)
    budget = max(1500, int(size(messages) * share))

    done = compact(messages, budget)

    valid(done.messages)
    assert done.after == size(done.messages) <= budget
    assert done.messages[0] == messages[0]
    assert bool(done.dropped) == (list(done.messages) != messages)


@owes("K-73")
@given(
    seed=st.integers(0, 10**6),
    chars=st.sampled_from([100, 601, 644, 700, 2500]),
    content=st.sampled_from([150, 201, 243, 900]),
    budgets=st.lists(st.sampled_from([900, 2500, 5000, 20_000]), min_size=2, max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_what_was_counted_and_cut_before_is_left_alone_without_a_difference(
    seed: int, chars: int, content: int, budgets: list[int]
) -> None:
    more = iter(talk(20 * len(budgets), seed=seed, chars=chars, content=content))
    anew: list[Any] = []
    told: list[Any] = []
    sizes: tuple[int, ...] = ()
    settled = 0
    for budget in budgets:
        for message in (next(more) for _ in range(30)):
            anew.append(message)
            told.append(message)
        if isinstance(anew[-1], AssistantMessage):
            anew.append(results := next(more))
            told.append(results)
        try:
            whole = compact(anew, budget)
        except ContextOverflow:
            with pytest.raises(ContextOverflow):
                compact(told, budget, sizes=sizes, settled=settled)
            return
        done = compact(told, budget, sizes=sizes, settled=settled)

        assert (done.messages, done.dropped, done.before, done.after) == (
            whole.messages, whole.dropped, whole.before, whole.after,
        )  # fmt: skip
        assert done.sizes == tuple(map(message_tokens, done.messages))
        anew, told, sizes, settled = list(whole.messages), list(done.messages), done.sizes, done.settled


@owes("K-73", "context-05")
def test_every_budget_down_to_the_smallest_gives_a_valid_transcript() -> None:
    messages = talk(12, chars=2000, content=1500)
    budget, refused = size(messages), False
    while not refused:
        try:
            done = compact(messages, budget)
        except ContextOverflow:
            refused = True
        else:
            valid(done.messages)
            assert size(done.messages) <= budget
        budget -= max(20, budget // 12)
    assert budget < size(messages) // 10


@owes("context-06", "K-73")
def test_compacting_again_and_again_keeps_one_note_and_what_it_said() -> None:
    messages = talk(40, chars=1000)
    for _ in range(4):
        messages = [*compact(messages, 3000).messages, *talk(10, seed=9, chars=1000)[1:]]
        renamed: list[Any] = []
        for n, m in enumerate(messages):
            if isinstance(m, AssistantMessage):
                calls = tuple(ToolCall(f"{n}-{i}", c.name, c.arguments) for i, c in enumerate(m.calls))
                renamed.append(AssistantMessage(content=(Text("t"), *calls), stop="tools"))
            elif isinstance(m, ResultsMessage):
                ids = [c.id or "" for c in renamed[-1].calls]
                renamed.append(
                    ResultsMessage(
                        tuple(
                            type(r)(content=r.content, call_id=i, tool=r.tool)
                            for i, r in zip(ids, m.results, strict=True)
                        )
                    )
                )
            else:
                renamed.append(m)
        messages = renamed

    done = compact(messages, 3000)

    notes = [m for m in done.messages if isinstance(m, UserMessage) and m.text.startswith(NOTE)]
    assert len(notes) == 1
    assert "write_file" in notes[0].text
    valid(done.messages)


@owes("context-08")
def test_a_long_argument_is_cut_inside_its_string_and_the_path_stays() -> None:
    for arguments in (
        {"path": "a/b.txt", "content": "z" * 700},
        json.dumps({"path": "a/b.txt", "content": "z" * 700}),
    ):
        fresh = shorten_call(ToolCall("1", "write", arguments), 200)

        value = (
            json.loads(fresh.arguments) if isinstance(fresh.arguments, str) else dict(fresh.arguments or {})
        )
        assert value["path"] == "a/b.txt"
        assert len(value["content"]) < 300
        assert "500 characters left out" in value["content"]


@owes("context-08")
def test_arguments_that_are_no_json_become_an_object() -> None:
    fresh = shorten_call(ToolCall("1", "write", '{"path": "a", "content": "' + "y" * 900), 200)

    assert isinstance(json.loads(str(fresh.arguments)), dict)


@owes("context-08")
def test_calls_beside_a_providers_own_items_stay_as_they_are() -> None:
    long = ToolCall("1", "write", {"content": "y" * 900})
    message = AssistantMessage(content=(Opaque("openai-responses", {"id": "rs_1"}), long))

    assert shorten_calls(message, 200) == (message, 0)


@owes("context-12")
def test_of_twenty_screenshots_the_last_few_stay_and_the_others_become_text() -> None:
    messages: list[Any] = [UserMessage.of("look")]
    for n in range(20):
        messages += picture(n, 1024 * 1024)

    done = compact(messages, 10**7)

    kept = [b for m in done.messages if isinstance(m, ResultsMessage) for r in m.results for b in r.content]
    assert sum(isinstance(b, Image) for b in kept) == 4
    assert [isinstance(b, Image) for b in kept[-4:]] == [True] * 4
    assert "left out to save room" in kept[0].text
    assert done.dropped == ("16 pictures were replaced by lines of text",)
    valid(done.messages)


@owes("context-10")
def test_tools_that_fill_the_window_alone_are_a_clear_error() -> None:
    with pytest.raises(ContextOverflow, match="Offer fewer tools"):
        _ = Window(tokens=8000, overhead=7900, reserve=1000).budget


@owes("context-10")
def test_the_budget_is_the_window_without_prompt_schemas_and_answer() -> None:
    assert Window(tokens=100_000, overhead=30_000, reserve=8_000).budget == 62_000
    assert Window().budget is None


def long_tool() -> Any:
    @tool(effects=PURE)
    async def page(n: int) -> str:
        """Read a page."""
        return f"page {n}: " + "word " * 600

    return page


def many(turns: int) -> list[Any]:
    calls: list[Any] = [{"calls": [{"name": "page", "arguments": {"n": n}}]} for n in range(turns)]
    return [*calls, {"text": "done"}]


@owes("K-73", "context-10")
async def test_a_long_run_never_sends_more_than_its_window_and_tells_what_it_dropped() -> None:
    model = ScriptedModel(many(60))
    agent = Agent(
        tools=[long_tool()], model=model, instructions="read", limits=Limits(turns=90, context_tokens=12_000)
    )

    answer = await agent.run("read all", session="s")

    assert answer.status == "done"
    told = [e for e in answer.events if isinstance(e, ContextCompacted)]
    assert told
    assert all(e.dropped and e.after_tokens < e.before_tokens for e in told)
    overhead = text_tokens("read") + sum(toolkit_tokens(agent.executor.toolkit).values())
    for request in model.requests:
        assert size(request.messages) + overhead + 12_000 // 8 <= 12_000
        valid(request.messages)
    assert list(fold(agent.session("s")).messages[:-1]) == list(model.requests[-1].messages)


@owes("K-73")
async def test_where_the_model_says_it_was_too_long_the_turn_is_tried_again_with_less() -> None:
    script: list[Any] = many(8)
    script.insert(8, ModelError("this model's maximum context length is 8192 tokens"))
    model = ScriptedModel(script)
    agent = Agent(tools=[long_tool()], model=model)

    answer = await agent.run("read")

    assert (answer.status, answer.answer) == ("done", "done")
    assert size(model.requests[9].messages) < size(model.requests[8].messages) * 0.6
    valid(model.requests[9].messages)


async def test_a_window_that_cannot_be_kept_ends_the_run_and_says_why() -> None:
    agent = Agent(tools=[long_tool()], model=ScriptedModel(many(1)), limits=Limits(context_tokens=30))

    answer = await agent.run("read")

    assert answer.status == "failed"
    assert "nothing is left for the conversation" in answer.error
    assert isinstance(answer.events[-1], RunFinished)


@pytest.mark.parametrize(
    ("text", "tokens"),
    # By hand: UTF-8 bytes / 3.5, rounded down, plus 1. 44 bytes; 16 characters of 3 bytes; 1; none.
    [
        ("The quick brown fox jumps over the lazy dog.", 13),
        ("今天天气很好，我们去公园散步吧。", 14),
        ("a", 1),
        ("", 0),
    ],
)
def test_estimates_count_bytes_so_that_every_script_is_served(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def test_a_shortened_text_keeps_head_and_tail_and_says_how_much_is_gone() -> None:
    assert shorten_text("short", 100) == "short"
    cut = shorten_text("a" * 500 + "b" * 500, 100, where="spill:1")
    assert cut.startswith("a" * 50)
    assert cut.endswith("b" * 50)
    assert "900 characters left out" in cut
    assert "spill:1" in cut


@pytest.mark.parametrize("where", ["", "spill:0123456789abcdef"])
def test_a_text_that_is_cut_again_says_how_much_of_the_first_one_is_gone(where: str) -> None:
    text = "a" * 500 + "b" * 500

    once = shorten_text(text, 600, where=where)

    # By hand: 1000 - 600 = 400, and 1000 - 160 = 840.
    assert "[… 400 characters left out" in once
    assert shorten_text(once, 600, where=where) is once
    again = shorten_text(once, 160, where=where)
    assert again.startswith("a" * 80 + "\n[… 840 characters left out")
    assert again.endswith("…]\n" + "b" * 80)


def test_the_estimate_of_a_kit_names_each_tool() -> None:
    sizes = toolkit_tokens(Toolkit([long_tool()]))
    assert list(sizes) == ["page"]
    assert 20 < sizes["page"] < 80


@pytest.mark.parametrize("size_", [601, 620, 660, 700, 900])
def test_an_old_result_of_any_size_over_the_limit_is_cut_and_one_within_it_stays(size_: int) -> None:
    messages: list[Any] = [UserMessage.of("go")]
    for n in range(20):
        messages.append(AssistantMessage(content=(ToolCall(f"c{n}", "look", {}),)))
        text = "x" * (size_ if n % 2 else 600)
        messages.append(ResultsMessage((ToolResult(content=(Text(text),), call_id=f"c{n}", tool="look"),)))

    done = compact(messages, size(messages) - 1)

    texts = [r.text for m in done.messages if isinstance(m, ResultsMessage) for r in m.results]
    old = texts[:-3]
    assert len(old) > 3
    # By hand: the line and its two ends take 41 characters and the digits of the number.
    gone = size_ - 600
    short = 600 + 41 + len(str(gone))
    if short < size_:
        assert set(map(len, old)) <= {600, short}
        assert all(f"[… {gone} characters left out" in t for t in old if len(t) != 600)
        assert any(len(t) == short for t in old)
    else:
        assert set(old) <= {"x" * 600, "x" * size_}
