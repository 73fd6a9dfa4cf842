"""Trust: which project files the user has looked at and trusts, by SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from pegboard.store.json_table import JsonTable


class Trust:
    """The trusted files, kept in `trust.json` in our state folder.

    Attributes:
        fault: why nothing is trusted although there is a list, empty while there is no such reason.
    """

    def __init__(self, paths: Paths) -> None:
        self.table = JsonTable[str](paths.state / "trust.json", "trusted files", paths.chain)
        self.fault = ""

    def trusts(self, path: Path) -> bool:
        """Whether this very content at this very place is trusted; any change voids it.

        False where file or list cannot be read, or another program changed the list (`fault`): whoever asks goes on
        without the file, and a person can still look at the list and accept it.
        """
        try:
            wanted = self.table.read().get(str(path.resolve()))
            return wanted is not None and wanted == _sha256(path)
        except ConfigError as error:
            self.fault = str(error)
        except OSError:
            pass
        return False

    def sha256(self, path: Path) -> str:
        """The digest under which a file is trusted, empty if it is not."""
        try:
            return self.table.read().get(str(path.resolve()), "")
        except ConfigError as error:
            self.fault = str(error)
            return ""

    def add(self, path: Path) -> str:
        """Trust the file as it is now; its SHA-256."""
        digest = _sha256(path)
        self.table.add(str(path.resolve()), digest)
        return digest

    def remove(self, path: Path) -> bool:
        """Trust it no more; False where it was not trusted."""
        return self.table.remove(str(path.resolve()))

    def list(self) -> dict[str, str]:
        """Path -> SHA-256."""
        return self.table.read()


def within(file: Path, workspace: Path) -> bool:
    """Whether a file lies in a workspace, by its name or where its links lead."""
    root = workspace.resolve()
    places = (file.absolute(), file.resolve())
    return any(p.is_relative_to(root) or p.is_relative_to(workspace.absolute()) for p in places)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
