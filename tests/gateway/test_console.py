"""The console's files over HTTP: without a token, under a strict policy, and nothing else without one."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import httpx2
import pytest

from pegboard.gateway import console
from pegboard.gateway.console import BUNDLE, Console
from tests.gateway.conftest import Serve

INDEX = '<!doctype html><script src="/theme.js"></script><script type="module" src="/assets/index-abc.js"></script>'


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A console of three files in the place of the one that was built."""
    made = tmp_path / "bundle"
    (made / "assets").mkdir(parents=True)
    (made / "index.html").write_text(INDEX)
    (made / "theme.js").write_text("// theme")
    (made / ".sources").write_text("hash")
    (made / "assets" / "index-abc.js").write_text("export const long = 1;\n" * 100)
    monkeypatch.setattr(console.Console.__init__, "__defaults__", (made,))
    return made


def anonymous(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=client.base_url, trust_env=False, timeout=30)


async def test_pages_and_files_need_no_token_and_data_does(serve: Serve, bundle: Path) -> None:
    async with serve() as client, anonymous(client) as nobody:
        pages = ["/", "/chat", "/chat/a%2Fb", "/runs/run_1/timeline", "/approvals", "/setup/model", "/more"]
        answers = [await nobody.get(path) for path in pages]
        script = await nobody.get("/assets/index-abc.js")
        refused = [(await nobody.get(path)).status_code for path in (
            "/api/runs", "/api/approvals", "/metrics", "/v1/models", "/chatter", "/assets/other.js", "/.sources",
        )]  # fmt: skip

    assert [(a.status_code, a.text) for a in answers] == [(200, INDEX)] * len(pages)
    assert script.status_code == 200 and script.text.startswith("export const long")
    assert refused == [401] * 7


async def test_pages_have_a_policy_without_inline_code_and_are_in_nobodys_frame(
    serve: Serve, bundle: Path
) -> None:
    async with serve() as client:
        page = await client.get("/chat/x")

    directives = dict(d.strip().split(" ", 1) for d in page.headers["content-security-policy"].split(";"))
    assert directives["default-src"] == "'none'"
    assert (directives["script-src"], directives["style-src"]) == ("'self'", "'self'")
    assert directives["frame-ancestors"] == "'none'" and directives["connect-src"] == "'self'"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


async def test_a_file_with_a_hash_in_its_name_is_kept_for_a_year_and_a_page_is_asked_for_again(
    serve: Serve, bundle: Path
) -> None:
    async with serve() as client:
        page, script = await client.get("/runs"), await client.get("/assets/index-abc.js")
        again = await client.get("/runs", headers={"If-None-Match": page.headers["etag"]})
        packed = await client.get("/assets/index-abc.js", headers={"Accept-Encoding": "gzip"})
        plain = await client.get("/assets/index-abc.js", headers={"Accept-Encoding": "identity"})

    assert page.headers["cache-control"] == "no-cache" and again.status_code == 304 and not again.content
    assert "immutable" in script.headers["cache-control"]
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert packed.headers["content-encoding"] == "gzip" and packed.text == plain.text
    assert "content-encoding" not in plain.headers


async def test_paths_out_of_the_bundle_are_not_found(serve: Serve, bundle: Path) -> None:
    async with serve() as client:
        found = [(await client.get(path)).status_code for path in (
            "/assets/../console.py", "/assets/%2e%2e/%2e%2e/console.py", "/assets/..%2f.sources", "/.sources",
        )]  # fmt: skip

    assert found == [404] * 4


async def test_without_a_console_the_front_page_lists_the_api(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.Console.__init__, "__defaults__", (tmp_path / "none",))
    async with serve() as client:
        front, page = await client.get("/"), await client.get("/chat")

    assert "/openapi.json" in front.text and front.status_code == 200
    assert page.status_code == 404


def test_the_console_that_is_built_is_small_and_has_no_inline_code() -> None:
    built = Console()
    assert built.built, "run make console"
    files = [path for path in BUNDLE.rglob("*") if path.is_file()]
    packed = sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in files)
    page = (BUNDLE / "index.html").read_text()

    assert packed < 400_000
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    assert not re.search(r"https?://", page)
