"""The policy over HTTP: its rules and grants, why a call would be decided, and rules tried on calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pegboard.app.app import App
from tests.gateway.conftest import Serve, calls, events

ASKS = calls("exec", command="git push https://example.invalid/x.git")


def settings(own_home: Path, text: str) -> None:
    file = own_home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


async def test_rules_are_shown_with_where_they_stand_and_a_call_is_explained(
    serve: Serve, own_home: Path
) -> None:
    settings(own_home, 'rules = ["deny read:*.pem reason=keys stay here"]\n')
    question: dict[str, Any] = {"tool": "read_file", "arguments": {"path": "x.pem"}}
    async with serve() as client:
        policy = (await client.get("/api/policy")).json()
        told = (await client.post("/api/policy/explain", json=question)).json()
        unknown = await client.post("/api/policy/explain", json={"tool": "no_such_tool"})
        unfit = await client.post("/api/policy/explain", json={"tool": "read_file", "arguments": {}})
        runs = (await client.get("/api/runs")).json()["runs"]

    assert policy["mode"] == "workspace" and policy["grants"] == []
    (rule,) = [r for r in policy["rules"] if not r["source"].startswith("shipped")]
    assert rule["text"].startswith("deny read:*.pem") and "pegboard.toml" in rule["source"]
    assert {r["source"] for r in policy["rules"][:3]} == {"shipped"}
    assert told["decision"] == "deny" and told["effects"] == [{"kind": "read", "target": "x.pem"}]
    (verdict,) = told["verdicts"]
    assert (verdict["effect"], verdict["verdict"], verdict["reason"]) == (
        "read x.pem",
        "deny",
        "keys stay here",
    )
    assert verdict["rule"] == rule["text"] and any(t["matches"] for t in verdict["tried"])
    assert (unknown.status_code, unfit.status_code) == (404, 400) and unknown.json()["error"]["code"]
    assert runs == []


async def test_rules_are_tried_on_calls_without_being_kept(serve: Serve) -> None:
    read: dict[str, Any] = {"tool": "read_file", "arguments": {"path": "a.txt"}}
    async with serve() as client:
        now = (await client.post("/api/policy/test", json={"calls": [{**read, "expect": "deny"}]})).json()
        then = (
            await client.post(
                "/api/policy/test",
                json={"rules": ["deny read:a.txt"], "calls": [{**read, "expect": "deny"}, {"tool": "nope"}]},
            )
        ).json()
        bad = await client.post("/api/policy/test", json={"rules": ["forbid x"], "calls": [read]})
        after = (await client.get("/api/policy")).json()

    assert now["failed"] == 1 and now["calls"][0]["got"] == "allow" and now["calls"][0]["ok"] is False
    assert then["failed"] == 0 and then["calls"][0]["rule"] == "deny read:a.txt"
    assert (then["calls"][1]["got"], then["calls"][1]["ok"]) == ("error", None)
    assert bad.status_code == 400 and "forbid" in bad.json()["error"]["message"]
    assert all(rule["source"] == "shipped" for rule in after["rules"])


async def test_an_approval_says_what_asks_and_how_long_a_yes_may_hold_and_is_revoked(
    serve: Serve, folder: Path
) -> None:
    edit = calls("write_file", path=".envrc", content="export A=2\n")
    async with serve(edit, {"text": "Done."}) as client:
        run = (await client.post("/api/runs", json={"task": "set A", "session": "s"})).json()["run"]
        await events(client, run, until="run.finished")
        (waits,) = (await client.get("/api/approvals")).json()["approvals"]
        url = f"/api/approvals/{waits['approval']}"
        await client.post(url, json={"decision": "always", "expires_s": 3600, "uses": 5})
        await events(client, run)
        (grant,) = (await client.get("/api/policy")).json()["grants"]
        revoked = await client.delete(f"/api/policy/grants/{grant['id']}")
        again = await client.delete(f"/api/policy/grants/{grant['id']}")
        left = (await client.get("/api/policy")).json()["grants"]
    with App.open(workspace=folder) as app:
        assert await app.approvals.grants() == []

    assert waits["scopes"] == ["once", "run", "session", "always"]
    assert (waits["agent"], waits["run"], waits["session"]) == ("main", run, "s")
    assert [e["target"] for e in waits["effects"]] == [".envrc"] and "+export A=2" in waits["changes"][0][
        "diff"
    ]
    (verdict,) = waits["verdicts"]
    assert (
        verdict["decision"] == "ask"
        and verdict["rule"] == "protected files"
        and "protected" in verdict["reason"]
    )
    assert grant["scope"] == "always" and grant["by"] == "owner" and grant["uses"] == 5
    assert grant["rule"] == "allow write:.envrc tool=write_file" and grant["expires"] > 0
    assert (revoked.status_code, again.status_code, left) == (200, 404, [])


async def test_a_yes_to_a_plan_holds_for_the_plan_alone(serve: Serve, own_home: Path) -> None:
    settings(own_home, 'mode = "plan"\n')
    plan = calls("propose_plan", plan="Write b.txt.", files=["b.txt"])
    async with serve(plan, {"text": "Done."}) as client:
        run = (await client.post("/api/runs", json={"task": "plan it"})).json()["run"]
        await events(client, run, until="run.finished")
        (waits,) = (await client.get("/api/approvals")).json()["approvals"]
        wide = await client.post(f"/api/approvals/{waits['approval']}", json={"decision": "always"})

    assert waits["scopes"] == ["once"] and wide.status_code == 400
    assert "once" in wide.json()["error"]["hint"]
