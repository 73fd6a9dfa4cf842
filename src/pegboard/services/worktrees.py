"""Worktrees: a git worktree and a branch of its own for a session, so that it changes nothing where a person works."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard.config.paths import Paths
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError

_TIMEOUT_S: Final = 120.0
_NO_HOOKS: Final = ("-c", "core.hooksPath=/dev/null")
TRANSACTIONS: Final = "pegboard-transactions"
"""The folder of the copies that transactions work in, beside our data folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """One worktree.

    Attributes:
        root: its folder.
        workspace: the folder in it that stands for the original workspace; `root` unless that is a subfolder.
        branch: its branch.
        uncommitted: how many changed files of the original workspace are not in it.
        is_new: it was made now.
        lock: says that a process works in it; a descriptor.
    """

    root: Path
    workspace: Path
    branch: str
    uncommitted: int = 0
    is_new: bool = False
    lock: int = -1


class Worktrees:
    """Makes and removes the worktrees of a workspace.

    A worktree that a killed process left behind without changes is removed when the next one is made.

    Args:
        paths: worktrees are kept in `pegboard-worktrees` beside our data folder.
        workspace: a folder of a git repository.
        environment: what git is run with.
    """

    def __init__(self, paths: Paths, workspace: Path, environment: Mapping[str, str]) -> None:
        self._paths = paths
        self._workspace = workspace.resolve()
        # Not in a folder of ours: those are closed to agents.
        self._folder = paths.data.with_name("pegboard-worktrees")
        self._making = asyncio.Lock()
        kept = ("PATH", "HOME", "XDG_CONFIG_HOME")
        self._environment = {k: environment[k] for k in kept if k in environment} | {
            "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0",
        }  # fmt: skip

    async def open(self, session: str) -> Worktree:
        """The worktree of a session; it is made from the last commit if there is none yet.

        Files that are trusted in the workspace are trusted in the worktree as long as they are the same.

        Raises:
            ConfigError: the workspace is in no git repository, or that has no commit.
        """
        top = await self._git("rev-parse", "--show-toplevel")
        if top is None:
            raise ConfigError(
                f"{self._workspace} is in no git repository, and a worktree needs one; run git init there, or "
                "leave --worktree out"
            )
        if await self._git("rev-parse", "--verify", "--quiet", "HEAD") is None:
            raise ConfigError(f"the repository {top} has no commit yet, and a worktree begins at one")
        if self._workspace.is_relative_to(self._paths.data.with_name(TRANSACTIONS).resolve()):
            raise ConfigError(
                "a worktree made in a transaction would belong to the copy, which is removed; leave one of them out"
            )
        async with self._making:
            return await self._open(session, Path(top).resolve())

    async def _open(self, session: str, top: Path) -> Worktree:
        name = name_of(session, self._workspace)
        root = self._folder / name
        # Another process may be looking whether it can be removed.
        lock = await asyncio.to_thread(wait_for_lock, self._locks / f"{name}.lock", fcntl.LOCK_SH)
        try:
            tree = Worktree(
                root=root, workspace=root / self._workspace.relative_to(top), branch=f"pegboard/{name}", lock=lock,
                uncommitted=len((await self._git("status", "--porcelain") or "").splitlines()), is_new=not root.is_dir(),
            )  # fmt: skip
            if tree.is_new:
                root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                await self._must("worktree", "prune")
                await self._sweep()
                # The branch of a worktree whose folder was deleted by hand is taken up again.
                known = await self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{tree.branch}")
                add = ("-b", tree.branch, str(root)) if known is None else (str(root), tree.branch)
                await self._must("worktree", "add", "--quiet", *add)
                # A folder of which nothing is committed is not in the worktree, and git keeps no empty ones.
                tree.workspace.mkdir(parents=True, exist_ok=True)
        except BaseException:
            os.close(lock)
            raise
        Trust(self._paths).copy(self._workspace, tree.workspace)
        return tree

    async def find(self, session: str) -> Worktree | None:
        """The worktree of a session, None if it has none now; `release` or `close` it."""
        name = name_of(session, self._workspace)
        if not (self._folder / name).is_dir():
            return None
        return await self.open(session)

    async def commit(self, tree: Worktree, message: str) -> None:
        """Commit what was changed in a worktree on its branch, so that it can be merged from anywhere."""
        if not await self._git("status", "--porcelain", at=tree.root):
            return
        known = await self._git("config", "user.email", at=tree.root)
        who = () if known else ("-c", "user.name=pegboard", "-c", "user.email=pegboard@localhost")
        await self._must("add", "--all", at=tree.root)
        await self._must(*who, "commit", "--quiet", "--no-gpg-sign", "-m", message, at=tree.root)

    async def close(self, tree: Worktree) -> str | None:
        """Remove a worktree in which nothing was changed or committed; else what was, as `git diff --stat` shows it."""
        try:
            return await self._close(tree)
        finally:
            self.release(tree)

    def release(self, tree: Worktree) -> None:
        """Say that nobody works in a worktree for now; it stays."""
        with suppress(OSError):
            os.close(tree.lock)

    async def _close(self, tree: Worktree) -> str | None:
        base = await self._git("merge-base", "HEAD", tree.branch) or "HEAD"
        # New files are shown too.
        await self._git("add", "--intent-to-add", "--all", at=tree.root)
        stat = await self._git("diff", "--stat", base, at=tree.root)
        tip = await self._git("rev-parse", tree.branch)
        if stat is None or stat.strip() or tip != base:
            return (stat or "").rstrip()
        try:
            fcntl.flock(tree.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return "nothing yet; another process works in it"
        await self._must("worktree", "remove", str(tree.root))
        await self._must("branch", "--quiet", "-d", tree.branch)
        Trust(self._paths).forget(tree.root)
        (self._locks / f"{tree.root.name}.lock").unlink(missing_ok=True)
        return None

    async def _sweep(self) -> None:
        """Remove the worktrees of this repository in which nobody works and nothing was changed."""
        rows = (await self._git("worktree", "list", "--porcelain") or "").splitlines()
        places = (Path(row.removeprefix("worktree ")) for row in rows if row.startswith("worktree "))
        folder = self._folder.resolve()
        for root in [place for place in places if place.parent == folder and place.is_dir()]:
            lock = take_lock(self._locks / f"{root.name}.lock")
            if lock is not None:
                tree = Worktree(root=root, workspace=root, branch=f"pegboard/{root.name}", lock=lock)
                with suppress(ConfigError):  # What git will not remove stays.
                    await self.close(tree)

    @property
    def _locks(self) -> Path:
        return self._paths.state / "worktrees"

    async def _must(self, *words: str, at: Path | None = None) -> None:
        status, output = await self._run(words, at or self._workspace)
        if status:
            raise ConfigError(f"git {' '.join(words[:2])} ended with status {status}: {output.strip()[:500]}")

    async def _git(self, *words: str, at: Path | None = None) -> str | None:
        status, output = await self._run(words, at or self._workspace)
        return None if status else output.rstrip("\n")

    async def _run(self, words: tuple[str, ...], folder: Path) -> tuple[int, str]:
        from pegboard.process.child import run_small

        try:
            status, output = await run_small(
                ["git", *_NO_HOOKS, "-C", os.fspath(folder), *words], self._environment, timeout_s=_TIMEOUT_S
            )
        except OSError as error:
            raise ConfigError(f"git cannot be started: {error}; install it") from None
        return status, output.decode("utf-8", "replace")


def name_of(session: str, workspace: Path) -> str:
    """A name for the tree of a session: the workspace's, and letters that no other session has."""
    words = re.sub(r"[^a-z0-9]+", "-", workspace.name.lower()).strip("-")[:30] or "workspace"
    digest = hashlib.sha256(f"{workspace}\0{session}".encode()).hexdigest()
    return f"{words}-{digest[:10]}"


def take_lock(path: Path) -> int | None:
    """A descriptor that holds a lock file alone until it is closed; None if another process holds it."""
    try:
        return wait_for_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def wait_for_lock(path: Path, kind: int) -> int:
    """A descriptor that holds a lock file until it is closed; blocking.

    Args:
        path: made if it is missing; the holder may remove it.
        kind: as flock(2) takes it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, kind)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(path)):
                    return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # It was removed before we had it.
