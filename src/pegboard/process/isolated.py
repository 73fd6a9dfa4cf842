"""WorkerPool: functions in worker processes of their own, which are killed where a call is cancelled or too slow.

Arguments and results go over pipes as JSON, each frame with its length before it (4 bytes, big-endian); nothing is
unpickled. A worker keeps the module of its function loaded and is used again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final, cast

from pegboard.core.codec import error_from_dict, result_from_dict
from pegboard.core.content import File
from pegboard.core.errors import InternalError, InvalidArguments, TooLarge, Unavailable
from pegboard.core.isolation import IsolatedFunction

MAX_FRAME: Final = 64 * 1024 * 1024
START_S: Final = 60.0
"""Seconds in which a worker must be free or started, its module imported; the call's own time begins afterwards."""
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from pegboard.process.isolated_worker import main; main()"
)
_LENGTH: Final = struct.Struct(">I")


class WorkerPool:
    """The Workers of one executor.

    Args:
        most: workers that run at once; further calls wait. None = one for each processor, at least 2.
    """

    def __init__(self, most: int | None = None) -> None:
        most = most or max(2, os.cpu_count() or 2)
        self._most = most
        self._idle: deque[Worker] = deque()
        self._jobs: set[Job] = set()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="pegboard-isolated")
        # Where nobody closes the executor, workers still end with it.
        self._finalizer = weakref.finalize(self, _kill_all, self._idle)

    async def prepare(self, function: IsolatedFunction, arguments: Mapping[str, Any]) -> Job:
        """See Workers."""
        loop = asyncio.get_running_loop()
        job = Job(function, _encoded(function, arguments), loop.create_future())
        self._jobs.add(job)
        job.done = loop.run_in_executor(self._threads, self._run, job, loop)
        # Of a job that was stopped nobody asks how it ended.
        job.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(START_S):
                await asyncio.wait([job.ready, job.done], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            job.stop()
            raise Unavailable(
                f"no worker process for {function.tool} was ready within {START_S:g} s",
                hint="Try again when fewer calls are running.",
                retryable=True,
            ) from None
        except asyncio.CancelledError:
            job.stop()
            raise
        return job

    def close(self) -> None:
        """End all workers."""
        for job in tuple(self._jobs):
            job.stop()
        self._threads.shutdown(cancel_futures=True)
        self._finalizer()

    def _run(self, job: Job, loop: asyncio.AbstractEventLoop) -> Mapping[str, Any]:
        """One call in its thread: a worker is found or started, and then waits for `Job.run`."""
        worker: Worker | None = None
        answer: Mapping[str, Any] = {}
        try:
            worker = self._take(job.function)
            if job.begin(worker):
                worker.load()
                loop.call_soon_threadsafe(job.ready.set_result, None)
                if job.wait():
                    if not worker.send(job.frame):  # It ended while it waited; the call has not begun.
                        worker.kill()
                        worker = Worker(job.function)
                        if not job.begin(worker):
                            return answer
                        worker.load()
                        worker.send(job.frame)
                    answer = worker.answer()
            return answer
        finally:
            if worker is not None and job.end() and answer.get("healthy"):
                self._keep(worker)
            elif worker is not None:
                worker.kill()
            self._jobs.discard(job)

    def _take(self, function: IsolatedFunction) -> Worker:
        with self._lock:
            for worker in [w for w in self._idle if w.function is function]:
                self._idle.remove(worker)
                if worker.is_alive():
                    return worker
                worker.kill()
        return Worker(function)

    def _keep(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)
            longest = self._idle.popleft() if len(self._idle) > self._most else None
        if longest is not None:
            longest.kill()


class Worker:
    """One worker process, started for one function."""

    def __init__(self, function: IsolatedFunction) -> None:
        self.function = function
        self._lock = threading.Lock()
        self._reaped = False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        )  # fmt: skip
        self._loaded = False

    def load(self) -> None:
        """Return when the function is loaded; blocking.

        Raises:
            InternalError: it cannot be.
        """
        if self._loaded:
            return
        function = self.function
        job = {
            "module": function.module, "qualname": function.qualname, "file": function.file,
            "sha256": function.sha256, "memory_mb": function.memory_mb, "tool": function.tool,
        }  # fmt: skip
        self.send(json.dumps(job).encode())
        answer = self.answer()
        if "failed" in answer:
            raise InternalError(
                f"the worker of {function.tool} cannot load {function.module}:{function.qualname}: {answer['failed']}"
            )
        self._loaded = True

    def send(self, frame: bytes) -> bool:
        """Send one frame; whether the process has taken it up. Where it has not, it has ended."""
        assert self._process.stdin is not None
        try:
            write_frame(self._process.stdin, frame)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return self._read() is not None

    def _read(self) -> bytes | None:
        with suppress(ConnectionResetError):
            return read_frame(cast(BinaryIO, self._process.stdout))
        return None

    def answer(self) -> Mapping[str, Any]:
        """Wait for the answer to what was sent; blocking.

        Raises:
            InternalError: the process has ended.
        """
        answer = self._read()
        if answer is None:
            self.kill()
            raise InternalError(
                f"the worker process of {self.function.tool} ended in the middle of the call ({_ended(self._process.returncode)})"
            )
        return json.loads(answer)

    def is_alive(self) -> bool:
        """Whether the process has not ended by itself, or was killed by another."""
        with self._lock:
            self._reaped = self._reaped or self._process.poll() is not None
            return not self._reaped

    def stop(self) -> None:
        """End the process and all that it started; a caller that waits for its answer gets none."""
        with self._lock:
            if not self._reaped:  # Else its id may be another's by now.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """`stop`, and let go of it; for the only caller that talks to it."""
        self.stop()
        with self._lock:
            self._process.wait()
            self._reaped = True
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@dataclass(slots=True, eq=False)
class Job:
    """One call, which may be stopped from the event loop at any moment."""

    function: IsolatedFunction
    frame: bytes
    ready: asyncio.Future[None]
    done: asyncio.Future[Mapping[str, Any]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _go: threading.Event = field(default_factory=threading.Event)
    _worker: Worker | None = None
    _stopped: bool = False

    async def run(self) -> Any:
        """See Prepared."""
        assert self.done is not None
        self._go.set()
        try:
            return _value(await self.done)
        except asyncio.CancelledError:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill the worker, or let it never begin."""
        with self._lock:
            self._stopped = True
            self._go.set()
            if self._worker is not None:
                self._worker.stop()

    def begin(self, worker: Worker) -> bool:
        """From now on `stop` kills this worker; False if the job was stopped before."""
        with self._lock:
            self._worker = worker
            return not self._stopped

    def wait(self) -> bool:
        """Return when `run` or `stop` was called; whether it was `run`."""
        self._go.wait()
        with self._lock:
            return not self._stopped

    def end(self) -> bool:
        """From now on nothing stops the worker; False if it was stopped before."""
        with self._lock:
            self._worker = None
            return not self._stopped


def write_frame(pipe: Any, data: bytes) -> None:
    """Write one frame whole.

    Raises:
        TooLarge: it has more than MAX_FRAME bytes.
    """
    if len(data) > MAX_FRAME:
        raise TooLarge(
            f"{len(data)} bytes are too many for a worker process; at most {MAX_FRAME} can be passed"
        )
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[pipe.write(view) :]


def read_frame(pipe: BinaryIO) -> bytes | None:
    """The next frame; None at the end of the stream."""
    head = _read(pipe, _LENGTH.size)
    size = 0 if head is None else _LENGTH.unpack(head)[0]
    # A longer one was not written by write_frame.
    return None if head is None or size > MAX_FRAME else _read(pipe, size)


def _read(pipe: BinaryIO, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = pipe.read(size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _encoded(function: IsolatedFunction, arguments: Mapping[str, Any]) -> bytes:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json({"arguments": dict(arguments)}, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidArguments(
            f"an argument of {function.tool} cannot be passed to a worker process as JSON: {error}"
        ) from None


def _value(answer: Mapping[str, Any]) -> Any:
    if "error" in answer:
        raise error_from_dict(answer["error"])
    if "raised" in answer:
        raised = answer["raised"]
        error = type(raised["type"], (_RaisedInWorker,), {"__module__": "builtins"})(raised["message"])
        raise error from _WorkerTraceback(f"\n{raised['traceback']}")
    result = result_from_dict(answer["result"])
    if answer.get("bytes") and isinstance(block := result.content[0], File):
        return replace(result, data=block.data)
    return result


class _RaisedInWorker(Exception):
    """What a function raised; the class that is raised has the name of the one in the worker."""


class _WorkerTraceback(Exception):
    """Where it was raised, as text, for the developer's log."""


def _ended(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name if -status in signal.valid_signals() else f"signal {-status}"
    return f"killed by {name}"


def _kill_all(workers: deque[Worker]) -> None:
    while workers:
        workers.pop().kill()
