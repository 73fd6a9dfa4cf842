"""Folders of the workspace that git takes hooks from: `core.hooksPath` (git-config), as husky and others set it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pegboard.shell.sandbox import gitconfig
from pegboard.shell.sandbox.repository import repository_of

_KEY: Final = re.compile(
    rb"""^[ \t]*(?:\[[^\]\n]*\][ \t]*)?hookspath[ \t]*=[ \t]*(?:"([^"\n]*)"|([^\n#;]*))""",
    re.IGNORECASE | re.MULTILINE,
)


def named(workspace: Path) -> tuple[str, ...]:
    """Workspace-relative folders that the repository's own config names; one small file is read."""
    git = workspace / ".git"
    if git.is_dir():
        files = (git / "config", git / "config.worktree")
    elif (repository := repository_of(workspace)) is not None:
        files = (repository.config, repository.git_dir / "config.worktree")
    else:
        return ()
    out: dict[str, None] = {}
    for file in files:
        content = gitconfig.read_plain(file) or b""
        if b"hookspath" not in content.lower():
            continue
        for match in _KEY.finditer(content):
            value = os.fsdecode(match[1] if match[1] is not None else match[2].strip())
            if folder := inside(workspace, value):
                out[folder] = None
    return tuple(out)


def inside(workspace: Path, value: str) -> str:
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
