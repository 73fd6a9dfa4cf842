"""Finding and killing a command's whole process tree, escaped children included.

A child that calls setsid leaves the process group and, once its parent has died, the tree.
Each command carries a mark in its environment (`PEGBOARD_EXEC`); whatever has the mark
belongs to it, wherever it went. Inside a PID namespace none of this is needed: killing the
namespace's first process ends all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Final

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
