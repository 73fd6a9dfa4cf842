"""Linked worktrees: what of their folders under `.git/worktrees` decides which programs git starts outside.

Git in such a worktree follows its `commondir` to the config and the hooks, and reads its `config.worktree` where the
repository has that extension. A command must be able to add and remove worktrees, so nothing is mounted there: both are
compared afterwards. A rebase that waits is ordinary work too, but its `exec` lines run where it is continued: they are told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox import gitconfig, protect
from pegboard.shell.sandbox.folder_handles import pinned

_COMMON: Final = b"../.."
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktrees:
    """What was there before a command.

    Attributes:
        git: the folder with objects, refs, config and hooks.
        common: what each worktree's `commondir` said.
        configs: each `config.worktree`, that of the repository itself included.
        todo: the lines of rebases that wait.
        linked: `git/worktrees` was a link already.
        hooks: whether the repository had a folder of hooks.
    """

    git: Path
    common: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    configs: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    todo: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    linked: bool = False
    hooks: bool = True


def look(git: Path) -> Worktrees:
    """What is there now: a listing, and a few small files of each worktree."""
    top = git / "worktrees"
    own = list(folders(git))
    said = {folder: _said(folder / "commondir") for folder in own}
    configs = {file: _said(file) for at in (git, *own) if (file := at / "config.worktree").exists()}
    todo = {file: _said(file) for at in (git, *own) if (file := _todo(at)).exists()}
    return Worktrees(
        git=git, common=said, configs=configs, todo=todo, linked=top.is_symlink(), hooks=(git / "hooks").exists()
    )  # fmt: skip


async def clean(before: Worktrees, quarantine: Path, *, outside: bool = False) -> list[str]:
    """Take back what a command wrote that would lead git elsewhere; what must be said.

    Args:
        before: what `look` said.
        quarantine: where moved files go.
        outside: the repository lies outside the workspace, so nothing else looks after its own folder.
    """
    git, notes, bad, back = before.git, list[str](), list[Path](), list[str]()
    top = git / "worktrees"
    if top.is_symlink() and not before.linked:
        bad.append(top)
    elif top.is_dir():
        bad += [entry for entry in top.iterdir() if entry.is_symlink()]
    places = list(folders(git))
    for folder in places:
        expected = before.common.get(folder) or _COMMON
        if _said(folder / "commondir") == expected:
            continue
        moved = protect.quarantine([folder / "commondir"], git.parent, quarantine)
        _put(folder, "commondir", expected + b"\n")
        back.append((folder / "commondir").relative_to(git.parent).as_posix())
        notes += [f"moved to quarantine ({quarantine}): {', '.join(moved)}"] if moved else []
    for place in [*places, git] if outside else places:
        config = place / "config.worktree"
        if gitconfig.read_plain(config) is None:
            bad += [config] if os.path.lexists(config) else []
        else:
            said = await gitconfig.clean_fresh(config, before.configs.get(config, b""))
            notes += [f"{config.relative_to(git.parent).as_posix()}: {text}" for text in said]
    if outside:
        bad += [p for p in (git / "commondir",) if os.path.lexists(p)]
        hooks = git / "hooks"
        if not before.hooks and hooks.is_dir() and not hooks.is_symlink():
            bad += [entry for entry in hooks.iterdir() if not entry.name.endswith(".sample")]
        elif not before.hooks and hooks.is_symlink():
            bad.append(hooks)
    if back:
        notes.append(
            f"put back as git wrote it, for it leads to the programs that git runs: {', '.join(back)}"
        )
    if moved := protect.quarantine(bad, git.parent, quarantine):
        notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
    return [*notes, *_waiting([*places, git], before)]


def folders(git: Path) -> Iterator[Path]:
    """The folders of linked worktrees, reached by no link."""
    top = git / "worktrees"
    if git.is_symlink() or top.is_symlink() or not top.is_dir():
        return
    for entry in os.scandir(top):
        if entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _said(file: Path) -> bytes:
    return (gitconfig.read_plain(file) or b"").strip()


def _todo(folder: Path) -> Path:
    return folder / "rebase-merge" / "git-rebase-todo"


def _put(folder: Path, name: str, content: bytes) -> None:
    try:
        with pinned(folder) as fd:
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=fd)
            with os.fdopen(made, "wb") as file:
                file.write(content)
    except OSError:
        # Another command swapped the folder meanwhile; that one's own cleaning looks at it.
        return


def _waiting(places: list[Path], before: Worktrees) -> list[str]:
    """What a rebase would run when it is continued outside, where a command wrote that."""
    found: list[str] = []
    for folder in places:
        file = _todo(folder)
        now = _said(file)
        if now == before.todo.get(file, b""):
            continue
        lines = [line.strip() for line in now.decode("utf-8", "replace").splitlines()]
        found += [line for line in lines if line.split(None, 1)[:1] in (["exec"], ["x"])]
    if not found:
        return []
    shown = "; ".join(line[:100] for line in found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")
    return [f"a rebase waits, and `git rebase --continue` outside the sandbox would run: {shown}"]
