"""What the console needs of the gateway: files with a message, budgets, which keys are set, and its own canvas."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from pegboard.app.app import App
from tests.gateway.conftest import Serve, calls, events
from tests.gateway.test_nodes import allow, call
from tests.gateway.test_socket import BEARER, ask, get, url
from tests.ledger import owes

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""One pixel."""


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_files_of_a_message_lie_in_the_workspace_and_the_message_names_them(
    serve: Serve, folder: Path
) -> None:
    files = [
        {"name": "plan.txt", "content": encoded("größer\n".encode())},
        {"name": "../../etc/shot.png", "content": encoded(PNG), "media_type": "image/png"},
    ]
    async with serve({"text": "Seen."}) as client:
        started = (
            await client.post("/api/runs", json={"task": "Look", "session": "s", "files": files})
        ).json()
        await events(client, started["run"])
        said = await client.post("/api/sessions/s/messages", json={"content": "And this", "files": files[:1]})
        await events(client, said.json()["run"])
        runs = (await client.get("/api/runs?session=s")).json()["runs"]
        history = (await client.get("/api/sessions/s")).json()["events"]

    there = sorted(path.relative_to(folder) for path in (folder / "received").rglob("*") if path.is_file())
    assert sorted(path.name.partition("-")[2] for path in there) == [
        "1-plan.txt",
        "1-plan.txt",
        "2-_.._etc_shot.png",
    ]
    assert sorted((folder / path).read_bytes() for path in there) == sorted([PNG, *["größer\n".encode()] * 2])
    first, second = (e["message"]["content"][0]["text"] for e in history if e["type"] == "message.user")
    assert first.startswith("Look\n") and 'type="image/png" bytes="70" />' in first
    assert all(f'path="{path}"' in first + second for path in there)
    assert [run["task"].partition("\n")[0] for run in runs] == ["And this", "Look"]


@pytest.mark.parametrize(
    ("file", "status", "says"),
    [
        ({"name": "a.txt", "content": "not base64!"}, 400, "'a.txt' is not base64"),
        ({"name": "a.bin", "content": encoded(bytes(20 * 2**20 + 1))}, 413, "a message takes 20,971,520"),
    ],
)
async def test_what_cannot_be_attached_is_refused_and_nothing_is_kept(
    serve: Serve, folder: Path, file: dict[str, str], status: int, says: str
) -> None:
    async with serve({"text": "Seen."}) as client:
        refused = await client.post("/api/runs", json={"task": "Look", "files": [file]})

    assert refused.status_code == status and says in refused.json()["error"]["message"]
    assert not (folder / "received").exists()


async def test_a_folder_that_leads_elsewhere_takes_no_files(
    serve: Serve, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "received").symlink_to(tmp_path / "elsewhere")
    async with serve({"text": "Seen."}) as client:
        file = {"name": "a.txt", "content": encoded(b"x")}
        refused = await client.post("/api/runs", json={"task": "Look", "files": [file]})

    assert refused.status_code == 403 and list((tmp_path / "elsewhere").rglob("*.txt")) == []


async def test_budgets_say_how_far_they_are_used(serve: Serve, folder: Path, own_home: Path) -> None:
    settings = own_home / ".config" / "pegboard" / "pegboard.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[budgets.reads]\nper = "day"\ncalls = 10\ntool = "read_file"\neach = ["tool"]\n')
    reads = {"calls": [calls("read_file", path="a.txt")["calls"][0] for _ in range(3)]}
    async with serve(reads, {"text": "Read."}) as client:
        unused = (await client.get("/api/budgets")).json()["budgets"]
        run = (await client.post("/api/runs", json={"task": "read"})).json()["run"]
        await events(client, run)
        (used,) = (await client.get("/api/budgets")).json()["budgets"]

    assert unused[0]["count"] == 0 and unused[0]["accounts"] == []
    assert (used["name"], used["per"], used["limits"], used["soft"]) == ("reads", "day", {"calls": 10}, 0.8)
    (account,) = used["accounts"]
    assert account["used"] == {"calls": 3} and account["of"][1:] == ["read_file"]


async def test_which_keys_are_set_is_told_without_the_keys(
    serve: Serve, folder: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "a-key-of-google-0123456789")
    (own_home / "key").write_text("a-key-of-the-proxy-0123456789")
    (own_home / "key").chmod(0o600)
    settings = own_home / ".config" / "pegboard" / "pegboard.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[model_keys]\n"https://proxy.example" = "file:{own_home}/key"\n"https://other.example" = "env:NO_SUCH"\n'
    )
    async with serve() as client:
        answer = await client.get("/api/models")

    assert answer.json()["keys"] == [
        {"provider": "anthropic", "source": "env:ANTHROPIC_API_KEY", "set": False},
        {"provider": "openai", "source": "env:OPENAI_API_KEY", "set": False},
        {"provider": "gemini", "source": "env:GOOGLE_API_KEY", "set": True},
        {"provider": "https://proxy.example", "source": f"file:{own_home}/key", "set": True},
        {"provider": "https://other.example", "source": "env:NO_SUCH", "set": False},
    ]
    assert "0123456789" not in answer.text


async def answer_canvas(ws: Any, **values: Any) -> dict[str, Any]:
    """Answer the next call of the canvas; the call."""
    asked = await get(ws, "call")
    await ask(ws, "result", id=asked["id"], values=values)
    return asked


@owes("X-48")
async def test_the_console_is_a_node_with_a_canvas_while_it_offers_one(
    serve: Serve, folder: Path, own_home: Path
) -> None:
    allow(own_home)
    async with serve() as client:
        before = await call(client, "canvas", action="hide")
        async with (
            connect(url(client), additional_headers=BEARER) as old,
            connect(url(client), additional_headers=BEARER) as ws,
        ):
            for one in (old, ws):
                await ask(one, "canvas", id="c")
                await get(one, "result")
            listed = await call(client, "nodes", action="list")
            asking = asyncio.ensure_future(call(client, "canvas", action="present", html="<h1>Otter</h1>"))
            shown = await answer_canvas(ws)
            presented = await asking
            # A run of another process reaches it too.
            with App.open(workspace=folder) as app:
                elsewhere = asyncio.ensure_future(
                    app.calls.call("canvas", {"action": "eval", "script": "1+1"})
                )
                asked = await answer_canvas(ws, value=2)
                outcome = await elsewhere
            # The one that was looked at last is called, also if it was replaced in between.
            await ask(old, "canvas", id="again")
            await get(old, "result")
            hiding = asyncio.ensure_future(call(client, "canvas", action="hide", node="console"))
            await answer_canvas(old)
            hidden = await hiding
        gone = await call(client, "canvas", action="hide", node="console")

    assert before["error"]["code"] == "not_found" and "console of pegboard serve" in before["error"]["hint"]
    assert "console" in json.dumps(listed)
    assert (shown["action"], shown["values"]["html"]) == ("present", "<h1>Otter</h1>") and presented["ok"]
    assert asked["values"] == {"script": "1+1"} and outcome.result.text == "The script returned 2"
    assert hidden["ok"] and not gone["ok"]


async def test_only_an_owner_offers_a_canvas(serve: Serve) -> None:
    async with serve() as client:
        made = await client.post("/api/tokens", json={"name": "ann", "role": "operator"})
        bearer = {"Authorization": f"Bearer {made.json()['token']}"}
        async with connect(url(client), additional_headers=bearer) as ws:
            await ask(ws, "canvas", id="c")
            error = await get(ws, "error")

    assert error["error"]["message"] == "the role operator may not offer a canvas"
