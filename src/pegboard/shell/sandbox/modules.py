"""Submodules: each has a config and hooks of its own under `.git/modules`, which `git status` outside runs.

Those of a linked worktree lie under `.git/worktrees/NAME/modules`.

Hooks that are there are mounted read-only. A config must stay a file that git can replace, so it
is compared afterwards and unsafe keys go back to what they were.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox import gitconfig, protect, worktrees

# Folders of a repository that hold no submodule.
_INNER: Final = frozenset({"objects", "refs", "logs", "hooks", "info", "worktrees", "lfs"})


def repositories(git: Path) -> list[Path]:
    """The git folders of a repository's submodules, those of submodules' submodules included."""
    if git.is_symlink():
        return []
    found: list[Path] = []
    for top in (git / "modules", *(folder / "modules" for folder in worktrees.folders(git))):
        if not top.is_dir() or top.is_symlink():
            continue
        for folder, folders, files in os.walk(top):
            if "config" in files or "HEAD" in files:
                found.append(Path(folder))
                folders[:] = [name for name in folders if name not in _INNER]
    return found


def configs(git: Path) -> dict[Path, bytes]:
    """The submodules' configs as they are now."""
    out: dict[Path, bytes] = {}
    for repository in repositories(git):
        content = gitconfig.read_plain(repository / "config")
        if content is not None:
            out[repository / "config"] = content
    return out


def hooks(before: Mapping[Path, bytes]) -> list[Path]:
    """The folders of hooks that submodules have."""
    found = [config.with_name("hooks") for config in before]
    return [folder for folder in found if folder.is_dir() and not folder.is_symlink()]


def binds(git: Path, before: Mapping[Path, bytes]) -> list[str]:
    """bwrap arguments: the hooks of submodules read-only, and no folder above them can be renamed."""
    parents = {parent for config in before for parent in config.parents if git in parent.parents}
    out: list[str] = []
    for parent in sorted(parents, key=lambda parent: len(parent.parts)):
        out += ["--bind", str(parent), str(parent)]
    for folder in hooks(before):
        out += ["--ro-bind", str(folder), str(folder)]
    return out


async def clean(workspace: Path, git: Path, before: Mapping[Path, bytes], quarantine: Path) -> list[str]:
    """Take back what a command wrote into submodules that could start programs; what must be said.

    Args:
        workspace: the workspace.
        git: the repository's folder.
        before: what `configs` said before the command.
        quarantine: where hooks go that were not there.
    """
    notes: list[str] = []
    bad: list[Path] = []
    for repository in repositories(git):
        config, folder = repository / "config", repository / "hooks"
        if gitconfig.read_plain(config) is None:
            bad += [config] if os.path.lexists(config) else []
        else:
            allow = partial(_worktree_inside, workspace, repository)
            notes += await gitconfig.clean_fresh(config, before.get(config, b""), allow=allow)
        bad += [
            path for name in ("commondir", "config.worktree") if os.path.lexists(path := repository / name)
        ]
        if folder.is_symlink():
            bad.append(folder)
        elif config not in before and folder.is_dir():
            bad += [entry for entry in folder.iterdir() if not entry.name.endswith(".sample")]
    moved = protect.quarantine(bad, git.parent, quarantine)
    if moved:
        notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
    return notes


def _worktree_inside(workspace: Path, repository: Path, key: str, value: str) -> bool:
    """`core.worktree` of a submodule names its folder in the workspace."""
    if key.lower() != "core.worktree":
        return False
    place = Path(os.path.normpath(repository / value))
    return workspace in place.parents and workspace / ".git" not in (place, *place.parents)
