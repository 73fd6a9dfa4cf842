"""What `pegboard mcp serve` offers besides tools, and to whom: prompts, artifacts, clients with tokens of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.test_mcp import INIT, TOOL, add, environment, place, run
from tests.ledger import owes

__all__ = ["place"]

SKILL = "---\nname: release\ndescription: How to release.\n---\nRun {x}, then tag.\n"


def asked(place: Path, requests: list[dict[str, Any]], *words: str) -> dict[int, Any]:
    done = run(place, "mcp", "serve", *words, stdin="".join(json.dumps(r) + "\n" for r in (INIT, *requests)))
    return {r["id"]: r for line in done.stdout.splitlines() if (r := json.loads(line))}


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


@owes("K-18", "K-81")
@pytest.mark.slow
def test_skills_of_a_named_folder_and_of_the_settings_are_prompts(place: Path) -> None:
    for folder, text in (
        (place / "skills/release", SKILL),
        (place / ".config/pegboard/skills/own", SKILL.replace("release", "own")),
    ):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)
    (place / ".config/pegboard/pegboard.toml").write_text('[skills]\nfolders = ["skills"]\n')

    found = asked(
        place,
        [
            request(2, "prompts/list"),
            request(3, "prompts/get", name="release"),
            request(4, "prompts/get", name="x"),
        ],
        "--skills",
        str(place / "skills"),
    )

    assert found[1]["result"]["capabilities"]["prompts"]
    assert [p["name"] for p in found[2]["result"]["prompts"]] == ["release", "own"]
    assert found[3]["result"]["messages"][0]["content"]["text"] == "Run {x}, then tag.\n"
    assert "release" in found[4]["error"]["message"]


@pytest.mark.slow
def test_without_skills_there_are_no_prompts_and_a_missing_folder_is_named(place: Path) -> None:
    assert "prompts" not in asked(place, [])[1]["result"]["capabilities"]

    wrong = run(place, "mcp", "serve", "--skills", "nowhere")

    assert wrong.returncode == 2
    assert "nowhere" in wrong.stderr


@owes("K-81")
@pytest.mark.slow
def test_artifacts_of_the_client_are_resources_beside_the_files(place: Path) -> None:
    (place / ".config/pegboard").mkdir(parents=True)
    (place / ".config/pegboard/pegboard.toml").write_text(
        'tools = ["create_artifact", "read_artifact", "rewrite_artifact", "read_file"]\n'
    )
    make = {"id": "plan", "title": "Plan", "content": "# one"}

    first = asked(
        place, [request(2, "tools/call", name="create_artifact", arguments=make)], "--tools", "*_artifact"
    )
    assert not first[2]["result"].get("isError"), first
    asked(
        place,
        [request(2, "tools/call", name="rewrite_artifact", arguments={"id": "plan", "content": "# two"})],
        "--tools",
        "*_artifact",
    )
    found = asked(
        place,
        [
            request(2, "resources/list"),
            request(3, "resources/read", uri="artifact:///plan"),
            request(4, "resources/read", uri="artifact:///plan?version=1"),
            request(5, "resources/read", uri="artifact:///other"),
            request(6, "resources/read", uri="artifact://host/plan"),
            request(7, "resources/templates/list"),
        ],
    )

    assert {r["uri"] for r in found[2]["result"]["resources"]} == {"workspace:///a.txt", "artifact:///plan"}
    assert found[3]["result"]["contents"] == [
        {"uri": "artifact:///plan", "mimeType": "text/markdown", "text": "# two"}
    ]
    assert found[4]["result"]["contents"][0]["text"] == "# one"
    assert found[5]["error"]["code"] == found[6]["error"]["code"] == -32002
    assert len(found[7]["result"]["resourceTemplates"]) == 2


# -- clients with tokens of their own ---------------------------------------------------------


@contextmanager
def two_clients(place: Path, *words: str) -> Iterator[tuple[str, httpx2.Client, httpx2.Client]]:
    server = subprocess.Popen(
        [sys.executable, "-m", "pegboard.cli.main", "mcp", "serve", "--http", "127.0.0.1:0", "--client", "ann",
         "--client", "bob", *words],
        cwd=place / "ws", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(place),
    )  # fmt: skip
    try:
        assert server.stderr is not None
        url, tokens = "", dict[str, str]()
        while len(tokens) < 2:
            line = server.stderr.readline()
            if "serves " in line:
                url = line.split("serves ")[1].strip()
            elif "token of " in line:
                tokens[line.split("token of ")[1].split()[0]] = line.rsplit(" ", 1)[1].strip()
        accept = {"accept": "application/json, text/event-stream"}
        ann, bob = (
            httpx2.Client(trust_env=False, headers={**accept, "authorization": f"Bearer {tokens[name]}"})
            for name in ("ann", "bob")
        )
        with ann, bob:
            yield url, ann, bob
    finally:
        server.terminate()
        server.wait(15)
        server.stderr.close()  # type: ignore[union-attr]


def modern(id: int, method: str, who: str | None = None, **params: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }
    if who:
        meta["io.modelcontextprotocol/clientInfo"] = {"name": who, "version": "1"}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}


def headers(message: dict[str, Any], name: str = "") -> dict[str, str]:
    out = {"mcp-protocol-version": "2026-07-28", "mcp-method": message["method"]}
    return {**out, "mcp-name": name} if name else out


@owes("mcp-111", "K-81")
@pytest.mark.slow
def test_each_client_has_its_own_session_record_and_artifacts(place: Path) -> None:
    (place / ".config/pegboard").mkdir(parents=True)
    (place / ".config/pegboard/pegboard.toml").write_text('tools = ["create_artifact", "read_artifact"]\n')
    with two_clients(place, "--tools", "create_artifact") as (url, ann, bob):
        session = ann.post(url, json=INIT).headers["mcp-session-id"]
        stolen = bob.post(url, json=request(5, "tools/list"), headers={"mcp-session-id": session})
        own = ann.post(url, json=request(5, "tools/list"), headers={"mcp-session-id": session})

        # The stateless era has no sessions: the token stands for one, and nothing that a client calls itself.
        make = modern(
            6, "tools/call", "x", name="create_artifact", arguments={"id": "a", "title": "A", "content": "c"}
        )
        assert ann.post(url, json=make, headers=headers(make, "create_artifact")).status_code == 200
        read = modern(7, "resources/read", "x", uri="artifact:///a")
        mine = ann.post(url, json=read, headers=headers(read, "artifact:///a")).json()
        theirs = bob.post(url, json=read, headers=headers(read, "artifact:///a")).json()
        imitated = modern(8, "resources/read", "x", uri="artifact:///a")
        another = bob.post(url, json=imitated, headers=headers(imitated, "artifact:///a")).json()

    assert (stolen.status_code, own.status_code) == (404, 200)
    assert mine["result"]["contents"][0]["text"] == "c"
    assert "error" in theirs and "error" in another
    rows = [json.loads(line) for line in run(place, "runs", "list", "--json").stdout.splitlines()]
    assert any(r["session"] == "mcp:http:ann" for r in rows)
    assert not any(r["session"].startswith("mcp:http:bob") for r in rows)


@owes("K-81")
@pytest.mark.slow
def test_a_task_is_out_of_reach_of_another_client(place: Path) -> None:
    with two_clients(place, "--tools", "exec", "--mode", "full") as (url, ann, bob):
        slow = modern(1, "tools/call", name="exec", arguments={"command": "sleep 3; echo done"})
        task = ann.post(url, json=slow, headers=headers(slow, "exec"), timeout=30).json()["result"]["taskId"]
        get = modern(2, "tasks/get", taskId=task)
        mine = ann.post(url, json=get, headers=headers(get, task)).json()
        theirs = bob.post(url, json=get, headers=headers(get, task)).json()
        stop = modern(3, "tasks/cancel", taskId=task)
        refused = bob.post(url, json=stop, headers=headers(stop, task)).json()
        after = ann.post(url, json=get, headers=headers(get, task)).json()

    assert mine["result"]["status"] == "working"
    assert "there is no task" in theirs["error"]["message"]
    assert "there is no task" in refused["error"]["message"]
    assert after["result"]["status"] in ("working", "completed")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--client", "a"), "--http"),
        (("--http", "127.0.0.1:0", "--client", "a", "--client", "a"), "give each client its own name"),
        (("--http", "127.0.0.1:0", "--client", "a b"), "give each client its own name"),
    ],
)
@pytest.mark.slow
def test_wrong_clients_are_named(words: tuple[str, ...], text: str, place: Path) -> None:
    done = run(place, "mcp", "serve", *words)

    assert done.returncode == 2
    assert text in done.stderr


# -- tools of configured servers --------------------------------------------------------------


def answered(place: Path, requests: list[dict[str, Any]], *words: str) -> dict[int, Any]:
    """As `asked`, by a client that stays until it has its answers."""
    with subprocess.Popen(
        [sys.executable, "-m", "pegboard.cli.main", "mcp", "serve", *words], cwd=place / "ws",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(place),
    ) as server:  # fmt: skip
        assert server.stdin is not None and server.stdout is not None
        found: dict[int, Any] = {}
        for one in (INIT, *requests):
            server.stdin.write(json.dumps(one) + "\n")
            server.stdin.flush()
            while one["id"] not in found:
                reply = json.loads(server.stdout.readline())
                found[reply.get("id")] = reply
        server.stdin.close()
    return found


@owes("K-81", "K-78")
@pytest.mark.slow
def test_tools_of_a_configured_server_are_offered_by_name_and_ask_like_anywhere(place: Path) -> None:
    other = {"name": "other", "description": "Does more.", "inputSchema": {"type": "object"}}
    add(place, "s", tools=[TOOL, other], results={"t": {"content": [{"type": "text", "text": "from afar"}]}})
    # The call first: it waits for its server's start, a list only for a while.
    calls = [request(3, "tools/call", name="mcp_s_t", arguments={}), request(2, "tools/list")]

    without = answered(place, calls)
    held = answered(place, calls, "--tools", "mcp_s_t")
    (place / "rules").write_text("allow call:s/*\n")
    allowed = answered(place, calls, "--tools", "mcp_s_t", "--policy", str(place / "rules"))
    wrong = run(place, "mcp", "serve", "--tools", "mcp_z_*")

    assert not any(t["name"].startswith("mcp_") for t in without[2]["result"]["tools"])
    (offered,) = (t for t in held[2]["result"]["tools"] if t["name"].startswith("mcp_"))
    assert offered["name"] == "mcp_s_t" and offered["annotations"]["readOnlyHint"] is False
    assert held[3]["result"]["isError"] and "approvals approve" in str(held[3]["result"])
    assert "from afar" in str(allowed[3].get("result")), allowed
    assert "s/t" in (place / ".local/state/pegboard/mcp/pins.json").read_text()
    assert wrong.returncode == 2 and "MCP servers s" in wrong.stderr
