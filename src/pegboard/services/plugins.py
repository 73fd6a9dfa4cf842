"""Plug-ins: adding them from a folder or a git repository, pinned as they are, and removing them."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from pegboard.config.paths import Paths
from pegboard.config.plugins import (
    CLAUDE_MANIFEST,
    FOLDER,
    MANIFEST,
    Plugin,
    data_folder,
    plugin_folders,
    read_plugin,
)
from pegboard.config.trust import Trust, plugins_table, sha256_of
from pegboard.core.errors import ConfigError
from pegboard.services.servers import pins_of

MAX_FILES: Final = 2_000
"""Files and folders of a plug-in."""
MAX_BYTES: Final = 20_000_000
"""Bytes of all files of a plug-in together."""
MAX_REPOSITORY: Final = 100_000_000
"""Bytes of the pack that git receives."""
MAX_DIFF_LINES: Final = 400
TIMEOUT_S: Final = 120.0

_LEFT_OUT: Final = (".git", "__pycache__")
_URL: Final = re.compile(r"(https|http|ssh|file)://(?!-)[^\s\0]+", re.IGNORECASE)
_LOCAL_HTTP: Final = re.compile(r"http://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?/", re.IGNORECASE)
_SCP: Final = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:|//)[^\s\0-][^\s\0]*")
_REF: Final = re.compile(r"[A-Za-z0-9_][\w./+-]*")
_GIT: Final = (
    "git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "transfer.fsckObjects=true",
    "-c", "credential.interactive=false", "-c", "protocol.allow=user", "-c", "protocol.ext.allow=never",
    "-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false", "-c", "advice.detachedHead=false",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """A plug-in as it is installed.

    Attributes:
        name: of its folder.
        root: its folder.
        plugin: what it brings; None if it cannot be read.
        source: the folder or address that it was added from.
        commit: of a repository; empty for a folder.
        sha256: over all that is in its folder now.
        trusted: it counts.
        changed: its folder is not as it was when it was added.
        fault: why it cannot be used; empty if it can.
    """

    name: str
    root: Path
    plugin: Plugin | None = None
    source: str = ""
    commit: str = ""
    sha256: str = ""
    trusted: bool = False
    changed: bool = False
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPlugin:
    """What adding a plug-in did.

    Attributes:
        installed: the plug-in.
        updated: another version of it was there before.
        unchanged: the same was there before.
        changes: by file, how it differs from that version: a diff, or a few words.
        left_out: what was not copied, a sentence each.
    """

    installed: InstalledPlugin
    updated: bool = False
    unchanged: bool = False
    changes: Mapping[str, str]
    left_out: tuple[str, ...] = ()


class Plugins:
    """The plug-ins of this machine; usable where the settings cannot be read.

    Args:
        paths: they lie in our data folder, and where each came from in our state folder.
        environment: what git is run with.
    """

    def __init__(self, paths: Paths, environment: Mapping[str, str]) -> None:
        self._paths = paths
        self._folder = paths.data / FOLDER
        self._table = plugins_table(paths)
        kept = (
            "PATH", "HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY",
            "no_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO",
        )  # fmt: skip
        self._environment = {k: environment[k] for k in kept if k in environment} | {
            "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes", "GIT_ALLOW_PROTOCOL": "https:http:ssh:file", "GIT_LFS_SKIP_SMUDGE": "1",
        }  # fmt: skip

    async def add(self, source: str, *, ref: str = "", folder: str = "") -> AddedPlugin:
        """Install a plug-in, or a newer version of an installed one; it does not count before it is trusted.

        Args:
            source: a folder, or the address of a git repository.
            ref: branch, tag or commit of a repository; empty = its default branch.
            folder: the plug-in's folder in it; empty = the whole.

        Raises:
            ConfigError: it cannot be fetched, is not a plug-in, is too large, or has the name of one from another source.
        """
        if folder and (PurePosixPath(folder).is_absolute() or ".." in PurePosixPath(folder).parts):
            raise ConfigError(f"the folder {folder!r:.80} must be a path within {source}, without ..")
        given = Path(source).expanduser()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self._folder) as scratch:
            if given.is_dir():
                if ref:
                    raise ConfigError(
                        f"{source} is a folder, and --ref {ref} needs the address of a git repository"
                    )
                origin, commit, named = given.resolve(), "", str(given.resolve())
            else:
                check_address(source, ref)
                origin, named = Path(scratch, "repository"), source
                commit = await self._fetch(source, ref, origin)
            place = (origin / folder).resolve()
            if not place.is_relative_to(origin.resolve()) or not place.is_dir():
                raise ConfigError(f"{source} has no folder {folder!r:.80}")
            _check_manifest(place, source)
            fresh = Path(scratch, "plugin")
            left_out = await asyncio.to_thread(copy_plugin, place, fresh)
            return self._install(fresh, f"{named}#{folder}" if folder else named, commit, left_out)

    def _install(self, fresh: Path, source: str, commit: str, left_out: tuple[str, ...]) -> AddedPlugin:
        name = read_plugin(fresh, fresh).name
        root = self._folder / name
        before = self._table.read().get(name, {})
        was = root.is_dir()
        if was and before.get("source", source) != source:
            raise ConfigError(
                f"a plug-in {name} from {before['source']} is installed; to take the one from {source} instead, run "
                f"first: pegboard plugins remove {name}"
            )
        digest = sha256_of(fresh)
        same = was and sha256_of(root) == digest
        changes = {} if same or not was else dict(tree_changes(root, fresh))

        def swap(known: dict[str, dict[str, str]]) -> None:
            if not same:
                if was:
                    root.rename(fresh.with_name("old"))
                fresh.rename(root)
            known[name] = {"source": source, "commit": commit, "sha256": digest}

        self._table.change(swap)
        data_folder(self._paths, name).mkdir(parents=True, exist_ok=True, mode=0o700)
        installed = self._state(root, self._table.read().get(name, {}), Trust(self._paths))
        return AddedPlugin(
            installed=installed, updated=was and not same, unchanged=same, changes=changes, left_out=left_out
        )

    async def list(self) -> list[InstalledPlugin]:
        """The installed plug-ins, by name."""
        known, trust = self._table.read(), Trust(self._paths)
        folders = {p.name: p for p in plugin_folders(self._paths)}
        return [self._state(self._folder / n, known.get(n, {}), trust) for n in sorted({*known, *folders})]

    async def remove(self, name: str) -> None:
        """Remove a plug-in with its data, its trust, and what was approved of its servers' tools.

        Raises:
            ConfigError: none is called so.
        """
        states = {one.name: one for one in await self.list()}
        if name not in states:
            known = ", ".join(states) or "none"
            raise ConfigError(f"no plug-in is called {name!r}; installed: {known}")
        found = states[name]
        Trust(self._paths).remove(found.root)
        for server in found.plugin.servers if found.plugin else ():
            pins_of(self._paths).forget(server.name)
        for folder in (found.root, data_folder(self._paths, name)):
            if folder.is_symlink():
                folder.unlink()
            elif folder.exists():
                shutil.rmtree(folder)
        self._table.remove(name)

    def _state(self, root: Path, row: Mapping[str, str], trust: Trust) -> InstalledPlugin:
        made = InstalledPlugin(
            name=root.name, root=root, source=row.get("source", ""), commit=row.get("commit", "")
        )
        try:
            digest = sha256_of(root)
            plugin = read_plugin(root, data_folder(self._paths, root.name))
        except (ConfigError, OSError) as error:
            return replace(made, fault=str(error))
        return replace(
            made, plugin=plugin, sha256=digest, trusted=trust.trusts(root), changed=row.get("sha256") != digest
        )  # fmt: skip

    # -- git ----------------------------------------------------------------------------------------

    async def _fetch(self, url: str, ref: str, into: Path) -> str:
        """Check out one commit of a repository; its full name.

        Nothing of the repository runs: no hooks, no submodules, and its attributes can only name filters that the
        user's own git settings have.
        """
        await self._git("init", "--quiet", "--template=", str(into))
        at = ("-C", str(into))
        await self._git(
            *at,
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-recurse-submodules",
            "--",
            url,
            ref or "HEAD",
        )
        commit = (await self._git(*at, "rev-parse", "--verify", "FETCH_HEAD^{commit}")).strip()
        sizes = [
            int(size) if (size := line.split()[3]).isdigit() else 0
            for line in (await self._git(*at, "ls-tree", "-r", "-l", commit)).splitlines()
        ]
        _check_size(len(sizes), sum(sizes))
        await self._git(*at, "checkout", "--quiet", "--detach", commit)
        return commit

    async def _git(self, *words: str) -> str:
        from pegboard.process.child import run_small

        # A repository may be larger than anybody would wait for, or have room for.
        limited = ("/bin/sh", "-c", f'ulimit -f {MAX_REPOSITORY // 512}; exec "$@"', "sh", *_GIT, *words)
        try:
            status, output = await run_small(limited, self._environment, timeout_s=TIMEOUT_S)
        except TimeoutError:
            raise ConfigError(
                f"git did not finish within {TIMEOUT_S:g} s; try again, or clone it and add the folder"
            ) from None
        except OSError as error:
            raise ConfigError(f"git cannot be started: {error}; install it") from None
        text = output.decode("utf-8", "replace")
        if status:
            verb = next((w for w in words if w in ("init", "fetch", "checkout")), words[0])
            hint = "; git asks for no password here: for a private repository set up an ssh key or a credential helper"
            raise ConfigError(
                f"git {verb} ended with status {status}: {' '.join(text.split())[:500]}{hint if verb == 'fetch' else ''}"
            )
        return text


def check_address(source: str, ref: str = "") -> None:
    """Refuse what is not a plain address of a repository.

    Raises:
        ConfigError: it is a helper program's address, an option, unencrypted, or nothing of the kind.
    """
    if source.startswith("-") or not (_URL.fullmatch(source) or _SCP.fullmatch(source)):
        raise ConfigError(
            f"{source!r:.120} is neither a folder nor an address of a git repository; use a folder, "
            "https://HOST/PATH, ssh://HOST/PATH or USER@HOST:PATH"
        )
    if source.lower().startswith("http://") and not _LOCAL_HTTP.match(source):
        raise ConfigError(f"{source:.120} is not encrypted, so anybody on the way could change it; use https")
    if ref and not _REF.fullmatch(ref):
        raise ConfigError(f"{ref!r:.80} is no branch, tag or commit")


def _check_manifest(place: Path, source: str) -> None:
    if any((place / name).is_file() for name in (MANIFEST, CLAUDE_MANIFEST)):
        return
    # A repository of many plug-ins keeps each in a folder of its own.
    files = [
        file.relative_to(place).parents[name.count("/")]
        for depth in ("*", "*/*")
        for name in (MANIFEST, CLAUDE_MANIFEST)
        for file in place.glob(f"{depth}/{name}")
    ]
    found = sorted({str(one) for one in files if not any(part.startswith(".") for part in one.parts)})
    hint = f"; it holds {', '.join(found[:20])}: choose one with --folder" if found else ""
    raise ConfigError(f"{source} has neither {MANIFEST} nor {CLAUDE_MANIFEST}{hint}")


def _check_size(files: int, size: int) -> None:
    if files > MAX_FILES or size > MAX_BYTES:
        raise ConfigError(
            f"it is too large for a plug-in: {files} files with {size} bytes, at most {MAX_FILES} with "
            f"{MAX_BYTES}; choose its folder with --folder"
        )


def copy_plugin(source: Path, target: Path) -> tuple[str, ...]:
    """Copy a plug-in's files; what was left out, a sentence each.

    Links are copied where they stay inside. Repositories and caches in it, devices and the like are left out.

    Raises:
        ConfigError: it is too large, or changes while it is copied.
    """
    root, left_out = source.resolve(), list[str]()
    files = size = 0
    target.mkdir(mode=0o700)
    for here, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(f for f in folders if f not in _LEFT_OUT)
        for name in (*folders, *sorted(n for n in names if n not in _LEFT_OUT)):
            one = Path(here, name)
            to, shown = target / one.relative_to(root), one.relative_to(root)
            mode = one.lstat().st_mode
            files += 1
            if stat.S_ISLNK(mode):
                link = os.readlink(one)
                if os.path.isabs(link) or not one.resolve().is_relative_to(root):
                    left_out.append(f"{shown} is a link out of the plug-in")
                else:
                    os.symlink(link, to)
            elif stat.S_ISDIR(mode):
                to.mkdir(mode=0o700)
            elif stat.S_ISREG(mode):
                size += one.stat().st_size
                _check_size(files, size)
                shutil.copyfile(one, to, follow_symlinks=False)
                to.chmod(0o700 if mode & 0o111 else 0o600)
            else:
                left_out.append(f"{shown} is no file")
            _check_size(files, size)
    return tuple(left_out)


def tree_changes(before: Path, after: Path) -> Iterator[tuple[str, str]]:
    """The files that differ between two folders, each with a diff or a few words."""
    old, new = _files(before), _files(after)
    left = MAX_DIFF_LINES
    for name in sorted({*old, *new}):
        if name not in new:
            yield name, "removed"
        elif old.get(name) != new[name]:
            lines = _diff(old.get(name, ("", b""))[1], new[name][1], name)
            if lines is None or len(lines) > left:
                words = "not shown" if lines is None else f"{len(lines)} lines"
                yield name, f"{'changed' if name in old else 'added'} ({words})"
            else:
                left -= len(lines)
                yield name, "\n".join(lines) or f"is now {new[name][0]}"


def _files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """The files and links of a folder, with what each is and its content."""
    out: dict[str, tuple[str, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            out[name] = "a link", os.fsencode(f"link to {os.readlink(path)}\n")
        elif path.is_file():
            kind = "a program" if path.stat().st_mode & 0o111 else "no program"
            out[name] = kind, path.read_bytes()
    return out


def _diff(old: bytes, new: bytes, name: str) -> list[str] | None:
    """A unified diff; None of what is no text."""
    try:
        before, after = old.decode("utf-8").splitlines(), new.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
    return list(difflib.unified_diff(before, after, f"{name} (before)", f"{name} (now)", lineterm="", n=1))
