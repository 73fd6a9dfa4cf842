"""A gateway on a free port of loopback, over a workspace with `a.txt`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pegboard.app.app import App
from pegboard.gateway.server import Gateway

TOKEN = "the-token-of-the-owner"
Serve = Callable[..., AbstractAsyncContextManager[httpx2.AsyncClient]]


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("one\n")
    return tmp_path / "w"


@pytest.fixture
def serve(folder: Path) -> Serve:
    """Serves the folder with a model of these turns; gives a client with the token."""

    @asynccontextmanager
    async def serving(
        *turns: dict[str, Any], clock: Callable[[], float] | None = None, notes: list[str] | None = None
    ) -> AsyncGenerator[httpx2.AsyncClient]:
        model = None
        if turns:
            file = folder.parent / "turns.jsonl"
            file.write_text("\n".join(json.dumps(t) for t in turns))
            model = f"scripted:{file}"
        said = [] if notes is None else notes
        with App.open(workspace=folder) as app:
            more: dict[str, Any] = {} if clock is None else {"clock": clock}
            gateway = Gateway(app, said.append, model=model, **more)
            port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(
                gateway.serve(
                    host="127.0.0.1", port=0, tokens={"owner": TOKEN}, on_start=port.set_result, drain_s=1
                )
            )
            try:
                await asyncio.wait([port, task], return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    task.result()
                async with httpx2.AsyncClient(
                    base_url=f"http://127.0.0.1:{port.result()}", trust_env=False, timeout=30,
                    headers={"Authorization": f"Bearer {TOKEN}"},
                ) as client:  # fmt: skip
                    yield client
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    return serving


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


async def events(
    client: httpx2.AsyncClient, run: str, *, after: str = "", until: str = ""
) -> list[tuple[str, dict[str, Any]]]:
    """The events of a run with their ids: all until the stream ends, or up to the first of the type `until`."""
    out: list[tuple[str, dict[str, Any]]] = []
    headers = {"Last-Event-ID": after} if after else {}
    async with client.stream("GET", f"/api/runs/{run}/events", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        id = ""
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                id = line[4:]
            elif line.startswith("data: "):
                out.append((id, json.loads(line[6:])))
                if out[-1][1]["type"] == until:
                    break
    return out


def types(found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    return [event["type"] for _, event in found]
