"""Trust: which project files the user has looked at and trusts, by SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pegboard.config.json_table import JsonTable
from pegboard.config.paths import Paths


class Trust:
    """The trusted files, kept in `trust.json` in our state folder."""

    def __init__(self, paths: Paths) -> None:
        self._known = JsonTable(paths.state / "trust.json", "trusted files")

    def trusts(self, path: Path) -> bool:
        """Whether this very content at this very place is trusted; any change voids it."""
        return self._known.read().get(str(path.resolve())) == _sha256(path)

    def add(self, path: Path) -> str:
        """Trust the file as it is now; its SHA-256."""
        digest = _sha256(path)
        self._known.add(str(path.resolve()), digest)
        return digest

    def remove(self, path: Path) -> bool:
        """Trust it no more; False where it was not trusted."""
        return self._known.remove(str(path.resolve()))

    def list(self) -> dict[str, str]:
        """Path -> SHA-256."""
        return self._known.read()


def within(file: Path, workspace: Path) -> bool:
    """Whether a file lies in a workspace, by its name or where its links lead."""
    root = workspace.resolve()
    places = (file.absolute(), file.resolve())
    return any(p.is_relative_to(root) or p.is_relative_to(workspace.absolute()) for p in places)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
