"""Starting children from one long-lived thread.

`PR_SET_PDEATHSIG`, on which `bwrap --die-with-parent` rests, fires when the *thread* that
forked ends, so children must not be started from pool threads that come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pegboard.process import tree

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
    start = _spawner().submit(_start, what)
    try:
        return await asyncio.shield(asyncio.wrap_future(start))
    except asyncio.CancelledError:
        gone: Future[None] = Future()
        # In the spawning thread: the caller's loop may be gone before the child has started.
        start.add_done_callback(partial(_discard, what.env.get(tree.MARK, ""), gone))
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
            tree.kill_tree(process.pid, mark)
        process.wait()
    finally:
        gone.set_result(None)


def _start(what: Spawn) -> subprocess.Popen[bytes]:
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
