"""Trust: which project files and plug-ins the user has looked at and trusts, by SHA-256."""

from __future__ import annotations

import hashlib
import os
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
        """Whether this very content at this very place is trusted; any change voids it. Of a folder all that is in it.

        False where file or list cannot be read, or another program changed the list (`fault`): whoever asks goes on
        without the file, and a person can still look at the list and accept it.
        """
        try:
            wanted = self.table.read().get(str(path.resolve()))
            return wanted is not None and wanted == sha256_of(path)
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
        """Trust the file or folder as it is now; its SHA-256."""
        digest = sha256_of(path)
        self.table.add(str(path.resolve()), digest)
        return digest

    def remove(self, path: Path) -> bool:
        """Trust it no more; False where it was not trusted."""
        return self.table.remove(str(path.resolve()))

    def copy(self, workspace: Path, to: Path) -> None:
        """Trust the files of a copy of a workspace that are trusted there and are the same here."""
        for path, digest in self.list().items():
            if not Path(path).is_relative_to(workspace):
                continue
            there = to / Path(path).relative_to(workspace)
            if there.exists() and sha256_of(there) == digest:
                self.add(there)

    def forget(self, folder: Path) -> None:
        """Trust no file below a folder any more."""
        for path in [p for p in self.list() if Path(p).is_relative_to(folder.resolve())]:
            self.remove(Path(path))

    def list(self) -> dict[str, str]:
        """Path -> SHA-256."""
        return self.table.read()


def plugins_table(paths: Paths) -> JsonTable[dict[str, str]]:
    """Where each installed plug-in came from: `source`, `commit`, and `sha256` over what was installed."""
    return JsonTable(paths.state / "plugins.json", "installed plug-ins", paths.chain)


def within(file: Path, workspace: Path) -> bool:
    """Whether a file lies in a workspace, by its name or where its links lead."""
    root = workspace.resolve()
    places = (file.absolute(), file.resolve())
    return any(p.is_relative_to(root) or p.is_relative_to(workspace.absolute()) for p in places)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, or over the names, kinds and bytes of all that is in a folder.

    Raises:
        OSError: something of it cannot be read.
    """
    if not path.is_dir():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for here, folders, names in os.walk(path, followlinks=False, onerror=_raise):
        folders.sort()
        for name in sorted((*folders, *names)):
            one = Path(here, name)
            if one.is_symlink():
                kind, content = "link", os.readlink(one)
            elif one.is_dir():
                kind, content = "folder", ""
            elif one.is_file():
                kind = "program" if one.stat().st_mode & 0o111 else "file"
                content = hashlib.sha256(one.read_bytes()).hexdigest()
            else:
                kind, content = "other", ""
            for part in (one.relative_to(path).as_posix(), kind, content):
                digest.update(os.fsencode(part) + b"\0")
    return digest.hexdigest()


def _raise(error: OSError) -> None:
    raise error
