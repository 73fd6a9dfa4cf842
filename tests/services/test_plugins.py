"""Adding, updating and removing plug-ins, from folders and from real git repositories."""

from __future__ import annotations

import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pytest import raises

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError
from pegboard.mcp.pins import Definition
from pegboard.services import plugins as module
from pegboard.services.plugins import Plugins, check_address, copy_plugin
from pegboard.services.servers import pins_of
from tests.cli.conftest import tree
from tests.config.test_plugins import MCP_SCHEMA, plugin, skill, write

GIT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"],
}  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "home").mkdir()
    return Paths(
        home=tmp_path / "home", config=tmp_path / "c", state=tmp_path / "s", data=tmp_path / "d",
        cache=tmp_path / "k",
    )  # fmt: skip


@pytest.fixture
def plugins(paths: Paths) -> Plugins:
    return Plugins(paths, {"PATH": os.environ["PATH"], "HOME": str(paths.home)})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = plugin(tmp_path / "reports", version="1.0.0")
    skill(root / "skills/sums", "sums")
    write(root / "bin/run.sh", "true").chmod(0o755)
    return root


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=GIT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path) -> str:
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x")
    return git(folder, "rev-parse", "HEAD")


# -- folders --------------------------------------------------------------------------------------


async def test_a_folder_is_copied_as_it_is_and_counts_after_trust(
    paths: Paths, plugins: Plugins, source: Path
) -> None:
    write(source / "bin/__pycache__/x.pyc", "cache")
    write(source / ".git/hooks/post-checkout", "exit 1")
    (source / "bin/again.sh").symlink_to("run.sh")

    added = await plugins.add(str(source))

    root = paths.data / "plugins/reports"
    assert added.installed.root == root and not added.updated and not added.installed.trusted
    assert sorted(tree(root)) == ["bin/again.sh", "bin/run.sh", "plugin.json", "skills/sums/SKILL.md"]
    assert (root / "bin/run.sh").stat().st_mode & 0o777 == 0o700
    assert os.readlink(root / "bin/again.sh") == "run.sh"
    assert load_config(paths, None).tool_files.found == ()
    Trust(paths).add(root)
    assert [p.name for p in load_config(paths, None).tool_files.found] == ["sums"]
    (one,) = await plugins.list()
    assert one.trusted and not one.changed and one.source == str(source)


async def test_links_out_and_things_that_are_no_files_are_left_out_and_named(
    plugins: Plugins, source: Path, tmp_path: Path
) -> None:
    write(tmp_path / "secret", "key")
    (source / "up").symlink_to("../secret")
    (source / "whole").symlink_to(tmp_path / "secret")
    (source / "inner").symlink_to(source / "bin/run.sh")
    (source / "loop").symlink_to("../reports/../secret")
    os.mkfifo(source / "pipe")

    added = await plugins.add(str(source))

    assert sorted(s.split()[0] for s in added.left_out) == ["inner", "loop", "pipe", "up", "whole"]
    assert sorted(tree(added.installed.root)) == ["bin/run.sh", "plugin.json", "skills/sums/SKILL.md"]


async def test_adding_it_again_shows_what_changed_and_voids_the_trust(
    paths: Paths, plugins: Plugins, source: Path
) -> None:
    first = await plugins.add(str(source))
    Trust(paths).add(first.installed.root)
    write(paths.data / "plugin-data/reports/db", "kept")

    same = await plugins.add(str(source))
    assert not same.updated and same.changes == {} and same.installed.trusted

    write(source / "bin/run.sh", "false")
    write(source / "bin/new.bin", "x").write_bytes(b"\xff\xfe")
    (source / "skills/sums/SKILL.md").unlink()
    again = await plugins.add(str(source))

    assert again.updated and not again.installed.trusted and not again.installed.changed
    assert sorted(again.changes) == ["bin/new.bin", "bin/run.sh", "skills/sums/SKILL.md"]
    assert "-true\n+false" in again.changes["bin/run.sh"]
    assert (
        again.changes["bin/new.bin"] == "added (not shown)"
        and again.changes["skills/sums/SKILL.md"] == "removed"
    )
    assert tree(again.installed.root) == tree(source)
    assert (paths.data / "plugin-data/reports/db").read_text() == "kept"
    assert [p.name for p in (paths.data / "plugins").iterdir()] == ["reports"]


async def test_what_becomes_a_program_is_a_change(plugins: Plugins, source: Path) -> None:
    await plugins.add(str(source))
    (source / "plugin.json").chmod(0o755)

    again = await plugins.add(str(source))

    assert again.updated and again.changes == {"plugin.json": "is now a program"}


