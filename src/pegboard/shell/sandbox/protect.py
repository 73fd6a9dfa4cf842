"""Protected paths: what of the workspace a confined command may not change.

Present ones are mounted read-only. A read-only mount of a leaf is undone by renaming its
parent, so each parent is first mounted onto itself: a mount point cannot be renamed. Absent
ones cannot be mounted without leaving an empty leaf on the host, so they are looked for
afterwards and moved to quarantine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox.folder_handles import move_out, pinned

# Stand for themselves in `Shield.absent`, where the workspace is no repository: a `.git` that is
# no folder, and a bare repository in the workspace itself.
_GIT: Final = ".git"
_BARE: Final = "HEAD+objects+refs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedPaths:
    """What is protected at the start of one command.

    Attributes:
        parents: folders to mount onto themselves, outermost first.
        leaves: paths to mount read-only.
        git_config: `.git/config` where it is a plain file: it gets a private copy instead.
        absent: workspace-relative paths that do not exist now and must not appear.
        links: symbolic links and where they point. A mount would protect the target and not the
            name, so the name is compared afterwards.
    """

    parents: tuple[Path, ...]
    leaves: tuple[Path, ...]
    git_config: Path | None
    absent: tuple[str, ...]
    links: tuple[tuple[Path, str], ...] = ()


def shield(workspace: Path, protected: Iterable[str], approved: Iterable[str] = ()) -> ProtectedPaths:
    """Look at the protected paths as they are now, less those that were approved; a few lstat calls."""
    allowed = tuple(approved)
    protected = [name for name in protected if not _is_approved(name, allowed)]
    parents: dict[Path, None] = {}
    leaves: list[Path] = []
    absent: list[str] = []
    links: list[tuple[Path, str]] = []
    git_config: Path | None = None
    if not os.path.lexists(workspace / ".git"):
        absent += [_GIT, _BARE]
    for name in protected:
        path = workspace / name
        between = _between(workspace, name)
        linked = next((parent for parent in between if parent.is_symlink()), None)
        if linked is not None:
            # Whatever the link leads to is not ours to judge; that it stays this link is.
            links.append((linked, os.readlink(linked)))
            target = path.resolve()
            if workspace in target.parents and target.exists():
                leaves.append(target)
            continue
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            absent.append(name)
            continue
        if stat.S_ISLNK(mode):
            links.append((path, os.readlink(path)))
            target = path.resolve()
            if workspace in target.parents and target.exists():
                leaves.append(target)
            continue
        parents.update(dict.fromkeys(between))
        if name == ".git/config" and stat.S_ISREG(mode):
            git_config = path
        else:
            leaves.append(path)
    return ProtectedPaths(
        parents=tuple(parents),
        leaves=tuple(leaves),
        git_config=git_config,
        absent=tuple(absent),
        links=tuple(dict.fromkeys(links)),
    )


def _is_approved(name: str, approved: Sequence[str]) -> bool:
    """Whether what a person allowed is the path or lies in it; the config of git has its own way."""
    return name != ".git/config" and any(path == name or path.startswith(f"{name}/") for path in approved)


def _between(workspace: Path, name: str) -> list[Path]:
    """The folders between the workspace and a path in it, outermost first."""
    parts = name.split("/")
    return [workspace.joinpath(*parts[:count]) for count in range(1, len(parts))]


def appeared(workspace: Path, absent: Iterable[str]) -> list[Path]:
    """The absent paths that are there now; those of a fresh repository only where they are dangerous.

    `git init` makes `.git/hooks` with samples and `.git/config`: hooks count one by one, and the
    config is judged by its keys elsewhere. A path is never followed through a link that the command
    made: the link itself is what appeared, else we would move files of other folders.
    """
    out: dict[Path, None] = {}
    for name in absent:
        path = workspace / name
        if name == _BARE:
            # A folder that looks like a bare repository is one to git, config and all.
            if all((workspace / part).exists() for part in ("HEAD", "objects", "refs")):
                out[workspace / "HEAD"] = None
            continue
        linked = next((parent for parent in _between(workspace, name) if parent.is_symlink()), None)
        if linked is not None:
            out[linked] = None
        elif not os.path.lexists(path):
            continue
        elif name == _GIT:
            if path.is_symlink() or not path.is_dir():
                out[path] = None
        elif name == ".git/config" and not path.is_symlink():
            continue
        elif name == ".git/hooks" and path.is_dir() and not path.is_symlink():
            out.update((entry, None) for entry in path.iterdir() if not entry.name.endswith(".sample"))
        else:
            out[path] = None
    return list(out)


def restore_links(links: Iterable[tuple[Path, str]], workspace: Path, folder: Path) -> list[str]:
    """Put back links that were removed or re-pointed; their workspace-relative names."""
    restored: list[str] = []
    for path, target in links:
        # A parent that became a link would make us move and write where that leads.
        above = [parent for parent in reversed(path.parents) if workspace in parent.parents]
        through = next((parent for parent in above if not parent.is_dir() or parent.is_symlink()), None)
        if through is None and path.is_symlink() and os.readlink(path) == target:
            continue
        in_the_way = path if through is None else through
        if os.path.lexists(in_the_way):
            quarantine([in_the_way], workspace, folder)
        try:
            with pinned(path.parent, make=True) as fd:
                os.symlink(target, path.name, dir_fd=fd)
        except (FileExistsError, NotADirectoryError):
            # Another command put something there meanwhile; that one's own cleaning looks at it.
            continue
        restored.append(path.relative_to(workspace).as_posix())
    return restored


def quarantine(paths: Iterable[Path], workspace: Path, folder: Path) -> list[str]:
    """Move paths out of the workspace; their workspace-relative names. None is reached through a link."""
    moved: list[str] = []
    for path in paths:
        name = path.relative_to(workspace)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = 0
        while os.path.lexists(target):
            number += 1
            target = folder / f"{name}.{number}"
        if move_out(path, target):
            moved.append(name.as_posix())
    return moved


def drop_set_ids(workspace: Path, since_ns: int) -> list[str]:
    """Take set-uid and set-gid off files changed since a moment; their workspace-relative names. Blocking.

    For backends whose filter lets such modes pass: a program that a command made would run as its owner,
    for every user of the machine. Folders keep set-gid, which there only hands on a group.
    """
    dropped: list[str] = []
    # A file system may keep coarser times than the clock.
    since_ns -= 10_000_000
    for folder, _, names, at in os.fwalk(workspace, follow_symlinks=False):
        for name in names:
            try:
                # A path alone: its owner may have taken the right to read it away.
                fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except FileNotFoundError:
                continue
            try:
                there = os.fstat(fd)
                set_id = stat.S_ISREG(there.st_mode) and there.st_mode & 0o6000
                if not set_id or there.st_ctime_ns < since_ns:
                    continue
                os.chmod(f"/proc/self/fd/{fd}", there.st_mode & 0o1777)
            finally:
                os.close(fd)
            dropped.append(Path(folder, name).relative_to(workspace).as_posix())
    return dropped
