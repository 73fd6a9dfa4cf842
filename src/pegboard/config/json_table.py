"""JsonTable: a small table of texts in one private file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

from pegboard.core.errors import ConfigError


class JsonTable:
    """Text by text, in a JSON file of mode 0600 that is replaced whole.

    Args:
        file: made at the first write.
        what: what it holds, for error texts: "trusted files".
    """

    def __init__(self, file: Path, what: str) -> None:
        self._file = file
        self._what = what

    def read(self) -> dict[str, str]:
        """The table; empty where there is no file yet.

        Raises:
            ConfigError: the file holds something else.
        """
        try:
            known: object = json.loads(self._file.read_text(encoding="utf-8"))
            if not isinstance(known, dict):
                raise ValueError(f"expected a table, got a {type(known).__name__}")
            return cast("dict[str, str]", known)
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConfigError(
                f"cannot read the list of {self._what} {self._file} ({error}); move it away to start afresh"
            ) from None

    def add(self, key: str, value: str) -> None:
        """Keep a value, in place of an older one."""
        self._write({**self.read(), key: value})

    def remove(self, key: str) -> bool:
        """Drop a value; False where there was none."""
        known = self.read()
        gone = known.pop(key, None) is not None
        if gone:
            self._write(known)
        return gone

    def _write(self, known: dict[str, str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        fresh.replace(self._file)
