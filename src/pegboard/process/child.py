"""Child processes: started, read from, ended with everything that they started, and their exit status.

Children are started from one long-lived thread: `PR_SET_PDEATHSIG`, on which `bwrap --die-with-parent` rests, fires
when the *thread* that forked ends, so they must not be started from pool threads that come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from pegboard.process.output import HeadTailBuffer

# What a pipe holds by default. Bigger pipes and reads were measured slower: they leave the cache.
_READ: Final = 1 << 16
_READS_A_TURN: Final = 16
_REAP_WITHIN_S: Final = 5.0
# Nothing tells that a process group has become empty, or that a process was stopped, so it is looked at.
_LOOK_S: Final = 0.005
_LOOK_STOPPED_S: Final = 0.5
_STOPPED: Final = frozenset(128 + s for s in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU))

_SESSION: Final = secrets.token_hex(6)


def new_mark(owner: str = _SESSION) -> str:
    """A mark for one command's processes; `owner` names whoever ends them together."""
    return f"{owner}.{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """How a child's streams are set up.

    Attributes:
        stdout, stderr: where the output goes; the same Ring twice merges them in order of arrival.
        stdin: bytes to give, then end of file; None = /dev/null, unless `keep_stdin`.
        keep_stdin: leave standard input open for `Child.write`.
        status_fd: read end on which a launcher writes the command's exit status as decimal text;
            without one, the process's own end is the command's end. Owned by the Child.
    """

    stdout: HeadTailBuffer
    stderr: HeadTailBuffer
    stdin: bytes | None = None
    keep_stdin: bool = False
    status_fd: int | None = None


class Child:
    """A started command. Made by `Child.start`; always ended by `close` or `kill`.

    Attributes:
        pid: process id, also the id of its process group and session.
        mark: what its processes carry in their environment.
        exit_code: the command's status once `finished` is set; 128 + n = ended by signal n.
        finished: the command itself has ended (children may live on).
        gone: the process has been reaped.
        drained: every output stream has reached its end.
        on_output: called after output arrived; may be set at any time.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._pumps: list[_Pump] = []
        self._stdin: _Feeder | None = None
        self._pidfd = -1
        self._terminal = False
        self.pid = process.pid
        self.mark = mark
        self.on_output: Callable[[], None] | None = None
        self.exit_code: int | None = None
        self.finished = asyncio.Event()
        self.gone = asyncio.Event()
        self.drained = asyncio.Event()

    @classmethod
    async def start(
        cls, what: Spawn, streams: Streams, *, mark: str | None = None, terminal: int | None = None
    ) -> Child:
        """Start a command in its own session with its output captured.

        Args:
            what: the program; its own stdin, stdout and stderr fields are ignored.
            streams: capture and input.
            mark: overrides the generated one.
            terminal: the master side of a pseudo-terminal whose slave is `what.stdin`;
                output is then read from it and input written to it. Owned by the Child.

        Raises:
            OSError: it could not be started.
        """
        mark = mark or new_mark()
        env = {**what.env, MARK: mark}
        opened: list[int] = []
        given: list[int] = []
        try:
            if terminal is not None:
                process = await spawn(replace(what, env=env, stdout=what.stdin, stderr=what.stdin))
                child = cls(process, mark)
                child._terminal = True
                child._watch()
                child._pump(terminal, streams.stdout)
                child._stdin = _Feeder(child._loop, os.dup(terminal))
            else:
                out_r, out_w = os.pipe2(os.O_CLOEXEC)
                opened.append(out_r)
                given.append(out_w)
                err_r, err_w = (out_r, out_w)
                if streams.stderr is not streams.stdout:
                    err_r, err_w = os.pipe2(os.O_CLOEXEC)
                    opened.append(err_r)
                    given.append(err_w)
                in_r, in_w = subprocess.DEVNULL, -1
                if streams.stdin is not None or streams.keep_stdin:
                    in_r, in_w = os.pipe2(os.O_CLOEXEC)
                    opened.append(in_w)
                    given.append(in_r)
                process = await spawn(replace(what, env=env, stdin=in_r, stdout=out_w, stderr=err_w))
                child = cls(process, mark)
                opened.clear()
                child._watch()
                child._pump(out_r, streams.stdout)
                if err_r != out_r:
                    child._pump(err_r, streams.stderr)
                if in_w >= 0:
                    child._stdin = _Feeder(child._loop, in_w)
                    child._stdin.feed(streams.stdin or b"", end=not streams.keep_stdin)
        except BaseException:
            for fd in opened:
                os.close(fd)
            if streams.status_fd is not None:
                os.close(streams.status_fd)
            raise
        finally:
            for fd in given:
                os.close(fd)
        if streams.status_fd is not None:
            child._follow_status(streams.status_fd)
        return child

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the command has ended; False when `timeout_s` seconds passed first.

        One that was stopped (SIGSTOP) outside a terminal counts as ended, with 128 + the signal.
        """
        deadline = None if timeout_s is None else self._loop.time() + timeout_s
        while True:
            left = _LOOK_STOPPED_S if deadline is None else deadline - self._loop.time()
            if await _within(self.finished, max(0.0, min(left, _LOOK_STOPPED_S))):
                return True
            if deadline is not None and left <= _LOOK_STOPPED_S:
                return False
            if not self._terminal and _stat(str(self.pid))[:1] == [b"T"]:
                self.exit_code = 128 + signal.SIGSTOP
                self.finished.set()

    async def is_stopped(self, within_s: float) -> bool:
        """Whether its status says that it was stopped, and it is still there after `within_s` seconds."""
        return self.exit_code in _STOPPED and await self.still_lingers(within_s)

    async def wait_drained(self, timeout_s: float | None = None) -> bool:
        """Wait until nobody holds the output open; False when `timeout_s` seconds passed first."""
        return await _within(self.drained, timeout_s)

    @property
    def lingers(self) -> bool:
        """The command has ended but children of it hold its output or its group."""
        if not self.finished.is_set():
            return False
        return not self.gone.is_set() or not self.drained.is_set() or group_runs(self.pid)

    async def still_lingers(self, within_s: float) -> bool:
        """Whether it lingers for `within_s` seconds: what is about to end may be in the group an instant longer."""
        deadline = self._loop.time() + within_s
        while self.lingers:
            if self._loop.time() >= deadline:
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    def write(self, data: bytes, *, end: bool = False) -> bool:
        """Give bytes to standard input; False when it is closed."""
        return self._stdin is not None and self._stdin.feed(data, end=end)

    def signal(self, number: int = signal.SIGTERM) -> bool:
        """Signal the process group; whether there was one."""
        return kill_group(self.pid, number)

    async def kill(self) -> None:
        """Kill everything that belongs to the command and reap it."""
        kill_group(self.pid)
        await asyncio.to_thread(kill_tree, self.pid, self.mark)
        await self.wait_gone(_REAP_WITHIN_S)
        self.abandon()

    def kill_now(self) -> None:
        """Kill and reap it from outside its event loop, which has ended: nothing is awaited."""
        kill_tree(self.pid, self.mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_WITHIN_S)
        self.abandon()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    async def wait_gone(self, timeout_s: float | None = None) -> bool:
        """Wait until the process is reaped; False when `timeout_s` seconds passed first."""
        return await _within(self.gone, timeout_s)

    def drain_now(self) -> None:
        """Take what the pipes hold at this moment, without waiting."""
        for pump in list(self._pumps):
            pump.drain()

    def abandon(self) -> None:
        """Stop reading and close every descriptor; what still runs keeps running."""
        for pump in list(self._pumps):
            pump.drain()
            pump.close()
        if self._stdin is not None:
            self._stdin.close()
        self.drained.set()

    def _pump(self, fd: int, ring: HeadTailBuffer) -> None:
        self._pumps.append(_Pump(self._loop, fd, ring, self._output_came, self._pump_ended))

    def _output_came(self) -> None:
        if self.on_output is not None:
            self.on_output()

    def _pump_ended(self, pump: _Pump) -> None:
        if pump in self._pumps:
            self._pumps.remove(pump)
        if not self._pumps:
            self.drained.set()

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            # No pidfd on this system: one waiting thread a child.
            waiting = self._loop.run_in_executor(None, self._process.wait)
            waiting.add_done_callback(lambda _: self._reaped())
            return
        self._loop.add_reader(self._pidfd, self._reaped)

    def _reaped(self) -> None:
        if self._process.poll() is None:
            return
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if self.exit_code is None:
            self.exit_code = shell_status(self._process.returncode)
        self.gone.set()
        self.finished.set()

    def _follow_status(self, fd: int) -> None:
        os.set_blocking(fd, False)

        def ready() -> None:
            with contextlib.suppress(BlockingIOError):
                text = os.read(fd, 16)
                self._loop.remove_reader(fd)
                os.close(fd)
                if text.strip().isdigit() and self.exit_code is None:
                    self.exit_code = int(text)
                    self.finished.set()

        self._loop.add_reader(fd, ready)


class _Pump:
    """Moves one pipe's bytes into a Ring from the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        ring: HeadTailBuffer,
        on_output: Callable[[], None],
        ended: Callable[[_Pump], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._ring = ring
        self._on_output = on_output
        self._ended = ended
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._ready)

    def _ready(self) -> None:
        if self._take(_READS_A_TURN):
            self._on_output()

    def drain(self) -> None:
        # As much as a full pipe holds, not more: the writer may never stop.
        if self._fd >= 0:
            self._take(_READS_A_TURN)

    def _take(self, reads: int) -> bool:
        took = False
        for _ in range(reads):
            try:
                chunk = os.read(self._fd, _READ)
            except BlockingIOError:
                return took
            except OSError:
                # EIO is how a pseudo-terminal says that its other side is closed.
                chunk = b""
            if not chunk:
                self.close()
                return took
            took = True
            self._ring.feed(chunk)
            if len(chunk) < _READ // 16:
                return took
        return took

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._ended(self)


