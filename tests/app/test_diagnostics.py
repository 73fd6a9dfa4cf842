"""What a write broke, through whole calls: every tool, code mode, the record, settings and confinement."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, Executor, builtin
from pegboard.app.app import App
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.core.call.call import WriteReport
from pegboard.core.errors import ConfigError
from pegboard.core.events import CallFinished, MemoryRecorder
from pegboard.models import ScriptedModel
from tests.lsp.kit import FAKE
from tests.waiting import until

SAID = "a.py:1:7: error: SyntaxError: invalid syntax"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


def settings(own_home: Path, text: str) -> Path:
    file = own_home / ".config/pegboard/pegboard.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def fake(own_home: Path, *behaviour: str) -> None:
    """Settings with the fake server for toys; its program must be visible inside, so it lies on PATH."""
    folder = own_home / "tools"
    folder.mkdir()
    program = folder / "toy-server"
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(0o755)
    words = json.dumps(["toy-server", *behaviour])
    bases = json.dumps([str(folder), str(Path(sys.executable).parent)])
    settings(own_home, f'path_prepend = {bases}\n[diagnostics.files]\n"*.toy" = {{ server = {words} }}\n')


# -- every way to write ---------------------------------------------------------------------------

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+def f(:\n*** End Patch\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "a.py", "content": "def f(:\n"}),
        ("edit_file", {"path": "a.py", "old_string": "x = 1", "new_string": "def f(:"}),
        ("apply_patch", {"patch": PATCH}),
    ],
)
async def test_every_tool_that_writes_says_what_it_broke(
    tool: str, arguments: dict[str, Any], work: Path
) -> None:
    (work / "a.py").write_text("x = 1\n")
    async with Executor(builtin(tool), workspace=work) as executor:
        result = await executor.call(tool, arguments)

    done, said = str(result).split("\n\n[The write is done. It brought 1 new problem:]\n")
    assert done.startswith("Successfully")
    assert said.startswith(SAID)
    assert result.ok
    assert result.notes.extra["diagnostics"]["new"][0]["line"] == 1


@pytest.mark.parametrize(
    ("profile", "tool", "arguments"),
    [
        ("claude-code", "Write", {"file_path": "a.py", "content": "def f(:\n"}),
        ("nanobot", "edit_file", {"path": "a.py", "old_text": "x = 1", "new_text": "def f(:"}),
        ("moltbot", "write", {"path": "a.py", "content": "def f(:\n"}),
    ],
)
async def test_a_tool_under_another_systems_name_says_it_too(
    profile: str, tool: str, arguments: dict[str, Any], work: Path
) -> None:
    (work / "a.py").write_text("x = 1\n")
    arguments = {k: str(work / v) if k == "file_path" else v for k, v in arguments.items()}
    async with Executor(builtin("write_file", "edit_file").profile(profile), workspace=work) as executor:
        result = await executor.call(tool, arguments)

    assert SAID in str(result)


async def test_a_write_that_fails_or_only_previews_is_not_checked(work: Path) -> None:
    (work / "a.py").write_text("x = 1\n")
    async with Executor(builtin("write_file"), workspace=work, mode="read-only") as executor:
        refused = await executor.call("write_file", {"path": "a.py", "content": "def f(:\n"})
        preview = await executor.preview("write_file", {"path": "a.py", "content": "def f(:\n"})

    assert not refused.ok
    assert "SyntaxError" not in str(refused) + str(preview)
    assert "diagnostics" not in refused.notes.extra


async def test_a_program_says_once_at_its_end_what_its_writes_broke(work: Path) -> None:
    code = """
