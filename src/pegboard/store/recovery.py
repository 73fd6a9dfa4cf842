"""recovery: what can still be read of a damaged store, in a new file; the damaged one is kept beside it.

SQLite gives up a query at the first bad page; asked again behind it, it gives the rest. What is missing then comes from
the copy that was kept when the store was last brought up to date.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from pegboard.store.opening import DAMAGE, backups, migrate, open_database
from pegboard.store.runs import RunRow, row_puts

LOST: Final = b""
"""The body of a record that had one: no JSON, so that reading reports it in its place."""
NO_MAC: Final = "lost"
"""The mac of a record of which only the body is left; verifying names it."""
_MAGIC: Final = b"SQLite format 3\x00"
_MOST_FAILURES: Final = 10_000
"""Rows that one damaged part of a table can hold at most, by which reading past it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What became of a damaged store.

    Attributes:
        kept: the damaged file as it was found, with its log beside it.
        records, runs: how many of them are in the new file.
        lost: sessions with records that could not be read, and how many are known to be missing.
    """

    kept: Path
    records: int
    runs: int
    lost: dict[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        missing = sum(self.lost.values())
        what = (
            f"{missing} records of {len(self.lost)} sessions are lost"
            if missing
            else "no record is known to be lost"
        )
        return (
            f"the history was damaged: {self.records} records of {self.runs} runs were recovered, {what}. "
            f"The damaged file is kept at {self.kept}; pegboard audit verify names what is missing"
        )


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """One process at a time recovers a store."""
    handle = os.open(path.with_name(path.name + ".mend"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def recover(path: Path) -> Recovery | None:
    """Put a new file with all that can be read in the place of a damaged one. Call it `exclusive`.

    Args:
        path: the damaged file; nobody here holds it open.

    Returns:
        None if it is no SQLite file and no record can be read: then it is left as it is.

    Raises:
        OSError, sqlite3.Error: the new file cannot be written; the damaged one is where it was.
    """
    kept = _keep(path)
    new = path.with_name(path.name + ".new")
    try:
        with TemporaryDirectory(prefix="pegboard-recovery-", dir=path.parent) as folder:
            _remove(new)
            with closing(open_database(new)) as db:
                migrate(db, new)
                db.execute("PRAGMA synchronous=FULL")
                db.execute("BEGIN IMMEDIATE")
                damaged, *copies = _sources(kept, path, Path(folder))
                _take_rows(damaged, db)
                whole = _take(damaged, db)
                for copy in copies:
                    # It holds what was deleted since, so only records are taken, and only if there is nothing else.
                    if not _records(db):
                        whole = _take(copy, db)
                lost = _complete(db, whole)
                runs = _complete_runs(db)
                records = _records(db)
                db.execute("COMMIT")
                # One file, without a log beside it: it is about to be moved.
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not records and kept.read_bytes()[: len(_MAGIC)] != _MAGIC:
            _remove(kept)
            return None
        # Its log first: SQLite would play it into the new file.
        for name in ("-wal", "-shm"):
            path.with_name(path.name + name).unlink(missing_ok=True)
        new.replace(path)
    finally:
        _remove(new)
    return Recovery(kept=kept, records=records, runs=runs, lost=lost)


def _records(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])


def _keep(path: Path) -> Path:
    """The damaged file and its log under a name of their own, as they were found."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = (f"{path.name}.damaged-{stamp}{f'-{n}' if n else ''}" for n in range(1000))
    kept = next(p for name in names if not (p := path.with_name(name)).exists())
    for end in ("", "-wal"):
        source, target = path.with_name(path.name + end), kept.with_name(kept.name + end)
        if source.exists():
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
            shutil.copyfile(source, target)
    return kept


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _sources(kept: Path, path: Path, folder: Path) -> list[Path]:
    """Databases to read from, the best first: the damaged one, then the copies that were kept of older versions.

    None of them is the kept file: SQLite may write into what it opens.
    """
    trial = folder / "damaged"
    for end in ("", "-wal"):
        if (source := kept.with_name(kept.name + end)).exists():
            shutil.copyfile(source, trial.with_name(trial.name + end))
    return [trial, *reversed([b for b in backups(path) if b.name.startswith(path.name)])]


def _take(source: Path, db: sqlite3.Connection) -> bool:
    """Copy every record that fits; whether all bodies could be read."""
    faults: list[Exception] = []
    query = "SELECT rowid, stream, seq, body FROM payloads WHERE rowid > ? ORDER BY rowid"
    for row in _rows(source, query, faults=faults):
        _insert(db, "payloads", row[1:])
    streams = {str(stream) for (stream,) in db.execute("SELECT DISTINCT stream FROM payloads")}
    streams |= {row.stream for row in _run_rows(db)}
    for order in ("ASC", "DESC"):
        streams |= {
            str(r[0]) for r in _rows(source, f"SELECT DISTINCT stream FROM entries ORDER BY stream {order}")
        }
    for stream in sorted(streams):
        for row in _rows(
            source, "SELECT seq, * FROM entries WHERE seq > ? AND stream = ? ORDER BY seq", stream
        ):
            _insert(db, "entries", row[1:])
    return not faults


def _take_rows(source: Path, db: sqlite3.Connection) -> None:
    """Copy every row of a table that fits, from both ends up to the damage."""
    for order in ("ASC", "DESC"):
        for row in _rows(source, f"SELECT * FROM kept ORDER BY tbl {order}, key {order}"):
            # Before version 2 a row had no version, before version 3 no mac.
            _insert(db, "kept", (*row, *(1, "")[len(row) - 3 :]))
    for row in _rows(source, "SELECT * FROM seal"):
        _insert(db, "seal", row)


def _rows(
    source: Path, query: str, *values: Any, faults: list[Exception] | None = None
) -> Iterator[tuple[Any, ...]]:
    """What SQLite gives. A query with `> ?` is asked again behind each place at which it fails: one bad page costs what
    stood in it, and not what follows."""
    after, failures, numbered = 0, 0, "> ?" in query
    with closing(sqlite3.connect(source)) as db:
        # A damaged name or digest is kept as far as it goes; verifying names its record.
        db.text_factory = _text
        while failures < _MOST_FAILURES:
            try:
                for row in db.execute(query, (after, *values) if numbered else values):
                    after, failures = row[0], 0
                    yield row
            except DAMAGE as error:
                if faults is not None:
                    faults.append(error)
                if not numbered:
                    return
                after, failures = after + 1, failures + 1
            else:
                return


def _insert(db: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    if _fits(table, row):
        db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({','.join('?' * len(row))})", row)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _fits(table: str, row: tuple[Any, ...]) -> bool:
    match table, row:
        case "entries", (str(), int(seq), str(), str(), int() | float(), str(digest), str()):
            return seq > 0 and len(digest) == 64
        case "payloads", (str(), int(seq), bytes()):
            return seq > 0
        case ("kept", (str(), str(), bytes(), int(), str())) | ("seal", (int(), int(), str(), str())):
            return True
        case _:
            return False


def _complete(db: sqlite3.Connection, whole: bool) -> dict[str, int]:
    """Make again what can be, mark what is lost; how many records each session lacks.

    Args:
        whole: all bodies could be read: one that is missing was deleted by a person.
    """
    alone = db.execute(
        "SELECT p.stream, p.seq, p.body FROM payloads p LEFT JOIN entries e ON e.stream=p.stream AND e.seq=p.seq "
        "WHERE e.seq IS NULL ORDER BY p.stream, p.seq"
    ).fetchall()
    for stream, seq, body in alone:
        # Its type stands in it, its run is that of the record before it.
        event = _event(body)
        near = db.execute(
            "SELECT run, at FROM entries WHERE stream=? AND seq IN (?,?) ORDER BY seq", (stream, seq - 1, seq + 1)
        ).fetchone() or ("", 0.0)  # fmt: skip
        db.execute(
            "INSERT INTO entries VALUES (?,?,?,?,?,?,?)",
            (stream, seq, str(event.get("run") or near[0]), str(event.get("type") or "notice"), near[1],
             hashlib.sha256(body).hexdigest(), NO_MAC),
        )  # fmt: skip
    lost: dict[str, int] = {}
    # What is older than every body of its session was deleted by a person; a later one was there.
    gone = (
        []
        if whole
        else db.execute(
            "SELECT e.stream, e.seq FROM entries e LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq "
            "WHERE p.seq IS NULL AND e.seq > (SELECT COALESCE(MIN(seq), 0) FROM payloads WHERE stream=e.stream)"
        ).fetchall()
    )
    for stream, seq in gone:
        db.execute("INSERT INTO payloads VALUES (?,?,?)", (stream, seq, LOST))
        lost[stream] = lost.get(stream, 0) + 1
    for stream, missing in db.execute("SELECT stream, MAX(seq) - COUNT(*) FROM entries GROUP BY stream"):
        if missing:
            lost[stream] = lost.get(stream, 0) + missing
    return lost


def _complete_runs(db: sqlite3.Connection) -> int:
    """Make the list of runs again, with its indexes: rows that are lost from the records; how many there are."""
    runs = {row.id: row for row in _run_rows(db)}
    known = set(runs)
    records = db.execute(
        "SELECT e.stream, e.run, e.at, p.body FROM entries e JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq "
        "WHERE e.type IN ('run.started', 'run.resumed', 'run.finished') ORDER BY e.stream, e.seq"
    ).fetchall()
    for stream, run, at, body in records:
        if run in known:
            continue
        event = _event(body)
        row = runs.get(run) or RunRow(
            id=run, stream=stream, status="running", task="", model="", agent="main", started=at
        )
        match event.get("type"):
            case "run.started":
                row = replace(row, **{k: str(event.get(k) or "") for k in ("task", "model", "agent")})
            case "run.finished":
                row = replace(row, status=str(event.get("status") or "failed"), ended=at)
            case _:
                row = replace(row, status="running", ended=0.0)
        runs[run] = row
    wanted = {
        (p.table, p.key): p.value for row in runs.values() for p in row_puts(row) if p.value is not None
    }
    there = {
        (table, key): value
        for table, key, value in db.execute("SELECT tbl, key, value FROM kept WHERE tbl GLOB 'runs*'")
    }
    # What is right already keeps its mac.
    db.executemany("DELETE FROM kept WHERE tbl=? AND key=?", [p for p in there if p not in wanted])
    db.executemany(
        "INSERT OR REPLACE INTO kept VALUES (?,?,?,1,'')",
        [(*place, value) for place, value in wanted.items() if there.get(place) != value],
    )
    return len(runs)


def _run_rows(db: sqlite3.Connection) -> list[RunRow]:
    rows: list[RunRow] = []
    for (value,) in db.execute("SELECT value FROM kept WHERE tbl='runs'").fetchall():
        with suppress(ValueError, TypeError):
            rows.append(RunRow(**json.loads(value)))
    return rows


def _event(body: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        value = json.loads(body)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return {}
