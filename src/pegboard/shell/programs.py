"""Programs of our own choosing that run beside the calls, confined as commands are: language servers and checkers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pegboard.core.errors import Unavailable
from pegboard.process.child import Child, Spawn, Streams, shown_status
from pegboard.process.output import HeadTailBuffer
from pegboard.shell.sandbox.confinement import Backend, PreparedCommand, SandboxCommand

_STDERR: Final = 65536


class _Output(HeadTailBuffer):
    """Hands output on as it comes and keeps none of it."""

    __slots__ = ("_on_output",)

    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        super().__init__(0)
        self._on_output = on_output

    def feed(self, chunk: bytes) -> None:
        """Hand on the next bytes."""
        self._on_output(chunk)


class RunningProgram:
    """A started program; its owner must `end` it."""

    def __init__(self, child: Child, prepared: PreparedCommand, stderr: HeadTailBuffer) -> None:
        self._child = child
        self._prepared = prepared
        self._stderr = stderr
        self._ended = False

    @property
    def exit_code(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._child.exit_code

    @property
    def last_words(self) -> str:
        """How it ended, and the last line that it wrote to standard error."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        status = "" if self.exit_code is None else f"exit status {shown_status(self.exit_code)}"
        return ": ".join(filter(None, [status, lines[-1][:300] if lines else ""]))

    @property
    def errors(self) -> str:
        """What it wrote to standard error, of much the beginning and the end."""
        return b"".join(self._stderr.parts()).decode("utf-8", "replace")

    def write(self, data: bytes) -> bool:
        """Give bytes to its standard input; False if that is closed."""
        return self._child.write(data)

    async def wait(self) -> None:
        """Return when it has ended and all of its output was handed on."""
        await self._child.finished.wait()
        await self._child.wait_drained(1.0)

    def kill_now(self) -> None:
        """End it from outside its event loop, which is gone: nothing is awaited."""
        self._child.kill_now()
        self._prepared.release()

    async def end(self) -> None:
        """End it with everything that it started. Safe to repeat."""
        if self._ended:
            return
        self._ended = True
        try:
            await self._prepared.kill()
            await self._child.kill()
        finally:
            await self._prepared.finish()
            self._prepared.release()


class ConfinedPrograms:
    """Starts programs in a workspace.

    Args:
        workspace: its real path; the programs' working folder.
        backend: confines them; it gives them no network.
        environment: their variables, whole.
    """

    def __init__(self, workspace: Path, *, backend: Backend, environment: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._backend = backend
        self._environment = environment

    async def start(self, argv: Sequence[str], on_output: Callable[[bytes], None]) -> RunningProgram:
        """Start a program; its standard output goes to `on_output` as it comes.

        Raises:
            Unavailable: it could not be started, or not confined as it must be.
        """
        prepared = self._backend.prepare(
            SandboxCommand(argv=tuple(argv), cwd=self._workspace, env=self._environment)
        )
        stderr = HeadTailBuffer(_STDERR)
        try:
            child = await Child.start(
                Spawn(argv=prepared.argv, env=prepared.env, cwd=prepared.cwd, pass_fds=prepared.pass_fds),
                Streams(
                    stdout=_Output(on_output), stderr=stderr, keep_stdin=True, status_fd=prepared.status_fd
                ),
            )
        except BaseException as problem:
            await asyncio.shield(asyncio.ensure_future(prepared.finish()))
            prepared.release()
            if not isinstance(problem, OSError):
                raise
            raise Unavailable(
                f"{argv[0]} could not be started: {problem.strerror or problem}",
                hint="Run `pegboard doctor` to see what is missing.",
            ) from problem
        finally:
            for fd in prepared.close_after_start:
                with suppress(OSError):
                    os.close(fd)
        return RunningProgram(child, prepared, stderr)
