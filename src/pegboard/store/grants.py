"""GrantFile: the grants in one file, shared by processes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError
from pegboard.core.limits import Clock
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.grants import Grant, MemoryGrants
from pegboard.core.policy.rules import Situation


class StoredGrants(MemoryGrants):
    """Grants as JSON, 0600, replaced as a whole at every change.

    Processes share the file: each looks again before it leans on a grant, and changes it only under a
    lock, so that a grant that was revoked elsewhere is neither used nor written back.

    Args:
        path: the file; made at the first grant.
        clock: decides what has expired.

    Raises:
        ConfigError: the file is damaged; it is not overwritten.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        super().__init__(clock=clock)
        self._look()

    def find(self, tool: str, effect: Effect, situation: Situation) -> str | None:
        """See GrantBook."""
        self._look()
        return super().find(tool, effect, situation)

    def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> Grant:
        """See GrantBook."""
        with self._locked():
            return super().add(request, answer, workspace=workspace)

    def use(self, grant: str) -> None:
        """See GrantBook."""
        with self._locked():
            super().use(grant)

    def revoke(self, grant: str) -> bool:
        """See GrantBook."""
        with self._locked():
            return super().revoke(grant)

    def list(self) -> tuple[Grant, ...]:
        """See GrantBook."""
        self._look()
        return super().list()

    def save(self) -> None:
        """Write all live grants; those of one session stay in this process."""
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump([g.to_dict() for g in super().list() if g.scope == "always"], file, indent=1)
        fresh.replace(self._path)
        self._seen = _state(self._path)

    def _look(self) -> None:
        """Read the file again where it is not the one that was read last."""
        state = _state(self._path)
        if state == self._seen:
            return
        rows = _read(self._path)
        mine = {g.id: g for g in self._grants.values() if g.scope == "session"}
        self._grants = {**{g.id: g for g in rows}, **mine}
        self._seen = state

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._look()
            yield
        finally:
            os.close(descriptor)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        there = path.stat()
    except FileNotFoundError:
        return None
    return there.st_ino, there.st_mtime_ns, there.st_size


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
