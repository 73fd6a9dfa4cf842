"""Jobs: background commands that outlive the call that started them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pegboard.ports.shell import ExecOutcome, ExecRequest

State: TypeAlias = Literal["running", "exited", "killed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One background command.

    Attributes:
        process_id: names it in every other method.
        command: as it was given.
        description: what it is for, in the caller's words.
        state: running, exited or killed.
        exit_code: None while it runs; 128 + n = ended by signal n.
        started: seconds since the epoch.
        duration_s: seconds that it has run.
        output_bytes: bytes that it has written.
        terminal: it has a pseudo-terminal.
        pid: process id on this machine.
        notes: what the sandbox had to say.
    """

    process_id: str
    command: str
    description: str
    state: State
    exit_code: int | None
    started: float
    duration_s: float
    output_bytes: int
    terminal: bool
    pid: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutput:
    """Text of a background command and its state when it was read.

    Attributes:
        process: the command.
        text: decoded, without terminal control characters.
        lost_bytes: bytes between the last poll and `text` that are no longer kept.
        matched: `wait_for` only: whether the text came.
    """

    process: Process
    text: str
    lost_bytes: int = 0
    matched: bool = False


class Processes(Protocol):
    """The background commands of one session. NotFound names the ids that there are."""

    async def start(
        self, request: ExecRequest, *, description: str = "", terminal: bool = False, yield_s: float = 0.0
    ) -> Process | ExecOutcome:
        """Start a command; its outcome when it ends within `yield_s` seconds, else the running command."""
        ...

    def list(self) -> tuple[Process, ...]:
        """All that are known, running ones first, then the newest."""
        ...

    async def poll(self, process_id: str, *, wait_s: float = 0.0) -> ProcessOutput:
        """What was written since the last poll; waits up to `wait_s` for something new."""
        ...

    async def log(self, process_id: str, *, offset: int = 0, limit: int = 0) -> ProcessOutput:
        """The kept output by line; negative `offset` counts from the end, `limit` 0 = all."""
        ...

    async def send(
        self,
        process_id: str,
        text: str = "",
        *,
        keys: Sequence[str] = (),
        paste: bool = False,
        end: bool = False,
    ) -> Process:
        """Give it input: `text` (as one paste), then `keys` (`Enter`, `C-c`), then end of file."""
        ...

    async def wait_for(self, process_id: str, text: str, *, timeout_s: float = 30.0) -> ProcessOutput:
        """Wait until `text` stands in its output or it ends."""
        ...

    async def stop(self, process_id: str, *, force: bool = False, forget: bool = False) -> Process:
        """End it with its children: politely, then by force; `force` at once; `forget` it afterwards."""
        ...
