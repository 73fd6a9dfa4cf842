"""Each principal does what its role allows, and sees what it started; the record says who did what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pegboard.app.app import App
from pegboard.core.effects import Effect
from pegboard.core.errors import PermissionDenied
from pegboard.core.events import CallFinished, CallStarted, RunStarted
from pegboard.core.policy.grants import Grant, MemoryGrants
from pegboard.core.policy.policy import Policy
from pegboard.core.policy.rules import Rule, Situation
from pegboard.net.asgi import guard
from pegboard.services.principals import OWNER, Principal, principal_of
from tests.gateway.conftest import Serve, calls, events
from tests.ledger import owes

ASKS = calls("exec", command="git push https://example.invalid/x.git")


Join = Callable[[httpx2.AsyncClient, str, str], Awaitable[httpx2.AsyncClient]]


@pytest.fixture
async def join() -> AsyncGenerator[Join]:
    """Gives a client with a new token of a name and role."""
    async with AsyncExitStack() as stack:

        async def joining(owner: httpx2.AsyncClient, name: str, role: str) -> httpx2.AsyncClient:
            made = await owner.post("/api/tokens", json={"name": name, "role": role})
            assert made.status_code == 201
            client = httpx2.AsyncClient(
                base_url=owner.base_url, trust_env=False, timeout=30,
                headers={"Authorization": f"Bearer {made.json()['token']}"},
            )  # fmt: skip
            return await stack.enter_async_context(client)

        yield joining


def offer(*tools: str) -> None:
    """The settings offer just these tools."""
    file = Path.home() / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'tools = {list(tools)}\n[sessions]\nvisibility = "all"\n')


async def run_of(client: httpx2.AsyncClient, task: str = "look", **more: Any) -> dict[str, Any]:
    started = await client.post("/api/runs", json={"task": task, **more})
    assert started.status_code == 202, started.text
    await events(client, started.json()["run"], until="run.finished")
    return started.json()


async def test_what_a_principal_started_is_its_own_and_the_owners(
    serve: Serve, join: Join, folder: Path
) -> None:
    async with serve(ASKS, {"text": "Done."}) as owner:
        ann, bob = await join(owner, "ann", "operator"), await join(owner, "bob", "operator")
        mine, his = await run_of(owner, session="s"), await run_of(ann, session="s")
        (waiting,) = (await ann.get("/api/approvals")).json()["approvals"]
        key, run, session = waiting["approval"], his["run"], his["session"]
        others = {
            ("GET", f"/api/runs/{run}"): None,
            ("GET", f"/api/runs/{run[:-3]}"): None,
            ("GET", "/api/runs/last"): None,
            ("GET", f"/api/runs/{run}/events"): None,
            ("GET", f"/api/sessions/{session}"): None,
            ("GET", f"/api/artifacts?session={session}"): None,
            ("GET", f"/api/artifacts/a?session={session}"): None,
            ("POST", f"/api/approvals/{key}"): {"decision": "allow"},
        }  # fmt: skip
        refused = {
            (by, method, path): (await client.request(method, path, json=body)).status_code
            for by, client in (("bob", bob),)
            for (method, path), body in others.items()
        }
        taken = await bob.post("/api/runs", json={"task": "x", "session": session})
        of_owner = await ann.post("/api/runs", json={"task": "x", "session": "telegram:user:42"})
        seen = {
            name: [
                sorted(r["session"] for r in (await client.get(f"/api/{kind}?all=1")).json()[kind])
                for kind in ("runs", "approvals", "sessions")
            ]
            for name, client in (("ann", ann), ("bob", bob), ("owner", owner))
        }
        answered = await ann.post(f"/api/approvals/{key}", json={"decision": "deny"})
        await events(ann, run)
        after = await ann.get(f"/api/runs/{run}")
        by_owner = await owner.get(f"/api/runs/{run}")

    assert session == "gateway:ann:s" and mine["session"] == "s"
    assert set(refused.values()) == {404}, refused
    assert (taken.status_code, of_owner.status_code) == (403, 403)
    assert seen["ann"] == [[session]] * 3 and seen["bob"] == [[]] * 3
    assert seen["owner"] == [sorted(["s", session])] * 3
    assert answered.status_code == 200 and after.status_code == by_owner.status_code == 200
    with App.open(workspace=folder) as app:
        recorded = await app.history.events(session)
    started = next(e for e in recorded if isinstance(e, RunStarted))
    assert started.detail["origin"] == {"channel": "gateway", "sender": "ann"} | {
        "message_id": started.detail["source"]
    }
    assert [e.approver for e in recorded if isinstance(e, CallStarted)] == ["ann"]


async def test_each_role_does_what_it_may(serve: Serve, join: Join) -> None:
    async with serve(ASKS, {"text": "Done."}, ASKS, {"text": "Done."}) as owner:
        user, viewer = await join(owner, "ann", "user"), await join(owner, "eve", "viewer")
        operator = await join(owner, "bob", "operator")
        run = await run_of(user)
        (waiting,) = (await user.get("/api/approvals")).json()["approvals"]
        answer = f"/api/approvals/{waiting['approval']}"
        done = {
            (name, what): (await client.request(method, path, json=body)).status_code
            for name, client in (("user", user), ("viewer", viewer), ("operator", operator))
            for what, method, path, body in (
                ("see", "GET", f"/api/runs/{run['run']}", None),
                ("answer", "POST", answer, {"decision": "allow"}),
                ("config", "GET", "/api/config", None),
                ("patch", "PATCH", "/api/config", {"base": "x", "set": {"model": "x"}}),
                ("tokens", "POST", "/api/tokens", {"name": "x"}),
                ("pair", "POST", "/api/pairings/AAAAAAAA", {"decision": "approve"}),
                ("undo", "POST", "/api/undo", {}),
                ("schedule", "POST", "/api/schedules", {"schedule": "1h", "message": "x"}),
                ("call", "POST", "/api/tools/list_dir/call", {"arguments": {"path": "."}}),
                ("run", "POST", "/api/runs", {"task": "x"} if name == "viewer" else {}),
                ("metrics", "GET", "/metrics", None),
            )
        }  # fmt: skip
        me = (await user.get("/api/me")).json()

    owners = {"config", "patch", "tokens", "pair", "undo", "schedule"}
    assert {done[name, what] for name in ("user", "viewer", "operator") for what in owners} == {403}
    assert [done[n, "see"] for n in ("user", "viewer", "operator")] == [200, 200, 404]
    assert [done[n, "answer"] for n in ("user", "viewer", "operator")] == [403, 403, 404]
    assert [done[n, "call"] for n in ("user", "viewer", "operator")] == [403, 403, 200]
    assert [done[n, "run"] for n in ("user", "viewer", "operator")] == [400, 403, 400]
    assert [done[n, "metrics"] for n in ("user", "viewer", "operator")] == [403, 200, 403]
    assert me == {"name": "ann", "role": "user", "scopes": ["talk", "view"]}


async def test_the_sessions_that_a_model_sees_are_its_principals(
    serve: Serve, join: Join, folder: Path
) -> None:
    offer("sessions_list")
    lists = calls("sessions_list")
    async with serve(lists, {"text": "Done."}) as owner:
        ann, bob = await join(owner, "ann", "operator"), await join(owner, "bob", "operator")
        await run_of(owner, session="secret")
        await run_of(bob, session="secret")
        await run_of(ann, session="mine")
        seen = await owner.get("/api/sessions/gateway:ann:mine")
        await run_of(owner, session="mine")
        by_owner = await owner.get("/api/sessions/mine")

    assert '"call.finished"' in seen.text and '"call.finished"' in by_owner.text
    results = [str([e for e in r.json()["events"] if e["type"] == "call.finished"]) for r in (seen, by_owner)]
    assert "gateway:ann:mine" in results[0] and "secret" not in results[0]
    assert "gateway:ann:mine" in results[1] and "gateway:bob:secret" in results[1]


@pytest.mark.parametrize(
    "model",
    ["openai:x@http://127.0.0.1:9/v1", "scripted:/etc/passwd", "gguf:/etc/passwd", "gpt-5@https://a.example"],
)
async def test_only_the_owner_names_a_model_by_an_address_or_a_file(
    serve: Serve, join: Join, model: str
) -> None:
    async with serve({"text": "x"}) as owner:
        clients = [await join(owner, name, name) for name in ("operator", "user")]
        chat = {"model": model, "messages": [{"role": "user", "content": "x"}]}
        refused = [
            await client.post(url, json=body)
            for client in clients
            for url, body in (
                ("/api/runs", {"task": "x", "model": model}), ("/v1/chat/completions", chat),
                (f"/api/sessions/gateway:{'operator' if client is clients[0] else 'user'}:s/messages",
                 {"content": "x", "model": model}),
            )
        ]  # fmt: skip
        local = await clients[1].post("/api/runs", json={"task": "x", "model": "local"})
        by_owner = await owner.post("/api/runs", json={"task": "x", "model": model})

    assert [(r.status_code, r.json()["error"]["code"]) for r in refused] == [(403, "permission_denied")] * 6
    assert local.status_code == 202 and by_owner.status_code != 403


async def test_artifacts_belong_to_their_session(serve: Serve, join: Join, folder: Path) -> None:
    offer("create_artifact")
    make = calls(
        "create_artifact", id="note", content="the secret plan", title="T", content_type="text/plain"
    )
    async with serve(make, {"text": "Done."}) as owner:
        ann, bob = await join(owner, "ann", "operator"), await join(owner, "bob", "operator")
        session = (await run_of(ann))["session"]
        where = f"/api/artifacts/note?session={session}"
        answers = [await client.get(where) for client in (ann, bob, owner)]

    assert [a.status_code for a in answers] == [200, 404, 200]
    assert "secret plan" in answers[0].text and "secret plan" not in answers[1].text


async def test_a_revoked_token_ends_within_seconds_and_its_name_is_free(serve: Serve, join: Join) -> None:
    async with serve() as owner:
        ann = await join(owner, "ann", "operator")
        before = await ann.get("/api/runs")
        twice = await owner.post("/api/tokens", json={"name": "ann"})
        revoked = await owner.delete("/api/tokens/ann")
        again = await owner.delete("/api/tokens/ann")
        after = await ann.get("/api/runs")
        listed = (await owner.get("/api/tokens")).json()["tokens"]

    assert (before.status_code, revoked.status_code, again.status_code) == (200, 200, 404)
    assert twice.status_code == 400 and after.status_code == 401 and listed == []


async def test_a_revoked_token_ends_its_event_streams(
    serve: Serve, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "CHECK_S", 0.05)
    async with serve(ASKS) as owner:
        ann = await join(owner, "ann", "operator")
        run = await run_of(ann)
        async with ann.stream("GET", f"/api/runs/{run['run']}/events") as stream:
            assert stream.status_code == 200
            await owner.delete("/api/tokens/ann")
            with pytest.raises(
                httpx2.RemoteProtocolError
            ):  # Cut off, as nothing else ends the stream of a waiting run.
                async with asyncio.timeout(30):
                    async for _ in stream.aiter_bytes():
                        pass


async def test_a_token_given_out_by_another_process_works_at_once_and_is_not_kept(
    serve: Serve, folder: Path
) -> None:
    async with serve() as owner:
        with App.open(workspace=folder) as app:
            token = await app.tokens.add("ann", "viewer")
            rows = await app.store.scan("tokens")
        async with httpx2.AsyncClient(base_url=owner.base_url, trust_env=False) as ann:
            async with asyncio.timeout(30):
                while True:
                    answer = await ann.get("/api/me", headers={"Authorization": f"Bearer {token}"})
                    if answer.status_code == 200:
                        break

    assert token.removeprefix("pgb_") not in str(rows)


@owes("K-59")
async def test_a_new_device_gets_its_token_once_its_code_was_approved(serve: Serve) -> None:
    async with serve() as owner, httpx2.AsyncClient(base_url=owner.base_url, trust_env=False) as device:
        asked = await device.post("/api/pairing", json={"name": "Ann's phone"})
        code, secret = asked.json()["code"], asked.json()["secret"]
        early = await device.post("/api/pairing/token", json={"secret": secret})
        (pending,) = (await owner.get("/api/pairings")).json()["pending"]
        by_device = await device.post(f"/api/pairings/{code}", json={"decision": "approve"})
        approved = await owner.post(f"/api/pairings/{code}", json={"decision": "approve", "role": "viewer"})
        foreign = await device.post("/api/pairing/token", json={"secret": "x" * 43})
        claims = await asyncio.gather(
            *(device.post("/api/pairing/token", json={"secret": secret}) for _ in range(2))
        )
        token = next(c for c in claims if c.status_code == 201).json()
        me = await device.get("/api/me", headers={"Authorization": f"Bearer {token['token']}"})
        codes = [await device.post("/api/pairing", json={"name": "x"}) for _ in range(4)]

    assert (asked.status_code, early.status_code, by_device.status_code) == (202, 202, 401)
    assert pending["code"] == code and pending["name"] == "Ann's phone" and secret not in str(pending)
    assert approved.status_code == 200 and foreign.status_code == 404
    assert sorted(c.status_code for c in claims)[0] == 201
    assert sorted(c.status_code for c in claims)[1] in (404, 409)
    assert me.json()["role"] == "viewer" and me.json()["name"].startswith("ann-s-phone-")
    assert [c.status_code for c in codes] == [202, 202, 202, 429]


@pytest.mark.parametrize(
    "named",
    ["gateway:bob:s", "cli", "mcp:waiting:1", "telegram:user:1", "a:b", "agent:main:x", "_calls", "", " ", "ä", "a\n"],
)  # fmt: skip
def test_a_session_is_never_one_of_somebody_else(named: str) -> None:
    ann = Principal(name="ann", role="user")

    try:
        key = ann.session(named)
    except PermissionDenied as error:
        assert "not one of yours" in str(error)
    else:
        assert key == f"gateway:ann:{named}" and principal_of(key) == "ann" and key != ann.calls


def test_the_owner_works_in_any_session() -> None:
    assert OWNER.session("telegram:user:1") == "telegram:user:1"
    assert principal_of("telegram:user:1") == principal_of("release") == ""


@owes("K-33")
async def test_one_sender_is_allowed_more_for_a_while_and_nobody_else(
    serve: Serve, join: Join, folder: Path
) -> None:
    grant = {"sender": "gateway:ann", "workspace": str(folder), "expires_s": 3600.0, "by": "owner"}
    async with serve(ASKS, {"text": "Done."}) as owner:
        ann, bob = await join(owner, "ann", "operator"), await join(owner, "bob", "operator")
        with App.open(workspace=folder) as app:
            once = await app.approvals.give("connect:example.invalid", uses=1, **grant)
            await app.approvals.give("control:**", **grant)
            await app.approvals.give("write:**", **grant)
        listed = (await owner.get("/api/policy")).json()["grants"]
        decided: dict[str, list[str]] = {}
        for name, client in (("bob", bob), ("ann", ann), ("ann again", ann)):
            run = (await run_of(client))["run"]
            stored = await events(client, run, until="run.finished")
            decided[name] = [
                e["type"] if e["type"] == "permission.request" else e["decision"]
                for _, e in stored
                if e["type"] in ("permission.request", "call.started")
            ]

    assert {(g["sender"], g["rule"]) for g in listed} >= {("gateway:ann", "allow connect:example.invalid")}
    assert once.uses_left == 1
    assert decided == {
        "bob": ["permission.request"], "ann": ["allow"], "ann again": ["permission.request"],
    }  # fmt: skip


def test_a_grant_for_a_sender_lifts_neither_a_denial_nor_what_only_a_person_answers() -> None:
    grants = MemoryGrants(
        [
            Grant(id=f"g{rule}", tool="", effects=(), workspace="/w", expires_at=1e12, sender="chat:42", rule=f"allow {rule}")
            for rule in ("write:/etc/**", "write:**", "exec:*", "control:**", "delete:**")
        ]
    )  # fmt: skip
    policy = Policy(rules=(Rule.parse("deny exec:git push **"),), grants=grants)
    here = Situation(values={"tool": "t", "channel": "chat", "sender": "42"}, workspace="/w")
    push = Effect("exec", "git push origin", ("git", "push", "origin"))
    effects = {
        "allow": (Effect("control", "gateway:restart"), Effect("write", "/etc/x"), Effect("exec", "make", ("make",))),
        "ask": (Effect("write", ".git/hooks/pre-commit"), Effect("control", "gateway:setting mode = full")),
        "deny": (push, Effect("write", "pegboard.toml"), Effect("exec", "x", ("x",), at_least="deny")),
    }  # fmt: skip
    elsewhere = Situation(values={**here.values, "sender": "43"}, workspace="/w")
    other_chat = Situation(values={**here.values, "channel": "chat2"}, workspace="/w")

    assert {v: {policy((e,), here).verdict for e in found} for v, found in effects.items()} == {
        v: {v} for v in effects
    }
    read_only = Policy(mode="read-only", grants=grants)
    assert read_only((Effect("write", "/etc/x"),), here).verdict == "deny"
    for situation in (elsewhere, other_chat):
        assert policy((Effect("write", "/etc/x"),), situation).verdict == "ask"


async def test_a_front_end_works_in_the_threads_of_its_principal(serve: Serve, join: Join) -> None:
    def asked(thread: str, **more: object) -> dict[str, object]:
        message = {"id": "m", "role": "user", "content": "publish it"}
        return {
            "threadId": thread, "runId": "r1", "messages": [message], "tools": [], "context": [], "state": {},
            "forwardedProps": {}, **more,
        }  # fmt: skip

    async with serve(ASKS, {"text": "Done."}) as owner:
        ann, bob = await join(owner, "ann", "operator"), await join(owner, "bob", "user")
        first = await ann.post("/agui", json=asked("t"))
        by_user = await bob.post("/agui", json=asked("t"))
        taken = await bob.post("/agui", json=asked("gateway:ann:t"))
        keys = {a["session"]: a["approval"] for a in (await owner.get("/api/approvals")).json()["approvals"]}

        def answer(key: str, **payload: object) -> dict[str, object]:
            resume = [{"interruptId": key, "status": "resolved", "payload": payload}]
            return asked("t", messages=[], resume=resume)

        mine, his = keys["gateway:ann:t"], keys["gateway:bob:t"]
        always = await ann.post("/agui", json=answer(mine, approved=True, scope="always"))
        own = await bob.post("/agui", json=answer(his, approved=True))
        others = await bob.post("/agui", json=answer(mine, approved=True))
        denied = await ann.post("/agui", json=answer(mine, approved=False))

    assert first.status_code == by_user.status_code == 200 and taken.status_code == 403
    assert (always.status_code, own.status_code) == (403, 403)
    assert "nothing waits under" in others.text
    assert denied.status_code == 200 and "RUN_FINISHED" in denied.text


async def test_an_operators_yes_does_not_hold_for_everybody(serve: Serve, join: Join) -> None:
    async with serve(ASKS, {"text": "Done."}) as owner:
        ann = await join(owner, "ann", "operator")
        await run_of(ann)
        key = (await ann.get("/api/approvals")).json()["approvals"][0]["approval"]
        always = await ann.post(f"/api/approvals/{key}", json={"decision": "always"})
        once = await ann.post(f"/api/approvals/{key}", json={"decision": "deny"})

    assert (always.status_code, once.status_code) == (403, 200)


async def test_a_flood_of_one_principal_slows_down_nobody_else(serve: Serve, join: Join) -> None:
    async with serve(clock=lambda: 100.0) as owner:
        ann, bob = await join(owner, "ann", "user"), await join(owner, "bob", "user")
        statuses = [(await ann.post("/api/runs", json={})).status_code for _ in range(201)]
        others = [await client.post("/api/runs", json={}) for client in (bob, owner)]
        hooks = await owner.post("/api/webhooks/none", content=b"")

    assert statuses == [400] * 200 + [429]
    assert [a.status_code for a in others] == [400, 400] and hooks.status_code == 404


async def test_a_rule_for_a_principal_holds_for_its_subagents_jobs_and_messages_too(
    serve: Serve, join: Join, folder: Path
) -> None:
    offer("exec", "call_subagent")
    file = Path.home() / ".config" / "pegboard" / "pegboard.toml"
    file.write_text(f'rules = ["deny exec:* channel=gateway sender=ann"]\n{file.read_text()}')
    spawns = calls("call_subagent", agent_name="general", instruction="list the files")
    looks = calls("exec", command="ls")
    done = {"text": "Done."}
    async with serve(spawns, looks, done, done) as owner:
        ann, bob = await join(owner, "ann", "operator"), await join(owner, "bob", "operator")
        for client in (ann, bob):
            await run_of(client, session="s")
    async with serve(looks, done) as owner:
        job = {"schedule": "1h", "message": "look", "session": "gateway:ann:j", "name": "job"}
        assert (await owner.post("/api/schedules", json=job)).status_code == 201
        await owner.post("/api/schedules/job/run")
        async with asyncio.timeout(30):
            while not (runs := (await owner.get("/api/runs?session=gateway:ann:j")).json()["runs"]):
                await asyncio.sleep(0.05)
        await events(owner, runs[0]["run"], until="run.finished")
    with App.open(workspace=folder) as app:
        runs = [run for run in await app.runs.list(everywhere=True) if run.agent != "cli"]
        found = {
            (
                row.stream.partition(":subagent:")[0],
                str(event.result.error.code if event.result.error else "ok"),
            )
            for row in runs
            for event in await app.history.events(row.stream, run=row.id)
            if isinstance(event, CallFinished) and event.result.tool == "exec"
        }

    assert found == {
        ("gateway:ann:j", "permission_denied"),
        ("agent:general", "permission_denied"),
        ("agent:general", "ok"),
    }


async def test_a_principals_agent_sends_nothing_into_sessions_of_others(serve: Serve, join: Join) -> None:
    offer("message", "cron")
    file = Path.home() / ".config" / "pegboard" / "pegboard.toml"
    file.write_text(f'rules = ["allow send:*", "allow schedule:*"]\n{file.read_text()}')
    job = {"action": "add", "schedule": "1h", "message": "x", "delivery": "channel"}
    async with serve() as owner:
        ann = await join(owner, "ann", "operator")
        told = {
            (channel, chat): [
                (await ann.post(f"/api/tools/{tool}/call", json={"arguments": arguments})).status_code
                for tool, arguments in (
                    ("message", {"content": "x", "channel": channel, "chat_id": chat}),
                    ("cron", {**job, "channel": channel, "chat_id": chat}),
                )
            ]
            for channel in ("session", "console")
            for chat in ("main", "gateway:bob:s", "gateway:ann:s")
        }

    assert {chat for (_, chat), codes in told.items() if codes == [200, 200]} == {"gateway:ann:s"}
    assert [codes for (_, chat), codes in told.items() if chat != "gateway:ann:s"] == [[404, 404]] * 4
