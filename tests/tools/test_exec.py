"""exec as a model calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import get_args

import pytest

from pegboard import Executor, ToolResult, builtin
from pegboard.core.effects import Effect
from pegboard.ports.processes import Process, ProcessOutput
from pegboard.ports.shell import Inspection
from pegboard.shell.background import BackgroundCommands
from pegboard.shell.exec import CommandShell
from pegboard.tools.exec import exec_
from pegboard.tools.process import Action, effects_of_process, process
from tests.ledger import owes
from tests.shell.kit import BACKENDS, shell_in


class Door:
    """An executor over a real shell and its background commands."""

    def __init__(self, shell: CommandShell, *, mode: str = "full") -> None:
        self.jobs = BackgroundCommands(shell)
        self.executor = Executor([exec_, process], mode=mode, provide=[shell, self.jobs])

    async def exec(self, command: str, **arguments: object) -> ToolResult:
        return await self.executor.call("exec", {"command": command, **arguments})

    async def process(self, **arguments: object) -> ToolResult:
        return await self.executor.call("process", arguments)

    async def close(self) -> None:
        await self.jobs.close()


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    made = Door(await shell_in(tmp_path))
    yield made
    await made.close()


@owes("N-66", "exec-15", "X-18", "C-27")
async def test_output_stderr_and_exit_code_stand_in_that_order(door: Door) -> None:
    result = await door.exec("echo out; echo err >&2; exit 3")

    assert result.ok
    assert str(result) == "out\nSTDERR:\nerr\n\nExit code: 3"
    assert result.data["exit_code"] == 3
    assert (result.data["stdout"], result.data["stderr"]) == ("out\n", "err\n")
    assert result.data["timed_out"] is False
    assert result.data["changes"] == []


@owes("exec-16")
async def test_a_silent_command_says_so(door: Door) -> None:
    assert str(await door.exec("true")) == "(no output)\n\nExit code: 0"
    assert str(await door.exec("false")) == "(no output)\n\nExit code: 1"


@owes("N-65", "X-18", "N-44", "D-23")
async def test_a_timeout_is_a_failed_call_with_the_output_so_far(door: Door) -> None:
    result = await door.exec("echo begun; sleep 90", timeout=0.3)

    assert not result.ok
    assert result.error is not None
    assert result.error.code == "timeout"
    assert "0.3 seconds" in str(result)
    assert "begun" in str(result)


@owes("X-17", "M-08")
async def test_milliseconds_have_their_own_name(door: Door) -> None:
    result = await door.exec("sleep 90", timeout_ms=200)

    assert "0.2 seconds" in str(result)


@owes("X-17")
@pytest.mark.parametrize("timeout", [0, -1, 601, 300_000])
async def test_a_timeout_out_of_range_is_refused_and_never_guessed(door: Door, timeout: int) -> None:
    result = await door.exec("true", timeout=timeout)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"


@owes("C-20", "N-45", "N-62", "M-09", "X-20")
async def test_other_spellings_of_arguments_are_accepted(door: Door, tmp_path: Path) -> None:
    (tmp_path / "ws" / "sub").mkdir()
    for name in ("working_dir", "workingDir", "cwd"):
        result = await door.executor.call("exec", {"cmd": "pwd", name: "sub"})
        assert result.data["stdout"].endswith("/ws/sub\n")

    result = await door.exec("sleep 90", run_in_background=True)

    assert result.data["process_id"]


@owes("M-07", "M-10")
async def test_a_description_is_shown_in_the_list(door: Door) -> None:
    await door.exec("sleep 90", background=True, description="dev server")

    assert "(dev server)" in str(await door.process())


@owes("X-20", "M-64")
async def test_a_long_command_goes_on_in_the_background_and_is_followed_there(door: Door) -> None:
    result = await door.exec("echo a; sleep 0.3; echo b", yield_ms=50)

    assert "Still running after 0.05 seconds" in str(result)
    name = result.data["process_id"]
    waited = await door.process(action="wait_for", task_id=name, text="b", timeout=5)
    assert waited.data["matched"] is True
    assert result.data["stdout"] + waited.data["output"] == "a\nb\n"


@owes("X-20")
async def test_without_background_commands_it_waits_to_the_end(tmp_path: Path) -> None:
    result = await exec_("sleep 0.2; echo end", yield_ms=10, shell=await shell_in(tmp_path))

    assert result.data["stdout"] == "end\n"


@pytest.mark.parametrize("sent", [{"yield_ms": 10}, {"background": True}], ids=str)
async def test_a_kit_without_process_waits_for_the_command(tmp_path: Path, sent: dict[str, object]) -> None:
    async with Executor(builtin("exec"), workspace=tmp_path, mode="full") as executor:
        result = await executor.call("exec", {"command": "sleep 0.2; echo end", **sent})
        late = await executor.call("exec", {"command": "sleep 30", "timeout": 0.2})

    assert result.data["stdout"] == "end\n"
    assert late.error is not None
    assert "process" not in late.error.hint


async def test_an_executor_that_ends_says_which_commands_it_ended(tmp_path: Path) -> None:
    said: list[str] = []
    async with Executor(builtin("exec", "process"), workspace=tmp_path, mode="full") as executor:
        executor.on_warning = said.append
        running = await executor.call("exec", {"command": "sleep 90", "yield_ms": 10})
        ended = await executor.call("exec", {"command": "true", "background": True})
        await executor.call(
            "process", {"action": "wait_for", "process_id": ended.data["process_id"], "text": "-"}
        )

    assert [running.data["process_id"] in line and "sleep 90" in line for line in said] == [True]


def test_the_schema_names_the_defaults_that_change_what_happens() -> None:
    function = builtin("exec").schemas("openai-chat")[0]["function"]
    properties = function["parameters"]["properties"]

    assert "5 seconds" in function["description"]
    assert "default 5000" in properties["yield_ms"]["description"]
    assert "default 60" in properties["timeout"]["description"]


async def test_input_and_variables_are_passed(door: Door) -> None:
    result = await door.exec("cat; echo $A", stdin="typed\n", env={"A": "1"})

    assert result.data["stdout"] == "typed\n1\n"


async def test_a_variable_that_would_load_code_is_refused(door: Door) -> None:
    result = await door.exec("true", env={"LD_PRELOAD": "/x.so"})

    assert result.error is not None
    assert result.error.code == "invalid_arguments"


@owes("exec-02")
async def test_a_child_left_behind_is_named(door: Door) -> None:
    result = await door.exec("sleep 90 & echo done")

    (left,) = (await door.process()).data["processes"]
    assert left["process_id"] in str(result)


@owes("N-63")
async def test_a_command_that_the_guard_denies_is_not_started(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)
    denied = Effect("exec", "rm", argv=("rm",), at_least="deny", reason="it deletes everything")
    shell._guard = lambda command, working_dir=None: Inspection(
        effects=(denied,), decision="deny", reason="", read_only=False
    )
    door = Door(shell)

    result = await door.exec("touch ran")

    assert result.error is not None
    assert result.error.code == "permission_denied"
    assert not (tmp_path / "ws" / "ran").exists()


@owes("G-18")
async def test_named_hosts_are_effects_that_the_policy_sees(door: Door) -> None:
    preview = await door.executor.preview("exec", {"command": "curl x", "hosts": ["packages.example"]})

    assert [(e.kind, e.target) for e in preview.effects] == [
        ("exec", "curl x"),
        ("connect", "packages.example"),
    ]


async def test_without_a_sandbox_every_command_asks(tmp_path: Path) -> None:
    door = Door(await shell_in(tmp_path, "none"), mode="workspace")

    preview = await door.executor.preview("exec", {"command": "ls"})

    assert preview.decision == "ask"


@owes("K-43", "X-21", "M-11")
async def test_process_feeds_shows_and_ends(door: Door) -> None:
    started = await door.exec("cat", background=True)
    name = started.data["process_id"]

    await door.process(action="write", process_id=name, text="one\n")
    await door.process(action="submit", session_id=name, text="two")
    await door.process(action="paste", process_id=name, text="three")
    await door.process(action="send_keys", process_id=name, keys=["Enter"])
    await door.process(action="wait_for", process_id=name, text="three", timeout=5)
    log = await door.process(action="log", process_id=name)
    quiet = await door.process(action="poll", process_id=name)
    killed = await door.process(action="kill", process_id=name)
    removed = await door.process(action="remove", process_id=name)

    assert log.data["output"] == "one\ntwo\nthree"
    assert str(quiet).startswith("(no new output)")
    assert killed.data["state"] == "killed"
    assert removed.ok
    assert str(await door.process()) == "No background commands."


async def test_process_without_an_id_says_how_to_find_one(door: Door) -> None:
    result = await door.process(action="poll")

    assert result.error is not None
    assert "action list" in str(result)


async def test_a_wait_that_fails_says_why(door: Door) -> None:
    started = await door.exec("sleep 0.1", background=True)
    name = started.data["process_id"]

    early = await door.process(action="wait_for", process_id=name, text="never", timeout=0.01)
    late = await door.process(action="wait_for", process_id=name, text="never", timeout=5)

    assert "within 0.01 s" in str(early)
    assert "before it ended" in str(late)


async def test_several_commands_run_at_once(door: Door) -> None:
    results = await asyncio.gather(*(door.exec(f"sleep 0.1; echo {n}") for n in range(5)))

    assert [result.data["stdout"] for result in results] == [f"{n}\n" for n in range(5)]


@owes("X-21", "X-18")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("signal", "status"), [("TERM", "143 (SIGTERM)"), ("KILL", "137 (SIGKILL)")])
async def test_a_signal_gives_the_status_of_a_shell_in_front_and_in_the_background(
    backend: str, signal: str, status: str, tmp_path: Path
) -> None:
    # Numbers as POSIX sh 2.8.2 and bash give them: 128 + the signal's.
    door = Door(await shell_in(tmp_path, backend))
    try:
        front = await door.exec(f"kill -{signal} $$")
        started = await door.exec(f"kill -{signal} $$", background=True)
        await door.process(action="wait_for", process_id=started.data["process_id"], text="never", timeout=20)
        listed = await door.process(action="list")
    finally:
        await door.close()

    assert str(front).endswith(f"Exit code: {status}")
    assert f"exited, exit code {status}" in str(listed)
    assert front.data["exit_code"] == listed.data["processes"][0]["exit_code"]


@owes("X-21")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_command_that_is_stopped_has_the_status_of_the_signal(backend: str, tmp_path: Path) -> None:
    door = Door(await shell_in(tmp_path, backend))
    try:
        started = await door.exec("exec sleep 60", background=True)
        stopped = await door.process(action="kill", process_id=started.data["process_id"])
    finally:
        await door.close()

    assert stopped.data["exit_code"] == 143
    assert "killed, exit code 143 (SIGTERM)" in str(stopped)


class Noted:
    """Background commands of nobody: what the tool asks of the port."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.process = Process(
            process_id="p1", command="x", description="", state="running", exit_code=None, started=0.0, duration_s=0.0,
            output_bytes=0, terminal=True, pid=1,
        )  # fmt: skip

    async def send(
        self,
        process_id: str,
        text: str = "",
        *,
        keys: Sequence[str] = (),
        paste: bool = False,
        end: bool = False,
    ) -> Process:
        self.calls.append((text, tuple(keys), paste, end))
        return self.process

    async def wait_for(self, process_id: str, text: str, *, timeout_s: float = 0.0) -> ProcessOutput:
        self.calls.append((text, timeout_s))
        return ProcessOutput(process=self.process, text="")


