"""opening: an SQLite file as a store: private, brought up to date, and known from a foreign or a damaged one."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, cast

from pegboard.ports.store import StoreError

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
    CREATE TABLE kept (tbl TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (tbl, key)) WITHOUT ROWID
    """,
    """
    ALTER TABLE kept ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
    INSERT INTO kept SELECT 'runs', id, CAST(json_object('id', id, 'stream', stream, 'status', status, 'task', task,
        'model', model, 'agent', agent, 'started', started, 'ended', ended) AS BLOB), 1 FROM runs;
    INSERT INTO kept SELECT 'runs_by_time', printf('%017.6f', started) || ' ' || id, CAST(id AS BLOB), 1 FROM runs;
    INSERT INTO kept SELECT 'runs_by_session', stream || char(31) || printf('%017.6f', started) || ' ' || id,
        CAST(id AS BLOB), 1 FROM runs;
    INSERT INTO kept SELECT 'runs_open', printf('%017.6f', started) || ' ' || id, CAST(id AS BLOB), 1 FROM runs
        WHERE status IN ('running', 'suspended');
    DROP TABLE runs
    """,
    """
    ALTER TABLE kept ADD COLUMN mac TEXT NOT NULL DEFAULT '';
    CREATE TABLE seal (id INTEGER PRIMARY KEY CHECK (id = 1), changes INTEGER NOT NULL, total TEXT NOT NULL,
        mac TEXT NOT NULL)
    """,
)
"""Numbered by position; `PRAGMA user_version` says how many have run. Never change one that was released."""

VERSION: Final = len(_MIGRATIONS)
_GRANTS: Final = "grants.json"
"""Where grants were kept before version 2, beside the store."""
_BUSY_S: Final = 10.0
DAMAGE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file may raise: SQLite quotes damaged names in its messages, and Python reads those as UTF-8."""


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to the file; a new one is made with mode 0600."""
    if not path.exists():
        # Made by us before SQLite does, so that no moment exists in which others can read it.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    # Not checked: at the end of the program it is closed by whichever thread is left.
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(db)
        db.execute("PRAGMA synchronous=NORMAL")
        # What is deleted is overwritten: a purge must leave no word of it.
        db.execute("PRAGMA secure_delete=ON")
    except BaseException:
        db.close()
        raise
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Turn the write-ahead log on, trying again while another process does the same.

    SQLite does not wait by itself here: of two readers of a new file that both ask to write its mode, one is refused
    at once, because waiting could be a deadlock.
    """
    deadline = monotonic() + _BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            sleep(0.005)
        else:
            return


def identity(path: Path) -> tuple[int, int]:
    """What tells a file from another of its name."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return there.st_dev, there.st_ino


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file itself is damaged."""
    return isinstance(error, UnicodeDecodeError) or any(
        w in str(error) for w in ("not a database", "malformed", "Could not decode")
    )


def recovery_hint(error: Exception) -> str:
    """What a person can do; nothing is recovered or overwritten by itself."""
    if isinstance(error, DAMAGE) and is_damage(error):
        return "; move it away to start with an empty history, or restore a copy"
    if isinstance(error, OSError):
        return "; XDG_STATE_HOME can name a folder that can be written"
    if isinstance(error, sqlite3.OperationalError) and any(w in str(error) for w in ("disk I/O", "is full")):
        return "; is the disk full? Free some space, or name another folder with XDG_STATE_HOME"
    return ""


def backups(path: Path) -> list[Path]:
    """Copies of the file, and of what it took in, from before it was brought up to date."""
    return sorted(path.parent.glob(f"{path.name}.backup-*")) + sorted(path.parent.glob(f"{_GRANTS}.backup-*"))


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring a file to what this Pegboard knows, one process at a time. A file with content is copied first.

    Raises:
        StoreError: a newer Pegboard wrote it, or the grants that it takes in cannot be read.
    """
    version = _version(db)
    if version > VERSION:
        raise StoreError(
            f"the store {path} was written by a newer Pegboard (version {version}, this one knows {VERSION}); "
            "upgrade Pegboard or name another state folder"
        )
    if version == VERSION:
        return
    grants = path.with_name(_GRANTS)
    db.execute("BEGIN IMMEDIATE")
    try:
        # Looked at again under the lock: another process may have opened the same file meanwhile.
        version = _version(db)
        if version:
            _copy(path, version)
        for number in range(version, VERSION):
            for statement in _MIGRATIONS[number].split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={number + 1}")
        if version < 2:
            db.executemany("INSERT OR REPLACE INTO kept VALUES ('grants', ?, ?, 1, '')", _grants(grants))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    if version < 2 and grants.exists():
        grants.replace(grants.with_name(f"{_GRANTS}.backup-1"))


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _copy(path: Path, version: int) -> None:
    """Keep the file as it is, under a name that tells its version."""
    copy = path.with_name(f"{path.name}.backup-{version}")
    part = copy.with_name(f"{copy.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as target:
        source.backup(target)
    part.replace(copy)


def _grants(path: Path) -> list[tuple[str, bytes]]:
    try:
        grants = cast("list[dict[str, Any]]", json.loads(path.read_text(encoding="utf-8")))
        return [(str(g["id"]), json.dumps(g).encode()) for g in grants]
    except FileNotFoundError:
        return []
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(
            f"the grants file {path} cannot be read ({error}); move it away to start without grants"
        ) from None
