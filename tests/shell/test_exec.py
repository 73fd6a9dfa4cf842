"""Running a command: the same promises in every backend."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import InvalidArguments, NotFound, OutsideWorkspace, TooLarge
from pegboard.ports.shell import ExecRequest
from pegboard.ports.snapshot import Snapshot, SnapshotChanges
from pegboard.shell.exec import CommandShell
from pegboard.shell.sandbox.confinement import DEFAULT_LIMITS, Bind
from tests.ledger import DATA, owes
from tests.shell.kit import BACKENDS, allow, run, shell_in
from tests.waiting import soon

OURS = os.getpid()
"""In the arguments of what must be gone afterwards, so that no other run's processes are found."""


@pytest.fixture(params=BACKENDS)
async def shell(request: pytest.FixtureRequest, tmp_path: Path) -> CommandShell:
    return await shell_in(tmp_path, request.param)


def _calculated() -> list[pytest.ParameterSet]:
    lines = (DATA / "cases" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        pytest.param(row["calc"]["cmd"], bytes.fromhex(row["calc"]["bytes"]), id=row["id"])
        for row in rows
        if row["theme"] == "5-exec" and row.get("calc", {}).get("kind") == "shell" and "bytes" in row["calc"]
    ]


@owes("exec-10", "exec-18", "exec-27", "C-24")
@pytest.mark.parametrize(("command", "expected"), _calculated())
async def test_the_command_is_passed_on_byte_for_byte(
    shell: CommandShell, command: str, expected: bytes
) -> None:
    outcome = await run(shell, command)

    assert outcome.exit_code == 0
    assert outcome.stdout == expected.decode("utf-8", "replace")


@owes("C-24")
@pytest.mark.parametrize(
    "command",
    [
        'echo "two  spaces" \'"\' "it\'s" "a\\"b"',
        'printf \'%s|\' "$((1 + 1))" "a b" \'$HOME\' "`echo in`"',
        '[[ abc == a* ]] && cat <(echo "bash only")',
    ],
)
async def test_quotes_and_bash_itself_mean_what_they_mean_to_bash(shell: CommandShell, command: str) -> None:
    theirs = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=True)

    outcome = await run(shell, command)

    assert (outcome.exit_code, outcome.stdout) == (0, theirs.stdout)


@owes("exec-15", "X-18", "D-24")
async def test_both_streams_come_back_and_stderr_is_no_failure(shell: CommandShell) -> None:
    outcome = await run(shell, "echo out; echo warn >&2")

    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("out\n", "warn\n", 0)


@owes("exec-16")
@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1), ("test -f nope", 1)])
async def test_a_silent_command_has_its_exit_code(shell: CommandShell, command: str, code: int) -> None:
    assert (await run(shell, command)).exit_code == code


@owes("exec-27")
async def test_a_syntax_error_is_the_shells_own_message_and_status(shell: CommandShell) -> None:
    outcome = await run(shell, "if [ 1 ; then")

    assert outcome.exit_code == 2
    assert "syntax error" in outcome.stderr


@owes("N-65", "D-60", "C-26", "C-29", "exec-04")
async def test_a_timeout_ends_everything_even_what_left_the_group(shell: CommandShell) -> None:
    began = time.monotonic()
    outcome = await run(shell, f"setsid sh -c 'echo in; sleep 71.{OURS}' & sleep 71.{OURS}", timeout_s=0.4)

    assert outcome.timed_out
    assert outcome.stdout == "in\n"
    assert time.monotonic() - began < 5
    await _no_process(f"sleep\x0071.{OURS}")


@owes("exec-02")
async def test_a_background_child_does_not_hang_the_call(shell: CommandShell) -> None:
    began = time.monotonic()
    outcome = await run(shell, f"sleep 72.{OURS} & echo done")

    assert time.monotonic() - began < 3
    assert (outcome.exit_code, outcome.stdout) == (0, "done\n")
    assert any("running" in note for note in outcome.notes)
    await _no_process(f"sleep\x0072.{OURS}")


@owes("exec-03")
@pytest.mark.slow
async def test_a_background_writer_does_not_reach_the_next_call(shell: CommandShell) -> None:
    first = await run(shell, "(while :; do echo tick; sleep 0.05; done) & sleep 0.3; echo FG")
    second = await run(shell, "sleep 0.2; echo clean")

    assert "FG" in first.stdout
    assert second.stdout == "clean\n"


async def test_a_cancelled_call_ends_its_children_first(shell: CommandShell) -> None:
    call = asyncio.ensure_future(run(shell, f"sleep 73.{OURS} & sleep 73.{OURS}"))
    await soon(lambda: len(_with_arguments(f"sleep\x0073.{OURS}")) == 2, "both children run")
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call

    await _no_process(f"sleep\x0073.{OURS}")


