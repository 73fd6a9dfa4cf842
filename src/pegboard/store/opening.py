"""opening: an SQLite file as a history: made private, brought up to date, told from another and from a damaged one."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from pegboard.core.errors import PegboardError

_MIGRATIONS: Final = (
    """
    CREATE TABLE entries (
        stream TEXT NOT NULL, seq INTEGER NOT NULL, run TEXT NOT NULL, type TEXT NOT NULL, at REAL NOT NULL,
        digest TEXT NOT NULL, mac TEXT NOT NULL, PRIMARY KEY (stream, seq)
    ) WITHOUT ROWID;
    CREATE INDEX entries_by_run ON entries (run, seq);
    CREATE TABLE payloads (stream TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (stream, seq));
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, stream TEXT NOT NULL, status TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL,
        agent TEXT NOT NULL, started REAL NOT NULL, ended REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX runs_by_time ON runs (started);
    CREATE TABLE kept (tbl TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (tbl, key)) WITHOUT ROWID;
    """,
)
"""Numbered by position; `PRAGMA user_version` says how many have run. Never change one that was released."""

_BUSY_S: Final = 10.0
FAULTS: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""SQLite quotes damaged names in its messages, and Python reads those as UTF-8."""


class StoreError(PegboardError):
    """The store's file cannot be read or written."""


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to the file; a new one is made with mode 0600."""
    if not path.exists():
        # Made by us before SQLite does, so that no moment exists in which others can read it.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def identity(path: Path) -> tuple[int, int]:
    """What tells a file from another of its name."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return there.st_dev, there.st_ino


def is_damage(error: sqlite3.DatabaseError | UnicodeDecodeError) -> bool:
    """Whether an error says that the file itself is damaged."""
    return isinstance(error, UnicodeDecodeError) or any(
        w in str(error) for w in ("not a database", "malformed", "Could not decode")
    )


def recovery_hint(error: Exception) -> str:
    """What a person can do; nothing is repaired or overwritten by itself."""
    if isinstance(error, OSError):
        return "; XDG_STATE_HOME can name a folder that can be written"
    if isinstance(error, FAULTS) and is_damage(error):
        return "; move it away to start with an empty history, or restore a copy"
    if isinstance(error, sqlite3.OperationalError) and any(w in str(error) for w in ("disk I/O", "is full")):
        return "; is the disk full? Free some space, or name another folder with XDG_STATE_HOME"
    return ""


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring a file to what this Pegboard knows, one process at a time.

    Raises:
        StoreError: a newer Pegboard wrote it.
    """
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(_MIGRATIONS):
        raise StoreError(
            f"the store {path} was written by a newer Pegboard (version {version}, this one knows "
            f"{len(_MIGRATIONS)}); upgrade Pegboard or name another state folder"
        )
    if version == len(_MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again under the lock: another process may have opened the same new file meanwhile.
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        for number in range(version, len(_MIGRATIONS)):
            for statement in _MIGRATIONS[number].split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={number + 1}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
