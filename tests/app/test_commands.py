"""Commands through the whole of the app: guard, confinement, snapshots and ending."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from pegboard import Agent, Policy, Rule, ToolCall, builtin
from pegboard.app.app import App
from pegboard.app.executor import Executor
from pegboard.app.shell import JournalSnapshots, choose_backend, locale_charsets
from pegboard.app.wiring import Wiring
from pegboard.config.load import Config
from pegboard.config.paths import Paths
from pegboard.config.sandbox import SandboxSettings
from pegboard.core.events import CallStarted, DestinationTried, MemoryRecorder
from pegboard.core.policy.approval import AllowOnce
from pegboard.files.journal import Journal
from pegboard.models import ScriptedModel
from pegboard.ports.shell import ExecOutcome, ExecRequest, Shell
from pegboard.process.limits import MIB, ResourceLimits
from pegboard.services.runtime import Interaction
from pegboard.shell.exec import CommandShell
from tests.ledger import owes
from tests.net.tls import TestAuthority
from tests.waiting import soon


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


@pytest.mark.slow
@owes("G-01")
async def test_a_command_runs_confined_and_what_it_changed_is_its_change(folder: Path) -> None:
    async with Executor(builtin("exec", "process"), workspace=folder, mode="full") as door:
        result = await door.call("exec", {"command": "echo hi > new.txt"})
        assert door.policy.sandboxed is (door.wiring.banner == "" or "no sandbox" not in door.wiring.banner)

    assert result.ok, str(result)
    assert (folder / "new.txt").read_text() == "hi\n"
    assert [c["path"] for c in result.data["changes"]] == ["new.txt"]


def running(mark: str) -> list[str]:
    """Command lines of live processes that hold `mark`."""
    out: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if mark in line and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    out.append(line)
            except OSError:
                continue
    return out


@pytest.mark.slow
@owes("K-15")
async def test_a_cancelled_run_leaves_no_process_behind(folder: Path) -> None:
    # Its own: the same test may run elsewhere on this machine, and would be seen here.
    mark = f"271.{os.getpid()}{time.monotonic_ns()}"
    model = ScriptedModel([{"calls": [{"name": "exec", "arguments": {"command": f"sleep {mark}"}}]}])
    agent = Agent(model=model, tools=[builtin("exec")], workspace=folder, mode="full")
    recorder = MemoryRecorder(keep=None)
    work = asyncio.ensure_future(agent.run("sleep", recorder=recorder))
    await soon(lambda: running(f"sleep {mark}") or work.done(), "the command has begun")
    assert not work.done(), work.result()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    await soon(lambda: not running(f"sleep {mark}"), "the command is gone")
    assert any(isinstance(e, CallStarted) for e in recorder.events)
    await agent.aclose()


@pytest.mark.slow
def test_paths_that_rules_deny_are_masked_inside_for_home_rules_too(folder: Path, own_home: Path) -> None:
    (own_home / "private").mkdir()
    rules = ["deny read:~/private", "deny write:/etc/motd", "deny write:src/gen", "deny read:*.pem"]
    wiring = Wiring.of(builtin("exec").without("exec"), policy=Policy(rules=tuple(map(Rule.parse, rules))))

    choice = choose_backend(wiring.policy, folder, Paths.of(), Config(), backend="none")

    assert choice.backend.name == "none"


async def test_a_snapshot_outside_a_call_still_finds_the_changes(folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_text("1")
    snapshot = await JournalSnapshots(folder, Journal(tmp_path / "journal")).take()
    (folder / "a").write_text("22")
    (folder / "b").write_text("new")

    captured = await snapshot.changes()

    assert sorted((c.path, c.kind) for c in captured.changes.changes) == [("a", "modify"), ("b", "create")]


async def test_the_executor_explains_previews_turns_and_keeps_events(folder: Path) -> None:
    door = Executor(builtin("read_file"), workspace=folder, policy=["deny read:*.pem"])

    assert (await door.explain("read_file", {"path": "k.pem"}))["decision"] == "deny"
    assert "error" in await door.explain("read_file", {})
    assert (await door.preview("read_file", {"path": "k.pem"})).decision == "deny"
    results = await door.turn([ToolCall("1", "read_file", {"path": "k.pem"})])
    assert [r.ok for r in results] == [False]
    assert [e.type for e in door.events] == ["call.started", "call.finished"]
    await door.aclose()


class _Echo(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("X-Key", ""))
        body = f"you said {self.headers.get('X-Key')}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.slow
@owes("G-18", "G-11")
async def test_a_command_gets_a_place_holder_the_bound_host_the_value_and_the_stream_every_destination(
    tmp_path: Path, folder: Path
) -> None:
    value = "s3cret-value-0123456789"
    (tmp_path / "token").write_text(value)
    (tmp_path / "token").chmod(0o600)
    home = Paths(
        config=tmp_path / "c", state=tmp_path / "s", cache=tmp_path / "k", data=tmp_path / "d", home=tmp_path
    )
    home.config.mkdir()
    (home.config / "pegboard.toml").write_text(
        f'[secrets.tok]\nfrom = "file:{tmp_path}/token"\nhosts = ["api.example:*"]\n'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://api.example:{server.server_port}/"
    call = {"command": f'curl -s -H "X-Key: $K" {at}; curl -s http://other.example/ >/dev/null; printf %s "$K"',
            "env": {"K": "secret://tok"}, "hosts": ["api.example"]}  # fmt: skip

    async def loopback(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with App.open(workspace=folder, mode="full", paths=home) as app:
        async with (
            app.history.log("cli") as log,
            app.executor(Interaction(approver=AllowOnce()), recorder=log) as door,
        ):
            shell = door.wiring.provided.find(Shell)
            assert isinstance(shell, CommandShell)
            shell.egress_allow, shell.resolve = ("api.example",), loopback
            result = await door.call("exec", call)
            unbound = await door.call("exec", {**call, "hosts": ["other.example"], "command": "echo $K"})
        events = await app.history.events("cli")
        stored = b"".join(e.body or b"" for e in await app.store.read("cli"))
    server.shutdown()
    server.server_close()

    assert result.ok, str(result)
    assert _Echo.seen == [value]
    first, held = (
        result.data["stdout"].removeprefix("you said ")[: len(value)],
        result.data["stdout"][-len(value) :],
    )
    assert first == held != value
    assert value not in str(result) and value.encode() not in stored
    tried = [e for e in events if isinstance(e, DestinationTried)]
    assert [(e.host, e.allowed, e.secrets, e.tool) for e in tried] == [
        ("api.example", True, ("tok",), "exec"),
        ("other.example", False, (), "exec"),
    ]
    assert {e.call_id for e in tried} == {result.call_id}
    assert unbound.error is not None and "not among the destinations" in unbound.error.message


@pytest.mark.slow
@owes("G-18", "G-11")
async def test_a_secret_works_over_https_with_an_authority_of_the_settings(
    tmp_path: Path, folder: Path
) -> None:
    value = "s3cret-value-0123456789"
    (tmp_path / "token").write_text(value)
    (tmp_path / "token").chmod(0o600)
    home = Paths(
        config=tmp_path / "c", state=tmp_path / "s", cache=tmp_path / "k", data=tmp_path / "d", home=tmp_path
    )
    home.config.mkdir()
    authority = TestAuthority(home.config)
    (home.config / "pegboard.toml").write_text(
        f'[secrets.tok]\nfrom = "file:{tmp_path}/token"\nhosts = ["api.example:*"]\n'
        '[sandbox]\nca_file = "ca.pem"\n[network]\nallow_cidrs = ["127.0.0.0/8"]\n'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    server.socket = authority.server("api.example").wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"api.example:{server.server_port}"

    async def loopback(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    _Echo.seen.clear()
    with App.open(workspace=folder, mode="full", paths=home) as app:
        async with (
            app.history.log("cli") as log,
            app.executor(Interaction(approver=AllowOnce()), recorder=log) as door,
        ):
            shell = door.wiring.provided.find(Shell)
            assert isinstance(shell, CommandShell)
            shell.resolve = loopback
            result = await door.call(
                "exec", {"command": f'curl -sS -H "X-Key: secret://tok" https://{host}/', "hosts": [host]}
            )
        events = await app.history.events("cli")
    server.shutdown()
    server.server_close()

    assert result.ok, str(result)
    assert _Echo.seen == [value] and value not in str(result)
    assert result.data["stdout"].startswith("you said ") and len(result.data["stdout"]) == 9 + len(value)
    tried = [e for e in events if isinstance(e, DestinationTried)]
    assert [(e.allowed, e.secrets) for e in tried] == [(True, ()), (True, ("tok",))]


def test_the_charset_of_the_locale_is_tried_where_it_is_not_utf_8() -> None:
    assert locale_charsets({"LANG": "de_DE.ISO-8859-15@euro"}) == ("iso8859-15",)
    assert locale_charsets({"LANG": "de_DE.ISO-8859-1", "LC_ALL": "C.UTF-8"}) == ()
    assert locale_charsets({"LANG": "ja_JP.eucJP"}) == ("euc_jp",)
    assert locale_charsets({"LANG": "xx.nonsense"}) == () == locale_charsets({})


@owes("D-59", "X-44")
def test_the_limits_and_folders_of_the_settings_hold_in_the_sandbox(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "f").write_text("beside\n")
    config = Config(
        read_only_dirs=(str(beside), "/"),
        confinement=SandboxSettings(limits=ResourceLimits(file_bytes=MIB, open_files=64)),
        require_sandbox=True,
    )
    root = tmp_path / "ws"
    root.mkdir()
    choice = choose_backend(Policy(), root, Paths.of({"HOME": str(tmp_path / "home")}), config)
    shell = CommandShell(root, backend=choice.backend, environment={"PATH": "/usr/bin:/bin"})

    async def work() -> ExecOutcome:
        command = f"ulimit -n; head -c 3M /dev/zero > big; stat -c %s big; cat {beside}/f; echo x > {beside}/f; ls /root"
        return await shell.run(ExecRequest(command=command))

    outcome = asyncio.run(work())

    assert outcome.stdout == "64\n1048576\nbeside\n"
    assert "Read-only file system" in outcome.stderr
    assert (beside / "f").read_text() == "beside\n"


async def test_what_a_command_changed_is_undone_where_no_tool_works_on_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("before\n")
    async with Executor(builtin("exec"), workspace=tmp_path) as executor:
        assert (await executor.call("exec", {"command": "echo after > a.txt"})).ok
        await executor.undo()
    assert (tmp_path / "a.txt").read_text() == "before\n"