@owes("N-62", "C-25", "exec-19")
async def test_each_call_starts_in_the_workspace_or_the_folder_it_names(
    shell: CommandShell, tmp_path: Path
) -> None:
    (tmp_path / "ws" / "sub").mkdir()

    await run(shell, "cd sub && export A=1")
    outcome = await run(shell, "pwd; echo ${A:-unset}")
    below = await run(shell, "pwd", working_dir="sub")

    assert outcome.stdout == f"{tmp_path.resolve()}/ws\nunset\n"
    assert below.stdout == f"{tmp_path.resolve()}/ws/sub\n"


@owes("exec-19")
async def test_a_missing_folder_is_named(shell: CommandShell) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await run(shell, "pwd", working_dir="nowhere")


async def test_input_is_given_and_otherwise_empty(shell: CommandShell) -> None:
    assert (await run(shell, "cat", stdin=b"typed\n")).stdout == "typed\n"
    assert (await run(shell, "cat; echo end")).stdout == "end\n"


@owes("exec-24", "K-34")
async def test_secrets_of_our_environment_do_not_reach_the_command(tmp_path: Path) -> None:
    for backend in BACKENDS:
        host = {**os.environ, "OPENAI_API_KEY": "sk-test", "ANTHROPIC_API_KEY": "x"}
        shell = await shell_in(tmp_path, backend, environment=host)

        outcome = await run(shell, "env; tr '\\0' '\\n' < /proc/$PPID/environ", env={"MINE": "1"})

        assert "MINE=1" in outcome.stdout
        assert "PATH=" in outcome.stdout
        assert "HOME=" in outcome.stdout
        assert "ANTHROPIC_API_KEY" not in outcome.stdout
        if backend == "bubblewrap":
            assert "sk-test" not in outcome.stdout


async def test_a_forbidden_variable_starts_nothing(shell: CommandShell) -> None:
    with pytest.raises(InvalidArguments):
        await run(shell, "touch ran", env={"LD_PRELOAD": "x"})


@owes("exec-06")
@pytest.mark.slow
async def test_git_never_waits_for_an_editor_pager_or_password(shell: CommandShell) -> None:
    setup = "git init -q . && git config user.name n && git config user.email e@x && echo 1 > a && git add a"
    await run(
        shell,
        f"{setup} && git commit -qm one && echo 2 > a && git commit -qam two && echo 3 > b && git add b",
    )

    for command in ("git commit", "git log", "git rebase -i HEAD~1", "git clone https://127.0.0.1:1/x.git"):
        outcome = await run(shell, command, timeout_s=5)

        assert not outcome.timed_out, command
        assert "\x1b" not in outcome.stdout


@owes("exec-28")
@pytest.mark.slow
async def test_a_busy_command_does_not_hold_up_another(shell: CommandShell) -> None:
    busy = asyncio.ensure_future(run(shell, f"sleep 74.{OURS}", timeout_s=60))

    outcome = await run(shell, "echo hi")

    assert outcome.stdout == "hi\n"
    assert not busy.done()
    busy.cancel()
    with pytest.raises(asyncio.CancelledError):
        await busy


@owes("exec-08")
async def test_output_over_the_limit_keeps_both_ends_and_says_how_much_is_gone(shell: CommandShell) -> None:
    outcome = await run(shell, "seq 1 100000", max_output_bytes=2000)

    assert outcome.stdout.startswith("1\n2\n")
    assert outcome.stdout.endswith("99999\n100000\n")
    assert outcome.dropped_bytes == 588_895 - 2000
    assert "586,895 bytes" in outcome.stdout


class _Snapshots:
    """Remembers that it was asked."""

    def __init__(self) -> None:
        self.taken = 0

    async def take(self) -> Snapshot:
        self.taken += 1
        return _Taken()


class _Taken:
    async def changes(self) -> SnapshotChanges:
        change = Change(path="a", kind="create", before=None, after=b"x")
        return SnapshotChanges(changes=ChangeSet((change,)), not_captured=("node_modules is ignored",))

    async def made_since(self) -> tuple[Change, ...]:
        return ()


async def test_the_workspace_is_remembered_before_a_command_that_may_change_it(tmp_path: Path) -> None:
    snapshots = _Snapshots()
    shell = await shell_in(tmp_path, "none", snapshots=snapshots)

    outcome = await run(shell, "echo x > a")
    await run(shell, "cat a", read_only=True)

    assert snapshots.taken == 1
    assert [change.path for change in outcome.changes.changes] == ["a"]
    assert "not undoable: node_modules is ignored" in outcome.notes


async def test_inspection_is_the_guards(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path, "none")

    assert shell.inspect("ls -la") == allow("ls -la")
    assert shell.backend() == "none"
    assert shell.enforced()["network"] is False


async def test_without_a_given_guard_the_shell_guard_judges(tmp_path: Path) -> None:
    shell = CommandShell(tmp_path, environment={})

    assert shell.inspect("ls").read_only
    assert shell.inspect("rm -rf /").decision != "allow"


