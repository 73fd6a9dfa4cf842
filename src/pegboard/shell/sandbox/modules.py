"""Submodules: each has a config and hooks of its own under `.git/modules`, which `git status` outside runs.

Hooks that are there are mounted read-only. A config must stay a file that git can replace, so it
is compared afterwards and unsafe keys go back to what they were (docs/decisions/0060).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox import gitconfig, protect

# Folders of a repository that hold no submodule.
_INNER: Final = frozenset({"objects", "refs", "logs", "hooks", "info", "worktrees", "lfs"})


def repositories(workspace: Path) -> list[Path]:
    """The git folders of the workspace's submodules, those of submodules' submodules included."""
    top = workspace / ".git" / "modules"
    if not top.is_dir() or top.is_symlink() or top.parent.is_symlink():
        return []
    found: list[Path] = []
    for folder, folders, files in os.walk(top):
        if "config" in files or "HEAD" in files:
            found.append(Path(folder))
            folders[:] = [name for name in folders if name not in _INNER]
    return found


def configs(workspace: Path) -> dict[Path, bytes]:
    """The submodules' configs as they are now."""
    out: dict[Path, bytes] = {}
    for repository in repositories(workspace):
        content = gitconfig.read_plain(repository / "config")
        if content is not None:
            out[repository / "config"] = content
    return out


def binds(workspace: Path, before: Mapping[Path, bytes]) -> list[str]:
    """bwrap arguments: the hooks of submodules read-only, and no folder above them can be renamed."""
    top = workspace / ".git"
    parents = {parent for config in before for parent in config.parents if top in parent.parents}
    out: list[str] = []
    for parent in sorted(parents, key=lambda parent: len(parent.parts)):
        out += ["--bind", str(parent), str(parent)]
    for config in before:
        hooks = config.with_name("hooks")
        if hooks.is_dir() and not hooks.is_symlink():
            out += ["--ro-bind", str(hooks), str(hooks)]
    return out


async def clean(workspace: Path, before: Mapping[Path, bytes], quarantine: Path) -> list[str]:
    """Take back what a command wrote into submodules that could start programs; what must be said.

    Args:
        workspace: the workspace.
        before: what `configs` said before the command.
        quarantine: where hooks go that were not there.
    """
    notes: list[str] = []
    bad: list[Path] = []
    for repository in repositories(workspace):
        config, hooks = repository / "config", repository / "hooks"
        if gitconfig.read_plain(config) is None:
            bad += [config] if os.path.lexists(config) else []
        else:
            allow = partial(_worktree_inside, workspace, repository)
            notes += await gitconfig.clean_fresh(config, before.get(config, b""), allow=allow)
        bad += [
            path for name in ("commondir", "config.worktree") if os.path.lexists(path := repository / name)
        ]
        if hooks.is_symlink():
            bad.append(hooks)
        elif config not in before and hooks.is_dir():
            bad += [entry for entry in hooks.iterdir() if not entry.name.endswith(".sample")]
    moved = protect.quarantine(bad, workspace, quarantine)
    if moved:
        notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
    return notes


def _worktree_inside(workspace: Path, repository: Path, key: str, value: str) -> bool:
    """`core.worktree` of a submodule names its folder in the workspace."""
    if key.lower() != "core.worktree":
        return False
    place = Path(os.path.normpath(repository / value))
    return workspace in place.parents and workspace / ".git" not in (place, *place.parents)
