"""The hash chain of a stream: mac_n = HMAC(key, mac_{n-1} || record)."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pegboard.core.events import PayloadsPurged
from pegboard.ports.store import Conflict, Record

GENESIS: Final = "0" * 64
"""The mac before the first record."""

ROWS: Final = ""
"""Stands for the tables of a store where a head names its stream; see `pegboard.store.seal`."""

TABLE_FILE: Final = "\0file:"
"""Stands before the name of a sealed file where a head names its stream; see `pegboard.store.json_table`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a stream or a table: where, and what kind of change it shows.

    Attributes:
        seq: the record; 0 where it is not about one.
        problem: what is wrong.
        found: SHA-256 (hex) of what stands there instead, empty where that is all said.
        accepted: why somebody accepted it, empty while nobody has.
    """

    seq: int
    problem: str
    found: str = field(default="", compare=False)
    accepted: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"record {self.seq}: {self.problem}" if self.seq else self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record that has no number yet; see Record."""

    run: str
    type: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What the streams of one machine are chained with.

    Attributes:
        key: the HMAC's key.
        heads: a folder outside the store that keeps number and mac of each stream's last record, so that a tail that
            was cut off is missed; None = none.
    """

    key: bytes
    heads: Path | None = None

    def keep_head(self, stream: str, seq: int, mac: str) -> None:
        """Write down where a stream ends."""
        if self.heads is None:
            return
        self.heads.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._file(self.heads, stream)
        # Named by its writer: two processes may keep the head of one stream.
        fresh = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
        fresh.write_text(json.dumps({"stream": stream, "seq": seq, "mac": mac}), encoding="utf-8")
        fresh.replace(path)

    def head(self, stream: str) -> tuple[int, str] | None:
        """Number and mac of a stream's last record as they were written down; None if they were not."""
        if self.heads is None:
            return None
        try:
            kept = json.loads(self._file(self.heads, stream).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return int(kept["seq"]), str(kept["mac"])

    def forget(self) -> None:
        """Forget all ends: another history was put in the store's place."""
        if self.heads is not None:
            for file in self.heads.glob("*.json"):
                file.unlink(missing_ok=True)

    def streams(self) -> list[str]:
        """The streams whose end was written down: one that was removed whole is missed too."""
        files = [] if self.heads is None else sorted(self.heads.glob("*.json"))
        names = [str(json.loads(f.read_text(encoding="utf-8"))["stream"]) for f in files]
        return [name for name in names if name != ROWS and not name.startswith(TABLE_FILE)]

    @staticmethod
    def _file(folder: Path, stream: str) -> Path:
        return folder / f"{hashlib.sha256(stream.encode()).hexdigest()[:24]}.json"


def check_next(stream: str, last: int, records: Sequence[Record]) -> None:
    """Check that some records may follow record `last` of a stream.

    Raises:
        Conflict: they begin with another number.
    """
    if records and records[0].seq != last + 1:
        raise Conflict(
            f"the stream {stream!r} ends at record {last}, so record {records[0].seq} cannot be appended",
            hint="Another process wrote to it; read its end again.",
        )


def mac_of(
    key: bytes, before: str, stream: str, seq: int, run: str, kind: str, at: float, digest: str
) -> str:
    """The mac of one record; every field that is stored is covered."""
    record = "\x1f".join((before, stream, str(seq), run, kind, repr(at), digest))
    return hmac.digest(key, record.encode("utf-8", "surrogatepass"), "sha256").hex()


def chain_records(
    key: bytes | None, stream: str, head: str, seq: int, drafts: Sequence[NewRecord]
) -> list[Record]:
    """Number and chain some records, to follow record `seq` with mac `head`. Without a key they are only numbered."""
    out: list[Record] = []
    for draft in drafts:
        seq += 1
        digest = hashlib.sha256(draft.body).hexdigest()
        # As a float whatever was given: a store gives back floats, and the mac covers the text of one.
        at = float(draft.at)
        if key is not None:
            head = mac_of(key, head, stream, seq, draft.run, draft.type, at, digest)
        out.append(
            Record(seq=seq, run=draft.run, type=draft.type, at=at, digest=digest, mac=head, body=draft.body)
        )
    return out


def verify(
    key: bytes,
    stream: str,
    entries: Iterable[Record],
    *,
    head: tuple[int, str] | None = None,
    purged: int = 0,
) -> list[Fault]:
    """Every fault of a whole stream; see `Verification`.

    Args:
        key: the chain's key.
        stream: its name.
        entries: all its records.
        head: number and mac of the last record as the second file has it; None where there is none.
        purged: see `Verification`.
    """
    found = Verification(key, stream, ends={} if head is None else {"the kept head": head}, purged=purged)
    for entry in entries:
        found.add(entry)
    return found.faults()


class Verification:
    """Looks through a stream, record by record, for what was changed, removed, reordered or appended.

    Args:
        key: the chain's key.
        stream: its name.
        ends: number and mac of records that were its last once, by what says so.
        purged: records up to this number may lack their payloads; of later ones a purge in the stream says so.

    Attributes:
        last: number of the last record that was added.
    """

    def __init__(
        self, key: bytes, stream: str, *, ends: Mapping[str, tuple[int, str]], purged: int = 0
    ) -> None:
        self.last = 0
        self._key = key
        self._stream = stream
        self._ends = ends
        self._reached: set[str] = set()
        self._purged = purged
        self._missing: list[int] = []
        self._before = GENESIS
        self._faults: list[Fault] = []

    def add(self, record: Record) -> None:
        """Look at the next record."""
        known, expected = len(self._faults), self.last + 1
        if record.seq != expected:
            what = (
                f"records {expected} to {record.seq - 1} are missing"
                if record.seq > expected
                else "it stands twice"
            )
            self._fault(record, what)
            # The chain is broken here; go on from what the record itself claims to find further faults.
            self._before = ""
        if record.body is None:
            self._missing.append(record.seq)
        elif hashlib.sha256(record.body).hexdigest() != record.digest:
            self._fault(record, "its payload was changed")
        mac = mac_of(
            self._key, self._before, self._stream, record.seq, record.run, record.type, record.at, record.digest
        )  # fmt: skip
        if self._before and not hmac.compare_digest(mac, record.mac):
            self._fault(record, "it was changed, moved or written with another key")
        self._reached |= {what for what, end in self._ends.items() if end == (record.seq, record.mac)}
        if record.type == PayloadsPurged.type and record.body is not None and len(self._faults) == known:
            self._purged = max(self._purged, int(json.loads(record.body)["through"]))
        self._before, self.last = record.mac, record.seq

    def faults(self) -> list[Fault]:
        """All of them, once every record was added."""
        faults = list(self._faults)
        for seq in self._missing:
            if seq > self._purged:
                faults.append(Fault(seq=seq, problem="its payload is missing, and no purge deleted it"))
        for what, (seq, mac) in self._ends.items():
            if self.last < seq:
                faults.append(
                    Fault(seq=seq, problem=f"the stream ends at {self.last}: its tail was cut off ({what})")
                )
            elif what not in self._reached and (seq, mac) != (0, GENESIS):
                problem = f"{what} names another record: the stream was rewritten"
                faults.append(Fault(seq=seq, problem=problem))
        return sorted(faults, key=lambda fault: fault.seq)

    def _fault(self, record: Record, problem: str) -> None:
        # Whoever accepts a fault accepts this record, not whatever may be written there later.
        parts = (record.run, record.type, repr(record.at), record.digest, record.mac)
        found = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass"))
        found.update(record.body or b"")
        self._faults.append(Fault(seq=record.seq, problem=problem, found=found.hexdigest()))
