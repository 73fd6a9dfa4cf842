"""Finding the interpreters that stand on PATH but outside the system folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_PROGRAMS: Final = (
    "python", "python3", "pip", "uv", "pytest", "node", "npm", "npx", "pnpm", "yarn", "deno", "bun",
    "ruby", "perl", "php", "java", "javac", "mvn", "gradle", "go", "cargo", "rustc", "dotnet", "ghc",
)  # fmt: skip
# Files by which a folder is an installation of one interpreter and nothing else.
_MARKS: Final = ("pyvenv.cfg", "conda-meta", "include/node", "include/python3", "lib/node_modules", "lib/rustlib",
                 "pkg/tool", "shims", "release")  # fmt: skip


def interpreter_prefixes(search_path: str) -> tuple[Path, ...]:
    """Folders to bind read-only so that the interpreters of `search_path` work inside.

    A folder on PATH is bound alone unless it belongs to a recognised installation (virtualenv,
    conda, pyenv, nvm, rustup, Go), which is bound whole; HOME and its like never are. Links are
    followed: a virtualenv brings the installation that it was made from. A folder that this user may
    not look into is left out: PATH may be another user's.
    """
    # os.path and not Path's tests, which raise where a parent is closed.
    found: dict[Path, None] = {}
    for name in search_path.split(os.pathsep):
        folder = Path(name)
        if not folder.is_absolute() or not os.path.isdir(folder) or _is_system(folder):
            continue
        _add(found, folder)
        for program in _PROGRAMS:
            _follow(found, folder / program)
    return tuple(_outermost(found))


def _follow(found: dict[Path, None], program: Path) -> None:
    """Add the folder of each link on the way from a program to the real file."""
    for _ in range(16):
        if not os.path.islink(program):
            break
        program = Path(os.path.normpath(program.parent / os.readlink(program)))
        if os.path.exists(program) and not _is_system(program):
            _add(found, program.parent)
    base = program.parent.parent / "pyvenv.cfg"
    if os.path.isfile(base):
        _add_venv_home(found, base)


def _add(found: dict[Path, None], folder: Path) -> None:
    root = folder
    if folder.name in ("bin", "shims", "Scripts", "condabin"):
        parent = folder.parent
        if any(os.path.exists(parent / mark) for mark in _MARKS) or _has_python_library(parent):
            root = parent
    if len(root.parts) < 3:
        root = folder
    found[root] = None
    config = root / "pyvenv.cfg"
    if os.path.isfile(config):
        _add_venv_home(found, config)
    # Cargo's programs are proxies for the toolchains beside it; its own folder holds credentials.
    if folder.parts[-2:] == (".cargo", "bin"):
        found[folder.parent.parent / ".rustup"] = None


def _add_venv_home(found: dict[Path, None], config: Path) -> None:
    try:
        lines = config.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition("=")
        home = Path(value.strip())
        if key.strip() != "home" or not home.is_absolute() or not os.path.isdir(home) or _is_system(home):
            continue
        if home not in found and home.parent not in found:
            _add(found, home)
            _follow(found, home / "python3")


def _has_python_library(prefix: Path) -> bool:
    # `~/.local` has lib/python3.x/site-packages too, but not the standard library.
    return any(True for _ in prefix.glob("lib/python3*/os.py"))


def _is_system(path: Path) -> bool:
    text = str(path)
    return any(text == root or text.startswith(root + "/") for root in SYSTEM)


def _outermost(found: dict[Path, None]) -> list[Path]:
    existing = sorted((path for path in found if os.path.isdir(path)), key=lambda path: len(path.parts))
    out: list[Path] = []
    for path in existing:
        if not any(path == kept or kept in path.parents for kept in out):
            out.append(path)
    return out