await write_file("a.py", "def f(:")
await write_file("b.py", "def g(:")
await write_file("b.py", "x = 1")
await write_file("a.py", "def f(::")
"""
    recorder = MemoryRecorder()
    async with Executor(builtin("write_file", "run_code"), workspace=work, recorder=recorder) as executor:
        result = await executor.call("run_code", {"code": code})

    finished = [e.result for e in recorder.events if isinstance(e, CallFinished)]
    assert str(result).count("SyntaxError") == 1
    assert SAID in str(result)
    assert [r.tool for r in finished if "diagnostics" in r.notes.extra] == ["run_code"]


async def test_the_model_and_the_record_have_it(work: Path) -> None:
    model = ScriptedModel([
        {"calls": [{"name": "write_file", "arguments": {"path": "a.py", "content": "def f(:\n"}}]},
        {"text": "done"},
    ])  # fmt: skip
    agent = Agent(tools=[builtin("write_file")], model=model, workspace=work)

    answer = await agent.run("write it")

    (finished,) = [e for e in answer.events if isinstance(e, CallFinished)]
    assert SAID in str(model.requests[1].messages)
    assert finished.result.notes.extra["diagnostics"]["new"][0]["path"] == "a.py"


class Breaking:
    async def check(self, changes: Any) -> WriteReport | None:
        raise RuntimeError("a defect of a checker")


async def test_a_check_that_breaks_leaves_the_write_as_it_is(work: Path) -> None:
    async with Executor(builtin("write_file"), workspace=work) as executor:
        executor.pipeline.parts.write_checks = Breaking()
        result = await executor.call("write_file", {"path": "a.py", "content": "x = 1\n"})

    assert result.ok
    assert str(result).endswith("\n[not checked: RuntimeError]")
    assert (work / "a.py").read_text() == "x = 1\n"


async def test_a_secret_in_a_message_is_taken_out(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-proj-Zq8vR2mT5xK1nW7yB4cD9fG3hJ6lP0sA"
    monkeypatch.setenv("OPENAI_API_KEY", secret)

    class Telling:
        async def check(self, changes: Any) -> WriteReport | None:
            return WriteReport(text=f"[it is {secret}]", data={"new": [secret]})

    async with Executor(builtin("write_file"), workspace=work) as executor:
        executor.pipeline.parts.write_checks = Telling()
        result = await executor.call("write_file", {"path": "a.py", "content": "x = 1\n"})

    assert secret not in json.dumps(result.to_dict())


# -- settings -------------------------------------------------------------------------------------


async def test_it_can_be_turned_off(own_home: Path, work: Path) -> None:
    settings(own_home, "[diagnostics]\nenabled = false\n")
    with App.open(workspace=work) as app:
        async with app.executor() as executor:
            result = await executor.call("write_file", {"path": "a.py", "content": "def f(:\n"})

    assert result.ok
    assert "SyntaxError" not in str(result)


def test_a_project_that_is_not_trusted_starts_no_checker(own_home: Path, work: Path) -> None:
    (work / "pegboard.toml").write_text('[diagnostics]\nenabled = false\n[diagnostics.files]\n"*" = "ruff"\n')

    config = load_config(Paths.of(), work)

    assert config.diagnostics.files == {}
    assert config.diagnostics.enabled
    assert any("'diagnostics' is ignored until you run: pegboard trust" in line for line in config.ignored)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[diagnostics]\nenable = true\n", "unknown key diagnostics.enable"),
        (
            '[diagnostics.files]\n"*.py" = "pyrigth"\n',
            "'pyrigth' is not the name of a known checker",
        ),
        ('[diagnostics.files]\n"*.py" = { command = [] }\n', "names no program"),
        (
            '[diagnostics.files]\n"*.py" = { command = ["a"], server = ["a"] }\n',
            "needs either command or server",
        ),
        ('[diagnostics.files]\n"[z-a]" = "ruff"\n', "is not a pattern of file names"),
        (
            '[diagnostics.files]\n"*.a" = { command = ["lint", "a"] }\n"*.b" = { command = ["lint", "b"] }\n',
            "starts lint in two ways",
        ),
    ],
)
def test_a_wrong_setting_is_named(own_home: Path, work: Path, text: str, says: str) -> None:
    settings(own_home, text)

    with pytest.raises(ConfigError) as caught:
        load_config(Paths.of(), work)

    assert says in str(caught.value)


def test_nothing_is_loaded_before_a_file_changes_that_something_looks_at(work: Path) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from pegboard import Executor, builtin
async def main():
    async with Executor(builtin("write_file"), workspace=Path(sys.argv[1])) as executor:
        await executor.call("write_file", {"path": "a.txt", "content": "def f(:"})
        before = [m for m in sys.modules if m.startswith("pegboard.lsp")]
        await executor.call("write_file", {"path": "a.py", "content": "def f(:"})
        print(before, "pegboard.lsp.checks" in sys.modules, "pegboard.shell.programs" in sys.modules)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(work)], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[] True False\n"


# -- confinement ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sandbox", "reached"),
    [("auto", "nothing"), ("none", "workspace written, connected, file read")],
    ids=["sandbox", "none"],
)
async def test_a_server_has_no_network_and_reads_and_writes_nothing_outside_its_sandbox(
    sandbox: str, reached: str, own_home: Path, work: Path
) -> None:
    (own_home / "private.txt").write_text("private")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fake(own_home, "try", f"port={listening.getsockname()[1]}", f"file={own_home}/private.txt")
        file = own_home / ".config/pegboard/pegboard.toml"
        file.write_text(f'sandbox = "{sandbox}"\n{file.read_text()}')
        with App.open(workspace=work) as app:
            async with app.executor() as executor:
                result = await checked(executor, "a.toy", "BAD one\n")

    assert f"a.toy:1:1: error: {reached} (toy-server bad)" in result


async def checked(executor: Executor, path: str, content: str) -> str:
    """What is said of a write, with the next one where the machine is too busy to say it at once."""
    said = str(await executor.call("write_file", {"path": path, "content": content}))
    for n in range(60):
        if "still checking" not in said:
            break
        said = str(await executor.call("write_file", {"path": "later.toy", "content": f"{n}\n"}))
    return said


async def test_a_confined_server_says_what_a_write_broke(own_home: Path, work: Path) -> None:
    fake(own_home)
    (work / "a.toy").write_text("BAD old\n")
    with App.open(workspace=work) as app:
        async with app.executor() as executor:
            executor.pipeline.parts.write_checks._settings
            first = await executor.call("write_file", {"path": "a.toy", "content": "BAD old\nBAD new\n"})
            for n in range(30):
                if "still checking" not in str(first):
                    break
                first = await executor.call("write_file", {"path": "b.toy", "content": f"{n}\n"})

    assert "a.toy:2:1: error: new (toy-server bad)" in str(first)
    assert "old" not in str(first).partition("[The write")[2]


def test_no_server_outlives_a_process_that_is_killed(own_home: Path, work: Path, tmp_path: Path) -> None:
    fake(own_home, f"alive={tmp_path.name}")
    script = """
import asyncio, sys
from pathlib import Path
from pegboard.app.app import App
async def main():
    with App.open(workspace=Path(sys.argv[1])) as app:
        async with app.executor() as executor:
            await executor.call("write_file", {"path": "a.toy", "content": "BAD one"})
            print("written", flush=True)
            await asyncio.Event().wait()
asyncio.run(main())
"""

    def servers() -> list[str]:
        found: list[str] = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if f"alive={tmp_path.name}".encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                        found.append(name)
                except OSError:
                    continue
        return found

    parent = subprocess.Popen([sys.executable, "-c", script, str(work)], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "written\n"
        until(servers, "the server runs")
        parent.send_signal(signal.SIGKILL)
        parent.wait()

        until(lambda: not servers(), "the server has ended")
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()
