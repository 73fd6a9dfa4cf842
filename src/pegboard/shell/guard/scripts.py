"""Which files of the workspace a command runs, by content: what a yes to it is bound to."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from pegboard.core.effects import Effect
from pegboard.shell.guard.tables import INTERPRETERS, SHELLS

MAX_SCRIPT_BYTES: Final = 16_000_000
"""A larger file is bound by size and time of change instead of its content."""

_RECIPES: Final = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "npm": ("package.json",),
    "yarn": ("package.json",),
    "pnpm": ("package.json",),
    "bun": ("package.json",),
    "rake": ("Rakefile", "rakefile"),
    "cargo": ("Cargo.toml",),
    "cmake": ("CMakeLists.txt",),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "mvn": ("pom.xml",),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml"),
    "invoke": ("tasks.py",),
    "docker": ("Dockerfile", "compose.yaml", "docker-compose.yml"),
    "podman": ("Dockerfile", "Containerfile", "compose.yaml", "docker-compose.yml"),
    "pre-commit": (".pre-commit-config.yaml",),
}
"""Programs that run what a file of the folder says."""

_VERSION: Final = re.compile(r"[\d.]+$")
_RUNNERS: Final = frozenset({*SHELLS, *INTERPRETERS, "source", "."})
_BY_OPTION: Final = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed"})
_FILES: Final = ("-f", "--file", "--makefile")
_ELSEWHERE: Final = ("-C", "--directory", "--prefix", "--cwd", "--dir")
_PARTS: Final = re.compile(r"[\s'\"=@:,;|&<>()]+")
_MOST: Final = 32


def bind_scripts(
    effects: Sequence[Effect], *, workspace: Path, working_dir: str | None = None
) -> tuple[Effect, ...]:
    """The effects, with `bound` set on each exec that runs files of the workspace.

    Args:
        effects: of one command, as the guard found them.
        workspace: only files that really lie in it are looked at.
        working_dir: of the call.
    """
    folders = _folders(effects, workspace / (working_dir or ""))
    read = [e.target for e in effects if e.kind == "read"]
    return tuple(_bound(e, folders, workspace, read) if e.kind == "exec" and e.argv else e for e in effects)


def _folders(effects: Iterable[Effect], start: Path) -> list[Path]:
    """Where the command may stand when it names a file: at the start, and wherever it changes to."""
    out = [start]
    for effect in effects:
        if effect.argv is not None and len(effect.argv) > 1 and effect.argv[0] in ("cd", "pushd"):
            out += [folder / effect.argv[-1] for folder in tuple(out)[:8]]
    return out


def _bound(effect: Effect, folders: Sequence[Path], workspace: Path, read: Sequence[str]) -> Effect:
    argv = effect.argv or ()
    found: dict[str, None] = {}
    lists = list(_candidates(argv))
    if effect.decisive:
        # What its words or its input say decides what runs: `bash < x`, `cat x | sh`, `vim -S x`, `.read x`.
        parts = dict.fromkeys(part for word in argv[1:] for part in _PARTS.split(word) if part)
        lists += [[part] for part in [*parts][:_MOST]]
        marks = [_mark(workspace / name, workspace) for name in read[:_MOST]]
        found.update(dict.fromkeys(filter(None, marks)))
    for names in lists:
        for folder in folders:
            marks = [m for name in names if (m := _mark(folder / name, workspace)) is not None]
            found.update(dict.fromkeys(marks[:1]))
    if not found:
        return effect
    return replace(effect, bound=" ".join((*filter(None, (effect.bound,)), *found)))


def _candidates(argv: Sequence[str]) -> Iterator[Sequence[str]]:
    """Lists of names; of each the first that is a file is run."""
    if "/" in argv[0]:
        yield argv[:1]
    program = posixpath.basename(argv[0])
    if program in _RUNNERS or _VERSION.sub("", program) in _RUNNERS:
        words = [w for w in argv[1:] if not w.startswith("-")]
        if "-m" in argv[1:-1]:
            module = argv[argv.index("-m", 1) + 1].replace(".", "/")
            words = [f"{module}.py", f"{module}/__main__.py", *words]
        yield words
    if argv[:2] == ("go", "run"):
        yield from ([word] for word in argv[2:])
    if program in _BY_OPTION:
        yield from ([name] for name in _values(argv, _FILES))
    if program in _RECIPES:
        named = _values(argv, _FILES)
        moved = [*_values(argv, _ELSEWHERE)] or [""]
        yield from ([posixpath.join(at, name) for name in (*named, *_RECIPES[program])] for at in moved)


def _values(argv: Sequence[str], flags: Sequence[str]) -> list[str]:
    """What stands behind these options: as the next word, behind `=`, or joined to a short one."""
    out: list[str] = []
    for word, after in pairwise((*argv, "")):
        name, _, value = word.partition("=")
        if word in flags:
            out.append(after)
        elif name in flags:
            out.append(value)
        else:
            out += [word[2:] for flag in flags if len(flag) == 2 and word.startswith(flag)]
    return out


def _mark(path: Path, workspace: Path) -> str | None:
    """`PATH sha256:HEX`, None where there is no such file in the workspace."""
    try:
        real = path.resolve()
        if not real.is_relative_to(workspace.resolve()):
            return None
        # Not blocking: a pipe of that name must not hold the plan up.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError, RuntimeError):
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        name = real.relative_to(workspace.resolve()).as_posix()
        if about.st_size > MAX_SCRIPT_BYTES:
            return f"{name} size:{about.st_size}:{about.st_mtime_ns}"
        return f"{name} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