async def test_a_sandbox_that_cannot_start_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    hidden = tmp_path.resolve() / "ws" / "hidden"
    hidden.mkdir(parents=True)
    shell = await shell_in(tmp_path, confine={"hidden": (hidden,)})
    before = len(os.listdir("/proc/self/fd"))

    closed = await run(shell, "true", working_dir="hidden")

    assert closed.exit_code != 0
    assert "hidden" in closed.stderr
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["../beside", "{}/beside", "link"])
async def test_a_folder_that_the_sandbox_does_not_hold_is_refused_before_anybody_is_asked(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "beside").mkdir()
    shell = await shell_in(tmp_path)
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "beside")

    with pytest.raises(OutsideWorkspace, match="beside") as caught:
        shell.inspect("pwd", working_dir=name.format(tmp_path))

    assert "allowed_dirs" in caught.value.hint


async def test_a_folder_that_is_allowed_beside_the_workspace_can_be_the_working_folder(
    tmp_path: Path,
) -> None:
    beside = tmp_path.resolve() / "beside"
    (beside / "sub").mkdir(parents=True)
    shell = await shell_in(tmp_path, confine={"binds": (Bind(source=beside),)})

    shell.inspect("pwd", working_dir=str(beside / "sub"))
    outcome = await run(shell, "pwd", working_dir=str(beside / "sub"))

    assert outcome.stdout.strip() == str(beside / "sub")


async def test_a_command_that_stops_itself_is_noticed_in_a_moment(shell: CommandShell) -> None:
    before = time.monotonic()

    outcome = await run(shell, "echo so far; kill -STOP $$; echo never")

    assert time.monotonic() - before < 10
    assert outcome.stdout == "so far\n"
    assert outcome.exit_code > 128
    assert not outcome.timed_out
    assert any("stopped by a signal" in note for note in outcome.notes)


@pytest.mark.parametrize("signal", ["STOP", "KILL", "TERM"])
async def test_no_signal_of_a_command_reaches_what_watches_it(tmp_path: Path, signal: str) -> None:
    shell = await shell_in(tmp_path)

    outcome = await run(shell, f"kill -{signal} $PPID; kill -{signal} 1; echo hi; exit 3")

    assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == ("hi\n", 3, False)


async def test_what_is_not_a_place_for_files_takes_none(tmp_path: Path) -> None:
    shell = await shell_in(tmp_path)

    outcome = await run(
        shell,
        "for at in /a /dev/a /run/a /var/a /etc/a /home/a; do echo x > $at; done; df -k --output=size /dev/shm /tmp",
    )

    assert outcome.stderr.count("Read-only file system") == 6
    sizes = [int(line) for line in outcome.stdout.split()[1:]]
    assert all(size <= DEFAULT_LIMITS.file_bytes // 1024 for size in sizes)


@owes("exec-21")
@pytest.mark.slow
@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.full)])
async def test_many_execs_leak_no_process_and_no_descriptor(shell: CommandShell, count: int) -> None:
    await _mixed(shell, 10)
    gc.collect()  # What earlier tests left behind must not be taken for ours, nor its end for room to leak.
    before = len(os.listdir("/proc/self/fd"))
    children = _children()

    await _mixed(shell, count)

    assert len(os.listdir("/proc/self/fd")) - before <= 3
    assert _children() == children
    await _no_process(f"sleep\x0075.{OURS}")


def _children() -> list[str]:
    """Our direct children, zombies included: whoever did not reap them would leave them here."""
    threads = Path("/proc/self/task").iterdir()
    return sorted(" ".join((thread / "children").read_text() for thread in threads).split())


async def _mixed(shell: CommandShell, count: int) -> None:
    """Fifteen of twenty run `true`, four time out, one is cancelled."""
    for number in range(count):
        if number % 20 == 19:
            call = asyncio.ensure_future(shell.run(ExecRequest(command=f"sleep 75.{OURS}")))
            await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        elif number % 5 == 4:
            assert (await run(shell, f"sleep 75.{OURS}", timeout_s=0.05)).timed_out
        else:
            assert (await run(shell, "true")).exit_code == 0


async def _no_process(words: str) -> None:
    """No process has these arguments (joined by zero bytes) any more."""
    await soon(lambda: not _with_arguments(words), f"no process has the arguments {words!r}", within_s=5)


def _with_arguments(words: str) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and _arguments(pid).startswith(words)]


def _arguments(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text(errors="replace")
    except OSError:
        return ""


async def test_a_command_with_a_zero_byte_is_refused_and_the_place_named(shell: CommandShell) -> None:
    with pytest.raises(InvalidArguments, match="NUL byte at character 7"):
        await run(shell, "echo a\0b")


async def test_a_command_longer_than_the_system_takes_says_where_long_text_goes(shell: CommandShell) -> None:
    # Linux: MAX_ARG_STRLEN, 32 pages, is the most that one argument may have (execve(2)).
    with pytest.raises(TooLarge, match="more than the system allows") as caught:
        await run(shell, "echo " + "x" * 3_000_000)

    assert "3,000,0" in caught.value.message
    assert "stdin" in caught.value.hint
