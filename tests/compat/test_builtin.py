"""The documents' own tools by the names of their classes: their imports, parameters and answers."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pegboard import AllowOnce, Executor, builtin
from pegboard.compat import artifactflow, moltbot, nanobot, nanobot_net
from pegboard.core.tool import Tool
from pegboard.documents.child import DocumentReader
from pegboard.net.client import HttpClient
from pegboard.web.fetch import WebReader
from pegboard.web.search.providers import PROVIDERS
from tests.ledger import owes
from tests.mcp.conftest import PEER, tool
from tests.web.site import Site, site

LONG = "Otters eat fish. " * 20


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


@pytest.fixture
def brave(here: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Brave's documented answer, on loopback."""
    row = {
        "title": "Otters",
        "url": "https://otters.example/",
        "description": "They eat fish.",
        "age": "2 days ago",
    }
    here.answer("/brave", json.dumps({"web": {"results": [row]}}), "application/json")
    here.answer("/bocha", json.dumps({"data": {"webPages": {"value": [
        {"name": "Otters", "url": "https://otters.example/", "summary": "They eat fish."}]}}}), "application/json")  # fmt: skip
    for name in ("brave", "bocha"):
        monkeypatch.setitem(PROVIDERS, name, replace(PROVIDERS[name], url=here.url(f"/{name}")))
        monkeypatch.delenv(f"{name.upper()}_API_KEY", raising=False)
    return here


def reader(here: Site) -> WebReader:
    return WebReader(HttpClient(allow=(here.place,)), DocumentReader())


def fetching(profile: str, here: Site) -> Executor:
    return Executor(builtin("web_fetch").profile(profile), provide=[reader(here)], mode="full")


# -- searching --------------------------------------------------------------------------------


@owes("N-68", "N-69", "N-70", "N-71", "N-72")
async def test_000s_search_asks_brave_with_the_key_of_its_instance(brave: Site) -> None:
    tool = nanobot.WebSearchTool(api_key="k1", max_results=3, mode="full")

    text = await tool.execute(query="otters")

    assert text == "Results for: otters\n1. Otters\n   https://otters.example/\n   They eat fish."
    assert brave.asked[0].headers["x-subscription-token"] == "k1"
    assert parse_qs(urlsplit(brave.asked[0].path).query)["count"] == ["3"]


