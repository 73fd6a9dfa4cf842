"""Git in the workspace: what a command may leave in a repository that runs programs when git is used outside.

`.git/config` is a private copy inside, whose safe keys are merged afterwards. Linked worktrees, submodules and
repositories that the index names have configs and hooks of their own: those of submodules that are there are mounted
read-only or compared afterwards, and unsafe keys go back to what they were (docs/decisions/0060, 0330).
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import os
import re
import shutil
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pegboard.core.effects import Change
from pegboard.core.secrets.clip import clip
from pegboard.process.child import run_small
from pegboard.shell.sandbox import protect
from pegboard.shell.sandbox.folder_handles import pinned

# Keys that say where and how to fetch, never what to run. Everything else could start a program
# (core.fsmonitor, core.sshCommand, core.hooksPath, alias.*, filter.*, include.*, remote.*.uploadpack …).
_SAFE: Final = (
    "user.name", "user.email",
    "remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.push", "remote.*.mirror",
    "remote.*.prune", "remote.*.tagopt", "remotes.*",
    "branch.*.remote", "branch.*.merge", "branch.*.rebase", "branch.*.description", "branch.*.pushremote",
    "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "init.defaultbranch",
    "submodule.*.url", "submodule.*.active",
    "gc.auto", "fetch.prune", "merge.ff", "merge.conflictstyle", "rebase.autostash", "rebase.autosquash",
    "branch.autosetupmerge", "branch.autosetuprebase", "core.autocrlf", "core.eol", "core.quotepath", "core.abbrev",
    "core.sparsecheckout", "core.sparsecheckoutcone", "color.ui", "rerere.enabled", "rerere.autoupdate",
    "status.showuntrackedfiles",
)  # fmt: skip
# What `git init` writes. In a repository that was there before, nobody needs to change them.
_OF_FRESH: Final = (
    "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates",
    "core.ignorecase", "core.precomposeunicode", "core.symlinks", "core.autocrlf", "core.eol",
    "extensions.objectformat", "extensions.refstorage",
)  # fmt: skip

Entry = tuple[str, str]
_MOST_BYTES: Final = 1_000_000
_DROPPED: Final = "changes of .git/config inside the sandbox were dropped"


def is_safe(key: str, value: str, *, fresh: bool = False) -> bool:
    """Whether a config entry can only say where and how to fetch, never what to run.

    `fresh`: the repository was made just now, so the keys that `git init` writes are fine too.
    """
    lowered = key.lower()
    patterns = (*_SAFE, *_OF_FRESH) if fresh else _SAFE
    if not any(fnmatch.fnmatchcase(lowered, pattern) for pattern in patterns):
        return False
    if lowered.endswith("url"):
        # `ext::` and other remote helpers run programs; a leading `-` becomes an option.
        host = value.partition("://")[2]
        return "::" not in value and not value.startswith("-") and not host.startswith("-")
    return True


async def merge_config(
    real: Path, before: bytes, copy: Path, temp_dir: Path, *, approved: bool = False
) -> tuple[str, ...]:
    """Bring the safe changes of `copy` into `real`; what must be said about the rest.

    `real` is written in place: a rename over it would take away the mounts that keep it from
    commands that still run.

    Args:
        real: the repository's config, which the command could not reach.
        before: its content when the copy was made.
        copy: the private copy after the command; it may have become anything.
        temp_dir: a folder that the command could not reach.
        approved: a person allowed the command to change the config, so that every key is kept.
    """
    after = read_plain(copy)
    if after == before:
        return ()
    if after is None:
        return (f"{_DROPPED}: it is no longer a regular file of at most {_MOST_BYTES:,} bytes",)
    git = shutil.which("git")
    if git is None:
        return (f"{_DROPPED}: git is not installed to check them",)
    try:
        old = await _config_entries(git, _write_new(temp_dir / "before", before))
        new = await _config_entries(git, _write_new(temp_dir / "after", after))
    except ValueError as problem:
        return (f"{_DROPPED}: {problem}",)
    refused: list[str] = []
    was_real = real.read_bytes()
    merged = _write_new(temp_dir / "merged", was_real)
    for key in dict.fromkeys(key for key, _ in [*old, *new]):
        was = [value for name, value in old if name == key]
        now = [value for name, value in new if name == key]
        if was == now:
            continue
        if not approved and not all(is_safe(key, value) for value in [*was, *now]):
            refused.append(key)
            continue
        await _set(git, merged, key, now)
    if (content := merged.read_bytes()) != was_real:
        _write_in_place(real, content)
    if not refused:
        return ()
    return (f"not kept from .git/config: {', '.join(sorted(refused))} (such keys can start programs)",)


async def clean_fresh(
    config: Path, before: bytes = b"", *, allow: Callable[[str, str], bool] | None = None
) -> tuple[str, ...]:
    """Take unsafe keys back out of a config that the command could write.

    Args:
        config: of a repository that the command made (`before` is empty), or of a submodule.
        before: its content before the command; keys that stood there stay as they were.
        allow: further entries that may stand there.
    """
    git = shutil.which("git")
    content = read_plain(config)
    if git is None or content is None or content == before:
        return ()
    try:
        # git works on a copy, and nothing is reached by its path twice: another command may swap a link in.
        with pinned(config.parent) as folder, tempfile.TemporaryDirectory(prefix="pegboard-") as scratch:
            return await _clean_copy(git, Path(scratch), (folder, config.name), content, before, allow)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        return ()


async def _clean_copy(
    git: str,
    temp_dir: Path,
    place: tuple[int, str],
    content: bytes,
    before: bytes,
    allow: Callable[[str, str], bool] | None,
) -> tuple[str, ...]:
    """Clean a copy and put it where the config stands: `place` is a folder's descriptor and a name in it."""
    copy = _write_new(temp_dir / "config", content)
    try:
        entries = await _config_entries(git, copy)
        old = await _config_entries(git, _write_new(temp_dir / "before", before)) if before else []
    except ValueError as problem:
        os.unlink(place[1], dir_fd=place[0])
        return (f"the new .git/config was removed: {problem}",)
    unsafe: list[str] = []
    for key in dict.fromkeys(key for key, _ in [*entries, *old]):
        was = [value for name, value in old if name == key]
        now = [value for name, value in entries if name == key]
        safe = all(
            is_safe(key, value, fresh=True) or (allow is not None and allow(key, value)) for value in now
        )
        if was == now or (safe and now):
            continue
        unsafe.append(key)
        await _set(git, copy, key, was)
    if not unsafe:
        return ()
    _write_in_place(place[1], copy.read_bytes(), folder=place[0])
    return (
        f"removed from the new .git/config, because they can start programs: {', '.join(sorted(unsafe))}",
    )