@owes("X-21")
@pytest.mark.parametrize(("arguments", "asked"), [
    ({"action": "write", "text": "a"}, ("a", (), False, False)), ({"action": "submit", "text": "a"}, ("a", ("Enter",), False, False)),
    ({"action": "paste", "text": "a"}, ("a", (), True, False)), ({"action": "send_keys", "keys": ["C-c", "Up"]}, ("", ("C-c", "Up"), False, False)),
    ({"action": "wait_for", "text": "a"}, ("a", 30.0)), ({"action": "wait_for", "text": "a", "timeout": 0}, ("a", 0)),
])  # fmt: skip
async def test_each_action_of_process_asks_for_what_it_says(
    arguments: dict[str, object], asked: tuple[object, ...]
) -> None:
    jobs = Noted()

    await process(**arguments, process_id="p1", jobs=jobs)  # type: ignore[arg-type]

    assert jobs.calls == [asked]


@owes("X-21")
def test_what_reaches_a_command_is_control_of_it_and_looking_is_free() -> None:
    told = {
        a: [str(e) for e in effects_of_process({"action": a, "process_id": "p1"})] for a in get_args(Action)
    }

    free = {"list", "poll", "output", "log", "wait_for"}
    assert {a for a, effects in told.items() if not effects} == free
    assert all(told[a] == [f"control process:p1:{a}"] for a in told if a not in free)
