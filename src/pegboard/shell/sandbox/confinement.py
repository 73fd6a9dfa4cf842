"""Confinement: what a command may reach, and what a backend makes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from pegboard.core.effects import Change
from pegboard.core.protected import PROTECTED, WORK
from pegboard.process.limits import MIB, ResourceLimits

MASKED: Final = tuple(name for name in PROTECTED if name not in WORK)
"""Paths in the workspace that would make programs outside run what was written there."""

DEFAULT_LIMITS: Final = ResourceLimits()
_ALWAYS_THERE: Final = (Path("/"), Path("/tmp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A further host path that is visible inside, at the same place."""

    source: Path
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What commands of one workspace may reach.

    Attributes:
        workspace: real path; read-write inside, at the same place.
        state: our folder for this workspace outside the sandbox (quarantine, private copies); its
            `home` is bound as HOME and kept between commands. Never inside the workspace.
        limits: what one command may take.
        protected: workspace-relative paths that stay as they are.
        hidden: absolute paths that must not be readable.
        read_only: absolute paths that must not be writable.
        binds: further host paths.
        search_path: the host's PATH; interpreters found on it are bound read-only.
        identity: git's user name and e-mail, empty = none.
        as_owner: run as the workspace's owner where we may (root only).
        kept_bytes: snapshots keep files of at most so many bytes; larger packs of git are read-only.
    """

    workspace: Path
    state: Path
    limits: ResourceLimits = DEFAULT_LIMITS
    protected: tuple[str, ...] = MASKED
    hidden: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    binds: tuple[Bind, ...] = ()
    search_path: str = "/usr/local/bin:/usr/bin:/bin"
    identity: tuple[str, str] = ("", "")
    as_owner: bool = True
    kept_bytes: int = 16 * MIB

    def reaches(self, folder: Path) -> bool:
        """Whether a folder of the host (its real path) is there inside, at the same place."""
        places = (self.workspace, *(bind.source for bind in self.binds), Path("/usr"))
        return folder in _ALWAYS_THERE or any(place in (folder, *folder.parents) for place in places)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCommand:
    """One command to confine.

    Attributes:
        argv: program and arguments.
        cwd: absolute real path of the working folder.
        env: the command's whole environment.
        terminal: path of a pseudo-terminal that is its standard input and output, None = pipes.
        bridge: our end's peer of a socket pair: the sandbox sends a listening socket of its own
            network namespace through it, for the egress proxy to answer; None = no network.
        approved: protected paths of the workspace that a person allowed it to change.
        certificates: what it finds in `bridge.CA_BUNDLE`, as PEM; empty = there is no such file.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    terminal: str | None = None
    bridge: int | None = None
    approved: Sequence[str] = ()
    certificates: str = ""


async def _nothing() -> tuple[str, ...]:
    return ()


async def _not_cleaned(_: Sequence[Change]) -> Sequence[str]:
    return ()


def _no_release() -> None:
    pass


async def _no_kill() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """A confined command, ready to start.

    Attributes:
        argv, env, cwd, pass_fds: for Spawn.
        status_fd: read end for Streams, None where the process's end is the command's end.
        close_after_start: our copies of `pass_fds`, to be closed once started (or failed).
        notes: what must be said before the run.
        kill: ends what killing the process tree does not reach (a container).
        finish: to be awaited after the end: undoes traps, returns what must be said.
        clean: the same for what only a snapshot found; given the changes, after `finish`.
        release: to be called once nothing of the command runs any more.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    pass_fds: tuple[int, ...] = ()
    status_fd: int | None = None
    close_after_start: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    kill: Callable[[], Awaitable[None]] = field(default=_no_kill)
    finish: Callable[[], Awaitable[tuple[str, ...]]] = field(default=_nothing)
    clean: Callable[[Sequence[Change]], Awaitable[Sequence[str]]] = field(default=_not_cleaned)
    release: Callable[[], None] = field(default=_no_release)


Network: TypeAlias = Literal["filtered", "closed", "open"]


class Backend(Protocol):
    """One way to confine commands."""

    @property
    def name(self) -> str:
        """bubblewrap, docker, podman or none."""
        ...

    @property
    def network(self) -> Network:
        """What granted hosts mean: filtered (they alone), closed (refused), open (nothing is held back)."""
        ...

    def reaches(self, folder: Path) -> bool:
        """Whether a folder of the host (its real path) can be a command's working folder."""
        ...

    async def probe(self) -> str:
        """Really run something confined: empty when it works, else why it does not."""
        ...

    def enforced(self) -> Mapping[str, bool | str]:
        """What this backend enforces on this machine, for people; text where it is partly so."""
        ...

    def prepare(self, job: SandboxCommand) -> PreparedCommand:
        """Confine one command.

        Raises:
            Unavailable: something that was asked for cannot be enforced; nothing was started.
        """
        ...

    def close(self) -> None:
        """End what it keeps between commands; the next command makes it anew. May wait for a process."""
        ...
