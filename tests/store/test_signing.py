"""Signed exports (decisions 18): any change of a line is found on another machine, by an independent reader too."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pegboard.ports.store import Record
from pegboard.store.chain import GENESIS, NewRecord, chain_records
from pegboard.store.signing import BadExport, SignedLines, check, fingerprint, public_of

# RFC 8032, section 7.1, test 1.
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


def records(stream: str, number: int) -> list[Record]:
    drafts = [NewRecord(run="run_1", type="note", at=float(n), body=b"said %d" % n) for n in range(number)]
    return chain_records(b"k" * 32, stream, GENESIS, 0, drafts)


def export(streams: list[tuple[str, list[Record]]], seed: bytes) -> list[str]:
    signed = SignedLines(seed)
    lines = [signed.line(stream, entry) for stream, entries in streams for entry in entries]
    return [*lines, signed.signature()]


@pytest.fixture
def lines() -> list[bytes]:
    return [line.encode() for line in export([("one", records("one", 3)), ("two", records("two", 2))], SEED)]


def test_the_public_key_is_that_of_the_standard() -> None:
    assert public_of(SEED) == PUBLIC


def test_an_untouched_export_passes_and_names_its_signer(lines: list[bytes], tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines))

    with file.open("rb") as read:
        assert check(read) == (fingerprint(PUBLIC), 5, [])


def test_anybody_can_check_it_with_a_library_and_the_format_alone(lines: list[bytes]) -> None:
    end = json.loads(lines[-1])
    digest = hashlib.sha256(b"".join(line + b"\n" for line in lines[:-1])).digest()

    # Raises where the signature is not over these lines.
    Ed25519PublicKey.from_public_bytes(base64.b64decode(end["public_key"])).verify(
        base64.b64decode(end["signature"]), b"pegboard audit export 1\x005\x00" + digest
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda ls: [ls[0].replace(b"run_1", b"run_2"), *ls[1:]],
        lambda ls: ls[1:],
        lambda ls: [*ls[:2], *ls[3:]],
        lambda ls: [ls[1], ls[0], *ls[2:]],
        lambda ls: [ls[0], *ls],
        lambda ls: [*ls[:-1], ls[-1].replace(b'"records": 5', b'"records": 4')][:2] + ls[3:],
        lambda ls: ls[:-1],
        lambda ls: [*ls, b"{}"],
        lambda ls: [*ls[:-1], ls[-1][:40]],
        lambda ls: [b"\xff\xfe", *ls[1:]],
        lambda ls: [],
    ],
)  # fmt: skip
def test_every_change_is_refused(lines: list[bytes], change: Callable[[list[bytes]], list[bytes]]) -> None:
    with pytest.raises(BadExport):
        check(change(lines))


def test_what_was_wrong_before_it_was_signed_is_named_with_its_record() -> None:
    good = records("one", 4)
    odd = Record(
        seq=2, run="r", type="note", at=1.0, digest=good[1].digest, mac=good[1].mac, body=b"something else"
    )
    purged = Record(seq=3, run="r", type="note", at=2.0, digest=good[2].digest, mac=good[2].mac, body=None)
    signed = [line.encode() for line in export([("one", [good[0], odd, purged])], SEED)]
    gapped = [line.encode() for line in export([("one", [good[0], good[3]])], SEED)]

    assert [(s, f.seq, f.problem) for s, f in check(signed)[2]] == [("one", 2, "its payload was changed")]
    assert [(s, f.seq) for s, f in check(gapped)[2]] == [("one", 4)]
