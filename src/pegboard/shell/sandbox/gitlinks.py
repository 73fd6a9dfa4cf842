"""Repositories inside the workspace's own, into which `git status` outside goes by itself.

An index entry of mode 160000 names a repository in a subfolder. `git status` at the top starts git in each of
them, which does what their config says (`core.fsmonitor`). A command may write both the index and such a folder,
so afterwards those configs and hooks are looked at as submodules' are. A repository that
no index names is entered by nobody but whoever goes there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox import gitconfig, protect

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


def look(workspace: Path) -> LinkedRepositories:
    """What is there now."""
    configs: dict[Path, bytes] = {}
    hooks: dict[Path, tuple[int, ...]] = {}
    pointers: dict[Path, bytes] = {}
    for pointer, folder in _repositories(workspace):
        if pointer is not None:
            pointers[pointer] = _said(pointer)
        if folder is not None:
            configs[folder / "config"] = gitconfig.read_plain(folder / "config") or b""
            hooks.update(_hooks(folder))
    return LinkedRepositories(configs=configs, hooks=hooks, pointers=pointers)


async def clean(workspace: Path, before: LinkedRepositories, quarantine: Path) -> list[str]:
    """Take back what a command wrote into linked repositories that could start programs; what must be said."""
    notes: list[str] = []
    bad: dict[Path, None] = {}
    for pointer, folder in _repositories(workspace):
        if folder is None:
            # It leads out of the workspace, where nobody looks after what lies there.
            if pointer is not None and before.pointers.get(pointer) != _said(pointer):
                bad[pointer] = None
            continue
        config = folder / "config"
        content = gitconfig.read_plain(config)
        if content is not None:
            name = folder.relative_to(workspace).as_posix()
            said = await gitconfig.clean_fresh(config, before.configs.get(config, b""))
            notes += [f"{name}: {text}" for text in said]
            if said:
                # It may be a person's own repository, linked only now: what it said is kept.
                kept = quarantine / name / "config"
                kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                kept.write_bytes(content)
        elif os.path.lexists(config):
            bad[config] = None
        for name in ("commondir", "config.worktree"):
            if os.path.lexists(folder / name):
                bad[folder / name] = None
        bad.update({hook: None for hook, stamp in _hooks(folder).items() if before.hooks.get(hook) != stamp})
    moved = protect.quarantine(bad, workspace, quarantine)
    if moved:
        notes.append(f"moved to quarantine ({quarantine}): {', '.join(moved)}")
    return notes


def _repositories(workspace: Path) -> Iterator[tuple[Path | None, Path | None]]:
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


def _said(pointer: Path) -> bytes:
    return os.fsencode(os.readlink(pointer)) if pointer.is_symlink() else gitconfig.read_plain(pointer) or b""


def _led_to(git: Path) -> Path | None:
    """Where a `.git` file leads."""
    text = (gitconfig.read_plain(git) or b"").decode("utf-8", "surrogateescape")
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
            found.update((name, None) for name in _entries(index, size) if name)
    return list(found)


def _name_sizes(index: bytes) -> tuple[int, ...]:
    """How long object names can be: SHA-1 has 20 bytes, SHA-256 32 (gitformat-index)."""
    for known in (hashlib.sha1, hashlib.sha256):
        size = known().digest_size
        if known(index[:-size]).digest() == index[-size:]:
            return (size,)
    return (20, 32)


def _entries(index: bytes, hash_bytes: int) -> Iterator[str]:
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
