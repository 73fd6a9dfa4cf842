"""The hash chain of a stream: mac_n = HMAC(key, mac_{n-1} || record)."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pegboard.ports.store import Conflict, Record

GENESIS = "0" * 64
"""The mac before the first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a stream: where, and what kind of change it shows."""

    seq: int
    problem: str

    def __str__(self) -> str:
        return f"record {self.seq}: {self.problem}"


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

    def streams(self) -> list[str]:
        """The streams whose end was written down: one that was removed whole is missed too."""
        files = [] if self.heads is None else sorted(self.heads.glob("*.json"))
        return [str(json.loads(f.read_text(encoding="utf-8"))["stream"]) for f in files]

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
    key: bytes, stream: str, entries: Sequence[Record], *, head: tuple[int, str] | None = None
) -> list[Fault]:
    """Every fault of a whole stream: changed, removed, reordered or appended records.

    Args:
        key: the chain's key.
        stream: its name.
        entries: all its records.
        head: number and mac of the last record as the second file has it; None where there is none.
    """
    faults: list[Fault] = []
    before, expected = GENESIS, 1
    for entry in entries:
        if entry.seq != expected:
            what = (
                f"records {expected} to {entry.seq - 1} are missing"
                if entry.seq > expected
                else "it stands twice"
            )
            faults.append(Fault(seq=entry.seq, problem=what))
            # The chain is broken here; go on from what the record itself claims to find further faults.
            before = ""
        if entry.body is not None and hashlib.sha256(entry.body).hexdigest() != entry.digest:
            faults.append(Fault(seq=entry.seq, problem="its payload was changed"))
        mac = mac_of(key, before, stream, entry.seq, entry.run, entry.type, entry.at, entry.digest)
        if before and not hmac.compare_digest(mac, entry.mac):
            faults.append(Fault(seq=entry.seq, problem="it was changed, moved or written with another key"))
        before, expected = entry.mac, entry.seq + 1
    if head is not None:
        last = entries[-1] if entries else None
        if last is None or last.seq < head[0]:
            faults.append(
                Fault(seq=head[0], problem=f"the stream ends at {expected - 1}: its tail was cut off")
            )
        elif not any(e.seq == head[0] and e.mac == head[1] for e in entries):
            faults.append(
                Fault(seq=head[0], problem="the kept head names another record: the stream was rewritten")
            )
    return faults
