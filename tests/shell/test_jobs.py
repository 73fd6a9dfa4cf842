"""Background commands: one set of promises in every backend."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pegboard.core.effects import Change
from pegboard.core.errors import Conflict, InvalidArguments, NotFound, TooLarge
from pegboard.ports.processes import Process
from pegboard.ports.shell import ExecOutcome, ExecRequest
from pegboard.ports.snapshot import SnapshotChanges
from pegboard.shell.background import BackgroundCommands
from tests.ledger import owes
from tests.shell.kit import BACKENDS, run, shell_in
from tests.waiting import soon

OURS = os.getpid()
"""In the arguments of processes that are looked for: other runs on this machine have theirs."""


class ProtocolSession(BackgroundCommands):
    """Background commands that remember who ended."""

    ended: list[Process]


@pytest.fixture(params=BACKENDS)
async def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProtocolSession]:
    ended: list[Process] = []
    made = ProtocolSession(
        await shell_in(tmp_path, request.param), on_end=ended.append, max_running=4, keep_ended=3
    )
    made.ended = ended
    yield made
    await made.close()


async def start(jobs: BackgroundCommands, command: str, **options: object) -> Process:
    timeout_s = float(options.pop("timeout_s", 0.0))  # type: ignore[arg-type]
    started = await jobs.start(ExecRequest(command=command, timeout_s=timeout_s), **options)
    assert isinstance(started, Process)
    return started


async def to_the_end(jobs: BackgroundCommands, process: Process) -> str:
    """Everything that polling gives until it has ended."""
    text = ""
    deadline = time.monotonic() + 10
    while True:
        output = await jobs.poll(process.process_id, wait_s=1)
        text += output.text
        if output.process.state != "running":
            return text
        assert time.monotonic() < deadline


@owes("exec-23", "K-43", "M-11")
@pytest.mark.slow
async def test_each_line_is_delivered_once_and_stays_readable_after_the_end(jobs: ProtocolSession) -> None:
    process = await start(jobs, "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done; exit 4")

    assert await to_the_end(jobs, process) == "1\n2\n3\n4\n5\n"

    again = await jobs.poll(process.process_id)
    assert (again.text, again.process.exit_code, again.process.state) == ("", 4, "exited")
    assert (await jobs.log(process.process_id, offset=-2)).text == "4\n5"
    assert (await jobs.log(process.process_id, offset=1, limit=2)).text == "2\n3"


@owes("K-46", "exec-23")
async def test_the_end_is_announced_once(jobs: ProtocolSession) -> None:
    process = await start(jobs, "exit 3", description="a build")
    await to_the_end(jobs, process)

    assert [(p.process_id, p.exit_code, p.description) for p in jobs.ended] == [
        (process.process_id, 3, "a build")
    ]


@owes("exec-23")
async def test_an_unknown_id_names_the_known_ones(jobs: ProtocolSession) -> None:
    process = await start(jobs, "sleep 91")

    with pytest.raises(NotFound, match=process.process_id):
        await jobs.poll("p9-none")


@owes("X-21", "K-43")
async def test_input_reaches_the_command_until_its_end(jobs: ProtocolSession) -> None:
    process = await start(jobs, "while read -r line; do echo got $line; done; echo bye")

    await jobs.send(process.process_id, "a\n")
    await jobs.send(process.process_id, "b", keys=("Enter",))
    assert (await jobs.wait_for(process.process_id, "got b", timeout_s=5)).matched
    await jobs.send(process.process_id, end=True)
    text = await to_the_end(jobs, process)

    assert text == "bye\n"
    with pytest.raises(Conflict, match="ended"):
        await jobs.send(process.process_id, "c")


@owes("K-44")
@pytest.mark.slow
async def test_a_terminal_takes_keys_and_looks_like_one(jobs: ProtocolSession) -> None:
    process = await start(jobs, "tty; stty size; exec cat", terminal=True)
    await jobs.wait_for(process.process_id, "40 120", timeout_s=5)

    await jobs.send(process.process_id, "héllo", keys=("Enter",))
    echoed = await jobs.wait_for(process.process_id, "héllo\nhéllo", timeout_s=5)
    await jobs.send(process.process_id, keys=("C-c",))
    await to_the_end(jobs, process)

    assert echoed.matched
    assert jobs.list()[0].exit_code == 130


@owes("K-44")
async def test_a_paste_is_bracketed_on_a_terminal_and_end_of_file_is_a_key(jobs: ProtocolSession) -> None:
    process = await start(jobs, "stty raw -echo; echo ready; head -c 14 | od -An -c", terminal=True)
    await jobs.wait_for(process.process_id, "ready", timeout_s=5)

    await jobs.send(process.process_id, "ab", paste=True)

    text = await to_the_end(jobs, process)
    assert "033   [   2   0   0   ~   a   b 033   [   2   0   1   ~" in text


async def test_a_key_that_does_not_exist_sends_nothing(jobs: ProtocolSession) -> None:
    process = await start(jobs, "cat")

    with pytest.raises(InvalidArguments):
        await jobs.send(process.process_id, keys=("Hyper",))


@owes("K-45")
async def test_waiting_for_text_ends_with_the_text_the_command_or_the_time(jobs: ProtocolSession) -> None:
    process = await start(jobs, "echo up; sleep 92")

    assert (await jobs.wait_for(process.process_id, "up", timeout_s=5)).matched
    assert (await jobs.wait_for(process.process_id, "up", timeout_s=5)).matched
    assert not (await jobs.wait_for(process.process_id, "never", timeout_s=0.1)).matched
    short = await start(jobs, "echo no")
    assert not (await jobs.wait_for(short.process_id, "never", timeout_s=5)).matched


@owes("K-47", "X-21")
async def test_stopping_ends_all_children_and_removing_forgets(jobs: ProtocolSession) -> None:
    process = await start(
        jobs, f"trap '' TERM; setsid sleep 93.{OURS} & echo up; while :; do sleep 93.{OURS}; done"
    )
    await jobs.wait_for(process.process_id, "up", timeout_s=5)

    stopped = await jobs.stop(process.process_id, force=True)
    await jobs.stop(process.process_id, forget=True)

    assert stopped.state == "killed"
    assert jobs.list() == ()
    await _gone(f"sleep\x0093.{OURS}")


async def test_a_polite_stop_lets_the_command_clean_up(tmp_path: Path) -> None:
    jobs = BackgroundCommands(await shell_in(tmp_path, "none"))
    process = await start(jobs, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    await jobs.wait_for(process.process_id, "up", timeout_s=5)

    await jobs.stop(process.process_id)

    assert (await jobs.log(process.process_id)).text.endswith("bye")
    await jobs.close()


@owes("X-20", "M-64")
async def test_a_command_that_ends_in_time_is_an_outcome_and_not_listed(jobs: ProtocolSession) -> None:
    outcome = await jobs.start(ExecRequest(command="echo out; echo err >&2; exit 5"), yield_s=5)

    assert isinstance(outcome, ExecOutcome)
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("out\n", "err\n", 5)
    assert jobs.list() == ()
    assert jobs.ended == []


@owes("X-20", "M-64")
async def test_a_command_that_takes_longer_goes_on_in_the_background(jobs: ProtocolSession) -> None:
    process = await start(jobs, "echo first; sleep 0.2; echo second", yield_s=0.05)

    assert process.state == "running"
    assert await to_the_end(jobs, process) == "first\nsecond\n"


async def test_a_limit_inside_the_wait_is_a_timeout(jobs: ProtocolSession) -> None:
    outcome = await jobs.start(ExecRequest(command="sleep 94", timeout_s=0.1), yield_s=5)

    assert isinstance(outcome, ExecOutcome)
    assert outcome.timed_out


async def test_a_limit_counts_in_the_background_too(jobs: ProtocolSession) -> None:
    process = await start(jobs, "sleep 94", timeout_s=0.2)

    await to_the_end(jobs, process)

    assert jobs.list()[0].state == "killed"
    assert any("limit" in note for note in jobs.list()[0].notes)


@owes("exec-02")
async def test_children_that_outlive_their_command_are_listed(jobs: ProtocolSession, tmp_path: Path) -> None:
    outcome = await jobs.start(ExecRequest(command="(sleep 0.6; echo late; sleep 95) & echo done"), yield_s=5)

    assert isinstance(outcome, ExecOutcome)
    assert outcome.stdout == "done\n"
    (left,) = jobs.list()
    assert any(left.process_id in note for note in outcome.notes)
    assert (await jobs.wait_for(left.process_id, "late", timeout_s=5)).text == "late\n"


async def test_children_that_end_soon_leave_no_entry_running(jobs: ProtocolSession) -> None:
    shell = jobs._shell
    outcome = await run(shell, "sleep 1.5 & echo done")

    assert outcome.stdout == "done\n"
    (left,) = jobs.list()
    await to_the_end(jobs, left)
    assert jobs.list()[0].exit_code == 0


async def test_the_number_at_one_time_is_bounded_and_old_ones_are_forgotten(jobs: ProtocolSession) -> None:
    for _ in range(5):
        await to_the_end(jobs, await start(jobs, "true"))
    assert len(jobs.list()) <= 4
    for _ in range(4):
        await start(jobs, "sleep 96")

    with pytest.raises(TooLarge, match="4 background commands"):
        await start(jobs, "true")

    assert [p.state for p in jobs.list()[:4]] == ["running"] * 4


@owes("K-47")
async def test_the_end_of_the_session_ends_everything(jobs: ProtocolSession) -> None:
    for command in (f"sleep 97.{OURS}", f"setsid sleep 97.{OURS} & wait", f"exec sleep 97.{OURS}"):
        await start(jobs, command)
    before = len(os.listdir("/proc/self/fd"))

    await jobs.close()

    await _gone(f"sleep\x0097.{OURS}")
    assert len(os.listdir("/proc/self/fd")) < before
    assert jobs.ended == []
    with pytest.raises(Conflict, match="session has ended"):
        await start(jobs, "true")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_event_loop_that_ends_takes_forgotten_commands_along(tmp_path: Path, backend: str) -> None:
    async def forgetful() -> None:
        jobs = BackgroundCommands(await shell_in(tmp_path, backend))
        await start(jobs, f"setsid sleep 89.{OURS} & sleep 89.{OURS}")

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(forgetful())
    gc.collect()

    assert len(os.listdir("/proc/self/fd")) <= before
    asyncio.run(_gone(f"sleep\x0089.{OURS}"))


async def test_a_cancelled_start_ends_the_command(jobs: ProtocolSession) -> None:
    call = asyncio.ensure_future(jobs.start(ExecRequest(command=f"sleep 98.{OURS}"), yield_s=30))
    await soon(lambda: _with_arguments(f"sleep\x0098.{OURS}"), "the command runs")
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call

    await _gone(f"sleep\x0098.{OURS}")


async def test_half_a_character_waits_for_the_other_half(jobs: ProtocolSession) -> None:
    process = await start(jobs, r"printf 'a\342\202'; read x; printf '\254\n\033[3'; read x; printf '1mred'")

    first = await jobs.poll(process.process_id, wait_s=5)
    await jobs.send(process.process_id, "\n")
    # The half of the escape sequence came in the same piece as the end of the line.
    second = await jobs.poll(process.process_id, wait_s=5)
    await jobs.send(process.process_id, "\n")
    last = await to_the_end(jobs, process)

    assert (first.text, second.text + last) == ("a", "€\nred")


class _Snapshots:
    async def take(self) -> _Snapshots:
        return self

    async def changes(self) -> SnapshotChanges:
        return SnapshotChanges(not_captured=("a cache",))

    async def made_since(self) -> tuple[Change, ...]:
        return ()


async def test_what_happens_in_the_background_is_said_not_to_be_undoable(tmp_path: Path) -> None:
    jobs = BackgroundCommands(await shell_in(tmp_path, "none", snapshots=_Snapshots()))

    process = await start(jobs, "sleep 99")

    assert [note.partition(":")[0] for note in process.notes] == ["not undoable"] * 2
    await jobs.close()


async def _gone(words: str) -> None:
    await soon(lambda: not _with_arguments(words), f"no process has the arguments {words!r}", within_s=5)


def _with_arguments(words: str) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and _arguments(pid).startswith(words)]


def _arguments(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""


@owes("K-43")
async def test_half_a_character_at_the_end_is_told_once_no_more_can_come(jobs: ProtocolSession) -> None:
    process = await start(jobs, "printf 'a\\342\\202'")

    assert await to_the_end(jobs, process) == "a\ufffd"


@owes("K-44")
async def test_the_end_of_input_on_a_terminal_ends_what_reads_it(jobs: ProtocolSession) -> None:
    process = await start(jobs, "cat; echo over", terminal=True)

    await jobs.send(process.process_id, "x\n", end=True)

    assert (await jobs.wait_for(process.process_id, "over", timeout_s=10)).matched


@owes("K-45")
async def test_text_from_before_the_last_input_is_not_waited_for_twice(jobs: ProtocolSession) -> None:
    process = await start(jobs, "echo up; read x; echo $x; sleep 94")
    assert (await jobs.wait_for(process.process_id, "up", timeout_s=5)).matched

    await jobs.send(process.process_id, "heard\n")

    assert (await jobs.wait_for(process.process_id, "heard", timeout_s=5)).matched
    assert not (await jobs.wait_for(process.process_id, "up", timeout_s=0.1)).matched
