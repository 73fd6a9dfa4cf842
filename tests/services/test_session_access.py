"""What a session sees of the others, what it tells them, and how often they answer each other."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.content import Text, ToolCall
from pegboard.core.context import Context, attach, detach
from pegboard.core.errors import InvalidArguments, NotFound
from pegboard.core.events import CallFinished, Event, UserSaid
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, ResultsMessage, UserMessage
from pegboard.models import MODELS
from pegboard.ports.model import TurnEnd
from pegboard.ports.subagents import Child
from pegboard.services.session_access import StoredSessionAccess
from pegboard.store.children import Children
from pegboard.store.inbox import Inbox
from tests.ledger import owes

Answer = Callable[[str, list[ToolResult]], Any]


class Minds:
    """A model that answers by the last message of a person or session, and by the results since then."""

    name = "minds:m"
    destination = "nowhere"
    answer: Answer

    @classmethod
    def open_named(cls, name: str, sources: object) -> Minds:
        return cls()

    def converse(self, **_: Any) -> Talk:
        return Talk(type(self).answer)

    async def aclose(self) -> None:
        """Nothing."""


class Talk:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._asked = ""
        self._results: list[ToolResult] = []

    def append(self, message: Any) -> None:
        if isinstance(message, UserMessage):
            self._asked, self._results = message.text, []
        elif isinstance(message, ResultsMessage):
            self._results += message.results

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[Any]:
        turn = self._answer(self._asked, self._results)
        if isinstance(turn, str):
            yield TurnEnd(AssistantMessage(content=(Text(turn),)))
            return
        tool, arguments = turn
        call = ToolCall(os.urandom(4).hex(), tool, arguments)
        yield TurnEnd(AssistantMessage(content=(call,), stop="tools"))


@pytest.fixture(autouse=True)
def minds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "minds", f"{__name__}:Minds")  # type: ignore[arg-type]


def app_with(folder: Path, visibility: str = "all", **more: int) -> App:
    (folder / "w").mkdir(exist_ok=True)
    config = folder / "pegboard.toml"
    settings = "\n".join(f"{k} = {v}" for k, v in more.items())
    config.write_text(
        'tools = ["sessions_list", "sessions_send", "sessions_history", "session_status"]\n'
        f'[sessions]\nvisibility = "{visibility}"\n{settings}\n'
    )
    return App.open(workspace=folder / "w", config=config)


@pytest.fixture
def app(tmp_path: Path, own_home: Path) -> Iterator[App]:
    with app_with(tmp_path) as opened:
        yield opened


async def say(app: App, session: str, text: str) -> list[Event]:
    async with app.sessions.open(session, model="minds:m") as talk:
        return [event async for event in talk.send(text)]


def result_of(events: list[Event]) -> ToolResult:
    return next(e.result for e in events if isinstance(e, CallFinished))


def heard(events: list[Event]) -> list[tuple[str, str]]:
    return [(e.by, e.message.text.rpartition("\n")[2]) for e in events if isinstance(e, UserSaid)]


# -- who sees whom ----------------------------------------------------------------------------


async def seen_by(app: App, session: str, **context: Any) -> list[str]:
    async def store(_: str) -> Any:
        return app.store

    config = app.config
    access = StoredSessionAccess(store, settings=config.sessions, confined=config.sandbox != "none")
    before = attach(Context(session=session, model="m", **context))
    try:
        return sorted(row.key for row in await access.list())
    finally:
        detach(before)


@owes("K-70")
@pytest.mark.parametrize(
    ("visibility", "seen"),
    [
        ("self", ["main"]),
        ("tree", ["agent:coder:subagent:task:1", "agent:coder:subagent:task:2", "main"]),
        ("agent", ["main", "telegram:user:5"]),
        ("all", ["agent:coder:subagent:task:1", "agent:coder:subagent:task:2", "main", "telegram:user:5"]),
    ],
)
async def test_a_session_sees_what_the_settings_open(
    tmp_path: Path, own_home: Path, visibility: str, seen: list[str]
) -> None:
    child, below = "agent:coder:subagent:task:1", "agent:coder:subagent:task:2"
    Minds.answer = lambda asked, results: "ok"
    with app_with(tmp_path, visibility) as app:
        for session in ("main", "telegram:user:5", child, below):
            await say(app, session, "Hello")
        await Children(app.store).add(Child(id="1", session=child, parent="main"))
        await Children(app.store).add(Child(id="2", session=below, parent=child))

        assert await seen_by(app, "main") == seen
        # A subagent of a confined agent sees its own tree at most.
        mine = [child, below] if visibility != "self" else [child]
        assert await seen_by(app, child, depth=1, agent="coder") == mine


@owes("K-70")
async def test_a_session_out_of_sight_is_as_one_that_does_not_exist(tmp_path: Path, own_home: Path) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if asked == "Hello" or results:
            return "ok"
        tool, session = asked.split()
        return tool, {"session": session, **({"message": "Hi"} if tool == "sessions_send" else {})}

    Minds.answer = answer
    with app_with(tmp_path, "tree") as app:
        await say(app, "telegram:user:5", "Hello")
        for tool in ("sessions_send", "sessions_history", "session_status"):
            there = result_of(await say(app, "main", f"{tool} telegram:user:5"))
            absent = result_of(await say(app, "main", f"{tool} telegram:user:6"))

            assert there.error is not None and absent.error is not None
            assert there.error.code == absent.error.code == "not_found"
            assert str(there).replace("user:5", "user:6") == str(absent)
        assert await Inbox(app.store).all() == []


# -- messages ---------------------------------------------------------------------------------


@owes("M-15", "M-16", "K-71")
async def test_a_message_is_answered_by_the_session_that_gets_it(app: App) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if results:
            return f"It said: {results[-1]}"
        if asked == "Ask":
            return "sessions_send", {"sessionKey": "telegram:5", "message": "How many?", "timeoutSeconds": 20}
        return "Three." if asked.endswith("How many?") else "ok"

    Minds.answer = answer
    await say(app, "telegram:user:5", "Hello")

    events = await say(app, "main", "Ask")

    assert result_of(events).data["reply"] == "Three."
    assert "It said: Three." in str(events[-1])
    theirs = [e for e in await app.history.events("telegram:user:5") if isinstance(e, UserSaid)]
    assert (theirs[-1].by, theirs[-1].message.text) == (
        "session",
        "[Message from session main. Your answer goes back to it.]\n\nHow many?",
    )
    assert await Inbox(app.store).all() == []


async def test_a_session_that_gets_a_message_answers_with_its_own_model(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Others(Minds):
        name = "others:m"

    monkeypatch.setitem(MODELS, "others", f"{__name__}:Others")  # type: ignore[arg-type]
    monkeypatch.setattr(sys.modules[__name__], "Others", Others, raising=False)

    def answer(asked: str, results: list[ToolResult]) -> Any:
        if asked == "Ask" and not results:
            return "sessions_send", {"sessionKey": "telegram:5", "message": "How many?", "timeoutSeconds": 20}
        return "ok"

    Minds.answer = answer
    async with app.sessions.open("telegram:user:5", model="others:m") as talk:
        async for _ in talk.send("Hello"):
            pass

    await say(app, "main", "Ask")

    rows = await app.runs.list(session="telegram:user:5")
    assert [row.model for row in rows] == ["others:m"] * 2


@owes("M-15", "M-16")
async def test_a_message_by_label_waits_until_its_session_runs(app: App) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if asked == "Tell" and not results:
            return "sessions_send", {"label": "Ada", "message": "The report is ready."}
        return "ok"

    Minds.answer = answer
    await say(app, "telegram:user:5", "Hello")
    await app.sessions.rename("telegram:user:5", "ada")

    result = result_of(await say(app, "main", "Tell"))

    assert result.data["status"] == "queued"
    (message,) = await Inbox(app.store).waiting("telegram:user:5")
    assert (message.by, message.sender_id, message.wants_answer) == ("session", "main", False)
    await app.worker(model="minds:m").work(until_idle=True)
    assert heard(await app.history.events("telegram:user:5"))[-1] == ("session", "The report is ready.")


async def test_an_answer_that_comes_late_comes_as_a_message(app: App) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if asked == "Ask" and not results:
            return "sessions_send", {"session": "b", "message": "Slow?", "timeout_s": 0.5}
        if asked.endswith("Slow?"):
            return "Here it is."
        return "ok"

    Minds.answer = answer
    await say(app, "b", "Hello")
    serve, app._serve = app._serve, None  # type: ignore[method-assign,assignment]

    events = await say(app, "main", "Ask")
    assert result_of(events).data["status"] == "late"
    app._serve = serve  # type: ignore[method-assign]
    await app.worker(model="minds:m").work(until_idle=True)

    assert heard(await app.history.events("main"))[-1] == ("session", "Here it is.")
    assert "[Session b has answered: done.]" in str(await app.history.events("main"))
    assert await Inbox(app.store).all() == []


@owes("K-71")
async def test_sessions_stop_answering_each_other_after_five_turns(app: App) -> None:
    refused: list[str] = []

    def answer(asked: str, results: list[ToolResult]) -> Any:
        if results:
            refused.extend(str(r) for r in results if r.error is not None)
            return "ok"
        if asked == "Hello":
            return "ok"
        sender = re.search(r"from session (\w+)", asked)
        to = "b" if sender is None else sender[1]
        return "sessions_send", {"session": to, "message": "And you?"}

    Minds.answer = answer
    await say(app, "a", "Hello")
    await say(app, "b", "Hello")
    await say(app, "a", "Begin")
    await app.worker(model="minds:m").work(until_idle=True)

    sent = [
        m
        for session in ("a", "b")
        for m in heard(await app.history.events(session))
        if m == ("session", "And you?")
    ]
    assert len(sent) == 5
    assert len(refused) == 1 and "5 times in a row" in refused[0]


@owes("K-71")
async def test_a_session_sends_six_messages_a_minute(app: App) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if asked == "Flood" and len(results) < 8:
            return "sessions_send", {"session": "b", "message": f"Message {len(results)}"}
        return "ok"

    Minds.answer = answer
    await say(app, "b", "Hello")

    events = await say(app, "a", "Flood")

    results = [e.result for e in events if isinstance(e, CallFinished)]
    assert [r.ok for r in results] == [True] * 6 + [False] * 2
    assert results[6].error is not None and results[6].error.code == "budget_exceeded"
    assert len(await Inbox(app.store).waiting("b")) == 6


@owes("K-72")
async def test_an_answer_is_kept_without_secrets_and_ends_with_a_purge(app: App) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3

    def answer(asked: str, results: list[ToolResult]) -> Any:
        if asked == "Ask" and not results:
            return "sessions_send", {"session": "b", "message": "The key?", "timeout_s": 20}
        return f"It is {token}" if asked.endswith("The key?") else "ok"

    Minds.answer = answer
    await say(app, "b", "Hello")

    result = result_of(await say(app, "a", "Ask"))

    kept = [row.value.decode() for row in await app.store.scan("session_messages")]
    assert len(kept) == 1 and "It is [redacted:" in kept[0]
    assert token not in str(result)
    await app.retention.purge(["history"])
    assert await app.store.scan("session_messages") == []
    assert {row.task for row in await app.sessions.rows()} == {"(purged)"}


async def test_two_sessions_that_ask_each_other_do_not_wait_for_each_other(app: App) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if results:
            return f"done: {results[-1].data['status']}"
        if asked == "Ask":
            return "sessions_send", {"session": "b", "message": "What?", "timeout_s": 30}
        if asked.endswith("What?"):
            return "sessions_send", {"session": "a", "message": "Why?", "timeout_s": 30}
        return "ok"

    Minds.answer = answer
    await say(app, "b", "Hello")

    async with asyncio.timeout(20):
        events = await say(app, "a", "Ask")

    assert result_of(events).data["reply"] == "done: queued"


async def test_a_session_writes_to_no_session_that_does_not_exist_and_not_to_itself(app: App) -> None:
    Minds.answer = lambda asked, results: "ok"
    await say(app, "a", "Hello")

    async def store(_: str) -> Any:
        return app.store

    access = StoredSessionAccess(store)
    before = attach(Context(session="a", model="m"))
    try:
        with pytest.raises(InvalidArguments):
            await access.send("a", "Hi")
        with pytest.raises(NotFound):
            await access.send("b", "Hi")
        with pytest.raises(InvalidArguments):
            await access.send("a\x1fb", "Hi")
    finally:
        detach(before)


@owes("M-15")
async def test_the_answer_comes_from_another_process_where_that_works_on_the_session(
    app: App, tmp_path: Path
) -> None:
    def answer(asked: str, results: list[ToolResult]) -> Any:
        if results:
            return str(results[-1].data["reply"])
        if asked == "Ask":
            return "sessions_send", {"session": "b", "message": "Who?", "timeout_s": 60}
        return "ok"

    Minds.answer = answer
    await say(app, "b", "Hello")
    turns = tmp_path / "turns.jsonl"
    turns.write_text(json.dumps({"text": "The other process."}))
    app._serve = None  # type: ignore[method-assign,assignment]
    worker = subprocess.Popen(
        [sys.executable, "-m", "pegboard", "worker", "--model", f"scripted:{turns}", "--workspace",
         str(tmp_path / "w"), "--config", str(tmp_path / "pegboard.toml")],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        events = await say(app, "a", "Ask")
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)

    assert result_of(events).data["reply"] == "The other process."
    holders = {row.stream: row.status for row in await app.history.runs()}
    assert holders == {"a": "done", "b": "done"}


async def test_the_same_call_sends_its_message_once(app: App) -> None:
    Minds.answer = lambda asked, results: "ok"
    await say(app, "a", "Hello")
    await say(app, "b", "Hello")

    async def store(_: str) -> Any:
        return app.store

    for _ in range(2):  # As after a crash: the run is taken up, and its call runs again.
        before = attach(Context(session="a", model="m", run="run_1", call_id="call_1"))
        try:
            await StoredSessionAccess(store, settings=app.config.sessions).send("b", "Hi")
        finally:
            detach(before)

    assert len(await Inbox(app.store).waiting("b")) == 1