class _Feeder:
    """Writes to a child's standard input without blocking."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        self._left = bytearray()
        self._end = False
        self._waiting = False
        os.set_blocking(fd, False)

    def feed(self, data: bytes, *, end: bool) -> bool:
        if self._fd < 0 or self._end:
            return False
        self._left += data
        self._end = end
        self._write()
        return self._fd >= 0 or end

    def _write(self) -> None:
        try:
            while self._left:
                del self._left[: os.write(self._fd, self._left[:_READ])]
        except BlockingIOError:
            if not self._waiting:
                self._waiting = True
                self._loop.add_writer(self._fd, self._write)
            return
        except OSError:
            self.close()
            return
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._fd)
        if self._end:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            if self._waiting:
                self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1


async def _within(event: asyncio.Event, timeout_s: float | None) -> bool:
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True


async def run_small(
    argv: Sequence[str], env: dict[str, str], *, cwd: str = "/", timeout_s: float = 10.0
) -> tuple[int, bytes]:
    """Run a short trusted program; its exit status and at most 1 MB of its output.

    Raises:
        OSError: it could not be started.
        TimeoutError: it did not end in time; it was killed.
    """
    ring = HeadTailBuffer(1_000_000)
    child = await Child.start(Spawn(argv=argv, env=env, cwd=cwd), Streams(stdout=ring, stderr=ring))
    try:
        if not await child.wait(timeout_s):
            raise TimeoutError(f"{argv[0]} did not end within {timeout_s:g} s")
        await child.wait_drained(1.0)
        return child.exit_code or 0, b"".join(ring.parts())
    finally:
        if child.gone.is_set():
            child.abandon()
        else:
            await child.kill()


# What a shell ignores for its background jobs, and what wrappers such as nohup ignore. `exec` hands
# an ignored signal on, and no shell can trap or reset one: ^C would do nothing in our children.
# (SIGPIPE and SIGXFSZ, which Python ignores, are restored by subprocess.)
_RESET: Final = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGWINCH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """One program to start, in its own session and process group.

    Attributes:
        argv: program and arguments; the program is looked up in `env`'s PATH.
        env: the whole environment.
        cwd: working folder, None = ours.
        stdin, stdout, stderr: descriptors to give it; they are not closed here.
        pass_fds: further descriptors it inherits under the same numbers.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    stdin: int = subprocess.DEVNULL
    stdout: int = subprocess.DEVNULL
    stderr: int = subprocess.DEVNULL
    pass_fds: Sequence[int] = field(default=())


