"""Runs under a person's control over HTTP: told more, stopped, replayed, compared, exported, and their subagents."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.exceptions import HTTPException

from pegboard.app.app import App
from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.events import RunFinished, UserSaid
from pegboard.gateway.errors import refusal
from pegboard.ports.subagents import Child
from pegboard.runtime.replay import replay
from pegboard.store.children import Children
from tests.gateway.conftest import Serve, calls, events, types

SLEEPS = calls("exec", command="sleep 60", yield_ms=60_000)
ASKS = calls("exec", command="git push https://example.invalid/x.git")
READS = calls("read_file", path="a.txt")


async def started(
    client: httpx2.AsyncClient, task: str, *, session: str = "s", until: str = "run.finished"
) -> str:
    run = (await client.post("/api/runs", json={"task": task, "session": session})).json()["run"]
    await events(client, run, until=until)
    return run


async def test_a_run_that_works_is_stopped_and_recorded_as_cancelled(serve: Serve, folder: Path) -> None:
    async with serve(SLEEPS, {"text": "never"}) as client:
        run = await started(client, "sleep", until="call.started")
        following = asyncio.ensure_future(events(client, run))
        stopped = await client.post(f"/api/runs/{run}/stop")
        seen = await following
        again = await client.post(f"/api/runs/{run}/stop")
        next_run = await started(client, "go on", until="run.started")
        await client.post(f"/api/runs/{next_run}/stop")
        replayed = (await client.post(f"/api/runs/{run}/replay")).json()

    assert (stopped.status_code, stopped.json()["status"], stopped.json()["error"]) == (200, "cancelled", "")
    assert seen[-1][1]["type"] == "run.finished" and seen[-1][1]["status"] == "cancelled"
    assert again.status_code == 409 and "cancelled" in again.json()["error"]["message"]
    assert next_run != run and replayed["same"] is True
    with App.open(workspace=folder) as app:
        assert (await app.audit.verify())["s"] == []


async def test_a_run_that_waits_is_stopped_and_nothing_waits_any_more(serve: Serve) -> None:
    async with serve(ASKS, {"text": "never"}) as client:
        run = await started(client, "publish")
        (waits,) = (await client.get("/api/approvals")).json()["approvals"]
        stopped = await client.post(f"/api/runs/{run}/stop")
        left = (await client.get("/api/approvals")).json()["approvals"]
        late = await client.post(f"/api/approvals/{waits['approval']}", json={"decision": "allow"})
        replayed = (await client.post(f"/api/runs/{run}/replay")).json()
        seen = await events(client, run)

    assert stopped.json()["status"] == "cancelled" and left == [] and late.status_code == 404
    assert replayed["same"] is True and replayed["whole"] is True
    assert types(seen)[-2:] == ["run.resumed", "run.finished"]


async def test_a_run_that_another_process_works_on_is_stopped_by_its_request_in_the_store(
    serve: Serve, folder: Path
) -> None:
    async with serve(SLEEPS, {"text": "never"}) as client:
        run = await started(client, "sleep", until="call.started")
        with App.open(workspace=folder) as other:
            row = await other.runs.stop(await other.runs.get(run), wait_s=30)
        shown = (await client.get(f"/api/runs/{run}")).json()

    assert row.status == shown["status"] == "cancelled"


async def test_a_run_of_an_earlier_version_that_was_cancelled_still_replays(
    serve: Serve, folder: Path
) -> None:
    async with serve(SLEEPS, {"text": "never"}) as client:
        run = await started(client, "sleep", until="call.started")
        await client.post(f"/api/runs/{run}/stop")
    with App.open(workspace=folder) as app:
        rows = [event_to_dict(e) for e in await app.history.events("s")]
    rows[-1] |= {"status": "failed", "error": "cancelled"}

    done = await replay([event_from_dict(row) for row in rows], run)

    assert done.finished is not None and done.finished.error == "cancelled"


async def test_a_session_that_is_busy_refuses_another_run_and_takes_a_message(
    serve: Serve, folder: Path
) -> None:
    waits = calls("exec", command="sleep 4", yield_ms=60_000)
    async with serve(waits, {"text": "I see."}) as client:
        run = await started(client, "wait", until="call.started")
        busy = await client.post("/api/runs", json={"task": "another", "session": "s"})
        told = await client.post("/api/sessions/s/messages", json={"content": "use b.txt"})
        await events(client, run)
        after = await client.post("/api/sessions/s/messages", json={"content": "and now?"})
        await events(client, after.json()["run"])
    with App.open(workspace=folder) as app:
        said = [e for e in await app.history.events("s") if isinstance(e, UserSaid)]
        waiting = await app.sessions.find("s")

    assert busy.status_code == 409 and busy.json()["error"]["code"] == "conflict"
    assert told.status_code == 202 and told.json() == {"session": "s", "run": run, "status": "queued"}
    assert after.json()["status"] == "started" and after.json()["run"] != run
    assert [(e.message.text, e.by) for e in said] == [
        ("wait", "user"), ("use b.txt", "user"), ("and now?", "user"),
    ]  # fmt: skip
    assert waiting.waiting == 0


async def test_runs_are_compared_and_exported(serve: Serve) -> None:
    async with serve(READS, {"text": "It says one."}) as client:
        one = await started(client, "look")
        body = {"task": "Read `a.txt`.", "session": "t", "model": "local"}
        two = (await client.post("/api/runs", json=body)).json()["run"]
        await events(client, two)
        same = (await client.get(f"/api/runs/{one}/compare", params={"with": one})).json()
        differ = (await client.get(f"/api/runs/{one}/compare", params={"with": two})).json()
        now = (await client.post(f"/api/runs/{one}/replay", params={"now": 1})).json()
        lines = await client.get(f"/api/runs/{one}/export")
        test = (await client.get(f"/api/runs/{one}/export", params={"format": "pytest"})).json()
        call = (await client.post("/api/tools/read_file/call", json={"arguments": {"path": "a.txt"}})).json()
        single = await client.post(f"/api/runs/{call['run']}/replay")

    assert same["same"] is True and same["diff"] == [] and now["same"] is True
    assert differ["same"] is False and any("It says one." in line for line in differ["diff"])
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    read = [event_from_dict(json.loads(line)) for line in lines.text.splitlines()]
    assert isinstance(read[-1], RunFinished) and read[-1].answer == "It says one."
    compile(test["source"], "exported", "exec")
    assert single.status_code == 400 and "single call" in single.json()["error"]["message"]


def child(id: str, parent: str, run: str, **more: Any) -> Child:
    return Child(id=id, session=f"agent:general:subagent:task:{id}", parent=parent, parent_run=run, **more)


async def test_the_subagents_of_a_run_are_a_tree(serve: Serve, folder: Path) -> None:
    async with serve({"text": "ok"}, {"text": "ok"}) as client:
        run = await started(client, "look")
        with App.open(workspace=folder) as app:
            await app.store.connect()
            kept = Children(app.store)
            await kept.add(child("a", "s", run, label="reads", status="done", answer="one"))
            await kept.add(child("b", "agent:general:subagent:task:a", "", depth=2, task="deeper"))
            await kept.add(child("c", "s", "run_other"))
        told = (await client.get(f"/api/runs/{run}/agents")).json()

    (one,) = told["agents"]
    assert (one["id"], one["label"], one["status"], one["answer"]) == ("a", "reads", "done", "one")
    assert [(below["id"], below["task"], below["agents"]) for below in one["agents"]] == [("b", "deeper", [])]


async def test_sessions_are_renamed_searched_branched_compacted_and_deleted(serve: Serve) -> None:
    async with serve({"text": "It is blue."}) as client:
        run = await started(client, "Which colour?", session="a/b")
        named = await client.patch("/api/sessions/a/b", json={"label": "colours"})
        found = (await client.get("/api/search", params={"q": "blue"})).json()["entries"]
        branch = await client.post("/api/sessions/a/b/branch", json={"to": "c", "at": run})
        taken = await client.post("/api/sessions/a/b/branch", json={"to": "c"})
        short = await client.post("/api/sessions/a/b/compact")
        (row,) = [s for s in (await client.get("/api/sessions")).json()["sessions"] if s["session"] == "a/b"]
        gone = await client.delete("/api/sessions/c")
        left = (await client.get("/api/search", params={"q": "blue"})).json()["entries"]
        none = await client.patch("/api/sessions/nobody", json={"label": "x"})

    assert named.json() == {"session": "a/b", "label": "colours"} and row["label"] == "colours"
    assert [(e["session"], e["run"]) for e in found] == [("a/b", run)]
    assert (branch.status_code, branch.json()["runs"], taken.status_code) == (201, 1, 400)
    assert short.status_code == 200 and gone.status_code == 200
    assert [e["session"] for e in left] == ["a/b"] and none.status_code == 404


@pytest.mark.parametrize("what", ["stop", "replay"])
async def test_a_run_that_does_not_exist_is_not_found(serve: Serve, what: str) -> None:
    async with serve() as client:
        answer = await client.post(f"/api/runs/run_0000000000000000/{what}")

    assert answer.status_code == 404


async def test_a_session_is_shown_and_told_by_its_label_and_by_a_short_form_of_its_key(serve: Serve) -> None:
    async with serve({"text": "Hello."}) as client:
        started = await client.post("/api/runs", json={"task": "hi", "session": "telegram:user:7"})
        await events(client, started.json()["run"])
        await client.patch("/api/sessions/telegram:user:7", json={"label": "ada"})
        shown = [await client.get(f"/api/sessions/{key}") for key in ("@ada", "ada", "telegram:7")]
        notices = await client.get("/api/sessions/@ada/notices")
        told = await client.post("/api/sessions/@ada/messages", json={"content": "more"})
        await events(client, told.json()["run"])
        fresh = await client.post("/api/sessions/bob/messages", json={"content": "hi"})

    assert [one.json()["session"] for one in shown] == ["telegram:user:7"] * 3
    assert (notices.status_code, told.json()["session"]) == (200, "telegram:user:7")
    assert fresh.json()["session"] == "bob"


@pytest.mark.parametrize(("status", "code"), [(409, "conflict"), (503, "unavailable"), (413, "too_large")])
def test_a_refusal_has_the_code_of_its_status(status: int, code: str) -> None:
    assert json.loads(bytes(refusal(HTTPException(status, "no")).body))["error"]["code"] == code