def read_plain(file: Path) -> bytes | None:
    """The content of a file that a command may have replaced: None for a link, a pipe or a huge file."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        # A second name could lead to any file that its owner may link.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > _MOST_BYTES:
            return None
        return os.read(fd, _MOST_BYTES)
    finally:
        os.close(fd)


def _write_new(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def _write_in_place(file: Path | str, content: bytes, *, folder: int | None = None) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))
        os.fsync(fd)
    finally:
        os.close(fd)


async def identity(env: dict[str, str]) -> tuple[str, str]:
    """The user's git name and e-mail; empty where git or they are missing."""
    git = shutil.which("git", path=env.get("PATH"))
    if git is None:
        return ("", "")
    found: list[str] = []
    for key in ("user.name", "user.email"):
        status, out = await run_small([git, "config", "--global", "--get", key], env)
        found.append(out.decode("utf-8", "replace").strip() if status == 0 else "")
    return (found[0], found[1])


async def _config_entries(git: str, file: Path) -> list[Entry]:
    status, out = await run_small(
        [git, "config", "--file", str(file), "--no-includes", "--null", "--list"], _ENV
    )
    if status != 0:
        raise ValueError(f"it cannot be read ({clip(out.decode('utf-8', 'replace').strip(), 0, 200)})")
    entries: list[Entry] = []
    for item in out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        key, _, value = item.partition("\n")
        entries.append((key, value))
    return entries


async def _set(git: str, file: Path, key: str, values: Sequence[str]) -> None:
    """Make `values` the only values of `key`."""
    await run_small([git, "config", "--file", str(file), "--unset-all", key], _ENV)
    for value in values:
        await run_small([git, "config", "--file", str(file), "--add", key, value], _ENV)