@owes("N-70")
async def test_the_key_is_read_at_each_search(brave: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = nanobot.WebSearchTool(mode="full")

    before = await tool.execute(query="otters")
    monkeypatch.setenv("BRAVE_API_KEY", "k2")
    after = await tool.execute(query="otters")

    assert "BRAVE_API_KEY not configured" in before
    assert after.startswith("Results for: otters")
    assert brave.asked[0].headers["x-subscription-token"] == "k2"


@owes("C-30", "C-31")
async def test_002s_search_says_in_its_words_that_the_key_is_missing(brave: Site) -> None:
    made, keyed = (
        nanobot_net.WebTools.create_web_search_tool(),
        nanobot_net.WebTools.create_web_search_tool("k3"),
    )

    without = await Executor([made], mode="full").call("web_search", {"query": "otters"})
    found = await Executor([keyed], mode="full").call("web_search", {"query": "otters", "count": 2})

    assert str(without) == "Error: BRAVE_API_KEY not configured"
    assert str(found).startswith("Results for: otters\n1. Otters")
    assert parse_qs(urlsplit(brave.asked[0].path).query)["count"] == ["2"]


@owes("M-20", "M-21", "M-22", "M-23", "M-24", "M-25")
async def test_003s_search_answers_with_the_documents_json(
    brave: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "k4")
    tool = moltbot.create_web_search_tool()
    assert tool is not None

    sent = {"query": "otters", "count": 2, "country": "DE", "search_lang": "de", "freshness": "pw"}
    result = await Executor([tool], mode="full").call("web_search", sent)

    assert json.loads(str(result)) == {"results": [{"title": "Otters", "url": "https://otters.example/",
                                                    "description": "They eat fish.", "age": "2 days ago"}]}  # fmt: skip
    asked = parse_qs(urlsplit(brave.asked[0].path).query)
    assert (asked["country"], asked["search_lang"], asked["freshness"]) == (["DE"], ["de"], ["pw"])


@owes("A-16", "A-45", "X-04")
async def test_004s_search_asks_bocha_and_gives_an_outcome(brave: Site) -> None:
    keyed = artifactflow.WebSearchTool(api_key="k5", mode="full")

    found = await keyed.execute(query="otters", freshness="oneWeek")
    missing = await artifactflow.WebSearchTool(mode="full")(query="otters")

    assert found.success
    assert [r["title"] for r in found.data["results"]] == ["Otters"]
    body = json.loads(brave.asked[0].body)
    assert (body["count"], body["freshness"]) == (10, "oneWeek")
    assert not missing.success
    assert "BOCHA_API_KEY not configured" in str(missing.error)


# -- fetching ---------------------------------------------------------------------------------


@owes("N-73", "N-74", "N-75", "N-81")
async def test_000s_fetch_answers_with_json_text(here: Site) -> None:
    url = here.answer("/a", LONG, "text/plain")

    result = await fetching("nanobot", here).call(
        "web_fetch", {"url": url, "extractMode": "text", "maxChars": 100}
    )

    assert json.loads(str(result)) == {
        "url": url, "finalUrl": url, "status": 200, "extractor": "raw", "truncated": True, "length": len(LONG),
        "text": LONG[:100],
    }  # fmt: skip


@owes("C-32", "C-33")
async def test_002s_fetch_answers_with_the_content_and_its_mark(here: Site) -> None:
    url = here.answer("/a", LONG, "text/plain")
    one = fetching("nanobot-net", here)

    cut, whole = (
        await one.call("web_fetch", {"url": url, "maxChars": 100}),
        await one.call("web_fetch", {"url": url}),
    )

    assert str(cut) == LONG[:100] + "\n... (truncated)"
    assert str(whole) == LONG


@owes("M-27", "M-28")
async def test_003s_fetch_answers_with_url_title_and_content(here: Site) -> None:
    url = here.answer("/a", "Otters eat fish.", "text/plain")

    result = await fetching("moltbot", here).call("web_fetch", {"url": url})

    assert str(result) == f"URL: {url}\nTitle: \n\nContent:\nOtters eat fish."


@owes("U-09")
async def test_004s_fetch_takes_a_list_of_addresses(here: Site) -> None:
    urls = [here.answer(f"/{n}", f"page {n}", "text/plain") for n in range(3)]

    tool = artifactflow.WebFetchTool(mode="full", provide=[reader(here)])
    found = await tool.execute(url_list=urls, max_content_length=10_000, max_concurrent=2)

    assert found.success
    assert [r["text"] for r in found.data["results"]] == ["page 0", "page 1", "page 2"]
    assert tool.parameters["required"] == ["url_list"]


# -- files, commands, artifacts ---------------------------------------------------------------


async def test_000s_file_tools_work_alone_and_in_a_registry(tmp_path: Path) -> None:
    written = await nanobot.WriteFileTool(workspace=tmp_path).execute(path="a.txt", content="one")
    edited = await nanobot.EditFileTool(allowed_dir=tmp_path).run(
        path="a.txt", old_text="one", new_text="two"
    )
    registry = nanobot.ToolRegistry(
        [nanobot.ReadFileTool(), nanobot.ListDirTool(), nanobot.GlobTool()], workspace=tmp_path
    )

    assert "Error" not in written + edited
    assert (tmp_path / "a.txt").read_text() == "two"
    assert registry.tool_names == ["read_file", "list_dir", "glob"]
    assert "two" in await registry.execute("read_file", {"path": "a.txt"})
    assert (await nanobot.ReadFileTool(workspace=tmp_path).execute(path="../b.txt")).startswith("Error")
    assert nanobot.AskUserTool().to_schema()["function"]["name"] == "ask_user"


def test_built_in_tools_check_parameters_as_the_documents_say() -> None:
    reads, searches = nanobot.ReadFileTool(), artifactflow.WebSearchTool()

    assert reads.validate_params({"path": "a.txt"}) == []  # 000: a list of errors, empty if it is valid
    assert [len(reads.validate_params(wrong)) for wrong in ({}, {"path": 3})] == [1, 1]
    assert searches.validate_params({"query": "x"}) is None  # 004: Optional[str]
    assert all("query" in (searches.validate_params(w) or "") for w in ({}, {"query": 3}))
    assert "nosuch" in (searches.validate_params({"query": "x", "nosuch": 1}) or "")


async def test_a_pattern_of_exec_tool_holds_in_every_registry(tmp_path: Path) -> None:
    named = nanobot.ExecTool(deny_patterns=["forbidden"], working_dir=tmp_path)
    narrow = nanobot.ExecTool(allow_patterns=["^echo"], working_dir=tmp_path)
    outer = nanobot.ToolRegistry([named], workspace=tmp_path, mode="full")
    net = Executor(
        [nanobot_net.ShellTools.create_exec_tool(additional_denied_patterns=["forbidden"])],
        workspace=tmp_path,
    )

    assert "hello" in await outer.execute("exec", {"command": "echo hello"})
    assert (await outer.execute("exec", {"command": "echo forbidden"})).startswith("Error")
    assert (await named.execute(command="echo forbidden")).startswith("Error")
    assert (await narrow.execute(command="printf x")).startswith("Error")
    assert not (await net.call("exec", {"command": "echo forbidden"})).ok


@owes("D-44")
@pytest.mark.slow
async def test_001s_manager_starts_servers_and_registers_what_they_list_and_a_dead_one_holds_up_none(
    tmp_path: Path,
) -> None:
    registry = nanobot.ToolRegistry(workspace=tmp_path, approver=AllowOnce())
    notes = {
        "command": sys.executable,
        "args": [PEER, json.dumps({"tools": [tool("find")]})],
        "tool_timeout": 20,
    }
    dead = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}

    async with AsyncExitStack() as stack:
        manager = await nanobot.connect_mcp_servers({"notes": notes, "dead": dead}, registry, stack)

        assert registry.tool_names == ["mcp_notes_find"]
        assert list(manager.errors) == ["dead"]
        assert not (await registry.execute("mcp_notes_find", {})).startswith("Error")


