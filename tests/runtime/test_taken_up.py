"""Limits hold over a run that is taken up again: every counter goes on (ledger G-09, K-51, G-10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pegboard import Agent, Limits, tool
from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.content import Text, ToolCall
from pegboard.core.effects import PURE, Effect
from pegboard.core.errors import BuildError, ModelError
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    Event,
    MemoryRecorder,
    ModelReplied,
    Notice,
    RunFinished,
    RunResumed,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.policy.approval import AllowOnce, Approved, SuspendAll
from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.models import ScriptedModel
from pegboard.ports.store import Record
from pegboard.runtime.fold import fold, split_calls, user_messages
from pegboard.runtime.replay import replay
from pegboard.store.log import active_s
from tests.ledger import owes


@tool(effects=PURE)
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


@tool(effects=[Effect("write", "log.txt")])
async def write(n: int) -> str:
    """Write."""
    return f"wrote {n}"


def calls(*numbers: int, name: str = "look", **more: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": {"n": n}} for n in numbers], **more}


def until(events: list[Event], kind: type[Event], count: int = 1) -> list[Event]:
    """The events up to the `count`th of a kind, as a kill behind it leaves them."""
    places = [n for n, e in enumerate(events) if isinstance(e, kind)]
    return [event_from_dict(event_to_dict(e)) for e in events[: places[count - 1] + 1]]


async def go_on(turns: list[Any], events: list[Event], limits: Limits, **options: Any) -> list[Event]:
    """The new events of the run, taken up by another process; the whole of it replays."""
    agent = Agent(tools=[look, write], model=ScriptedModel(turns), limits=limits, mode="full")
    run = events[0].run  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    later = [e async for e in agent.resume_events(run, events, **options)]  # pyright: ignore[reportUnknownArgumentType]
    kept = [event_from_dict(event_to_dict(e)) for e in agent.session("s")]
    assert (await replay(kept, run)).events == len(kept)  # pyright: ignore[reportUnknownArgumentType]
    return later


async def begun(turns: list[Any], limits: Limits) -> list[Event]:
    agent = Agent(tools=[look, write], model=ScriptedModel(turns), limits=limits, mode="full", store="memory")
    await agent.run("go", session="s")
    return agent.session("s")


def ended(events: list[Event]) -> RunFinished:
    assert isinstance(events[-1], RunFinished)
    return events[-1]


@owes("G-09", "K-51")
async def test_turns_and_money_go_on_and_end_with_an_answer_without_tools() -> None:
    turn = calls(1, usage={"cost_usd": 0.4})
    limits = Limits(turns=9, money=1.0)
    events = until(
        await begun([turn, calls(2, usage={"cost_usd": 0.4}), calls(3), {"text": "x"}], limits),
        CallFinished,
        2,
    )

    later = await go_on([calls(3, usage={"cost_usd": 0.4}), {"text": "what I have"}], events, limits)

    assert (ended(later).status, ended(later).answer) == ("limit", "what I have")
    assert ended(later).error == "$1.2000 of $1.0000"
    assert ended(later).usage.requests == 4


@owes("G-09")
async def test_calls_made_before_count_and_refused_ones_do_not() -> None:
    limits = Limits(tool_calls={"look": 3}, calls=4)
    first = await begun([calls(1, 2), calls(1, name="write"), calls(3, 4), {"text": "x"}], limits)
    refused = [e.result.ok for e in first if isinstance(e, CallFinished)]
    assert refused == [True, True, True, False, True]
    events = until(first, CallFinished, 3)

    later = await go_on([calls(5, 6, name="write"), calls(7), {"text": "end"}], events, limits)

    told = [e.result for e in later if isinstance(e, CallFinished)]
    assert sorted(r.ok for r in told) == [False, False, True]
    assert any("4 of 4 tool calls of this run are used up" in r.text for r in told)


@owes("G-09", "args-29")
async def test_a_limit_holds_whatever_the_model_calls_the_tool() -> None:
    names = ["look", "functions.look", "LOOK"]
    turns = [{"calls": [{"name": name, "arguments": {"n": 1}}]} for name in names]

    events = await begun([*turns, {"text": "end"}], Limits(tool_calls={"look": 2}))

    assert [e.result.ok for e in events if isinstance(e, CallFinished)] == [True, True, False]
    kept = [event_from_dict(event_to_dict(e)) for e in events]
    assert (await replay(kept, kept[0].run)).events == len(kept)  # pyright: ignore


@owes("G-09", "K-51")
@pytest.mark.parametrize("spent_s", [0.0, 59.9996, 61.25])
async def test_seconds_go_on_where_the_process_before_left_them(spent_s: float) -> None:
    limits = Limits(wall_s=60)
    events = until(await begun([calls(1), {"text": "x"}], limits), CallFinished)

    later = await go_on([{"text": "now"}], events, limits, spent_s=spent_s)

    resumed = next(e for e in later if isinstance(e, RunResumed))
    assert resumed.detail.get("spent_s", 0.0) == round(spent_s, 3)
    assert ended(later).status == ("done" if spent_s < 59 else "limit")
    if spent_s > 61:
        assert ended(later).error == "61 of 60 s"


@owes("G-09")
async def test_the_notice_of_a_limit_comes_once_over_all_parts() -> None:
    limits = Limits(turns=5)
    turns: list[Any] = [calls(n) for n in range(5)]
    events = until(await begun([*turns, {"text": "x"}], limits), ModelReplied, 5)
    assert [e.text for e in events if isinstance(e, Notice)] == ["4 of 5 turns are used"]

    later = await go_on([{"text": "x"}], events, limits)

    assert [e.text for e in later if isinstance(e, Notice)] == ["5 of 5 turns are used up"]


@owes("K-51", "G-10")
async def test_a_process_that_ended_at_the_last_word_ends_at_the_limit_and_runs_nothing_more() -> None:
    limits = Limits(turns=1)
    whole = await begun([calls(1), {"text": "what I have"}], limits)
    spoken = until(whole, ModelReplied, 2)

    later = await go_on([], spoken, limits)

    assert (ended(later).status, ended(later).answer) == ("limit", "what I have")
    stubborn = await begun([calls(1), calls(2, name="write")], limits)
    called = until(stubborn, ModelReplied, 2)
    later = await go_on([{"text": "at last"}], called, limits)
    refused = [e.result for e in later if isinstance(e, CallFinished)]
    assert [r.ok for r in refused] == [False]
    assert "the budget is used up" in refused[0].text
    assert ended(later).status == "limit"


@owes("G-09")
async def test_a_run_that_waited_in_this_process_goes_on_with_its_seconds() -> None:
    agent = Agent(
        tools=[write], mode="ask", approver=SuspendAll(), limits=Limits(wall_s=60),
        model=ScriptedModel([calls(1, name="write"), {"text": "done"}]),
    )  # fmt: skip
    answer = await agent.run("go", session="s")
    key = answer.pending[0]["pending"]

    later = [
        e async for e in agent.resume_events(answer.run_id, agent.session("s"), answers={key: Approved()})
    ]

    resumed = next(e for e in later if isinstance(e, RunResumed))
    assert 0 <= resumed.detail.get("spent_s", 0.0) < 60
    assert ended(later).status == "done"
    assert (await replay(agent.session("s"), answer.run_id)).finished == later[-1]


def test_the_seconds_of_a_run_are_those_of_its_parts() -> None:
    def entry(kind: str, at: float) -> Record:
        return Record(seq=1, run="r", type=kind, at=at, digest="", mac="", body=None)

    parts = [
        entry("run.started", 10),
        entry("model.replied", 13.5),
        entry("run.resumed", 900),
        entry("notice", 901),
    ]

    assert active_s(parts) == 4.5
    assert active_s(parts[:1]) == 0
    assert active_s([]) == 0


def seen(request: Any) -> Any:
    """A model that looks at how many results it has had, whatever was shortened since."""
    made = sum(len(m.calls) for m in request.messages if isinstance(m, AssistantMessage))
    numbers = [
        int(c.arguments["n"]) for m in request.messages if isinstance(m, AssistantMessage) for c in m.calls
    ]  # pyright: ignore
    if not request.allow_tools or (made and max(numbers) >= 11):
        return {"text": "all I have"}
    return calls(max(numbers, default=-1) + 1)


KILLS: dict[str, Limits] = {
    "compaction": Limits(turns=40, context_tokens=1200),
    "the last word": Limits(turns=3),
    "both": Limits(turns=9, context_tokens=1200),
}


@pytest.mark.slow
@owes("K-49", "K-51", "K-73", "G-10")
@pytest.mark.parametrize("kind", KILLS)
async def test_a_run_killed_around_compaction_or_its_last_word_is_taken_up_at_every_point(kind: str) -> None:
    limits = KILLS[kind]

    @tool(effects=PURE)
    async def look(n: int) -> str:
        """Look."""
        return f"seen {n} " + "x" * 600

    def agent() -> Agent:
        return Agent(tools=[look], model=ScriptedModel([seen] * 60), limits=limits)

    one = agent()
    answer = await one.run("go", session="s")
    events = one.session("s")
    assert any(e.type == "context.compacted" for e in events) is ("comp" in kind or kind == "both")

    for cut in range(1, len(events)):
        before = [event_from_dict(event_to_dict(e)) for e in events[:cut]]
        other = agent()
        later = [e async for e in other.resume_events(answer.run_id, before)]
        assert (ended(later).status, ended(later).answer) == (answer.status, answer.answer), cut
        assert ended(later).usage.requests == answer.usage.requests, cut
        kept = [event_from_dict(event_to_dict(e)) for e in other.session("s")]
        finished = [e.result.call_id for e in kept if isinstance(e, CallFinished)]
        assert len(finished) == len(set(finished)) == sum(isinstance(e, CallFinished) for e in events), cut
        assert (await replay(kept, answer.run_id)).finished == later[-1]


@owes("K-49", "G-17")
async def test_a_run_killed_around_an_approval_is_taken_up_at_every_point() -> None:
    def agent() -> Agent:
        script = [calls(1, name="write"), {"text": "done"}]
        return Agent(tools=[look, write], mode="ask", approver=SuspendAll(), model=ScriptedModel(script))

    one = agent()
    answer = await one.run("go", session="s")
    key = answer.pending[0]["pending"]
    _ = [e async for e in one.resume_events(answer.run_id, one.session("s"), answers={key: Approved()})]
    events = one.session("s")

    for cut in range(1, len(events)):
        before = [event_from_dict(event_to_dict(e)) for e in events[:cut]]
        other = agent()
        turns = sum(isinstance(e, ModelReplied) for e in before)
        other.model().skip(turns)
        later = [
            e
            async for e in other.resume_events(
                answer.run_id, before, answers={key: Approved()}, approver=AllowOnce()
            )
        ]
        assert (ended(later).status, ended(later).answer) == ("done", "done"), cut
        whole = [*before, *later]
        done = [e.result for e in whole if isinstance(e, CallFinished) and e.result.call_id == "call_1_1"]
        settled = [r for r in done if r.error is None or r.error.code != "suspended"]
        assert len(settled) == 1, cut


@pytest.mark.slow
@owes("K-49", "G-10", "K-52", "X-46")
async def test_a_run_with_fallbacks_stopped_answers_and_parallel_calls_is_taken_up_at_every_point() -> None:
    @tool(effects=[Effect("write", "log.txt")])
    async def put(n: int = 0) -> str:
        """Put."""
        return f"put {n}"

    def answered(request: Any) -> Any:
        """The next turn by how many there were, as a model sees it."""
        made = sum(isinstance(m, AssistantMessage) for m in request.messages)
        stopped = (ToolCall("f1", "put", {"n": 9}),)
        cut = (Text("half"), ToolCall("c1", "look", {"n": 2}), ToolCall("c2", "put", {}))
        turns: list[Any] = [
            {
                "calls": [
                    {"name": name, "arguments": {"n": n}} for n, name in enumerate(("look", "put", "put"))
                ]
            },
            AssistantMessage(content=stopped, stop="filtered"),
            AssistantMessage(content=cut, stop="length"),
            calls(3),
            {"text": "all I have"},
        ]
        return turns[made]

    def failing(request: Any) -> Any:
        made = sum(isinstance(m, AssistantMessage) for m in request.messages)
        return ModelError("overloaded", retryable=True) if made >= 3 else answered(request)

    def agent() -> Agent:
        models = [ScriptedModel([failing] * 9, name="one:a"), ScriptedModel([answered] * 9, name="two:b")]
        return Agent(tools=[look, put], model=models, mode="full")

    one = agent()
    told: list[bool] = []
    async for event in one.stream("go", session="s"):
        if isinstance(event, CallStarted) and not told:
            told.append(one.tell("and be quick", session="s"))
    events = one.session("s")
    run = events[0].run  # pyright: ignore
    assert told == [True]
    assert ended(events).answer == "all I have"
    models = [e.message.model for e in events if isinstance(e, ModelReplied)]
    assert models == ["one:a"] * 3 + ["two:b"] * 2
    refused = {e.result.call_id for e in events if isinstance(e, CallFinished) and not e.result.ok}
    assert refused == {"f1", "c2"}

    for cut in range(1, len(events)):
        before = [event_from_dict(event_to_dict(e)) for e in events[:cut]]
        other = agent()
        later = [e async for e in other.resume_events(run, before)]
        whole = other.session("s")
        assert (ended(later).status, ended(later).answer) == ("done", "all I have"), cut
        results = {e.result.call_id: e.result for e in whole if isinstance(e, CallFinished)}
        assert len(results) == sum(isinstance(e, CallFinished) for e in whole) == 7, cut
        begun_then = {e.call_id for e in before if isinstance(e, CallStarted)}
        done_then = {e.result.call_id for e in before if isinstance(e, CallFinished)}
        assert not refused & {e.call_id for e in whole if isinstance(e, CallStarted)}, cut
        for call_id, result in results.items():
            unknown = call_id in begun_then - done_then and not (result.ok or call_id in refused)
            assert result.ok or call_id in refused or unknown, (cut, call_id, result.text)
        kept = [event_from_dict(event_to_dict(e)) for e in whole]
        assert (await replay(kept, run)).events == len(kept), cut


# -- what was said to a run that its process left ---------------------------------------------


def said(events: list[Event]) -> list[str]:
    return [e.message.text for e in events if isinstance(e, UserSaid)]


async def told_meanwhile(turns: list[Any], **options: Any) -> list[Event]:
    """A run to which somebody says something while its second call runs."""
    agent: Agent

    @tool(name="write", effects=[Effect("write", "log.txt")])
    async def writes(n: int) -> str:
        """Write."""
        assert agent.tell("and be quick", session="s")
        return f"wrote {n}"

    agent = Agent(tools=[look, writes], model=ScriptedModel(turns), mode="full", **options)
    await agent.run("go", session="s")
    return agent.session("s")


@owes("G-10", "agents-16")
@pytest.mark.parametrize("lost", [CallStarted, CallFinished])
async def test_a_call_whose_record_is_damaged_is_not_made_again(lost: type[Event]) -> None:
    agent = Agent(tools=[look, write], model=ScriptedModel([calls(1, 2, name="write"), {"text": "end"}]))
    await agent.run("go", session="s")
    whole = agent.session("s")
    cut = next(n for n, e in enumerate(whole) if isinstance(e, ModelReplied)) + 1
    of_one = [e for e in whole if (e.call_id if isinstance(e, CallStarted) else getattr(getattr(e, "result", None), "call_id", "")) == "call_1_1"]  # fmt: skip
    before = whole[:cut] + [
        Notice(text="record 9 is damaged", detail={"damaged": 9}) if isinstance(e, lost) else e
        for e in of_one
    ]

    history = fold(before)
    found = split_calls(history, agent.executor.pipeline.toolkit, {})

    # Which of the two the damaged record was about cannot be told.
    assert found.rerun == []
    assert {r.call_id for _, r in found.results} == {c.id for c in history.open_calls} >= {"call_1_2"}
    assert all(r.error is not None and "unknown" in r.error.message for _, r in found.results)


@owes("G-10", "agents-16")
async def test_what_waits_for_an_answer_goes_on_waiting_past_a_damaged_record() -> None:
    agent = Agent(
        tools=[write], mode="ask", approver=SuspendAll(), model=ScriptedModel([calls(1, name="write"), {"text": "end"}])
    )  # fmt: skip
    await agent.run("go", session="s")
    before = [*agent.session("s"), Notice(text="damaged", detail={"damaged": 9})]

    history = fold(before)

    assert len(history.waiting) == 1
    assert history.started == set()


class Slow(MemoryRecorder):
    """A recorder that has written nothing before somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Event] = []

    async def flush(self, *, power_loss: bool = False) -> None:
        await asyncio.sleep(0)
        self.written = list(self.events)


