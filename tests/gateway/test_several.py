"""Several gateways over one PostgreSQL store are one: what is started at one is followed, answered and stopped at another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.gateway.conftest import calls, events
from tests.gateway.test_serve import serving
from tests.postgres import PostgresServer

TOKEN = "the-token-of-all-the-gateways"


@asynccontextmanager
async def gateway(folder: Path, store: str, model: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A gateway in a process of its own; gives a client with the owner's token."""
    with serving(folder, "--store", store, "--model", model, PEGBOARD_TOKEN=TOKEN) as (url, _, _):
        async with httpx2.AsyncClient(
            base_url=url, trust_env=False, timeout=60, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as client:
            yield client


@pytest.mark.slow
async def test_two_gateways_share_runs_approvals_stops_and_tokens(
    postgres_server: PostgresServer, folder: Path
) -> None:
    script = folder.parent / "turns.jsonl"
    waits = calls("exec", command="while [ ! -e gate ]; do sleep 0.1; done")
    asks = calls("exec", command="git push https://example.invalid/x.git")
    script.write_text("\n".join(json.dumps(t) for t in (asks, waits, {"text": "Done."})))
    store, model = postgres_server.url(), f"scripted:{script}"
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(gateway(folder, store, model))
        two = await stack.enter_async_context(gateway(folder, store, model))
        run = (await one.post("/api/runs", json={"task": "publish", "session": "s"})).json()["run"]
        at_two = asyncio.ensure_future(events(two, run))
        at_one = asyncio.ensure_future(events(one, run))
        await events(two, run, until="run.finished")
        (waiting,) = (await two.get("/api/approvals")).json()["approvals"]
        answered = await two.post(f"/api/approvals/{waiting['approval']}", json={"decision": "deny"})
        await events(two, run, until="run.resumed")
        stopped = await two.post(f"/api/runs/{run}/stop")
        seen = [await at_one, await at_two]
        rows = [(await client.get(f"/api/runs/{run}")).json()["status"] for client in (one, two)]
        made = (await one.post("/api/tokens", json={"name": "ann", "role": "operator"})).json()["token"]
        async with httpx2.AsyncClient(base_url=two.base_url, trust_env=False) as ann:
            ann.headers["Authorization"] = f"Bearer {made}"
            async with asyncio.timeout(30):
                while (me := await ann.get("/api/me")).status_code == 401:
                    await asyncio.sleep(0.1)
            foreign = await ann.get(f"/api/runs/{run}")

    assert waiting["run"] == run and answered.status_code == 200
    assert stopped.status_code in (200, 202) and rows == ["cancelled", "cancelled"]
    stored = [[event for id, event in one_seen if id.endswith(".0")] for one_seen in seen]
    assert stored[0] == stored[1] and stored[0][-1]["status"] == "cancelled"
    assert [e["type"] for e in stored[0]].count("run.finished") == 2
    assert me.json()["role"] == "operator" and foreign.status_code == 404
