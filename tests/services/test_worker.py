"""A worker runs sessions on the messages that wait for them, once each, whatever happens to its process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.core.events import Event, RunFinished, RunStarted, UserSaid, UserTold
from pegboard.core.limits import SystemClock
from pegboard.core.policy.approval import AllowOnce, Refused, SuspendAll
from pegboard.ports.messages import InboundMessage
from pegboard.ports.store import StoreError
from pegboard.services.runtime import Interaction
from pegboard.services.worker import Worker
from pegboard.store.inbox import Inbox
from pegboard.store.leases import Leases, this_process
from tests.waiting import soon, until

YES = Interaction(approver=AllowOnce())


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("one\n")
    return tmp_path / "w"


@pytest.fixture
def app(folder: Path) -> Iterator[App]:
    with App.open(workspace=folder) as opened:
        yield opened


def script(folder: Path, *turns: dict[str, Any], name: str = "turns") -> str:
    file = folder.parent / f"{name}.jsonl"
    file.write_text("\n".join(json.dumps(t) for t in turns))
    return f"scripted:{file}"


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def said(events: list[Event]) -> list[tuple[str, str]]:
    return [(e.by, e.message.text) for e in events if isinstance(e, UserSaid)]


async def test_a_message_is_run_on_once_and_its_answer_handed_on(app: App, folder: Path) -> None:
    answers: list[tuple[str, str]] = []

    async def keep(message: InboundMessage, finished: RunFinished) -> None:
        answers.append((message.id, finished.answer))

    inbox = Inbox(app.store)
    model = script(folder, calls("read_file", path="a.txt"), {"text": "It says one."})
    await inbox.add(
        InboundMessage(session="s", content="What does a.txt say?", id="m1", by="schedule", wants_answer=True)
    )
    worker = Worker(app, app.history, app.sessions, app.runs, interaction=YES, on_answer=[keep], model=model)

    await worker.work(until_idle=True)
    await worker.work(until_idle=True)

    assert answers == [("m1", "It says one.")]
    assert await inbox.all() == []
    assert said(await app.history.events("s")) == [("schedule", "What does a.txt say?")]


async def test_what_this_process_stores_is_not_looked_for_first(
    app: App, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.services.worker.LOOK_S", 3600)
    model = script(folder, {"text": "One."}, {"text": "Two."})
    working = asyncio.ensure_future(app.worker(YES, model=model).work())
    for number in (1, 2):
        await Inbox(app.store).add(InboundMessage(session="s", content="Hi", id=f"m{number}"))
        app.look_now()
        async with asyncio.timeout(30):
            # A message that arrives while the run before goes on would belong to that one.
            while len([run for run in await app.runs.list() if run.status == "done"]) < number:
                await asyncio.sleep(0.01)
            while await Inbox(app.store).all():
                await asyncio.sleep(0.01)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_an_answer_that_was_not_handed_on_is_handed_on_by_the_next_worker(
    app: App, folder: Path
) -> None:
    answers: list[str] = []

    async def keep(message: InboundMessage, finished: RunFinished) -> None:
        answers.append(finished.answer)

    async def fail(message: InboundMessage, finished: RunFinished) -> None:
        raise StoreError("the disk is full")

    await Inbox(app.store).add(InboundMessage(session="s", content="Hi", id="m1", wants_answer=True))
    model = script(folder, {"text": "Hello."})
    broken = Worker(app, app.history, app.sessions, app.runs, on_answer=[fail], model=model)
    await broken.work(until_idle=True)

    await Worker(app, app.history, app.sessions, app.runs, on_answer=[keep], model=model).work(
        until_idle=True
    )

    assert answers == ["Hello."]
    assert len(await app.runs.list()) == 1


async def test_what_arrives_during_a_run_is_read_before_its_next_request(app: App, folder: Path) -> None:
    inbox = Inbox(app.store)
    model = script(folder, calls("read_file", path="a.txt"), {"text": "Done."})
    async with app.sessions.open("s", YES, model=model) as talk:
        events: list[Event] = []
        async for event in talk.send("Read a.txt"):
            events.append(event)
            if event.type == "call.started":
                await inbox.add(
                    InboundMessage(
                        session="s", content="Hurry.", id="m1", by="session", labels=("untrusted",)
                    )
                )
                await inbox.add(InboundMessage(session="s", content="Hurry.", id="m1", by="session"))

    kinds = [e.type for e in events if not e.type.startswith("model.")]
    assert said(events) == [("user", "Read a.txt"), ("session", "Hurry.")]
    assert kinds.index("call.finished") < kinds.index("message.told")
    assert next(e for e in events if isinstance(e, UserTold)).labels == ("untrusted",)
    assert await inbox.all() == []
    run = (await app.runs.list())[0]
    assert (await app.runs.replay(run)).whole


async def test_in_a_chat_of_several_people_each_ones_message_is_read_by_a_run_of_their_own(
    app: App, folder: Path
) -> None:
    def message(id: str, sender: str, content: str) -> InboundMessage:
        return InboundMessage(
            session="s", content=content, id=id, channel="slack", chat_id="C1", sender_id=sender
        )

    inbox = Inbox(app.store)
    ann, bo, more = (
        message("1", "ann", "Read a.txt"),
        message("2", "bo", "Now push"),
        message("3", "ann", "Soon"),
    )
    model = script(folder, calls("read_file", path="a.txt"), {"text": "Done."})
    async with app.sessions.open("s", YES, model=model) as talk:
        async for event in talk.answer(ann):
            if event.type == "call.finished":
                await inbox.add(bo)
                await inbox.add(more)

    assert [m.id for m in await inbox.waiting("s")] == ["2"]
    await Worker(app, app.history, app.sessions, app.runs, model=model).work(until_idle=True)

    runs = [
        (e.detail["origin"]["sender"]) for e in await app.history.events("s") if isinstance(e, RunStarted)
    ]
    assert runs == ["ann", "bo"]
    told = [e.message.text for e in await app.history.events("s") if isinstance(e, UserTold)]
    assert told == ["Soon"]


async def test_what_waits_for_a_person_is_put_aside_by_a_person_alone(app: App, folder: Path) -> None:
    inbox = Inbox(app.store)
    later = Interaction(approver=SuspendAll())
    model = script(folder, calls("exec", command="curl -s https://example.com"), {"text": "Asked."})
    await inbox.add(InboundMessage(session="s", content="Fetch it", id="m1"))
    await inbox.add(InboundMessage(session="s", content="A child reports", id="m2", by="subagent", at=9e9))
    await Worker(app, app.history, app.sessions, app.runs, interaction=later, model=model).work(
        until_idle=True
    )
    (row,) = await app.runs.list()
    assert row.status == "suspended"
    await inbox.add(InboundMessage(session="s", content="Another", id="m3", by="subagent", at=9e9))

    await Worker(app, app.history, app.sessions, app.runs, interaction=later, model=model).work(
        until_idle=True
    )

    assert [m.id for m in await inbox.waiting("s")] == ["m3"]
    pending = (await app.approvals.pending(row.id))[0]
    await app.approvals.answer(pending.key, Refused("no", by="ada"))
    await Worker(app, app.history, app.sessions, app.runs, interaction=later, model=model).work(
        until_idle=True
    )
    assert await inbox.all() == []
    assert [r.status for r in await app.runs.list()] == ["done"]
    assert ("subagent", "Another") in said(await app.history.events("s"))


async def test_a_worker_that_is_killed_in_a_call_is_followed_by_another_that_goes_on(
    app: App, folder: Path
) -> None:
    turns = [calls("exec", command="echo begun >> log.txt; sleep 60"), {"text": "Over."}]
    model = script(folder, *turns)
    await Inbox(app.store).add(InboundMessage(session="s", content="Work", id="m1", by="schedule"))
    command = [sys.executable, "-m", "pegboard", "worker", "--until-idle", "--yes", "--model", model]
    first = subprocess.Popen(command, cwd=folder, env=os.environ, stderr=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(until, (folder / "log.txt").exists, "the command to begin", within_s=60)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()

    second = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=120)

    assert second.returncode == 0, second.stderr
    assert (folder / "log.txt").read_text() == "begun\n"
    assert [(r.status, r.task) for r in await app.runs.list()] == [("done", "Work")]
    assert await Inbox(app.store).all() == []


class HandClock(SystemClock):
    """A clock that the test moves on."""

    at = 0.0
    looks = 0
    """How often it was read."""

    def monotonic(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.looks += 1
        return self.at


async def test_a_worker_of_another_machine_that_shows_no_life_for_thirty_seconds_is_followed(
    app: App, folder: Path
) -> None:
    model = script(folder, calls("exec", command="echo begun >> log.txt; sleep 60"), {"text": "Over."})
    await Inbox(app.store).add(InboundMessage(session="s", content="Work", id="m1", by="schedule"))
    command = [sys.executable, "-m", "pegboard", "worker", "--until-idle", "--yes", "--model", model]
    first = subprocess.Popen(command, cwd=folder, env=os.environ, stderr=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(until, (folder / "log.txt").exists, "the command to begin", within_s=60)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    # As if that process had been one of another machine: only its silence can tell that it has ended.
    elsewhere = replace(this_process(), machine="elsewhere")
    left = await Leases(app.store, owner=elsewhere).acquire("s")
    clock = HandClock()
    app.history.leases = Leases(app.store, clock=clock)
    worker = asyncio.create_task(app.worker(YES, model=model).work())
    try:
        await soon(lambda: clock.looks > 0, "the worker has seen the lease")
        clock.at, seen = 29.0, clock.looks
        await soon(lambda: clock.looks > seen + 1, "it has looked again")
        assert [r.status for r in await app.runs.list()] == ["running"]
        clock.at = 60.0

        await until_row(app, "done")
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    await left.renew()
    assert left.lost
    await left.release()
    assert (folder / "log.txt").read_text() == "begun\n"
    assert await Inbox(app.store).all() == []


async def until_row(app: App, status: str) -> None:
    """Wait until the only run of the workspace has that status."""
    async with asyncio.timeout(60):
        while [r.status for r in await app.runs.list()] != [status]:
            await asyncio.sleep(0.05)


async def test_a_subagent_that_waited_for_a_person_reports_when_it_was_answered(
    app: App, folder: Path
) -> None:
    (folder.parent / "home").mkdir(exist_ok=True)
    config = folder.parent / "agents.toml"
    config.write_text('tools = ["spawn", "exec"]\n')
    later = Interaction(approver=SuspendAll())
    model = script(
        folder,
        calls("spawn", task="Fetch it"),
        {"text": "Started."},
        calls("exec", command="curl -s https://example.com"),
        {"text": "It waits."},
    )
    with App.open(workspace=folder, config=config) as app:
        events = [e async for e in app.runs.start("Go", later, session="s", model=model)]
        assert isinstance(events[-1], RunFinished) and events[-1].answer == "It waits."
        child, parent = await app.runs.list()
        assert [child.status, parent.status] == ["suspended", "done"]
        (pending,) = await app.approvals.pending(child.id)
        await app.approvals.answer(pending.key, Refused("no", by="ada"))
        script(folder, {"text": "It was refused."})  # Each process plays it from its first turn.

        await Worker(app, app.history, app.sessions, app.runs, interaction=later, model=model).work(
            until_idle=True
        )

        assert [r.status for r in await app.runs.list()] == ["done", "done", "done"]
        reports = [text for by, text in said(await app.history.events("s")) if by == "subagent"]
        assert [text.splitlines()[0].partition(" ")[0] for text in reports] == ["[Subagent", "[Subagent"]
        assert "waits for a person's approval" in reports[0]
        assert reports[1].endswith("It was refused.")


async def test_a_worker_that_is_stopped_lets_its_run_end(app: App, folder: Path) -> None:
    model = script(
        folder, calls("exec", command="touch begun; sleep 2; echo over > log.txt"), {"text": "Over."}
    )
    await Inbox(app.store).add(InboundMessage(session="s", content="Work", id="m1", by="schedule"))
    command = [sys.executable, "-m", "pegboard", "worker", "--yes", "--model", model]
    worker = subprocess.Popen(command, cwd=folder, env=os.environ, stderr=subprocess.PIPE, text=True)
    try:
        await asyncio.to_thread(until, (folder / "begun").exists, "the command to begin", within_s=60)
        worker.send_signal(signal.SIGTERM)
        said = await asyncio.to_thread(lambda: worker.communicate(timeout=60)[1])
    finally:
        worker.kill()
        worker.wait()

    assert "stopping; runs that go on have 10 s to end" in said
    assert (folder / "log.txt").read_text() == "over\n"
    assert [r.status for r in await app.runs.list()] == ["done"]