async def test_another_source_does_not_replace_a_plugin(
    plugins: Plugins, source: Path, tmp_path: Path
) -> None:
    await plugins.add(str(source))
    other = plugin(tmp_path / "other", "reports")

    with raises(ConfigError, match="pegboard plugins remove reports"):
        await plugins.add(str(other))

    assert [p.source for p in await plugins.list()] == [str(source)]


async def test_a_plugin_that_cannot_be_read_leaves_the_installed_one(plugins: Plugins, source: Path) -> None:
    before = tree((await plugins.add(str(source))).installed.root)
    write(source / "plugin.json", "{")

    with raises(ConfigError, match=r"plugin\.json"):
        await plugins.add(str(source))

    assert tree((await plugins.list())[0].root) == before


async def test_removing_it_takes_data_trust_and_approvals_along(
    paths: Paths, plugins: Plugins, source: Path
) -> None:
    row = {"s": {"type": "stdio", "command": "true"}}
    write(source / "mcp.json", json.dumps({"$schema": MCP_SCHEMA, "mcpServers": row}))
    root = (await plugins.add(str(source))).installed.root
    Trust(paths).add(root)
    pins_of(paths).accept("reports-s", Definition(name="t", description="", schema={}))

    await plugins.remove("reports")

    assert await plugins.list() == [] and not root.exists()
    assert not (paths.data / "plugin-data/reports").exists()
    assert Trust(paths).list() == {} and pins_of(paths).names("reports-s") == ()
    with raises(ConfigError, match="installed: none"):
        await plugins.remove("../plugins/reports")


async def test_a_plugin_whose_folder_is_gone_is_listed_and_can_be_removed(
    plugins: Plugins, source: Path, paths: Paths
) -> None:
    root = (await plugins.add(str(source))).installed.root
    root.rename(paths.home / "moved")

    (one,) = await plugins.list()
    assert one.fault
    await plugins.remove("reports")

    assert await plugins.list() == []


@pytest.mark.parametrize(("files", "size"), [(5, 10), (1, 1001)])
def test_what_is_too_large_is_refused_before_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, size: int
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 4)
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    for number in range(files):
        write(tmp_path / f"big/{number}", "x" * size)

    with raises(ConfigError, match="too large"):
        copy_plugin(tmp_path / "big", tmp_path / "copy")


@pytest.mark.parametrize("folder", ["../reports", "/etc", "bin/../..", "link", "missing", "bin/run.sh"])
async def test_a_folder_outside_the_source_is_refused(plugins: Plugins, source: Path, folder: str) -> None:
    (source / "link").symlink_to(source.parent)

    with raises(ConfigError, match="folder"):
        await plugins.add(str(source), folder=folder)


async def test_a_folder_of_many_plugins_names_them(plugins: Plugins, tmp_path: Path) -> None:
    market = tmp_path / "market"
    plugin(market / "plugins/one")
    write(market / "three/.claude-plugin/plugin.json", '{"name": "three"}')
    write(market / "plugins/two/.claude-plugin/plugin.json", '{"name": "two"}')

    with raises(ConfigError, match="it holds plugins/one, plugins/two, three: choose one with --folder"):
        await plugins.add(str(market))

    assert (await plugins.add(str(market), folder="plugins/two")).installed.name == "two"


# -- git ------------------------------------------------------------------------------------------


async def test_a_repository_is_pinned_at_its_commit(paths: Paths, plugins: Plugins, source: Path) -> None:
    first = commit(source)
    write(source / "bin/run.sh", "false")
    second = commit(source)
    url = f"file://{source}"

    at_first = await plugins.add(url, ref=first)
    assert at_first.installed.commit == first
    assert (at_first.installed.root / "bin/run.sh").read_text() == "true"
    latest = await plugins.add(url)

    assert latest.installed.commit == second and latest.updated
    assert "-true\n+false" in latest.changes["bin/run.sh"]
    assert not (latest.installed.root / ".git").exists()
    assert [p.name for p in (paths.data / "plugins").iterdir()] == ["reports"]


