"""The endpoints beside runs: tools, schedules, artifacts, undo, usage, settings, metrics, and the document of all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pegboard.app.app import App
from pegboard.artifacts.versions import StoredArtifacts
from pegboard.gateway.console import Console
from tests.gateway.conftest import Serve, calls, events
from tests.ledger import owes


@owes("K-82")
async def test_a_tool_is_called_under_the_policy_and_recorded(serve: Serve, folder: Path) -> None:
    url = "/api/tools/write_file/call"
    body = {"arguments": {"path": "b.txt", "content": "two\n"}}
    async with serve() as client:
        listed = (await client.get("/api/tools")).json()["tools"]
        preview = await client.post(url, params={"preview": 1}, json=body)
        made_by_preview = (folder / "b.txt").exists()
        done = await client.post(url, json=body)
        outside = await client.post(url, json={"arguments": {"path": "/etc/x", "content": "x"}})
        asked = await client.post(
            "/api/tools/exec/call", json={"arguments": {"command": "git push https://example.invalid/x"}}
        )
        unknown = await client.post("/api/tools/no_such_tool/call", json={})
        wrong = await client.post(url, json={"arguments": {"path": 1}})
        runs = (await client.get("/api/runs")).json()["runs"]

    assert {"name", "description", "parameters", "effects"} == set(listed[0])
    assert preview.json()["decision"] == "allow" and not made_by_preview
    assert "+two" in preview.json()["changes"][0]["diff"]
    assert done.json()["ok"] and (folder / "b.txt").read_text() == "two\n"
    assert (outside.status_code, asked.status_code) == (403, 403)
    assert (unknown.status_code, wrong.status_code) == (404, 400)
    assert done.json()["run"] in [row["run"] for row in runs]


async def test_what_a_call_changed_is_undone(serve: Serve, folder: Path) -> None:
    edit = {"arguments": {"path": "a.txt", "old_string": "one", "new_string": "two"}}
    async with serve() as client:
        done = (await client.post("/api/tools/edit_file/call", json=edit)).json()
        after = (folder / "a.txt").read_text()
        (entry,) = (await client.get("/api/undo")).json()["entries"]
        preview = (await client.post("/api/undo", json={"target": done["run"], "preview": True})).json()
        unchanged = (folder / "a.txt").read_text()
        undone = (await client.post("/api/undo", json={"target": done["run"]})).json()

    assert after == unchanged == "two\n" and entry["tool"] == "edit_file"
    assert preview["applied"] is False and preview["changes"][0]["path"] == "a.txt"
    assert undone["applied"] and (folder / "a.txt").read_text() == "one\n"


async def test_schedules_are_added_changed_fired_and_removed(serve: Serve) -> None:
    job = {
        "schedule": "every Monday at 9",
        "message": "report",
        "name": "weekly",
        "zone": "UTC",
        "session": "s",
    }
    async with serve({"text": "Reported."}) as client:
        added = await client.post("/api/schedules", json=job)
        off = (await client.patch("/api/schedules/weekly", json={"enabled": False})).json()
        listed = (await client.get("/api/schedules")).json()["schedules"]
        await client.patch("/api/schedules/weekly", json={"enabled": True})
        fired = (await client.post("/api/schedules/weekly/run")).json()
        log = (await client.get("/api/schedules/weekly/runs")).json()["runs"]
        removed = await client.delete("/api/schedules/weekly")
        gone = await client.delete("/api/schedules/weekly")

    assert added.status_code == 201 and added.json()["schedule"] == "0 9 * * 1"
    assert off["enabled"] is False and [one["name"] for one in listed] == ["weekly"]
    assert fired["session"] == "s" and [row["name"] for row in log] == ["weekly"]
    assert (removed.status_code, gone.status_code) == (200, 404)


async def test_artifacts_are_shown_by_session_with_versions_and_their_difference(
    serve: Serve, folder: Path
) -> None:
    with App.open(workspace=folder) as app:
        await app.store.connect()
        made = StoredArtifacts(app.store, session=lambda: "s")
        await made.create("plan", title="Plan", content="one\n")
        await made.rewrite("plan", content="two\n")
    async with serve() as client:
        listed = (await client.get("/api/artifacts", params={"session": "s"})).json()["artifacts"]
        other = (await client.get("/api/artifacts", params={"session": "t"})).json()["artifacts"]
        first = (await client.get("/api/artifacts/plan", params={"session": "s", "version": 1})).json()
        newest = (await client.get("/api/artifacts/plan", params={"session": "s", "diff": 1})).json()
        hidden = await client.get("/api/artifacts/plan", params={"session": "t"})

    assert [(one["id"], one["version"]) for one in listed] == [("plan", 2)] and other == []
    assert (first["content"], newest["content"]) == ("one\n", "two\n")
    assert "-one\n+two\n" in newest["diff"]
    assert hidden.status_code == 404


@owes("K-90", "X-52")
async def test_settings_change_only_on_top_of_the_file_that_was_read(serve: Serve, own_home: Path) -> None:
    file = own_home / ".config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text('# mine\nmodel = "gpt-5"\n')
    async with serve() as client:
        shown = (await client.get("/api/config")).json()
        keys = (await client.get("/api/config/schema")).json()["properties"]
        changed = await client.patch(
            "/api/config", json={"base": shown["hash"], "set": {"model": "gpt-6", "limits": {"turns": 5}}}
        )
        stale = await client.patch("/api/config", json={"base": shown["hash"], "set": {"model": "x"}})
        text = file.read_text()
        wrong = await client.patch(
            "/api/config", json={"base": changed.json()["hash"], "set": {"model": "x", "no_such_key": 1}}
        )

    assert shown["hash"] == hashlib.sha256(b'# mine\nmodel = "gpt-5"\n').hexdigest()
    assert shown["values"]["model"]["value"] == "gpt-5" and {"model", "limits"} <= set(keys)
    assert (changed.status_code, stale.status_code, wrong.status_code) == (200, 409, 400)
    assert text.startswith("# mine\n") and 'model = "gpt-6"' in text and "turns" in text
    assert file.read_text() == text


async def test_usage_and_metrics_count_what_ran(serve: Serve) -> None:
    turn = {**calls("read_file", path="a.txt"), "usage": {"input_tokens": 7, "output_tokens": 3}}
    async with serve(turn, {"text": "ok"}) as client:
        run = (await client.post("/api/runs", json={"task": "x"})).json()["run"]
        await events(client, run)
        usage = (await client.get("/api/usage", params={"days": 1})).json()
        metrics = await client.get("/metrics")

    assert usage["runs"] == 1 and usage["tools"]["read_file"]["calls"] == 1
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = metrics.text.splitlines()
    assert "pegboard_runs_started_total 1" in lines
    assert 'pegboard_runs_finished_total{status="done"} 1' in lines
    assert 'pegboard_calls_total{result="ok"} 1' in lines
    assert 'pegboard_tokens_total{kind="input"} 7' in lines


async def test_secrets_of_the_environment_are_not_shown(serve: Serve, monkeypatch: object) -> None:
    secret = "sk-proj-4f9A8s7d6F5g4H3j2K1l0Z9x8C7v6B5n4M3q"
    async with serve({"text": f"It is {secret}."}) as client:
        run = (await client.post("/api/runs", json={"task": "tell"})).json()["run"]
        seen = str(await events(client, run))
        shown = (await client.get(f"/api/runs/{run}")).text
        chat = await client.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": "tell"}]}
        )

    assert secret not in seen and secret not in shown and secret not in chat.text


async def test_the_document_names_every_endpoint_and_the_front_page_leads_to_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where no console was built, a page lists the API.
    monkeypatch.setattr("pegboard.gateway.server.Console", lambda: Console(tmp_path / "none"))
    async with serve() as client:
        document = (await client.get("/openapi.json")).json()
        page = await client.get("/")

    assert document["openapi"].startswith("3.1")
    body = document["paths"]["/api/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["$ref"].rsplit("/", 1)[1] in document["components"]["schemas"]
    assert "/openapi.json" in page.text and "default-src 'none'" in page.headers["content-security-policy"]
    assert all(path in page.text for path in document["paths"])


async def test_a_job_is_previewed_and_each_of_its_fields_is_changed(serve: Serve) -> None:
    job = {"schedule": "daily at 9:00", "message": "report", "name": "daily", "zone": "UTC", "session": "s"}
    change = {
        "schedule": "every Monday at 10", "message": "other", "name": "weekly", "zone": "Europe/Berlin", "session": "t",
        "wake": False, "check": "test -e a.txt",
    }  # fmt: skip
    async with serve() as client:
        preview = await client.post("/api/schedules/preview", json=job)
        none = (await client.get("/api/schedules")).json()["schedules"]
        id = (await client.post("/api/schedules", json=job)).json()["id"]
        changed = (await client.patch(f"/api/schedules/{id}", json=change)).json()
        one = (await client.patch(f"/api/schedules/{id}", json={"message": "third"})).json()
        bad = await client.patch(f"/api/schedules/{id}", json={"schedule": "never ever"})

    assert preview.status_code == 200 and preview.json()["schedule"] == "0 9 * * *" and none == []
    assert {k: changed[k] for k in ("message", "name", "zone", "session", "wake", "check", "schedule")} == {
        "message": "other", "name": "weekly", "zone": "Europe/Berlin", "session": "t", "wake": "next-heartbeat",
        "check": "test -e a.txt", "schedule": "0 10 * * 1",
    }  # fmt: skip
    assert one == {**changed, "message": "third"} and bad.status_code == 400


async def test_usage_by_day_and_model_the_models_the_machine_and_the_record_are_shown(serve: Serve) -> None:
    turn = {"text": "ok", "usage": {"input_tokens": 7, "output_tokens": 3}}
    async with serve(turn) as client:
        run = (await client.post("/api/runs", json={"task": "x", "session": "s"})).json()["run"]
        await events(client, run)
        by = {
            name: (await client.get(f"/api/usage?by={name}")).json() for name in ("day", "model", "session")
        }
        wrong = await client.get("/api/usage?by=colour")
        models = (await client.get("/api/models")).json()
        doctor = (await client.get("/api/doctor")).json()
        audit = (await client.get("/api/audit/verify")).json()
        nobody = await client.get("/api/audit/verify?session=nobody")

    assert [by["session"]["rows"][0][k] for k in ("key", "input_tokens", "output_tokens")] == ["s", 7, 3]
    assert by["day"]["rows"][0]["requests"] == 1 and by["model"]["rows"][0]["key"].startswith("scripted:")
    assert wrong.status_code == 400 and "day" in wrong.json()["error"]["message"]
    assert models["default"].startswith("scripted:") and {"name", "status"} <= set(models["models"][0])
    assert doctor["mode"] == "workspace" and "backend" in doctor["sandbox"]
    assert (audit["ok"], audit["sessions"], audit["verified"], audit["faults"]) == (True, 1, 1, [])
    assert nobody.status_code == 400
