"""Trust: which project files the user has looked at and trusts, by SHA-256 (decisions 1)."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import cast

from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError


class Trust:
    """The trusted files, kept in `trust.json` in our state folder, mode 0600."""

    def __init__(self, paths: Paths) -> None:
        self._file = paths.state / "trust.json"

    def trusts(self, path: Path) -> bool:
        """Whether this very content at this very place is trusted; any change voids it."""
        return self._read().get(str(path.resolve())) == _sha256(path)

    def add(self, path: Path) -> str:
        """Trust the file as it is now; its SHA-256."""
        known = self._read()
        digest = known[str(path.resolve())] = _sha256(path)
        self._write(known)
        return digest

    def remove(self, path: Path) -> bool:
        """Trust it no more; False where it was not trusted."""
        known = self._read()
        gone = known.pop(str(path.resolve()), None) is not None
        if gone:
            self._write(known)
        return gone

    def list(self) -> dict[str, str]:
        """Path -> SHA-256."""
        return self._read()

    def _read(self) -> dict[str, str]:
        try:
            known: object = json.loads(self._file.read_text(encoding="utf-8"))
            if not isinstance(known, dict):
                raise ValueError(f"it holds a {type(known).__name__}, no table")
            return cast("dict[str, str]", known)
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConfigError(
                f"the list of trusted files {self._file} cannot be read ({error}); move it away to start with none"
            ) from None

    def _write(self, known: dict[str, str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        fresh.replace(self._file)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
