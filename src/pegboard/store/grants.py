"""GrantFile: the grants in one file, shared by processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from pegboard.core.clock import Clock
from pegboard.core.errors import ConfigError
from pegboard.core.grants import Grant, GrantBook


class GrantFile(GrantBook):
    """Grants as JSON, 0600, replaced as a whole at every change.

    Args:
        path: the file; made at the first grant.
        clock: decides what has expired.

    Raises:
        ConfigError: the file is damaged; it is not overwritten.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._path = path
        super().__init__(_read(path), clock=clock)

    def save(self) -> None:
        """Write all live grants."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump([g.to_dict() for g in self.list() if g.scope == "always"], file, indent=1)
        fresh.replace(self._path)


def _read(path: Path) -> list[Grant]:
    try:
        rows = cast("list[dict[str, Any]]", json.loads(path.read_text(encoding="utf-8")))
        return [Grant.from_dict(r) for r in rows]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the grants file {path} cannot be read ({error}); move it away to start with none"
        ) from None