_threads: list[ThreadPoolExecutor] = []


def _spawner() -> ThreadPoolExecutor:
    if not _threads:
        _threads.append(ThreadPoolExecutor(max_workers=1, thread_name_prefix="pegboard-spawn"))
        # A forked copy of this process has the object but not its thread.
        os.register_at_fork(after_in_child=_threads.clear)
    return _threads[0]


async def spawn(what: Spawn) -> subprocess.Popen[bytes]:
    """Start `what`; the caller reaps it.

    A cancelled caller never leaks the child: it is killed with all its children and reaped by the
    spawning thread before the caller goes on.

    Raises:
        OSError: it could not be started (no such program or folder, no permission).
    """
    start = _spawner().submit(_popen, what)
    try:
        return await asyncio.shield(asyncio.wrap_future(start))
    except asyncio.CancelledError:
        gone: Future[None] = Future()
        # In the spawning thread: the caller's loop may be gone before the child has started.
        start.add_done_callback(partial(_discard, what.env.get(MARK, ""), gone))
        # What the caller made for the child (a control group) must not be used again before.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(asyncio.wrap_future(gone))
        raise


def _discard(mark: str, gone: Future[None], started: Future[subprocess.Popen[bytes]]) -> None:
    try:
        if started.cancelled() or started.exception() is not None:
            return
        process = started.result()
        process.kill()
        if mark:
            # A launcher that is killed while it sets up leaves a child that does not die with it yet
            # (bubblewrap asks for that last) and would run the command after all.
            kill_tree(process.pid, mark)
        process.wait()
    finally:
        gone.set_result(None)


