"""`.git/config` of the workspace: a private copy inside, safe keys merged afterwards (decisions 23)."""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pegboard.process.child import run_small

# Keys that say where and how to fetch, never what to run. Everything else could start a program
# (core.fsmonitor, core.sshCommand, core.hooksPath, alias.*, filter.*, include.*, remote.*.uploadpack …).
_SAFE: Final = (
    "user.name", "user.email",
    "remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.push", "remote.*.mirror",
    "remote.*.prune", "remote.*.tagopt", "remotes.*",
    "branch.*.remote", "branch.*.merge", "branch.*.rebase", "branch.*.description", "branch.*.pushremote",
    "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "init.defaultbranch",
    "submodule.*.url", "submodule.*.active",
    "gc.auto",
)  # fmt: skip
# What `git init` writes. In a repository that was there before, nobody needs to change them.
_OF_FRESH: Final = (
    "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates",
    "core.ignorecase", "core.precomposeunicode", "core.symlinks", "core.autocrlf", "core.eol",
    "extensions.objectformat", "extensions.refstorage",
)  # fmt: skip

Entry = tuple[str, str]


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


async def merge(real: Path, before: bytes, copy: Path) -> tuple[str, ...]:
    """Bring the safe changes of `copy` into `real`; what must be said about the rest.

    Args:
        real: the repository's config, which the command could not reach.
        before: its content when the copy was made.
        copy: the private copy after the command.
    """
    if copy.read_bytes() == before:
        return ()
    git = shutil.which("git")
    if git is None:
        return ("changes of .git/config inside the sandbox were dropped: there is no git to check them with",)
    base = copy.with_name(copy.name + ".before")
    base.write_bytes(before)
    try:
        old, new = await _entries(git, base), await _entries(git, copy)
    except ValueError as problem:
        return (f"changes of .git/config inside the sandbox were dropped: {problem}",)
    refused: list[str] = []
    for key in dict.fromkeys(key for key, _ in [*old, *new]):
        was = [value for name, value in old if name == key]
        now = [value for name, value in new if name == key]
        if was == now:
            continue
        if not all(is_safe(key, value) for value in [*was, *now]):
            refused.append(key)
            continue
        await _set(git, real, key, now)
    if not refused:
        return ()
    return (f"not taken over from .git/config: {', '.join(sorted(refused))} (such keys can start programs)",)


async def clean_fresh(config: Path) -> tuple[str, ...]:
    """Remove unsafe keys from the config of a repository that the command itself made."""
    git = shutil.which("git")
    if git is None:
        return ()
    try:
        entries = await _entries(git, config)
    except ValueError as problem:
        config.unlink()
        return (f"the new .git/config was removed: {problem}",)
    unsafe = sorted({key for key, value in entries if not is_safe(key, value, fresh=True)})
    for key in unsafe:
        await _set(git, config, key, ())
    if not unsafe:
        return ()
    return (f"removed from the new .git/config, because they can start programs: {', '.join(unsafe)}",)


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
        raise ValueError(f"it cannot be read ({out.decode('utf-8', 'replace').strip()[:200]})")
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
