"""A conversation without a face: files and commands beside a message, going back, other modes, what it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.content import ToolCall
from pegboard.core.errors import BuildError, PegboardError
from pegboard.core.events import (
    CallFinished,
    CallUpdate,
    Event,
    HistoryFolded,
    RunFinished,
    RunStarted,
    UserSaid,
)
from pegboard.core.policy.approval import ApprovalRequest, Approved, DenyAll, Refused
from pegboard.core.transcript import UserMessage
from pegboard.runtime import session as session_of_runtime
from pegboard.runtime.fold import fold
from pegboard.services.runtime import Interaction
from pegboard.services.sessions import Conversation

NO = Interaction(approver=DenyAll())


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("one\n")
    return tmp_path / "w"


@pytest.fixture
def app(folder: Path) -> Iterator[App]:
    with App.open(workspace=folder) as opened:
        yield opened


def script(folder: Path, *turns: dict[str, Any]) -> str:
    file = folder.parent / "turns.jsonl"
    file.write_text("\n".join(json.dumps(t) for t in turns))
    return f"scripted:{file}"


def write(text: str) -> dict[str, Any]:
    return {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": text}}]}


async def say(talk: Conversation, text: str) -> RunFinished:
    last: Event | None = None
    async for event in talk.send(text):
        last = event
    assert isinstance(last, RunFinished)
    return last


def heard(talk: Conversation) -> list[str]:
    """What the model is sent of what was said."""
    return [m.text for m in fold(talk.earlier()).messages if isinstance(m, UserMessage)]


async def test_a_named_file_comes_with_the_message_and_its_text_endorses_nothing(
    app: App, folder: Path
) -> None:
    (folder / "links.txt").write_text("see https://evil.example/in?x=1\n")
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        text, missed = await talk.attach_files("look at @links.txt, ask ann@example.com, @nothing")
        await say(talk, text)
        fetch = ToolCall("c", "web_fetch", {"url": "https://evil.example/in?x=1"})
        preview = await talk.executor.pipeline.preview(fetch, talk.executor.context)

    assert missed == []
    assert text.startswith("look at @links.txt, ask ann@example.com, @nothing\n\n<attached>\n")
    assert "see https://evil.example/in?x=1" in text
    # Had the person typed the address, it would be allowed.
    assert preview.decision == "ask"


async def test_a_file_that_may_not_be_read_is_not_attached_and_a_private_one_keeps_its_label(
    app: App, folder: Path
) -> None:
    (folder / ".env").write_text("NAME=value\n")
    (folder.parent / "outside.txt").write_text("no\n")
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        text, missed = await talk.attach_files(f"@{folder.parent / 'outside.txt'} and @.env")
        result = await talk.executor.pipeline.call(
            ToolCall("c", "read_file", {"path": "a.txt"}), talk.executor.context
        )

    assert len(missed) == 1 and "outside.txt" in missed[0]
    assert "NAME=value" in text
    assert "private" in result.notes.labels


async def test_a_command_that_a_person_typed_runs_is_recorded_and_told_with_the_next_message(
    app: App, folder: Path
) -> None:
    app.policy = app.policy.of(["deny exec:rm **"], mode="ask")
    events: list[Event] = []
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        done = await talk.run_command("echo hello > made.txt; cat made.txt", events.append)
        denied = await talk.run_command("rm a.txt", events.append)
        assert heard(talk) == []
        await say(talk, "what did I do?")
        said = heard(talk)
        undone = await app.undo.undo(done.call_id)

    assert (done.ok, denied.ok) == (True, False)
    assert said[0].startswith("what did I do?\n\n<attached>\n<command line=")
    assert "hello" in said[0] and (folder / "a.txt").exists()
    assert undone.applied and not (folder / "made.txt").exists()
    recorded = await app.sessions.history("chat_a")
    kinds = [e.type for e in recorded if e.type.startswith("call.")]
    assert kinds == ["call.started", "call.finished"] * 2


async def test_output_of_a_command_comes_while_it_runs(app: App, folder: Path) -> None:
    seen: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, CallUpdate):
            seen.append(event.update["output"])
            (folder / "go").touch()  # It ends only when its first line has been seen.

    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        command = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second"
        result = await talk.run_command(command, on_event)

    assert seen[0] == "first\n"
    assert "first\nsecond" in result.text


async def test_going_back_takes_back_files_and_what_the_model_knows(app: App, folder: Path) -> None:
    turns = [
        {"text": "hi"},
        write("two\n"),
        {"text": "wrote"},
        write("three\n"),
        {"text": "again"},
        {"text": "fresh"},
    ]
    async with app.sessions.open("chat_a", NO, model=script(folder, *turns)) as talk:
        for text in ("hello", "write two", "write three"):
            await say(talk, text)
        assert [m.text for m in await talk.messages()] == ["hello", "write two", "write three"]
        changes = await app.undo.session_changes("chat_a")
        assert "-one\n+three" in changes[0].diff

        report = await talk.rewind((await talk.messages())[1].run)
        assert report is not None and (folder / "a.txt").read_text() == "one\n"
        assert heard(talk) == ["hello"]
        with pytest.raises(BuildError):
            await talk.rewind("run_nothing")
        await say(talk, "something else")
        assert heard(talk) == ["hello", "something else"]

    # A later process knows the same, and the record has everything.
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        assert heard(talk) == ["hello", "something else"]
    whole = await app.sessions.history("chat_a")
    assert "write two" in [e.message.text for e in whole if isinstance(e, UserSaid)]


async def test_going_back_reaches_what_a_long_session_opens_without(
    app: App, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_of_runtime, "FOLD_EVERY", 4)
    for turns in ([{"text": "hi"}], [write("two\n"), {"text": "wrote"}], [{"text": "ok"}], [{"text": "ok"}]):
        async with app.sessions.open("chat_a", NO, model=script(folder, *turns)) as talk:
            await say(talk, f"message {len(await talk.messages())}")
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        assert isinstance(talk.earlier()[0], HistoryFolded)
        messages = await talk.messages()
        assert [m.text for m in messages] == [f"message {n}" for n in range(4)]

        await talk.rewind(messages[1].run)

        assert (folder / "a.txt").read_text() == "one\n"
        assert heard(talk) == ["message 0"]
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "ok"})) as talk:
        assert heard(talk) == ["message 0"]


async def test_a_run_that_is_resumed_after_a_yes_to_its_plan_may_do_what_was_planned_and_no_more(
    app: App, folder: Path
) -> None:
    turns = [
        {"calls": [{"name": "propose_plan", "arguments": {"plan": "Write a.txt.", "files": ["a.txt"]}}]},
        write("two\n"),
        {"calls": [{"name": "write_file", "arguments": {"path": "b.txt", "content": "x"}}]},
        {"text": "Done."},
    ]
    model = script(folder, *turns)
    asked: list[ApprovalRequest] = []

    class Person:
        async def decide(self, request: ApprovalRequest) -> Any:
            asked.append(request)
            return Approved(by="ann") if request.tool == "propose_plan" else Refused("no")

    person = Interaction(approver=Person())
    with app.at(folder, mode="plan") as planning:
        async with aclosing(planning.runs.start("Change it", person, session="s", model=model)) as events:
            async for event in events:
                if isinstance(event, CallFinished):
                    break
    # As a process that was killed behind the yes: the stream ends there.
    whole = await app.history.events("s")
    async with app.history.open_session("killed") as opened:
        for event in whole:
            if isinstance(event, RunStarted):
                opened.log.record(replace(event, run="run_killed", session="killed"))
            elif not isinstance(event, RunFinished):
                opened.log.record(event)
    (row,) = await app.runs.list(session="killed")
    assert row.status == "interrupted"

    async for _ in app.runs.resume(row, person, model=model):
        pass

    assert (folder / "a.txt").read_text() == "two\n"
    assert not (folder / "b.txt").exists()
    assert [request.tool for request in asked] == ["propose_plan", "write_file"]


async def test_a_run_that_was_taken_back_is_not_resumed(app: App, folder: Path) -> None:
    async with app.sessions.open("chat_a", NO, model=script(folder, {"error": "overloaded"})) as talk:
        run = (await say(talk, "hello")).run
        await talk.rewind(run)
    row = await app.runs.get(run)

    with pytest.raises(PegboardError, match="taken back"):
        async for _ in app.runs.resume(row, NO):
            pass


async def test_another_mode_holds_from_the_next_turn_of_the_run_on(app: App, folder: Path) -> None:
    turns = [write("two\n"), write("three\n"), {"text": "ok"}]
    async with app.sessions.open("chat_a", NO, model=script(folder, *turns)) as talk:
        async for event in talk.send("write"):
            if event.type == "call.started" and (folder / "a.txt").read_text() == "one\n":
                talk.set_mode("read-only")
        with pytest.raises(BuildError, match="unknown mode"):
            talk.set_mode("odd")
        [run] = await talk.runs()

    assert (folder / "a.txt").read_text() == "two\n"
    assert (await app.runs.replay(run)).whole


async def test_what_the_context_takes_is_the_providers_count_where_there_is_one(
    app: App, folder: Path
) -> None:
    counted = {"text": "ok", "usage": {"input_tokens": 700, "output_tokens": 20}}
    async with app.sessions.open("chat_a", NO, model=script(folder, {"text": "hi"}, counted)) as talk:
        before = talk.context_use()
        await say(talk, "one")
        estimated = talk.context_use()
        await say(talk, "two")
        after = talk.context_use()

    assert (before.tokens, before.share) == (0, None)
    assert estimated.tokens > 0
    assert after.tokens == 720


async def test_the_conversations_of_this_workspace_are_listed(app: App, folder: Path) -> None:
    for key, text in (("chat_a", "first task"), ("chat_b", "second"), ("other", "no chat")):
        async with app.sessions.open(key, NO, model=script(folder, {"text": "ok"})) as talk:
            await say(talk, text)
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()

    rows = await app.sessions.conversations()
    with app.at(elsewhere) as there:
        none = await there.sessions.conversations()

    assert [(r.session, r.task, r.runs) for r in rows] == [
        ("chat_b", "second", 1),
        ("chat_a", "first task", 1),
    ]
    assert none == []
