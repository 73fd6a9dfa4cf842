"""Linked git worktrees: the part of the repository that lies outside the workspace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pegboard.ports.snapshot import SnapshotChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The repository whose linked worktree the workspace is.

    Attributes:
        git_file: the workspace's `.git`, a file that names `git_dir`.
        git_dir: this worktree's own folder.
        common: the folder with objects, refs, config and hooks.
    """

    git_file: Path
    git_dir: Path
    common: Path

    @property
    def config(self) -> Path:
        """The shared config; it gets a private copy."""
        return self.common / "config"

    def binds(self) -> list[str]:
        """bwrap arguments: the common folder writable, its hooks and our `.git` file not."""
        out = ["--bind", str(self.common), str(self.common)]
        if self.common not in self.git_dir.parents:
            out += ["--bind", str(self.git_dir), str(self.git_dir)]
        for leaf in (self.common / "hooks", self.git_dir / "commondir", self.git_dir / "config.worktree"):
            if leaf.exists():
                out += ["--ro-bind", str(leaf), str(leaf)]
        return [*out, "--ro-bind", str(self.git_file), str(self.git_file)]


def repository_of(workspace: Path) -> Repository | None:
    """The repository of a linked worktree; None for anything else.

    The worktree's folder must name the workspace back, else a planted `.git` file could open any
    folder of the machine for writing.
    """
    git_file = workspace / ".git"
    if git_file.is_symlink() or not git_file.is_file():
        return None
    text = _line(git_file)
    if not text.startswith("gitdir:"):
        return None
    git_dir = (workspace / text.removeprefix("gitdir:").strip()).resolve()
    back = _line(git_dir / "gitdir")
    if not back or Path(git_dir, back).resolve() != git_file.resolve():
        return None
    common = (git_dir / (_line(git_dir / "commondir") or ".")).resolve()
    if (
        git_dir.parent.name != "worktrees"
        or git_dir.parent.parent != common
        or not (common / "objects").is_dir()
    ):
        return None
    return Repository(git_file=git_file, git_dir=git_dir, common=common)


def repositories_told(captured: SnapshotChanges) -> list[str]:
    """A sentence about repositories in subfolders whose config or hooks a command made or changed.

    They are not taken back: whoever goes there runs what they say, and should know.
    """
    found: dict[str, None] = {}
    for change in captured.changes.changes:
        folder, git, rest = change.path.partition("/.git")
        telling = rest == "" or rest == "/config" or rest.startswith("/hooks/")
        if git and telling and change.kind != "delete" and not rest.endswith(".sample"):
            found[folder] = None
    if not found:
        return []
    return [f"git does what their config and hooks say, and this command wrote those of: {', '.join(found)}"]


def _line(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.readline(4096).strip()
    except OSError:
        return ""
