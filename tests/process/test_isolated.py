"""Isolated tools: a worker process with limits, which ends whatever its function does."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pegboard import PURE, Executor, Inject, Tool, tool
from pegboard.core.content import Image
from pegboard.core.errors import BuildError
from pegboard.ports.files import Files
from tests.ledger import owes
from tests.process import isolated_tools as tools
from tests.waiting import soon, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def executor() -> AsyncGenerator[Executor]:
    made = Executor([t for t in vars(tools).values() if isinstance(t, Tool)])
    yield made
    await made.aclose()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@owes("G-24")
@pytest.mark.parametrize("name", ["spin", "sleep_in_c"])
async def test_a_function_that_never_ends_is_ended_at_its_time(executor: Executor, name: str) -> None:
    result = await executor.call(name)

    assert result.error is not None and result.error.code == "timeout"
    assert result.error.message == f"{name} did not finish within 0.3 s and was ended"
    assert result.notes.duration_s < 30


@owes("G-24")
async def test_memory_is_bounded_and_the_next_call_works(executor: Executor) -> None:
    small, large, again = [await executor.call("allocate", {"mb": mb}) for mb in (1, 200, 2)]

    assert (small.data, again.data) == (1 << 20, 2 << 20)
    assert large.error is not None
    assert large.error.code == "too_large" and "allocate needed more than 64 MB" in large.error.message


async def test_a_healthy_worker_is_used_again_and_another_is_not(executor: Executor) -> None:
    first, second = (await executor.call("pid")).data, (await executor.call("pid")).data
    third, fourth = [(await executor.call("leave_a_thread")).data for _ in range(2)]

    assert first == second != os.getpid()
    assert third != fourth


@owes("G-24")
async def test_arguments_and_results_keep_their_types(executor: Executor) -> None:
    result = await executor.call("next_entry", {"entry": {"day": "2026-01-30"}})

    assert result.data == {"day": "2026-01-31", "count": 2}
    picture = await executor.call("picture")
    assert picture.content == (Image(data=b"\x89PNG", mime_type="image/png"),) and picture.data == {
        "width": 1
    }
    assert (await executor.call("raw")).data == b"\x00\xff"


@owes("G-24")
async def test_an_exception_has_its_traceback_in_the_log_and_a_plain_message_for_the_model(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "pegboard.tools"):
        result = await executor.call("fail", {"how": "bug"})

    assert result.error is not None and result.error.message == "KeyError: 'bug'"
    assert "isolated_tools.py" in caplog.text and 'return {"a": 1}[how]' in caplog.text
    assert "isolated_tools" not in str(result)


async def test_an_error_for_the_model_comes_as_it_was_raised(executor: Executor) -> None:
    told = (await executor.call("fail", {"how": "told"})).error

    assert told is not None
    assert (told.code, told.hint, told.details) == ("not_found", "List the entries.", {"entry": 7})


async def test_a_worker_that_ends_is_told_with_its_status_and_replaced(executor: Executor) -> None:
    ended, left = [(await executor.call("fail", {"how": how})).error for how in ("crash", "exit")]

    assert ended is not None and "ended in the middle of the call (exit status 3)" in ended.message
    assert left is not None and "sys.exit(3)" in left.message


async def test_a_worker_that_was_killed_while_it_waited_is_replaced(executor: Executor) -> None:
    first = (await executor.call("pid")).data
    os.kill(first, signal.SIGKILL)  # Nobody can have noticed it yet.

    assert (await executor.call("pid")).data not in (None, first)


async def test_a_result_that_is_too_large_is_an_error(executor: Executor) -> None:
    error = (await executor.call("huge")).error
    assert error is not None and error.code == "too_large"


async def test_a_cancelled_call_ends_its_process_and_what_that_started(
    executor: Executor, tmp_path: Path
) -> None:
    note = tmp_path / "pids"
    call = asyncio.ensure_future(executor.call("start_and_wait", {"file": str(note)}))
    await soon(note.exists, "the function has begun")
    pids = [int(p) for p in note.read_text().split()]
    assert all(map(alive, pids))

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await soon(lambda: not any(map(alive, pids)), "both processes have ended")


async def test_the_end_of_the_executor_ends_its_workers() -> None:
    async with Executor([tools.pid]) as executor:
        pid = (await executor.call("pid")).data
        assert alive(pid)
    assert not alive(pid)


@owes("G-24")
def test_a_busy_worker_ends_with_the_program_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(
        "import os\nfrom pegboard import PURE, tool\n\n@tool(effects=PURE, isolated=True)\ndef busy(file: str) -> int:\n"
        "    'Spin.'\n    open(file, 'w').write(str(os.getpid()))\n    while True:\n        pass\n"
    )
    note = tmp_path / "pid"
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\nfrom busy import busy\nfrom pegboard import Executor, run_sync\n"
        f"run_sync(Executor([busy]).call('busy', {{'file': {str(note)!r}}}))"
    )
    started = subprocess.Popen([sys.executable, "-c", program])
    until(lambda: note.exists() and note.read_text() != "", "the function has begun")
    pid = int(note.read_text())

    started.send_signal(signal.SIGKILL)
    started.wait()

    until(lambda: not alive(pid), "the worker has ended")


async def test_calls_at_once_have_workers_of_their_own(executor: Executor) -> None:
    results = await asyncio.gather(*[executor.call("pid") for _ in range(6)])

    assert all(r.ok for r in results) and len({r.data for r in results}) > 1


def test_the_function_itself_is_called_as_it_is() -> None:
    assert tools.pid() == os.getpid()


@owes("G-24")
def test_what_a_worker_cannot_import_is_refused_when_the_tool_is_built() -> None:
    def inner() -> int:
        """Made inside another function."""
        return 1

    def with_files(*, files: Inject[Files]) -> int:
        """Takes a port."""
        return 1

    main = inner.__class__(inner.__code__, {"__name__": "__main__"}, "main")
    with_files.__qualname__ = "with_files"
    for function, why in (
        (inner, "define it at the top of a module"),
        (lambda: 1, "define it at the top of a module"),
        (main, "move it into a module and import it"),
        (functools.partial(inner), "write it with def in a module"),
        (with_files, "pass it plain values"),
    ):
        with pytest.raises(BuildError, match=why):
            tool(effects=PURE, isolated=True, name="one", parameters=None)(function)
    with pytest.raises(BuildError, match="add isolated=True"):
        tool(effects=PURE, memory_mb=64)(inner)
    with pytest.raises(BuildError, match="not between 16 and"):
        Tool(tools.pid.direct, effects=PURE, isolated=True, memory_mb=1)


async def test_a_file_named_by_its_path_works_until_it_is_changed(tmp_path: Path) -> None:
    from pegboard.interop.python_tools import python_tools

    file = tmp_path / "csv.py"  # Its name is one of the standard library's.
    file.write_text(
        "from pegboard import PURE, tool\n\n@tool(effects=PURE, isolated=True)\ndef two() -> int:\n    'Two.'\n    return 2\n"
    )
    kit = python_tools(str(file))
    assert kit is not None

    async with Executor(kit) as executor:
        assert (await executor.call("two")).data == 2
    file.write_text(file.read_text().replace("return 2", "return 3"))
    async with Executor(kit) as executor:
        error = (await executor.call("two")).error
    assert error is not None and "has changed since this program loaded it" in error.message
