"""Running: one started command with everything that belongs to it, until it is ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pegboard.net.egress import EgressProxy
from pegboard.ports.shell import ExecOutcome, ExecRequest
from pegboard.ports.snapshot import SnapshotChanges
from pegboard.process.child import Child
from pegboard.process.ring import HeadTailBuffer
from pegboard.process.status import KILLED
from pegboard.process.text import joined
from pegboard.shell.sandbox.confinement import PreparedCommand


class Adopter(Protocol):
    """Takes over what outlives its command; see `shell.jobs`."""

    def adopt(self, running: RunningCommand) -> str:
        """Own a command whose children still run; the process_id under which they are listed."""
        ...


@dataclass(slots=True)
class RunningCommand:
    """A started command and what belongs to it.

    Attributes:
        request: what was asked for.
        child: the process.
        stdout, stderr: the captured output.
        prepared: its confinement.
        started: monotonic seconds.
        proxy: its way to the granted hosts, None without.
        notes: what must be said, in order.
    """

    request: ExecRequest
    child: Child
    stdout: HeadTailBuffer
    stderr: HeadTailBuffer
    prepared: PreparedCommand
    backend: str
    started: float
    proxy: EgressProxy | None = None
    notes: list[str] = field(default_factory=list[str])
    _ended: bool = False

    async def end(self) -> None:
        """Kill what still runs, undo what the sandbox forbids, free everything. Safe to repeat."""
        if self._ended:
            return
        self._ended = True
        try:
            if self.child.gone.is_set() and not self.child.lingers:
                self.child.abandon()
            else:
                await self.prepared.kill()
                await self.child.kill()
            if self.proxy is not None:
                await self.proxy.close()
                self.notes.extend(self.proxy.refusals())
        finally:
            self.notes.extend(await self.prepared.finish())
            self.prepared.release()

    def outcome(self, *, timed_out: bool, captured: SnapshotChanges, fallbacks: Sequence[str]) -> ExecOutcome:
        """What became of it, as far as it is known now."""
        out, err = self.stdout, self.stderr
        not_undoable = [f"not undoable: {reason}" for reason in captured.not_captured]
        return ExecOutcome(
            exit_code=KILLED if self.child.exit_code is None else self.child.exit_code,
            stdout=joined(*out.parts(), out.dropped, fallbacks=fallbacks),
            stderr="" if err is out else joined(*err.parts(), err.dropped, fallbacks=fallbacks),
            duration_s=time.monotonic() - self.started,
            timed_out=timed_out,
            dropped_bytes=out.dropped + (0 if err is out else err.dropped),
            changes=captured.changes,
            notes=(*self.notes, *not_undoable),
            backend=self.backend,
        )
