"""Limits of a command with all its children, and the control groups that hold it to them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What one command with all its children may take; 0 = no limit.

    Attributes:
        memory_bytes: memory of all together where cgroups are; everywhere the data of each process
            (RLIMIT_DATA: node and the JVM reserve far more address space than they touch).
        processes: processes and threads at one time.
        file_bytes: size of any one file that is written.
        cpu_s: CPU seconds of each process.
        open_files: descriptors of each process.
    """

    memory_bytes: int = GIB
    processes: int = 256
    file_bytes: int = 512 * MIB
    cpu_s: int = 3600
    open_files: int = 4096

    def ulimits(self, *, processes: bool = True) -> str:
        """The same as `ulimit` commands for bash, hard and soft; core files are always off."""
        out = ["ulimit -c 0"]
        if self.memory_bytes:
            out.append(f"ulimit -d {self.memory_bytes // KIB}")
        if self.file_bytes:
            out.append(f"ulimit -f {self.file_bytes // KIB}")
        if self.cpu_s:
            out.append(f"ulimit -t {self.cpu_s}")
        if self.open_files:
            out.append(f"ulimit -n {self.open_files}")
        if processes and self.processes:
            out.append(f"ulimit -u {self.processes}")
        return "; ".join(out)


ROOT: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")
_KEPT: Final = 4


@dataclass(slots=True)
class Cgroup:
    """One group; `release` gives it back."""

    folders: tuple[Path, ...]
    pool: CgroupPool

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files into which a process writes `0` to join."""
        return tuple(str(folder / "cgroup.procs") for folder in self.folders)

    def members(self) -> list[int]:
        """Ids of the processes in it."""
        try:
            return [int(line) for line in (self.folders[0] / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def kill(self) -> None:
        """Kill every member."""
        # Only version 2 has the file, and only it ends all at one time; it is never made by us.
        with contextlib.suppress(OSError), (self.folders[0] / "cgroup.kill").open("r+") as file:
            file.write("1")
            return
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def out_of_memory(self) -> int:
        """How many processes the kernel ended for memory since the group was made."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def release(self) -> None:
        """Give it back to its pool."""
        self.pool.give_back(self)


class CgroupPool:
    """Groups with the same limits. Safe to use from several threads.

    Args:
        parents: one folder a hierarchy, in which groups are made.
        limits: what every group enforces.
        unified: whether `parents` is one cgroup-v2 folder.
    """

    def __init__(self, parents: tuple[Path, ...], limits: ResourceLimits, *, unified: bool) -> None:
        self._parents = parents
        self._limits = limits
        self._unified = unified
        self._idle: list[Cgroup] = []
        self._lock = threading.Lock()

    @classmethod
    def detect(cls, limits: ResourceLimits, root: Path = ROOT, own: Path = OWN) -> CgroupPool | None:
        """A pool that has really made one group, or None.

        Args:
            limits: what every group enforces.
            root: where control groups are mounted.
            own: names the groups that this process is in (cgroups(7)).
        """
        for parents, unified in _candidates(root, own):
            pool = cls(parents, limits, unified=unified)
            with contextlib.suppress(OSError):
                pool._sweep()
                pool.give_back(pool._make())
                return pool
        return None

    def take(self) -> Cgroup:
        """An empty group.

        Raises:
            OSError: none is idle and none could be made.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._make()

    def give_back(self, group: Cgroup) -> None:
        """Take back a group; it is kept when it is empty and few are, else removed."""
        if group.members():
            group.kill()
            threading.Thread(target=_remove_when_empty, args=(group,), daemon=True).start()
            return
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(group)
                return
        _remove(group)

    def close(self) -> None:
        """Remove the idle groups."""
        with self._lock:
            idle, self._idle = self._idle, []
        for group in idle:
            _remove(group)

    def _make(self) -> Cgroup:
        name = f"pegboard-{os.getpid()}-{secrets.token_hex(4)}"
        folders = tuple(parent / name for parent in self._parents)
        made: list[Path] = []
        try:
            for folder in folders:
                folder.mkdir()
                made.append(folder)
            self._limit(folders)
        except OSError:
            for folder in made:
                folder.rmdir()
            raise
        return Cgroup(folders, self)

    def _limit(self, folders: tuple[Path, ...]) -> None:
        memory, processes = self._limits.memory_bytes, self._limits.processes
        for folder in folders:
            if processes and (folder / "pids.max").exists():
                (folder / "pids.max").write_text(str(processes))
            if memory and (folder / "memory.max").exists():
                (folder / "memory.max").write_text(str(memory))
                with contextlib.suppress(OSError):
                    (folder / "memory.swap.max").write_text("0")
            if memory and (folder / "memory.limit_in_bytes").exists():
                (folder / "memory.limit_in_bytes").write_text(str(memory))
                with contextlib.suppress(OSError):
                    (folder / "memory.memsw.limit_in_bytes").write_text(str(memory))

    def _sweep(self) -> None:
        """Remove groups that a killed process of ours left behind."""
        for parent in self._parents:
            for folder in parent.glob("pegboard-*-*"):
                owner = folder.name.split("-")[1]
                if not os.path.exists(f"/proc/{owner}"):
                    with contextlib.suppress(OSError):
                        folder.rmdir()


def _candidates(root: Path, own: Path) -> list[tuple[tuple[Path, ...], bool]]:
    """Where groups could be made: in each hierarchy that limits what we limit, at or above our own group."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    out: list[tuple[tuple[Path, ...], bool]] = []
    old: list[Path] = []
    for line in lines:
        _, names, path = line.split(":", 2)
        if not names:
            ours = root / path.lstrip("/")
            # Processes cannot live beside groups that have controllers: siblings of ours come first, then
            # those of the groups above it, as far as they were delegated to us.
            above = [parent for parent in ours.parents if parent == root or root in parent.parents]
            out += [((parent,), True) for parent in (*above, ours) if _controls(parent)]
        for name in names.split(","):
            if name in ("memory", "pids"):
                old.append(root / name / path.lstrip("/"))
    if len(old) == 2:
        out.append((tuple(old), False))
    return out


def _controls(folder: Path) -> bool:
    """Whether groups in a folder can be limited; an ordinary user's own folder is made so where it can be."""
    wanted = {"memory", "pids"}
    try:
        if not os.access(folder, os.W_OK):
            return False
        control = folder / "cgroup.subtree_control"
        if not wanted <= set(control.read_text().split()) and folder.stat().st_uid == os.geteuid() != 0:
            control.write_text("+memory +pids")
        return wanted <= set(control.read_text().split())
    except OSError:
        return False


def _remove(group: Cgroup) -> None:
    for folder in group.folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_when_empty(group: Cgroup) -> None:
    gone = threading.Event()
    for _ in range(100):
        if not group.members():
            break
        gone.wait(0.05)
    _remove(group)
