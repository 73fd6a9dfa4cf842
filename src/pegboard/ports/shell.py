"""Shell: what a tool may ask of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pegboard.core.effects import NO_CHANGES, ChangeSet, Effect, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What the guard found in a command.

    Attributes:
        effects: one `exec` a segment (argv None where not analysable), and the `read`, `write`,
            `delete` and `connect` effects that it plainly has, each with `at_least` and `reason`.
        decision: the strictest verdict, for people who call the guard alone.
        reason: why.
        read_only: whether every segment stands in the read-only table.
    """

    effects: tuple[Effect, ...]
    decision: Verdict
    reason: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """One command to run.

    Attributes:
        command: text for `bash -c`.
        working_dir: workspace-relative or absolute; None = the workspace.
        timeout_s: wall seconds, 0 = none.
        env: variables to add (no PATH, LD_*, no secrets).
        stdin: bytes given to standard input, then end of file; None = /dev/null.
        hosts: hosts reachable through the egress proxy.
        read_only: no snapshot is needed.
        approved: workspace paths whose change was authorised with the command; protected ones are open to it.
        max_output_bytes: kept of stdout and stderr each, half head and half tail.
    """

    command: str
    working_dir: str | None = None
    timeout_s: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes | None = None
    hosts: tuple[str, ...] = ()
    read_only: bool = False
    approved: tuple[str, ...] = ()
    max_output_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOutcome:
    """What became of it.

    Attributes:
        exit_code: the exit status; 128 + n = ended by signal n.
        stdout, stderr: decoded text, bounded.
        duration_s: wall seconds.
        timed_out: ended by the deadline, children included.
        dropped_bytes: bytes of output that were not kept.
        changes: what it changed in the workspace, empty where not captured.
        notes: what the sandbox has to say (refused connections, quarantined files, not undoable).
        backend: bubblewrap, docker, podman or none.
        reached: where it connected to, each `host` or `host:port`; None where nobody watched.
    """

    exit_code: int
    stdout: str
    stderr: str
    duration_s: float
    timed_out: bool = False
    dropped_bytes: int = 0
    changes: ChangeSet = NO_CHANGES
    notes: tuple[str, ...] = ()
    backend: str = "none"
    reached: tuple[str, ...] | None = None


class Shell(Protocol):
    """Runs commands in the strongest confinement that the policy asks for."""

    def inspect(self, command: str, *, working_dir: str | None = None) -> Inspection:
        """What the command will do, as far as parsing can tell; runs nothing."""
        ...

    async def run(self, request: ExecRequest) -> ExecOutcome:
        """Run it to its end; killed with all children at the deadline or when cancelled.

        Raises:
            Unavailable: the required confinement does not work here; nothing was started.
        """
        ...

    def backend(self) -> str:
        """Name of the confinement in use."""
        ...