@owes("G-10", "K-52")
async def test_a_message_is_written_when_who_waits_for_that_goes_on() -> None:
    recorder = Slow()
    agent: Agent
    found: list[Any] = []

    @tool(name="write", effects=PURE)
    async def writes(n: int) -> str:
        """Write."""
        with pytest.raises(BuildError, match="a message takes text"):
            agent.tell(None, session="s")  # pyright: ignore[reportArgumentType]
        kept = await agent.add_message("and be quick", session="s")
        found.append((kept, [e.message.text for e in recorder.written if isinstance(e, UserTold)]))
        return f"wrote {n}"

    agent = Agent(tools=[writes], model=ScriptedModel([calls(1, name="write"), {"text": "done"}]))
    await agent.run("go", session="s", recorder=recorder)

    assert found == [(True, ["and be quick"])]
    assert said(agent.session("s")) == ["go", "and be quick"]
    assert not await agent.add_message("nobody hears", session="s")


@owes("G-10", "K-52")
async def test_what_a_killed_run_was_told_and_had_not_read_is_read_when_it_is_taken_up() -> None:
    whole = await told_meanwhile([calls(1, name="write"), {"text": "done"}])
    cut = until(whole, UserTold)
    assert said(cut) == ["go"]
    assert not any(isinstance(e, CallFinished) for e in cut)

    asked: list[list[str]] = []

    def last(request: Any) -> dict[str, Any]:
        asked.append([type(m).__name__ for m in request.messages])
        return {"text": "done"}

    later = await go_on([last], cut, Limits())

    # The call's end first: what was said in between does not part it from its answer.
    assert asked == [["UserMessage", "AssistantMessage", "ResultsMessage", "UserMessage"]]
    finished = [e.result for e in later if isinstance(e, CallFinished)]
    assert [r.error.code for r in finished if r.error] == ["interrupted"]
    assert said(later) == ["and be quick"]


