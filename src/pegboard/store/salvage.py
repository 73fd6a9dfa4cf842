"""salvage: what can still be read of a damaged history, in a new file; the damaged one is kept (case agents-16)."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pegboard.store.pages import MAGIC, rows_in

LOST: Final = b""
"""The payload of a record that had one: no JSON, so that reading tells of it in its place."""
NO_MAC: Final = "lost"
"""The mac of a record of which only the payload is left; verifying names it."""

_HEX: Final = re.compile(r"[0-9a-f]{64}\Z")
_FORGOTTEN: Final = frozenset({"answers"})
"""Tables of which an old copy must not come back: a yes that was used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageResult:
    """What became of a damaged history.

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
            f"the history was damaged: {self.records} records of {self.runs} runs were salvaged, {what}. "
            f"The damaged file is kept at {self.kept}; pegboard audit verify names what is missing"
        )


@dataclass(slots=True)
class _RecoveredRows:
    """Rows by their keys; what SQLite itself gives wins over what stands in a page."""

    entries: dict[tuple[str, int], tuple[Any, ...]] = field(default_factory=dict[Any, Any])
    payloads: dict[tuple[str, int], bytes] = field(default_factory=dict[Any, Any])
    runs: dict[str, tuple[Any, ...]] = field(default_factory=dict[Any, Any])
    kept: dict[tuple[str, str], bytes] = field(default_factory=dict[Any, Any])
    whole: set[str] = field(default_factory=set[str])
    """Tables that SQLite read to their end: what is missing there was deleted."""

    def take(self, table: str, row: tuple[Any, ...]) -> None:
        """Keep a row unless its key is there already, or it does not fit its table."""
        if table == "entries" and _is_entry(row):
            self.entries.setdefault((row[0], row[1]), row)
        elif table == "payloads" and _fits(row, str, int, bytes):
            self.payloads.setdefault((row[0], row[1]), row[2])
        elif table == "runs" and _is_run(row):
            self.runs.setdefault(row[0], row)
        elif table == "kept" and _fits(row, str, str, bytes):
            self.kept.setdefault((row[0], row[1]), row[2])


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """One process at a time mends a history."""
    handle = os.open(path.with_name(path.name + ".mend"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def salvage(path: Path, fresh: Callable[[Path], sqlite3.Connection]) -> SalvageResult | None:
    """Put a new file with all that can be read in the place of a damaged one. Call it `alone`.

    Args:
        path: the damaged file; nobody here holds it open.
        fresh: makes an empty store at a path and opens it.

    Returns:
        None where the file is no SQLite file at all and holds no row: then it is left as it is.

    Raises:
        OSError, sqlite3.Error: the new file cannot be written; the damaged one is where it was.
    """
    log = path.with_name(path.name + "-wal")
    raw, wal = path.read_bytes(), log.read_bytes() if log.exists() else b""
    found = _RecoveredRows()
    # From a copy: SQLite may write into what it opens.
    kept = _copied(path, log)
    trial = kept.with_name(kept.name + ".trial")
    try:
        for name in ("", "-wal"):
            if (source := kept.with_name(kept.name + name)).exists():
                shutil.copyfile(source, trial.with_name(trial.name + name))
        _by_sqlite(trial, found)
    finally:
        for name in ("", "-wal", "-shm"):
            trial.with_name(trial.name + name).unlink(missing_ok=True)
    _by_pages(raw, wal, found)
    if raw[:16] != MAGIC and not found.entries and not found.payloads and not found.runs:
        for name in ("", "-wal"):
            kept.with_name(kept.name + name).unlink(missing_ok=True)
        return None
    lost = _completed(found)
    new = path.with_name(path.name + ".new")
    _write(new, found, fresh)
    # Its log first: SQLite would play it into the new file.
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    new.replace(path)
    return SalvageResult(kept=kept, records=len(found.entries), runs=len(found.runs), lost=lost)


def _copied(path: Path, log: Path) -> Path:
    """The damaged file and its log under a name of their own, as they were found."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    kept = next(
        p
        for n in range(1000)
        if not (p := path.with_name(f"{path.name}.damaged-{stamp}{f'-{n}' if n else ''}")).exists()
    )
    for source, target in ((path, kept), (log, kept.with_name(kept.name + "-wal"))):
        if source.exists():
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
            shutil.copyfile(source, target)
    return kept


def _by_sqlite(path: Path, found: _RecoveredRows) -> None:
    """What SQLite gives of each table, from both ends up to the first bad page."""
    orders = {
        "entries": ("stream, seq", "stream DESC, seq DESC"),
        "payloads": ("rowid", "rowid DESC"),
        "runs": ("id", "id DESC"),
        "kept": ("tbl, key", "tbl DESC, key DESC"),
    }
    for table, both in orders.items():
        for order in both:
            with suppress(sqlite3.Error, UnicodeDecodeError), closing(sqlite3.connect(path)) as db:
                # A damaged name or digest is kept as far as it goes; verifying names its record.
                db.text_factory = _text
                for row in db.execute(f"SELECT * FROM {table} ORDER BY {order}"):
                    found.take(table, row)
                found.whole.add(table)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _by_pages(raw: bytes, wal: bytes, found: _RecoveredRows) -> None:
    """What SQLite did not give, from the pages themselves."""
    for row in rows_in(raw, wal):
        if row.in_table:
            if _fits(row.values, str, int, bytes):
                entry = found.entries.get((row.values[0], row.values[1]))
                if entry is None or hashlib.sha256(row.values[2]).hexdigest() == entry[5]:
                    found.take("payloads", row.values)
        elif _is_entry(row.values) and _HEX.match(row.values[5]):
            found.take("entries", row.values)
        elif _is_run(row.values):
            found.take("runs", row.values)
        elif _fits(row.values, str, str, bytes) and row.values[0] not in _FORGOTTEN:
            found.take("kept", row.values)


def _completed(found: _RecoveredRows) -> dict[str, int]:
    """Fill in what can be made again, mark what is lost; how many records each session lacks."""
    _paired(found)
    _entries_of_payloads(found)
    lost: dict[str, int] = {}
    oldest: dict[str, int] = {}
    for stream, seq in found.payloads:
        oldest[stream] = min(seq, oldest.get(stream, seq))
    by_stream: dict[str, list[int]] = {}
    for stream, seq in found.entries:
        by_stream.setdefault(stream, []).append(seq)
        if (stream, seq) in found.payloads:
            continue
        first = oldest.get(stream)
        if seq > first if first is not None else "payloads" not in found.whole:
            # What is older than every payload was purged by a person; this one was there.
            found.payloads[stream, seq] = LOST
            lost[stream] = lost.get(stream, 0) + 1
    for stream, seqs in by_stream.items():
        if gap := max(seqs) - len(seqs):
            lost[stream] = lost.get(stream, 0) + gap
    _runs_of_entries(found)
    return lost


def _paired(found: _RecoveredRows) -> None:
    """Bring records and payloads together again whose numbers were damaged: a record says its payload's digest.

    Within one session only, and not where a person purged: equal payloads of others are not what was there.
    """
    oldest: dict[str, int] = {}
    loose: dict[tuple[str, str], tuple[str, int]] = {}
    for key, body in found.payloads.items():
        oldest[key[0]] = min(key[1], oldest.get(key[0], key[1]))
        if key not in found.entries:
            loose[key[0], hashlib.sha256(body).hexdigest()] = key
    for key, entry in list(found.entries.items()):
        if key in found.payloads or key[1] < oldest.get(key[0], 0):
            continue
        place = loose.pop((key[0], entry[5]), None)
        if place is None:
            continue
        # Numbers go up without gaps: of two, the lower one is what was written.
        if place[1] < key[1]:
            found.entries[place] = (*place, *found.entries.pop(key)[2:])
        else:
            found.payloads[key] = found.payloads.pop(place)


def _entries_of_payloads(found: _RecoveredRows) -> None:
    """A payload whose record is lost: its type stands in it, its run is that of the record before it."""
    for stream, seq in sorted(set(found.payloads) - set(found.entries)):
        body = found.payloads[stream, seq]
        value = _parsed(body)
        near = found.entries.get((stream, seq - 1)) or found.entries.get((stream, seq + 1))
        run = str(value.get("run") or (near[2] if near else ""))
        at = float(near[4]) if near else 0.0
        digest = hashlib.sha256(body).hexdigest()
        row = (stream, seq, run, str(value.get("type") or "notice"), at, digest, NO_MAC)
        found.entries[stream, seq] = row


def _runs_of_entries(found: _RecoveredRows) -> None:
    """Rows of the list of runs that are lost, made again from the records."""
    made: dict[str, list[Any]] = {}
    for (stream, seq), entry in sorted(found.entries.items()):
        if entry[3] not in ("run.started", "run.resumed", "run.finished") or entry[2] in found.runs:
            continue
        value = _parsed(found.payloads.get((stream, seq), b""))
        row = made.setdefault(entry[2], [entry[2], stream, "running", "", "", "main", float(entry[4]), 0.0])
        if entry[3] == "run.started":
            row[3:6] = [str(value.get(k) or "") for k in ("task", "model", "agent")]
        elif entry[3] == "run.finished":
            row[2], row[7] = str(value.get("status") or "failed"), float(entry[4])
        else:
            row[2], row[7] = "running", 0.0
    found.runs.update({run: tuple(row) for run, row in made.items()})


def _write(path: Path, found: _RecoveredRows, fresh: Callable[[Path], sqlite3.Connection]) -> None:
    for name in ("", "-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    with closing(fresh(path)) as db:
        db.execute("PRAGMA synchronous=FULL")
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO entries VALUES (?,?,?,?,?,?,?)", found.entries.values())
        db.executemany("INSERT INTO payloads VALUES (?,?,?)", [(*k, v) for k, v in found.payloads.items()])
        db.executemany("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?)", found.runs.values())
        db.executemany("INSERT INTO kept VALUES (?,?,?)", [(*k, v) for k, v in found.kept.items()])
        db.execute("COMMIT")
        # One file, without a log beside it: it is about to be moved.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _parsed(body: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        value = json.loads(body)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return {}


def _fits(row: tuple[Any, ...], *types: type) -> bool:
    return len(row) == len(types) and all(type(v) is t for v, t in zip(row, types, strict=True))


def _is_entry(row: tuple[Any, ...]) -> bool:
    if len(row) != 7 or not _fits(row[:4], str, int, str, str) or not isinstance(row[4], int | float):
        return False
    return (
        row[1] > 0 and isinstance(row[5], str) and _HEX.match(row[5]) is not None and isinstance(row[6], str)
    )


def _is_run(row: tuple[Any, ...]) -> bool:
    return (
        len(row) == 8
        and all(isinstance(v, str) for v in row[:6])
        and all(isinstance(v, int | float) for v in row[6:])
    )