# Outside any repository and without the user's own config: only the named file counts.
_ENV: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
               "GIT_CEILING_DIRECTORIES": "/", "HOME": "/nonexistent", "LC_ALL": "C"}  # fmt: skip


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
        kept = (self.git_dir / name for name in ("gitdir", "commondir", "config.worktree"))
        for leaf in (self.common / "hooks", *kept):
            if leaf.exists():
                out += ["--ro-bind", str(leaf), str(leaf)]
        return [*out, "--ro-bind", str(self.git_file), str(self.git_file)]

    def others(self) -> Callable[[str], bool]:
        """Tells absolute paths that belong to other checkouts of the repository, as these are now.

        That is what git keeps for each checkout alone (gitrepository-layout(5)), and the branches that the others
        have checked out.
        """
        common, own = f"{self.common}/", f"{self.git_dir}/"
        shared = tuple(f"{common}{name}" for name in ("objects/", "refs/", "logs/refs/", "packed-refs"))
        heads = [self.common / "HEAD", *(folder / "HEAD" for folder in worktree_folders(self.common))]
        lines = [_line(head) for head in heads if head.parent != self.git_dir]
        branches = [line.removeprefix("ref:").strip() for line in lines if line.startswith("ref:")]
        taken = {f"{common}{prefix}{branch}" for branch in branches for prefix in ("", "logs/")}

        def belongs(path: str) -> bool:
            if not path.startswith(common) or path.startswith(own):
                return False
            return path in taken or not path.startswith(shared)

        return belongs


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
    if git_dir.parent.name != "worktrees" or git_dir.parent.parent != common or not common.is_dir():
        return None
    return Repository(git_file=git_file, git_dir=git_dir, common=common)


def packs(git: Path, over_bytes: int) -> list[Path]:
    """The files of a repository's and its submodules' packs that have more than `over_bytes`."""
    found: list[Path] = []
    for repository in (git, *submodules(git)):
        folder = repository / "objects" / "pack"
        if folder.is_symlink() or not folder.is_dir():
            continue
        for entry in os.scandir(folder):
            if entry.is_file(follow_symlinks=False) and entry.stat().st_size > over_bytes:
                found.append(Path(entry.path))
    return found


async def clean_made(workspace: Path, changes: Sequence[Change], quarantine: Path) -> list[str]:
    """Take out of repositories below the workspace what a command wrote and could start programs; what must be said.

    Args:
        workspace: its own repository, with what lies in that, is looked after elsewhere.
        changes: what the command changed.
        quarantine: where hooks, pointers and the old configs go.
    """
    # What a linked worktree shares lies outside, and is looked after elsewhere too.
    changes = [c for c in changes if not c.path.startswith("/")]
    there = {workspace / c.path: c.before or b"" for c in changes if c.kind != "delete"}
    made = {workspace / c.path for c in changes if c.kind == "create"}
    # A repository that was moved keeps what it had: only what was cleaned already can come from such a place.
    kept = {c.before for c in changes if c.kind == "delete" and _SETTING.search(c.path)}
    notes, bad, folders = list[str](), dict[Path, None](), dict[Path, None]()
    for path in there:
        in_hooks = path.parent.name == "hooks"
        if path.name == ".git" or (path.name == "hooks" and path.is_symlink()):
            led = path.resolve() if path.is_symlink() else _led_to(path)
            if led is not None and workspace not in led.parents:
                bad[path] = None
            elif led is not None:
                folders[led if path.name == ".git" else path.parent] = None
        elif in_hooks or path.name in _SETTINGS:
            folders[path.parent.parent if in_hooks else path.parent] = None
    own = workspace / ".git"
    for folder in folders:
        if own in (folder, *folder.parents) or not (folder.name == ".git" or (folder / "HEAD").is_file()):
            continue
        now = read_plain(folder / "config") or b""
        # Only with its HEAD does a folder become a repository, whenever its config was written.
        before = b"" if folder / "HEAD" in made else there.get(folder / "config", now)
        if now in kept:
            before = now
        allow = partial(_worktree_inside, workspace, folder)
        said, wrong = await _clean_repository(workspace, folder, before, quarantine, allow=allow)
        notes += said
        bad.update(dict.fromkeys(wrong))
        hooks = [h for h in _hooks(folder) if h in there or h.is_symlink()]
        bad.update({hook: None for hook in hooks if read_plain(hook) not in kept})
    if moved := protect.quarantine(bad, workspace, quarantine):
        notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
    return notes


_SETTINGS: Final = ("config", "config.worktree", "commondir", "HEAD")
_SETTING: Final = re.compile(r"(?:^|/)\.git/(?:config$|hooks/)")


async def _clean_repository(
    workspace: Path,
    folder: Path,
    before: bytes,
    quarantine: Path,
    *,
    allow: Callable[[str, str], bool] | None = None,
) -> tuple[list[str], list[Path]]:
    """Clean the config of a repository in the workspace; what must be said, and what has to go."""
    config, name = folder / "config", folder.relative_to(workspace).as_posix()
    content = read_plain(config)
    notes: list[str] = []
    bad = [folder / leaf for leaf in ("commondir", "config.worktree") if os.path.lexists(folder / leaf)]
    if folder.parent.name == "worktrees" and _stripped(folder / "commondir") == _COMMON:
        bad = [path for path in bad if path.name != "commondir"]
    if content is not None:
        notes = [f"{name}: {text}" for text in await clean_fresh(config, before, allow=allow)]
        if notes:
            # It may be a person's own repository: what it said is kept.
            kept = quarantine / name / "config"
            kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            kept.write_bytes(content)
    elif os.path.lexists(config):
        bad.append(config)
    return notes, bad


def _line(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.readline(4096).strip()
    except OSError:
        return ""


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


def worktrees_of(git: Path) -> Worktrees:
    """What is there now: a listing, and a few small files of each worktree."""
    top = git / "worktrees"
    own = list(worktree_folders(git))
    said = {folder: _stripped(folder / "commondir") for folder in own}
    configs = {file: _stripped(file) for at in (git, *own) if (file := at / "config.worktree").exists()}
    todo = {file: _stripped(file) for at in (git, *own) if (file := _todo(at)).exists()}
    return Worktrees(
        git=git, common=said, configs=configs, todo=todo, linked=top.is_symlink(), hooks=(git / "hooks").exists()
    )  # fmt: skip


async def clean_worktrees(before: Worktrees, quarantine: Path, *, outside: bool = False) -> list[str]:
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
    places = list(worktree_folders(git))
    for folder in places:
        expected = before.common.get(folder) or _COMMON
        if _stripped(folder / "commondir") == expected:
            continue
        moved = protect.quarantine([folder / "commondir"], git.parent, quarantine)
        _put_back(folder, "commondir", expected + b"\n")
        back.append((folder / "commondir").relative_to(git.parent).as_posix())
        notes += [f"moved to quarantine ({quarantine}): {', '.join(moved)}"] if moved else []
    for place in [*places, git] if outside else places:
        config = place / "config.worktree"
        if read_plain(config) is None:
            bad += [config] if os.path.lexists(config) else []
        else:
            said = await clean_fresh(config, before.configs.get(config, b""))
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


def worktree_folders(git: Path) -> Iterator[Path]:
    """The folders of linked worktrees, reached by no link."""
    top = git / "worktrees"
    if git.is_symlink() or top.is_symlink() or not top.is_dir():
        return
    for entry in os.scandir(top):
        if entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _stripped(file: Path) -> bytes:
    return (read_plain(file) or b"").strip()


def _todo(folder: Path) -> Path:
    return folder / "rebase-merge" / "git-rebase-todo"


def _put_back(folder: Path, name: str, content: bytes) -> None:
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
        now = _stripped(file)
        if now == before.todo.get(file, b""):
            continue
        lines = [line.strip() for line in now.decode("utf-8", "replace").splitlines()]
        found += [line for line in lines if line.split(None, 1)[:1] in (["exec"], ["x"])]
    if not found:
        return []
    shown = "; ".join(line[:100] for line in found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")
    return [f"a rebase waits, and `git rebase --continue` outside the sandbox would run: {shown}"]


# Folders of a repository that hold no submodule.
_INNER: Final = frozenset({"objects", "refs", "logs", "hooks", "info", "worktrees", "lfs"})


def submodules(git: Path) -> list[Path]:
    """The git folders of a repository's submodules, those of submodules' submodules included."""
    if git.is_symlink():
        return []
    found: list[Path] = []
    for top in (git / "modules", *(folder / "modules" for folder in worktree_folders(git))):
        if not top.is_dir() or top.is_symlink():
            continue
        for folder, folders, files in os.walk(top):
            if "config" in files or "HEAD" in files:
                found.append(Path(folder))
                folders[:] = [name for name in folders if name not in _INNER]
    return found


def submodule_configs(git: Path) -> dict[Path, bytes]:
    """The submodules' configs as they are now."""
    out: dict[Path, bytes] = {}
    for repository in submodules(git):
        content = read_plain(repository / "config")
        if content is not None:
            out[repository / "config"] = content
    return out


def submodule_hooks(before: Mapping[Path, bytes]) -> list[Path]:
    """The folders of hooks that submodules have."""
    found = [config.with_name("hooks") for config in before]
    return [folder for folder in found if folder.is_dir() and not folder.is_symlink()]


def submodule_binds(git: Path, before: Mapping[Path, bytes]) -> list[str]:
    """bwrap arguments: the hooks of submodules read-only, and no folder above them can be renamed."""
    parents = {parent for config in before for parent in config.parents if git in parent.parents}
    out: list[str] = []
    for parent in sorted(parents, key=lambda parent: len(parent.parts)):
        out += ["--bind", str(parent), str(parent)]
    for folder in submodule_hooks(before):
        out += ["--ro-bind", str(folder), str(folder)]
    return out


async def clean_submodules(
    workspace: Path, git: Path, before: Mapping[Path, bytes], quarantine: Path
) -> list[str]:
    """Take back what a command wrote into submodules that could start programs; what must be said.

    Args:
        workspace: the workspace.
        git: the repository's folder.
        before: what `configs` said before the command.
        quarantine: where hooks go that were not there.
    """
    notes: list[str] = []
    bad: list[Path] = []
    for repository in submodules(git):
        config, folder = repository / "config", repository / "hooks"
        if read_plain(config) is None:
            bad += [config] if os.path.lexists(config) else []
        else:
            allow = partial(_worktree_inside, workspace, repository)
            notes += await clean_fresh(config, before.get(config, b""), allow=allow)
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


_GITLINK: Final = struct.pack(">I", 0o160000)
_FIXED: Final = 40
"""Bytes of an entry before its object name: two times, device, inode, mode, owner, size (gitformat-index)."""
_MOST: Final = 1000
_MOST_INDEX: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedRepositories:
    """The linked repositories as they were before a command.

    Attributes:
        configs: each one's config and its content.
        hooks: each hook that may run, and what tells whether it was replaced.
        pointers: `.git` that are files or links, and where they lead.
    """

    configs: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    hooks: Mapping[Path, tuple[int, ...]] = field(default_factory=dict[Path, "tuple[int, ...]"])
    pointers: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])


def linked_repositories(workspace: Path) -> LinkedRepositories:
    """What is there now."""
    configs: dict[Path, bytes] = {}
    hooks: dict[Path, tuple[int, ...]] = {}
    pointers: dict[Path, bytes] = {}
    for pointer, folder in _linked_folders(workspace):
        if pointer is not None:
            pointers[pointer] = _pointer(pointer)
        if folder is not None:
            configs[folder / "config"] = read_plain(folder / "config") or b""
            hooks.update(_hooks(folder))
    return LinkedRepositories(configs=configs, hooks=hooks, pointers=pointers)


async def clean_linked(workspace: Path, before: LinkedRepositories, quarantine: Path) -> list[str]:
    """Take back what a command wrote into linked repositories that could start programs; what must be said."""
    notes: list[str] = []
    bad: dict[Path, None] = {}
    for pointer, folder in _linked_folders(workspace):
        if folder is None:
            # It leads out of the workspace, where nobody looks after what lies there.
            if pointer is not None and before.pointers.get(pointer) != _pointer(pointer):
                bad[pointer] = None
            continue
        said, wrong = await _clean_repository(
            workspace, folder, before.configs.get(folder / "config", b""), quarantine
        )
        notes += said
        bad.update(dict.fromkeys(wrong))
        bad.update({hook: None for hook, stamp in _hooks(folder).items() if before.hooks.get(hook) != stamp})
    moved = protect.quarantine(bad, workspace, quarantine)
    if moved:
        notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
    return notes


def _linked_folders(workspace: Path) -> Iterator[tuple[Path | None, Path | None]]:
    """Each linked repository: its `.git` where that is a file, and its folder (None: outside the workspace)."""
    waiting = [workspace]
    seen: set[Path] = {workspace}
    while waiting and len(seen) < _MOST:
        top = waiting.pop()
        for name in _named(_git_folder(top)):
            place = top / name
            if place in seen or not _plain_folder(workspace, place):
                continue
            seen.add(place)
            git = place / ".git"
            if git.is_symlink() or not os.path.lexists(git):
                if git.is_symlink():
                    yield git, None
                continue
            waiting.append(place)
            if git.is_dir():
                yield None, git
            elif (folder := _led_to(git)) is not None:
                inside = workspace in folder.parents
                if inside and workspace / ".git" / "modules" in folder.parents:
                    continue  # `modules` looks after these.
                yield git, folder if inside and folder.is_dir() else None


def _git_folder(top: Path) -> Path:
    git = top / ".git"
    return git if git.is_dir() else _led_to(git) or git


def _pointer(pointer: Path) -> bytes:
    return os.fsencode(os.readlink(pointer)) if pointer.is_symlink() else read_plain(pointer) or b""


def _led_to(git: Path) -> Path | None:
    """Where a `.git` file leads."""
    text = (read_plain(git) or b"").decode("utf-8", "surrogateescape")
    if not text.startswith("gitdir:"):
        return None
    return (git.parent / text.removeprefix("gitdir:").strip()).resolve()


def _plain_folder(workspace: Path, place: Path) -> bool:
    """Whether a folder lies in the workspace without a link on the way."""
    if workspace not in place.parents or ".." in place.parts:
        return False
    parts = [place, *(p for p in place.parents if workspace in p.parents)]
    return not any(p.is_symlink() for p in parts) and place.is_dir()


def _hooks(folder: Path) -> dict[Path, tuple[int, ...]]:
    hooks = folder / "hooks"
    if hooks.is_symlink():
        there = hooks.lstat()
        return {hooks: (there.st_ino, there.st_ctime_ns)}
    out: dict[Path, tuple[int, ...]] = {}
    if hooks.is_dir():
        for entry in os.scandir(hooks):
            if not entry.name.endswith(".sample"):
                there = entry.stat(follow_symlinks=False)
                out[Path(entry.path)] = (there.st_ino, there.st_size, there.st_mode, there.st_ctime_ns)
    return out


def _named(git: Path) -> Iterator[str]:
    """Paths of a repository's index that are repositories of their own."""
    try:
        names = [n for n in os.listdir(git) if n == "index" or n.startswith("sharedindex.")]
    except OSError:
        return
    for name in names:
        content = _content(git / name)
        # Nearly every index has none, and is not read entry by entry.
        if _GITLINK in content:
            yield from gitlinks(content)


def _content(file: Path) -> bytes:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as opened:
        return opened.read(_MOST_INDEX)


def gitlinks(index: bytes) -> list[str]:
    """Paths with mode 160000 of an index of version 2, 3 or 4; what can be read of a broken one.

    Object names have 20 or 32 bytes, which the index does not say but by the length of its checksum. Where
    neither checksum is right (git need not write one), it is read in both ways: a name too many is no folder.
    """
    found: dict[str, None] = {}
    for size in _name_sizes(index):
        with contextlib.suppress(struct.error, ValueError, IndexError):
            found.update((name, None) for name in _index_entries(index, size) if name)
    return list(found)


def _name_sizes(index: bytes) -> tuple[int, ...]:
    """How long object names can be: SHA-1 has 20 bytes, SHA-256 32 (gitformat-index)."""
    for known in (hashlib.sha1, hashlib.sha256):
        size = known().digest_size
        if known(index[:-size]).digest() == index[-size:]:
            return (size,)
    return (20, 32)


def _index_entries(index: bytes, hash_bytes: int) -> Iterator[str]:
    """The paths in order; ends with an error where the index does.

    Raises:
        ValueError, IndexError, struct.error: it is no index, or none with names of this length.
    """
    signature, version, count = struct.unpack_from(">4sII", index)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    at, name = 12, b""
    for _ in range(count):
        start = at
        mode = index[at + 24 : at + 28]
        (flags,) = struct.unpack_from(">H", index, at + _FIXED + hash_bytes)
        at += _FIXED + hash_bytes + (4 if flags & 0x4000 else 2)
        kept = 0
        if version == 4:
            taken, at = _varint(index, at)
            if taken > len(name):
                raise ValueError("no prefix of that length")
            kept = len(name) - taken
        end = index.index(b"\0", at)
        name = name[:kept] + index[at:end]
        if version < 4 and (flags & 0xFFF) not in (0xFFF, len(name)):
            raise ValueError("the name has another length")
        at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
        if mode == _GITLINK:
            yield os.fsdecode(name)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """git's offset encoding (varint.c)."""
    byte = data[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 127)
    return value, at + 1


_KEY: Final = re.compile(
    rb"""^[ \t]*(?:\[[^\]\n]*\][ \t]*)?hookspath[ \t]*=[ \t]*(?:"([^"\n]*)"|([^\n#;]*))""",
    re.IGNORECASE | re.MULTILINE,
)


def started_by(workspace: Path) -> tuple[str, ...]:
    """Workspace-relative paths by which the repository's own config starts programs: hooks, and files that it includes."""
    files = config_files(workspace)
    hooks = (folder_inside(workspace, name) for file in files for name in _hook_folders(file))
    return tuple(dict.fromkeys([*filter(None, hooks), *inside(workspace, included_files(files))]))


def own_settings(home: Path) -> list[Path]:
    """The person's own settings (git-config(1), FILES)."""
    return [home / ".gitconfig", home / ".config" / "git" / "config"]


def config_files(workspace: Path) -> list[Path]:
    git = workspace / ".git"
    if git.is_dir():
        places = [git, *worktree_folders(git), *submodules(git)]
    elif (repository := repository_of(workspace)) is not None:
        places = [repository.common, repository.git_dir]
    else:
        return []
    return [folder / name for folder in places for name in ("config", "config.worktree")]


def _hook_folders(file: Path) -> list[str]:
    content = settings_text(file)
    if b"hookspath" not in content.lower():
        return []
    return [os.fsdecode(m[1] if m[1] is not None else m[2].strip()) for m in _KEY.finditer(content)]


def included_files(files: Sequence[Path], home: Path | None = None) -> list[Path]:
    """Files that git configs take in (git-config(1), Includes), whatever their conditions, and those that these do.

    One small file each is read; git is run only for one that speaks of includes. Missing files are among them.
    """
    found: dict[Path, None] = {}
    pending = list(files)
    while pending and len(found) < _MOST:
        file = pending.pop()
        if b"include" not in settings_text(file).lower():
            continue
        for value in _included(file):
            if value.startswith("~/"):
                path = None if home is None else home / value[2:]
            else:
                path = Path(os.path.normpath(file.parent / value))
            if path is not None and path not in found:
                found[path] = None
                pending.append(path)
    return list(found)


def _included(file: Path) -> list[str]:
    command = ["git", "config", "--file", str(file), "--no-includes", "--null", "--get-regexp", _INCLUDE]
    try:
        done = subprocess.run(command, env=_ENV, cwd="/", capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [os.fsdecode(entry.partition(b"\n")[2]) for entry in done.stdout.split(b"\0") if b"\n" in entry]


_INCLUDE: Final = r"^include(if\..*)?\.path$"


def settings_text(file: Path) -> bytes:
    """The content of a config, through links as git reads it; empty where there is none."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as opened:
        return opened.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def inside(workspace: Path, paths: Sequence[Path]) -> list[str]:
    """Those in the workspace, relative to it, by their own name and by where links lead."""
    every = [place for path in paths for place in (path, path.resolve())]
    return [p.relative_to(workspace).as_posix() for p in every if workspace in p.parents]


def folder_inside(workspace: Path, value: str) -> str:
    """The folder of hooks as a path in the workspace; empty where it lies elsewhere or is all of it.

    husky's `.husky/_` holds wrappers that run what stands in `.husky`, so the folder above is meant.
    """
    if not value or value.startswith("~"):
        return ""
    path = os.path.normpath(os.path.join(workspace, value))
    if not path.startswith(f"{workspace}/"):
        return ""
    name = path[len(str(workspace)) + 1 :]
    if os.path.basename(name) == "_" and "/" in name:
        name = os.path.dirname(name)
    return "" if name == ".git" else name
