"""Child: bounded capture, deadlines, and the end of everything that was started."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pegboard.process.child import (
    Child,
    Spawn,
    Streams,
    descendants,
    find_marked,
    group_runs,
    is_zombie,
    kill_group,
    run_small,
)
from pegboard.process.output import HeadTailBuffer
from tests.ledger import owes
from tests.waiting import soon

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@asynccontextmanager
async def started(
    command: str, **options: object
) -> AsyncIterator[tuple[Child, HeadTailBuffer, HeadTailBuffer]]:
    out, err = HeadTailBuffer(100_000), HeadTailBuffer(100_000)
    child = await Child.start(
        Spawn(argv=("bash", "-c", command), env=ENV), Streams(stdout=out, stderr=err, **options)
    )
    try:
        yield child, out, err
    finally:
        await child.kill()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_output_status_and_both_streams_come_back() -> None:
    async with started("echo out; echo err >&2; exit 7") as (child, out, err):
        assert await child.wait(10)
        assert await child.wait_drained(10)

        assert child.exit_code == 7
        assert b"".join(out.parts()) == b"out\n"
        assert b"".join(err.parts()) == b"err\n"


async def test_a_signal_is_a_negative_status() -> None:
    async with started("kill -TERM $$") as (child, _, _err):
        await child.wait(10)

        assert child.exit_code == 128 + signal.SIGTERM


async def test_input_larger_than_a_pipe_arrives_whole() -> None:
    data = os.urandom(1_000_000)
    async with started("sha256sum; wc -c", stdin=data) as (child, out, _):
        assert await child.wait(10)
        await child.wait_drained(10)

        import hashlib

        assert b"".join(out.parts()).split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_a_command_that_ignores_its_input_does_not_break_us() -> None:
    async with started("exec <&-; echo done", stdin=b"x" * 1_000_000) as (child, out, _):
        assert await child.wait(10)
        await child.wait_drained(10)

        assert b"".join(out.parts()) == b"done\n"


async def test_a_missing_program_is_an_os_error_and_leaks_nothing() -> None:
    before = descriptors()

    with pytest.raises(FileNotFoundError):
        await Child.start(
            Spawn(argv=("/no/such/program",), env=ENV),
            Streams(stdout=HeadTailBuffer(10), stderr=HeadTailBuffer(10), stdin=b""),
        )

    assert descriptors() == before


async def test_a_child_that_holds_the_output_is_seen_and_can_be_left() -> None:
    async with started("sleep 60 & echo done") as (child, out, _):
        assert await child.wait(5)

        assert not await child.wait_drained(0.05)
        assert child.lingers
        assert b"".join(out.parts()) == b"done\n"


@owes("D-60", "K-47", "exec-04")
async def test_killing_reaches_children_in_their_own_session() -> None:
    async with started("setsid sleep 61 & setsid setsid sleep 61 & sleep 61") as (child, _, _err):
        await soon(lambda: len(find_marked(child.mark)) >= 4, "four processes run")

        await child.kill()

        assert child.gone.is_set()
        await soon(lambda: not find_marked(child.mark), "none is left", within_s=5)


async def test_descendants_are_found_without_a_mark() -> None:
    async with started("env -i /bin/sleep 62 & wait") as (child, _, _err):
        await soon(lambda: any(_is_sleep(pid) for pid in descendants(child.pid)), "the sleep runs")
        found = descendants(child.pid)

        await child.kill()

        await soon(
            lambda: not any(os.path.exists(f"/proc/{pid}") for pid in found), "all are gone", within_s=5
        )


def _is_sleep(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read() == "sleep\n"
    except OSError:
        return False


@owes("exec-11")
async def test_a_character_split_over_reads_is_one_character() -> None:
    async with started("""python3 -c "import sys;sys.stdout.buffer.write(b'x'+'€'.encode()*30000)" """) as (
        child,
        out,
        _,
    ):
        await child.wait(10)
        await child.wait_drained(10)

        assert b"".join(out.parts()).decode() == "x" + "€" * 30000


@owes("exec-08")
@pytest.mark.slow
async def test_a_flood_of_output_costs_bounded_memory_and_keeps_both_ends() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async with started("echo START; yes 0123456789abcdef | head -c 200000000; echo END; exit 3") as (
        child,
        out,
        _,
    ):
        assert await child.wait(60)
        await child.wait_drained(10)

        head, tail = out.parts()
        assert child.exit_code == 3
        assert out.total == 200_000_010
        assert head.startswith(b"START\n")
        assert tail.endswith(b"END\n")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


@owes("exec-21")
@pytest.mark.slow
async def test_ended_and_killed_children_leave_no_descriptor_and_no_zombie() -> None:
    await _round(5)
    before = descriptors()

    await _round(60)

    assert descriptors() == before
    assert not [pid for pid in descendants(os.getpid()) if is_zombie(pid)]


async def _round(count: int) -> None:
    for number in range(count):
        async with started("true" if number % 3 else "sleep 63", stdin=b"x") as (child, _, _err):
            await child.wait(0.02 if number % 3 == 0 else 5)


async def test_a_cancelled_start_leaves_no_child() -> None:
    mark = f"cancelled.start.{os.getpid()}"
    start = asyncio.ensure_future(
        Child.start(
            Spawn(argv=("sleep", "64"), env=ENV),
            Streams(stdout=HeadTailBuffer(10), stderr=HeadTailBuffer(10)),
            mark=mark,
        )
    )
    await asyncio.sleep(0)
    start.cancel()

    with pytest.raises(asyncio.CancelledError):
        await start

    await soon(lambda: not find_marked(mark), "none is left", within_s=5)


async def test_a_status_line_ends_the_command_before_its_process() -> None:
    read, write = os.pipe()
    out = HeadTailBuffer(100)
    child = await Child.start(
        Spawn(argv=("bash", "-c", f"echo 5 >&{write}; sleep 65"), env=ENV, pass_fds=(write,)),
        Streams(stdout=out, stderr=out, status_fd=read),
    )
    os.close(write)
    try:
        assert await child.wait(5)

        assert child.exit_code == 5
        assert not child.gone.is_set()
        assert child.lingers
    finally:
        await child.kill()


async def test_run_small_gives_status_and_output_and_ends_what_hangs() -> None:
    assert await run_small(("sh", "-c", "echo hi; exit 2"), ENV) == (2, b"hi\n")
    with pytest.raises(TimeoutError):
        await run_small(("sleep", "66"), ENV, timeout_s=0.05)


async def test_a_group_of_which_only_the_dead_are_left_runs_no_more() -> None:
    async with started("sleep 60 & sleep 60") as (child, _, _err):
        assert group_runs(child.pid)
    orphan = subprocess.Popen(["true"], process_group=0)
    try:
        # Ended and not reaped: what a container without an init leaves of every orphan.
        os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)

        assert kill_group(orphan.pid, 0)
        assert not group_runs(orphan.pid)
    finally:
        orphan.wait()
    assert not group_runs(orphan.pid)
