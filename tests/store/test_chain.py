"""The hash chain of a stream: what it proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pegboard.ports.store import Record
from pegboard.store.chain import GENESIS, NewRecord, chain_records, verify
from tests.ledger import owes

KEY = b"k" * 32


def chained(count: int = 6, *, stream: str = "s", text: str = "body") -> list[Record]:
    drafts = [
        NewRecord(run=f"r{n % 2}", type="notice", at=float(n), body=f"{text} {n}".encode())
        for n in range(count)
    ]
    return chain_records(KEY, stream, GENESIS, 0, drafts)


@owes("G-05")
def test_a_mac_is_the_hmac_of_the_mac_before_it_and_of_every_field() -> None:
    body = b'{"type":"notice","text":"hi","detail":{}}'

    [record] = chain_records(KEY, "s", GENESIS, 0, [NewRecord(run="r", type="notice", at=1.5, body=body)])

    # printf '0…0\x1fs\x1f1\x1fr\x1fnotice\x1f1.5\x1fDIGEST' | openssl dgst -sha256 -hmac kk…k
    assert record.digest == "67ef6b0cb46f695c1ef4225cf1daa3e0a634c1c1f1130cfa1cc68a919e5f3266"
    assert record.mac == "e5a321e3f33a1d620f9c7da161e4d44e86d2230a6a378eb91d654ae040147408"


def test_records_are_numbered_on_and_chained_to_the_last() -> None:
    whole = chained()
    drafts = [NewRecord(run=r.run, type=r.type, at=r.at, body=r.body or b"") for r in whole[4:]]

    assert chain_records(KEY, "s", whole[3].mac, 4, drafts) == whole[4:]
    assert [r.mac for r in chain_records(None, "s", "", 0, drafts)] == ["", ""]


@owes("G-05")
def test_a_whole_chain_verifies() -> None:
    records = chained()

    assert verify(KEY, "s", records, head=(6, records[-1].mac)) == []
    assert verify(KEY, "s", []) == []


def test_a_time_given_as_a_whole_number_verifies() -> None:
    [record] = chain_records(KEY, "s", GENESIS, 0, [NewRecord(run="r", type="notice", at=5, body=b"a")])

    assert verify(KEY, "s", [replace(record, at=5.0)]) == []


def edited(records: list[Record]) -> list[Record]:
    return [*records[:2], replace(records[2], body=b"other"), *records[3:]]


def relabelled(records: list[Record]) -> list[Record]:
    return [*records[:2], replace(records[2], run="r9"), *records[3:]]


def swapped(records: list[Record]) -> list[Record]:
    a, b = records[2], records[3]
    return [*records[:2], replace(b, seq=a.seq), replace(a, seq=b.seq), *records[4:]]


@owes("G-05")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edited, "record 3: its payload was changed"),
        (relabelled, "record 3: it was changed, moved"),
        (swapped, "record 3: it was changed, moved"),
        (lambda e: [*e[:2], *e[3:]], "record 4: records 3 to 3 are missing"),
        (lambda e: e[1:], "record 2: records 1 to 1 are missing"),
        (lambda e: [*e[:3], e[2], *e[3:]], "it stands twice"),
        (lambda e: e[:-1], "record 6: the stream ends at 5: its tail was cut off"),
        (lambda e: [], "record 6: the stream ends at 0: its tail was cut off"),
    ],
    ids=["edit", "relabel", "reorder", "delete", "delete first", "repeat", "truncate", "delete all"],
)
def test_every_change_of_a_stream_is_found(change: Callable[[list[Record]], list[Record]], said: str) -> None:
    records = chained()

    faults = verify(KEY, "s", change(list(records)), head=(6, records[-1].mac))

    assert any(said in str(f) for f in faults), [str(f) for f in faults]


@owes("G-05")
def test_a_stream_that_was_written_anew_or_under_another_name_or_key_is_found() -> None:
    records = chained()
    head = (6, records[-1].mac)

    assert verify(b"x" * 32, "s", records)
    assert verify(KEY, "t", records)
    assert verify(KEY, "s", chained(), head=head) == []
    assert [str(f) for f in verify(KEY, "s", chained(text="forged"), head=head)] == [
        "record 6: the kept head names another record: the stream was rewritten"
    ]