def _popen(what: Spawn) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(what.argv),
        env=dict(what.env),
        cwd=what.cwd,
        stdin=what.stdin,
        stdout=what.stdout,
        stderr=what.stderr,
        pass_fds=tuple(what.pass_fds),
        close_fds=True,
        start_new_session=True,
        # Rare, because it costs a fork of the whole address space instead of a vfork.
        preexec_fn=_fresh_signals if _inherited_signals() else None,
    )


def _inherited_signals() -> bool:
    """Whether a child would start with ignored or blocked signals."""
    if any(signal.getsignal(number) is signal.SIG_IGN for number in _RESET):
        return True
    return bool(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def _fresh_signals() -> None:
    """In the child, before exec: every signal as a program expects it."""
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


KILLED: Final = 128 + signal.SIGKILL


def shell_status(returncode: int) -> int:
    """The status that a shell would tell of a process's return code; negative codes are signals."""
    return 128 - returncode if returncode < 0 else returncode


def shown_status(status: int) -> str:
    """`143 (SIGTERM)`; the number alone where it stands for no signal."""
    try:
        return f"{status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return str(status)


MARK: Final = "PEGBOARD_EXEC"
_PROC: Final = "/proc"
_ENDED: Final = (b"Z", b"X")


def kill_group(group: int, number: int = signal.SIGKILL) -> bool:
    """Signal a process group; whether there was anything to signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def group_runs(group: int) -> bool:
    """Whether a process group has a member that has not ended.

    Where nobody reaps orphans (a container whose first process is no init), what has ended keeps its
    group: a signal still reaches it.
    """
    if not kill_group(group, 0):
        return False
    return any(int(fields[2]) == group and fields[0] not in _ENDED for _, fields in _processes())


def find_marked(mark: str, *, prefix: bool = False) -> list[int]:
    """Ids of living processes that carry `mark` (or a mark that starts with it), except this one."""
    needle = f"{MARK}={mark}".encode()
    found: list[int] = []
    for name in _numeric(_PROC):
        pid = int(name)
        if pid == os.getpid():
            continue
        try:
            with open(f"{_PROC}/{name}/environ", "rb") as file:
                environment = file.read().split(b"\0")
        except OSError:
            continue
        if needle in environment or (prefix and any(v.startswith(needle) for v in environment)):
            found.append(pid)
    return found


def descendants(root: int) -> list[int]:
    """Ids of the living children of `root`, of their children, and so on."""
    children: dict[int, list[int]] = {}
    for pid, fields in _processes():
        children.setdefault(int(fields[1]), []).append(pid)
    out: list[int] = []
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        out.extend(below)
        todo.extend(below)
    return out


def kill_tree(root: int | None, mark: str, *, prefix: bool = False, within_s: float = 2.0) -> int:
    """Kill `root`'s group, its descendants and everything with `mark`; how many were found.

    Blocks (reads /proc); at most about `within_s` seconds against a tree that keeps forking.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + within_s
    while True:
        targets = set(find_marked(mark, prefix=prefix))
        if root is not None:
            targets.update(descendants(root))
            kill_group(root)
        fresh = [pid for pid in targets if not is_zombie(pid)]
        for pid in fresh:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        killed.update(fresh)
        if not fresh or time.monotonic() > deadline:
            return len(killed)


def is_zombie(pid: int) -> bool:
    """Whether a process has ended (and may wait to be reaped)."""
    fields = _stat(str(pid))
    return not fields or fields[0] in _ENDED


def _processes() -> Iterator[tuple[int, list[bytes]]]:
    """Every process: its id and its `_stat`."""
    for name in _numeric(_PROC):
        if fields := _stat(name):
            yield int(name), fields


def _stat(name: str) -> list[bytes]:
    """State, parent, group and so on of a process (proc(5), from the third field on); empty once it is gone."""
    try:
        with open(f"{_PROC}/{name}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return []
    # The program's name may hold spaces and brackets; the fields follow the last bracket.
    return stat[stat.rfind(b")") + 2 :].split()


def _numeric(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []
