"""`.git/config` of the workspace: a private copy inside, safe keys merged afterwards."""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pegboard.core.secrets.clip import clip
from pegboard.process.child import run_small
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


async def merge(real: Path, before: bytes, copy: Path, temp_dir: Path) -> tuple[str, ...]:
    """Bring the safe changes of `copy` into `real`; what must be said about the rest.

    `real` is written in place: a rename over it would take away the mounts that keep it from
    commands that still run.

    Args:
        real: the repository's config, which the command could not reach.
        before: its content when the copy was made.
        copy: the private copy after the command; it may have become anything.
        scratch: a folder that the command could not reach.
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
        old = await _entries(git, _written(temp_dir / "before", before))
        new = await _entries(git, _written(temp_dir / "after", after))
    except ValueError as problem:
        return (f"{_DROPPED}: {problem}",)
    refused: list[str] = []
    was_real = real.read_bytes()
    merged = _written(temp_dir / "merged", was_real)
    for key in dict.fromkeys(key for key, _ in [*old, *new]):
        was = [value for name, value in old if name == key]
        now = [value for name, value in new if name == key]
        if was == now:
            continue
        if not all(is_safe(key, value) for value in [*was, *now]):
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
    copy = _written(temp_dir / "config", content)
    try:
        entries = await _entries(git, copy)
        old = await _entries(git, _written(temp_dir / "before", before)) if before else []
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


def _written(file: Path, content: bytes) -> Path:
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


async def _entries(git: str, file: Path) -> list[Entry]:
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
