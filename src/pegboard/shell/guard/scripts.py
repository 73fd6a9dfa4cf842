"""Which files of the workspace a command runs, by content: what a yes to it is bound to (case perm-18)."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
}
"""Programs that run what a file of the folder says."""

_VERSION: Final = re.compile(r"[\d.]+$")
_RUNNERS: Final = frozenset({*SHELLS, *INTERPRETERS, "source", "."})


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
    return tuple(_bound(e, folders, workspace) if e.kind == "exec" and e.argv else e for e in effects)


def _folders(effects: Iterable[Effect], start: Path) -> list[Path]:
    """Where the command may stand when it names a file: at the start, and wherever it changes to."""
    out = [start]
    for effect in effects:
        if effect.argv is not None and len(effect.argv) > 1 and effect.argv[0] in ("cd", "pushd"):
            out += [folder / effect.argv[-1] for folder in tuple(out)[:8]]
    return out


def _bound(effect: Effect, folders: Sequence[Path], workspace: Path) -> Effect:
    found: dict[str, None] = {}
    for names in _candidates(effect.argv or ()):
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
    if program in _RECIPES:
        named = [argv[i + 1] for i, w in enumerate(argv[:-1]) if w in ("-f", "--file", "--makefile")]
        yield [*named, *_RECIPES[program]]


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
