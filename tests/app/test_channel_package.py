"""The template of the guide for a channel of one's own: built as a package, installed, and talked to by a worker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.platforms.platform import serving
from tests.ledger import owes
from tests.waiting import soon

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "p4ger-token"


@dataclass
class Pager:
    """The service of the guide: pages that were sent, and those that people have sent."""

    sent: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    pages: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    async def send(self, request: Request) -> Response:
        if request.headers["authorization"] != f"Bearer {TOKEN}":
            return Response(status_code=401)
        self.sent.append(await request.json())
        return Response()

    async def list_pages(self, request: Request) -> Response:
        if request.headers["authorization"] != f"Bearer {TOKEN}":
            return Response(status_code=401)
        after = request.query_params["after"]
        if after == "now":
            return JSONResponse([])
        new = self.pages[int(after or 0) :]
        if not new:
            await asyncio.sleep(0.05)
        return JSONResponse(new)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages into which that of the guide was installed."""
    text = (ROOT / "docs" / "guides" / "channels.md").read_text(encoding="utf-8")
    project, site = tmp_path_factory.mktemp("pager"), tmp_path_factory.mktemp("site")
    for name in ("pyproject.toml", "pegboard_pager.py"):
        found = re.search(rf"^```\w+\n# {re.escape(name)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert found, name
        (project / name).write_text(found[1])
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(project)], check=True, timeout=300, env=dict(os.environ))
    return site


@asynccontextmanager
async def pager(folder: Path) -> AsyncGenerator[Pager]:
    """The service, and settings in a folder that name it, until the block ends."""
    made = Pager()
    routes = [Route("/send", made.send, methods=["POST"]), Route("/pages", made.list_pages)]
    async with serving([*routes]) as url:
        table = {"kind": "pager", "url": url, "token": "env:PAGER_TOKEN", "allow": ["7"]}
        settings = {"plugins": {"allow": ["pager"]}, "channels": {"oncall": table}}
        (folder / "pegboard.json").write_text(json.dumps(settings))
        (folder / "w").mkdir()
        yield made


async def pegboard(folder: Path, site: Path, *arguments: str, **more: Any) -> asyncio.subprocess.Process:
    """A process of ours that has the package."""
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": f"{site}:{ROOT / 'src'}",
        "PAGER_TOKEN": TOKEN,
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pegboard", *arguments, "--config", str(folder / "pegboard.json"), "--workspace",
        str(folder / "w"), stdout=-1, stderr=-1, env=environment | more,
    )  # fmt: skip


@owes("K-58", "M-58")
async def test_the_channel_of_the_guide_is_tried_from_the_command_line(tmp_path: Path, site: Path) -> None:
    async with pager(tmp_path) as service:
        command = ("channels", "test", "oncall", "--chat", "7", "--text", "Wake up")
        process = await pegboard(tmp_path, site, *command)
        out, err = await process.communicate()
        wrong = await pegboard(tmp_path, site, "channels", "test", "oncall", PAGER_TOKEN="wrong")
        _, refused = await wrong.communicate()

    assert process.returncode == 0, err.decode()
    assert out.decode().splitlines() == ["oncall works: we are pager", "the message is sent"]
    assert [(page["to"], page["text"]) for page in service.sent] == [("7", "Wake up")]
    assert wrong.returncode == 1 and "the pager answered with status 401" in refused.decode()


@owes("K-58")
async def test_people_talk_to_an_agent_on_the_channel_of_the_guide(tmp_path: Path, site: Path) -> None:
    (tmp_path / "turns.jsonl").write_text(json.dumps({"text": "All is well."}))
    async with pager(tmp_path) as service:
        service.pages.append({"id": "1", "from": "7", "text": "How is it?"})
        worker = await pegboard(tmp_path, site, "worker", "--model", f"scripted:{tmp_path / 'turns.jsonl'}")
        try:
            await soon(lambda: service.sent or worker.returncode is not None, "an answer", within_s=60)
        finally:
            if worker.returncode is None:
                worker.kill()
            _, err = await worker.communicate()

    assert [(page["to"], page["text"]) for page in service.sent] == [("7", "All is well.")], err.decode()
