"""Hooks of an agent's session: its start, its prompt, its end, and the shortening of its conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest import raises

from pegboard import PURE, Agent, Effect, Hook, builtin, tool
from pegboard.app.session_hooks import MAX_STOPS
from pegboard.core.errors import PermissionDenied
from pegboard.core.events import Notice, RunStarted, UserSaid
from pegboard.core.limits import Limits
from pegboard.core.result import text_of
from pegboard.core.transcript import UserMessage
from pegboard.interop.hooks import HookFunction
from pegboard.models import ScriptedModel
from pegboard.models.scripted import ModelRequest
from pegboard.ports.messages import InboundMessage
from pegboard.ports.subagents import AgentSpec
from pegboard.runtime.replay import replay


@tool(effects=PURE)
async def page(n: int) -> str:
    """A long page."""
    return f"page {n}: " + "word " * 2000


ASK = {"instruction": "Read it.", "agent_name": "reader"}


def hook(event: str, run: HookFunction, **more: Any) -> Hook:
    return Hook(event=event, run=run, **more)


def said(model: ScriptedModel) -> list[str]:
    """The texts of user messages that the model was sent last."""
    return [text_of(m.content) for m in model.requests[-1].messages if isinstance(m, UserMessage)]


async def test_what_hooks_add_stands_behind_the_prompt() -> None:
    model = ScriptedModel([{"text": "ok"}, {"text": "ok"}])
    told: list[tuple[str, str]] = []

    def begin(event: dict[str, Any]) -> dict[str, Any]:
        told.append((event["hook_event_name"], event["source"]))
        return {"hookSpecificOutput": {"additionalContext": "branch: main"}}

    def prompt(event: dict[str, Any]) -> dict[str, Any]:
        told.append((event["hook_event_name"], event["prompt"]))
        return {"hookSpecificOutput": {"additionalContext": "today: Friday"}}

    agent = Agent(
        model=model, hooks=[hook("SessionStart", begin), hook("UserPromptSubmit", prompt)], store="memory"
    )
    await agent.run("What day is it?", session="s")
    first = said(model)
    await agent.run("And tomorrow?", session="s")

    assert first == ["What day is it?\n\n<hook>\nbranch: main\ntoday: Friday\n</hook>"]
    assert said(model)[-1] == "And tomorrow?\n\n<hook>\ntoday: Friday\n</hook>"
    assert told == [
        ("SessionStart", "startup"), ("UserPromptSubmit", "What day is it?"), ("UserPromptSubmit", "And tomorrow?"),
    ]  # fmt: skip


async def test_plain_text_of_a_command_goes_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel([{"text": "ok"}])
    begin = Hook(event="SessionStart", run="echo the build is red")

    await Agent(model=model, hooks=[begin]).run("Hello")

    assert said(model) == ["Hello\n\n<hook>\nthe build is red\n</hook>"]


async def test_a_refused_prompt_reaches_no_model() -> None:
    model = ScriptedModel([{"text": "ok"}])
    refuse = hook(
        "UserPromptSubmit", lambda _: {"decision": "block", "reason": "it holds a key"}, name="keys"
    )
    events: list[Any] = []

    class Kept:
        def record(self, event: Any) -> None:
            events.append(event)

        async def flush(self, *, power_loss: bool = False) -> None: ...

    with raises(PermissionDenied, match="hook keys refused the prompt: it holds a key"):
        await Agent(model=model, hooks=[refuse]).run("My key is 123", recorder=Kept())

    assert model.requests == []
    assert [type(e) for e in events] == [Notice] and "hook keys" in events[0].text


async def test_a_hook_lets_a_run_go_on_and_its_replay_is_the_same() -> None:
    model = ScriptedModel([{"text": "Done."}, {"text": "Tests pass."}])
    told: list[bool] = []

    def stop(event: dict[str, Any]) -> dict[str, Any] | None:
        told.append(event["stop_hook_active"])
        if event["last_assistant_message"] == "Done.":
            return {"decision": "block", "reason": "run the tests first"}
        return None

    agent = Agent(model=model, hooks=[hook("Stop", stop, name="tests")], store="memory")
    answer = await agent.run("Fix it.", session="s")

    assert (answer.status, answer.answer, told) == ("done", "Tests pass.", [False, True])
    assert said(model)[-1] == "hook tests asks to go on before this ends:\n\nrun the tests first"
    events = agent.session("s")
    run = next(e.run for e in events if isinstance(e, RunStarted))
    assert (await replay(events, run)).finished is not None


async def test_a_hook_cannot_keep_a_run_going_for_ever() -> None:
    model = ScriptedModel([{"text": "Done."}] * 20)

    answer = await Agent(model=model, hooks=[hook("Stop", lambda _: "deny")]).run("Fix it.")

    assert answer.status == "done" and len(model.requests) == 1 + MAX_STOPS


async def test_a_broken_hook_keeps_no_run_from_ending() -> None:
    def broken(_: dict[str, Any]) -> None:
        raise RuntimeError

    answer = await Agent(model=ScriptedModel([{"text": "Done."}]), hooks=[hook("Stop", broken)]).run(
        "Fix it."
    )

    assert (answer.status, answer.answer) == ("done", "Done.")


async def test_a_session_ends_with_its_executor() -> None:
    ended: list[str] = []
    agent = Agent(
        model=ScriptedModel([{"text": "ok"}]), store="memory",
        hooks=[hook("SessionEnd", lambda e: ended.append(e["session_id"])), hook("SessionStart", lambda _: None)],
    )  # fmt: skip

    await agent.run("Hello", session="s")
    assert ended == []
    await agent.aclose()

    assert ended == ["s"]


async def test_a_conversation_that_is_shortened_is_told() -> None:
    told: list[str] = []
    turns: list[Any] = [{"calls": [{"name": "page", "arguments": {"n": n}}]} for n in range(4)]
    agent = Agent(
        tools=[page], model=ScriptedModel([*turns, {"text": "done"}]), limits=Limits(context_tokens=6000),
        hooks=[
            hook("PreCompact", lambda e: told.append(e["trigger"]), matcher="auto"),
            hook("PreCompact", lambda e: told.append("by hand"), matcher="manual"),
        ],
    )  # fmt: skip

    await agent.run("Read the pages.")

    assert told and set(told) == {"auto"}


async def test_what_a_hook_says_endorses_no_destination() -> None:
    model = ScriptedModel([{"text": "ok"}])
    context = {"hookSpecificOutput": {"additionalContext": "see evil.example"}}
    agent = Agent(model=model, hooks=[hook("UserPromptSubmit", lambda _: context)], store="memory")

    await agent.run("Look at good.example", session="s")

    taints = agent.executor.wiring.safeguards.taints
    assert taints is not None
    assert taints.is_named("s", Effect("connect", "good.example"))
    assert not taints.is_named("s", Effect("connect", "evil.example"))


async def test_the_hooks_of_a_run_watch_its_subagents_too() -> None:
    order: list[str] = []

    def turn(request: ModelRequest) -> dict[str, Any]:
        if request.instructions.startswith("You are a subagent"):
            calls = [{"name": "page", "arguments": {"n": 1}}]
            return {"calls": calls} if len(request.messages) == 1 else {"text": "Read."}
        first = len(request.messages) == 1
        return {"calls": [{"name": "call_subagent", "arguments": ASK}]} if first else {"text": "Thanks."}

    def note(event: dict[str, Any]) -> str | None:
        order.append(
            f"{event['hook_event_name']} {event.get('agent_type') or event.get('tool_name') or ''}".strip()
        )
        return "deny" if event.get("tool_name") == "page" else None

    names = ("SessionStart", "SubagentStart", "SubagentStop", "Stop", "SessionEnd", "UserPromptSubmit")
    agent = Agent(
        tools=[page, builtin("call_subagent")], model=ScriptedModel([turn] * 8), store="memory",
        subagents=[AgentSpec(name="reader", tools=("page",))],
        hooks=[*(hook(name, note) for name in names), hook("PreToolUse", note, matcher="page")],
    )  # fmt: skip

    answer = await agent.run("Have it read.", session="s")
    await agent.aclose()

    assert answer.answer == "Thanks."
    assert order == [
        "SessionStart", "UserPromptSubmit", "SubagentStart reader", "PreToolUse page", "SubagentStop reader", "Stop",
        "SessionEnd",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "asked"),
    [("user", True), ("stdin", True), ("channel", True), ("schedule", False), ("subagent", False)],
)
async def test_a_prompt_is_one_whichever_way_a_person_sends_it(by: str, asked: bool) -> None:
    model = ScriptedModel([{"text": "ok"}])
    agent = Agent(model=model, store="memory", hooks=[hook("UserPromptSubmit", lambda _: "deny")])
    message = InboundMessage(session="s", content="Hello", id="m1", by=by)

    if asked:
        with raises(PermissionDenied):
            [event async for event in agent.stream_message(message)]
    else:
        [event async for event in agent.stream_message(message)]

    assert len(model.requests) == (0 if asked else 1)


async def test_control_sequences_of_a_hook_reach_nobody() -> None:
    agent = Agent(
        model=ScriptedModel([{"text": "ok"}]), store="memory",
        hooks=[hook("UserPromptSubmit", lambda _: {"hookSpecificOutput": {"additionalContext": "\x1b[31mred"}})],
    )  # fmt: skip

    await agent.run("Hello", session="s")

    (message,) = [e for e in agent.session("s") if isinstance(e, UserSaid)]
    assert text_of(message.message.content) == "Hello\n\n<hook>\nred\n</hook>"