async def test_004s_artifact_tools_share_the_artifacts_of_their_executor(tmp_path: Path) -> None:
    kit = artifactflow.AgentToolkit("lead", workspace=tmp_path, mode="full")
    kit.add_tools([artifactflow.CreateArtifactTool(), artifactflow.UpdateArtifactTool(),
                   artifactflow.RewriteArtifactTool(), artifactflow.ReadArtifactTool()])  # fmt: skip

    made = await kit.execute_tool("create_artifact", {"id": "a", "title": "A", "content": "one"})
    changed = await kit.execute_tool("update_artifact", {"id": "a", "old_str": "one", "new_str": "two"})
    read = await kit.execute_tool("read_artifact", {"id": "a"})
    await kit.aclose()

    assert made.success and changed.success
    assert "two" in str(read.data)


def test_002s_factories_give_tools_of_the_documents_names() -> None:
    files, web = nanobot_net.FileTools, nanobot_net.WebTools
    made: list[Any] = [files.create_read_file_tool(), files.create_write_file_tool(), files.create_edit_file_tool(),
                       files.create_list_dir_tool(), web.create_web_fetch_tool()]  # fmt: skip

    assert all(isinstance(t, Tool) for t in made)
    assert [t.name for t in made] == ["read_file", "write_file", "edit_file", "list_dir", "web_fetch"]
    assert list(made[2].schema["properties"]) == ["path", "oldText", "newText"]