async def test_nothing_of_a_repository_or_of_settings_runs_while_it_is_fetched(
    paths: Paths, plugins: Plugins, source: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hook = write(paths.home / "hooks/post-checkout", f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    template = write(paths.home / "template/hooks/post-checkout", f"#!/bin/sh\ntouch {ran}\n")
    template.chmod(0o755)
    write(paths.home / ".gitconfig", f"[core]\nhooksPath={hook.parent}\n[init]\ntemplateDir={paths.home}/template\n"
          "[submodule]\nrecurse=true\n")  # fmt: skip
    commit(source)
    inner = plugin(tmp_path / "inner")
    commit(inner)
    write(source / ".gitmodules", f'[submodule "m"]\n\tpath = m\n\turl = {inner}\n')
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{git(inner, 'rev-parse', 'HEAD')},m")
    commit(source)

    added = await plugins.add(f"file://{source}")

    assert not ran.exists()
    assert not (added.installed.root / "m/plugin.json").exists()


async def test_a_tree_that_git_finds_malicious_is_refused(plugins: Plugins, source: Path) -> None:
    commit(source)
    blob = git(source, "hash-object", "-w", "plugin.json")
    row = f"100644 blob {blob}\t.GIT\n100644 blob {blob}\tplugin.json\n"
    made = subprocess.run(
        ["git", "-C", str(source), "mktree"], input=row, env=GIT, capture_output=True, text=True, check=True
    )
    git(source, "update-ref", "HEAD", git(source, "commit-tree", "-m", "x", made.stdout.strip()))

    with raises(ConfigError, match="git fetch ended with status"):
        await plugins.add(f"file://{source}")


async def test_a_repository_that_unpacks_to_too_much_is_refused(
    plugins: Plugins, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    write(source / "zeros", "0" * 200_000)
    commit(source)

    with raises(ConfigError, match="too large"):
        await plugins.add(f"file://{source}")


async def test_a_larger_pack_is_not_received(
    plugins: Plugins, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REPOSITORY", 100_000)
    (source / "noise").write_bytes(os.urandom(300_000))
    commit(source)

    with raises(ConfigError, match="git fetch ended with status"):
        await plugins.add(f"file://{source}")


async def test_a_link_of_a_repository_leads_nowhere(plugins: Plugins, source: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret", "key")
    (source / "secret").symlink_to(tmp_path / "secret")
    commit(source)

    added = await plugins.add(f"file://{source}")

    assert added.left_out == ("secret is a link out of the plug-in",)
    assert not (added.installed.root / "secret").exists()


@pytest.mark.parametrize(
    "address",
    ["ext::sh -c touch% x", "ext::sh", "fd::17", "--upload-pack=touch x", "-u", "ssh://-oProxyCommand=x/y",
     "-oProxyCommand=x:y", "git@-oProxyCommand=x:y", "host:-x", "http://example.com/a.git",
     "http://127.0.0.1.example.com/a", "http://localhost@example.com/a", "git://example.com/a.git",
     "https://example.com/a b", "https://", "/missing", "~/missing", "", "transport::https://example.com",
     "https://-x/y", "plugin.zip"],
)  # fmt: skip
async def test_an_address_that_is_none_is_refused(plugins: Plugins, paths: Paths, address: str) -> None:
    with raises(ConfigError):
        await plugins.add(address)

    assert list((paths.data / "plugins").iterdir()) == []


@pytest.mark.parametrize(
    "address",
    ["https://example.com/team/a.git", "ssh://git@example.com:22/a", "git@example.com:team/a.git", "example.com:a",
     "http://127.0.0.1:8000/a.git", "http://localhost/a.git", "http://[::1]:8/a", "file:///srv/a"],
)  # fmt: skip
def test_usual_addresses_are_taken(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("ref", ["--upload-pack=x", "-x", "a b", "main:other", "a..b\0", "+main"])
async def test_a_name_of_a_version_that_is_none_is_refused(plugins: Plugins, source: Path, ref: str) -> None:
    commit(source)

    with raises(ConfigError, match="no branch, tag or commit"):
        await plugins.add(f"file://{source}", ref=ref)


class Locked(BaseHTTPRequestHandler):
    """A server that wants a password."""

    def do_GET(self) -> None:
        self.server.asked = True  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


async def test_nobody_is_asked_for_a_password(plugins: Plugins, paths: Paths, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    program = write(paths.home / "ask", f"#!/bin/sh\ntouch {asked}\necho secret\n")
    program.chmod(0o755)
    write(paths.home / ".gitconfig", f"[core]\naskPass={program}\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Locked)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        with raises(ConfigError, match="git fetch ended with status"):
            await plugins.add(f"http://127.0.0.1:{server.server_port}/a.git")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert vars(server)["asked"] and not asked.exists()