@owes("G-10", "K-52")
async def test_what_was_read_before_the_kill_is_not_read_again() -> None:
    whole = await told_meanwhile([calls(1, name="write"), {"text": "done"}])
    cut = until(whole, UserSaid, 2)

    later = await go_on([{"text": "done"}], cut, Limits())

    assert said(later) == []


@owes("G-10", "K-52")
async def test_what_was_told_behind_the_last_word_of_a_killed_run_gets_a_turn() -> None:
    whole = await told_meanwhile([{"text": "done"}])
    cut = [*until(whole, ModelReplied), UserTold(UserMessage.of("one more thing"))]

    later = await go_on([{"text": "that too"}], cut, Limits())

    assert said(later) == ["one more thing"]
    assert ended(later).answer == "that too"


@owes("G-10", "K-52", "K-25")
async def test_what_a_run_is_told_while_a_call_waits_does_not_end_the_wait() -> None:
    agent: Agent

    @tool(effects=PURE)
    async def chat() -> str:
        """Chat."""
        assert agent.tell("and be quick", session="s")
        return "ok"

    turn = {"calls": [{"name": "chat", "arguments": {}}, {"name": "write", "arguments": {"n": 1}}]}
    agent = Agent(
        tools=[chat, write], model=ScriptedModel([turn, {"text": "done"}]), mode="ask", approver=SuspendAll()
    )
    answer = await agent.run("go", session="s")
    assert answer.status == "suspended"
    assert said(agent.session("s")) == ["go"]

    answers = {answer.pending[0]["pending"]: Approved()}
    later = [e async for e in agent.resume_events(answer.run_id, agent.session("s"), answers=answers)]

    assert [e.result.text for e in later if isinstance(e, CallFinished)] == ["wrote 1"]
    assert said(later) == ["and be quick"]
    assert ended(later).answer == "done"
    await replay(agent.session("s"), answer.run_id)


