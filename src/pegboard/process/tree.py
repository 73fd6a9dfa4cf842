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
from typing import Final

MARK: Final = "PEGBOARD_EXEC"
_PROC: Final = "/proc"


def kill_group(group: int, number: int = signal.SIGKILL) -> bool:
    """Signal a process group; whether there was anything to signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def marked(mark: str, *, prefix: bool = False) -> list[int]:
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
    for name in _numeric(_PROC):
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue
        # The program's name may hold spaces and brackets; the fields follow the last bracket.
        fields = stat[stat.rfind(b")") + 2 :].split()
        children.setdefault(int(fields[1]), []).append(int(name))
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
        targets = set(marked(mark, prefix=prefix))
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
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return True
    return stat[stat.rfind(b")") + 2 : stat.rfind(b")") + 3] in (b"Z", b"X")


def _numeric(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []
