"""The hash chain of a stream: mac_n = HMAC(key, mac_{n-1} || record) (decisions 18)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from pegboard.ports.store import NewRecord, Record

GENESIS = "0" * 64
"""The mac before the first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a stream: where, and what kind of change it shows."""

    seq: int
    problem: str

    def __str__(self) -> str:
        return f"record {self.seq}: {self.problem}"


def mac_of(
    key: bytes, before: str, stream: str, seq: int, run: str, kind: str, at: float, digest: str
) -> str:
    """The mac of one record; every field that is stored is covered."""
    record = "\x1f".join((before, stream, str(seq), run, kind, repr(at), digest))
    return hmac.digest(key, record.encode("utf-8", "surrogatepass"), "sha256").hex()


def chain_records(key: bytes, stream: str, head: str, seq: int, drafts: Sequence[NewRecord]) -> list[Record]:
    """The drafts as entries that continue a stream after record `seq` with mac `head`."""
    out: list[Record] = []
    for draft in drafts:
        seq += 1
        digest = hashlib.sha256(draft.body).hexdigest()
        # As a float whatever was given: a store gives back floats, and the mac covers the text of one.
        at = float(draft.at)
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