@owes("G-10", "K-52")
async def test_a_session_that_goes_on_without_a_killed_run_begins_with_what_that_was_told() -> None:
    whole = await told_meanwhile([calls(1, name="write"), {"text": "done"}])
    cut = until(whole, UserTold)
    asked: list[list[str]] = []

    def answers(request: Any) -> dict[str, Any]:
        asked.append([m.text for m in request.messages if isinstance(m, UserMessage)])
        return {"text": "ok"}

    agent = Agent(tools=[look, write], model=ScriptedModel([answers, answers]), mode="full")
    agent.remember("s", cut)
    one = await agent.run("something else", session="s")
    await agent.run("and more", session="s")

    assert asked == [
        ["go", "and be quick", "something else"],
        ["go", "and be quick", "something else", "and more"],
    ]
    kept = [event_from_dict(event_to_dict(e)) for e in agent.session("s")]
    assert [m.text for m in fold(kept).messages if isinstance(m, UserMessage)] == asked[1]
    await replay(kept, one.run_id)


def test_what_an_imported_run_was_told_is_nobodys_word() -> None:
    def started(run: str, **detail: Any) -> RunStarted:
        return RunStarted(run=run, session="s", agent="a", model="m", task="t", detail=detail)

    word = UserTold(UserMessage.of("http://example.com/"))

    assert [e.message.text for e in user_messages([started("r"), word])] == ["http://example.com/"]
    assert list(user_messages([started("r", imported="x.json"), word])) == []
