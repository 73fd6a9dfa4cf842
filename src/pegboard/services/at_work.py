"""AtWork: who works on what now, told by locks that the system lets go of when a process ends, however it ends."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from pegboard.core.errors import ConfigError
from pegboard.store.runs import RunRow

ONE_CALLS: Final = frozenset({"cli", "mcp"})
"""Agents of runs that are calls from outside: no model's turn follows, so none is taken up again."""

_LOOKED_AT_S: Final = (0.002, 0.02)
"""Waits for one that only looks whether a lock is held: it has it for an instant."""


class AtWork:
    """The locks of a state folder: one for each session, one for each call from outside.

    Args:
        folder: holds the lock files; made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def session(self, key: str) -> Generator[None]:
        """Be the one process that works on a session, until the block ends.

        Raises:
            ConfigError: another process works on it now.
        """
        handle = self._locked(key)
        if handle is None:
            raise ConfigError(f"another process is using session {key!r}")
        try:
            yield
        finally:
            os.close(handle)

    @contextmanager
    def one_call(self, run: str) -> Generator[None]:
        """Work on a run that is a call from outside: many of them go on in one session at once."""
        try:
            handle = self._locked(run)
        except OSError:
            handle = None  # It is a mark for others alone; what a call needs of the disk, its history tells.
        try:
            yield
        finally:
            self._path(run).unlink(missing_ok=True)
            if handle is not None:
                os.close(handle)

    def mark_interrupted(self, rows: Iterable[RunRow]) -> list[RunRow]:
        """The rows as they are: one that stands as running, and no process works on it, is `interrupted`.

        Args:
            rows: newest first, as the store gives them.
        """
        out: list[RunRow] = []
        newer: set[str] = set()
        for row in rows:
            single = row.agent in ONE_CALLS
            # A session is held for its newest run: the one before it is over, however it stands.
            over = row.status == "running" and (
                (not single and row.stream in newer) or not self._goes_on(row.id if single else row.stream)
            )
            out.append(replace(row, status="interrupted") if over else row)
            if not single:
                newer.add(row.stream)
        return out

    def _goes_on(self, name: str) -> bool:
        path = self._path(name)
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            # Shared, so that two who look at once do not take each other for the one at work.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def _locked(self, name: str) -> int | None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path(name), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            for wait_s in (*_LOOKED_AT_S, None):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if wait_s is None:
                        os.close(handle)
                        return None
                    time.sleep(wait_s)
                else:
                    break
        except OSError:
            os.close(handle)
            raise
        return handle

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"
