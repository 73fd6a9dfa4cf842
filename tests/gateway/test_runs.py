"""Runs over HTTP: started, followed while they go on, stopped by a question and taken further by its answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from pegboard.app.app import App
from pegboard.ports.messages import InboundMessage
from pegboard.store.inbox import Inbox
from tests.gateway.conftest import Serve, calls, events, types
from tests.ledger import owes

ASKS = calls("exec", command="git push https://example.invalid/x.git")


async def test_a_run_is_started_and_its_events_are_those_of_the_history(serve: Serve, folder: Path) -> None:
    async with serve(calls("read_file", path="a.txt"), {"text": "It says one."}) as client:
        started = await client.post("/api/runs", json={"task": "What does a.txt say?", "session": "s"})
        run = started.json()["run"]
        seen = await events(client, run)
        shown = (await client.get(f"/api/runs/{run}")).json()
        listed = (await client.get("/api/runs")).json()["runs"]

    assert started.status_code == 202 and started.headers["location"] == f"/api/runs/{run}"
    assert (shown["status"], shown["answer"], shown["session"]) == ("done", "It says one.", "s")
    assert [row["run"] for row in listed] == [run]
    with App.open(workspace=folder) as app:
        stored = [event.type for event in await app.history.events("s")]
    pieces = [kind for kind in types(seen) if kind in ("model.text", "model.thinking", "call.update")]
    assert [kind for kind in types(seen) if kind not in pieces] == stored


async def test_following_goes_on_behind_the_last_event_that_the_client_has(serve: Serve) -> None:
    async with serve(calls("read_file", path="a.txt"), {"text": "It says one."}) as client:
        run = (await client.post("/api/runs", json={"task": "look"})).json()["run"]
        first = await events(client, run, until="call.started")
        rest = await events(client, run, after=first[-1][0])
        whole = [one for one in await events(client, run) if one[0].endswith(".0")]

    stored = [one for one in first + rest if one[0].endswith(".0")]
    assert stored == whole
    assert types(whole)[-1] == "run.finished"


@owes("K-27")
async def test_a_run_that_asks_goes_on_with_the_answer_while_it_is_followed(serve: Serve) -> None:
    async with serve(ASKS, {"text": "Kept."}) as client:
        run = (await client.post("/api/runs", json={"task": "publish it"})).json()["run"]
        following = asyncio.ensure_future(events(client, run))
        await events(client, run, until="run.finished")
        (waiting,) = (await client.get("/api/approvals")).json()["approvals"]
        key = waiting["approval"]
        wrong = await client.post(f"/api/approvals/{key}", json={"answer": "yes please"})
        answered = await client.post(f"/api/approvals/{key}", json={"decision": "deny", "reason": "keep it"})
        twice = await client.post(f"/api/approvals/{key}", json={"decision": "allow"})
        seen = await following
        shown = (await client.get(f"/api/runs/{run}")).json()

    assert waiting["run"] == run and waiting["tool"] == "exec"
    assert (wrong.status_code, answered.status_code) == (400, 200)
    assert twice.status_code in (404, 409)
    assert (shown["status"], shown["answer"]) == ("done", "Kept.")
    assert types(seen).count("run.finished") == 2 and "run.resumed" in types(seen)
    numbers = [id for id, _ in seen if id.endswith(".0")]
    assert numbers == [f"{n}.0" for n in range(1, len(numbers) + 1)]
    refused = [e for _, e in seen if e["type"] == "call.finished"][-1]
    assert "keep it" in json.dumps(refused)


async def test_a_yes_is_given_to_exactly_what_was_shown(serve: Serve, folder: Path) -> None:
    (folder / ".envrc").write_text("export A=1\n")
    edit = calls("write_file", path=".envrc", content="export A=2\n")
    async with serve(edit, {"text": "Done."}) as client:
        run = (await client.post("/api/runs", json={"task": "set A to 2"})).json()["run"]
        await events(client, run, until="run.finished")
        (waiting,) = (await client.get("/api/approvals")).json()["approvals"]
        await client.post(f"/api/approvals/{waiting['approval']}", json={"decision": "allow"})
        await events(client, run)
        left = (await client.get("/api/approvals")).json()["approvals"]

    assert "+export A=2" in waiting["changes"][0]["diff"]
    assert (folder / ".envrc").read_text() == "export A=2\n"
    assert left == []


async def test_a_session_goes_on_and_is_shown_page_by_page(serve: Serve) -> None:
    async with serve({"text": "First."}) as client:
        run = (await client.post("/api/runs", json={"task": "one", "session": "a/b"})).json()["run"]
        await events(client, run)
        again = (await client.post("/api/runs", json={"task": "two", "session": "a/b"})).json()["run"]
        await events(client, again)
        sessions = (await client.get("/api/sessions")).json()["sessions"]
        shown = (await client.get("/api/sessions/a/b", params={"limit": 2})).json()
        none = await client.get("/api/sessions/other")

    assert [(one["session"], one["runs"]) for one in sessions] == [("a/b", 2)]
    assert [row["run"] for row in shown["runs"]] == [again, run]
    assert [e["type"] for e in shown["events"]] == ["run.started", "message.user"] and shown["total"] > 4
    assert none.status_code == 404


async def test_messages_that_wait_for_a_session_are_run_by_the_gateway(serve: Serve, folder: Path) -> None:
    with App.open(workspace=folder) as app:
        await app.store.connect()
        await Inbox(app.store).add(InboundMessage(session="s", content="wake up", id="m", by="schedule"))
    async with serve({"text": "Awake."}) as client:
        async with asyncio.timeout(30):
            while not (rows := (await client.get("/api/runs", params={"session": "s"})).json()["runs"]):
                await asyncio.sleep(0.02)
        seen = await events(client, rows[0]["run"])

    assert seen[-1][1]["answer"] == "Awake."


async def test_a_model_that_does_not_exist_is_an_error_of_the_request(serve: Serve) -> None:
    async with serve() as client:
        answer = await client.post("/api/runs", json={"task": "x", "model": "scripted:/nowhere.jsonl"})

    assert answer.status_code == 400
    assert "/nowhere.jsonl" in answer.json()["error"]["message"]
