"""Signed exports: records as JSON lines whose last line is an Ed25519 signature over the others (RFC 8032).

Who holds such a file can check it without the chain's key: that no line was changed, added, removed or moved since it
was written, that each payload is the one that its record names, and that it was written by the holder of a key.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from pegboard.core.errors import PegboardError
from pegboard.core.secrets.clip import clip
from pegboard.ports.store import Record
from pegboard.store.chain import Fault

FORMAT: Final = "pegboard audit export 1"


class BadExport(PegboardError):
    """A file is no export, or not one that was signed; the message says what it is."""


def fingerprint(public: bytes) -> str:
    """SHA-256 of a public key, hex: what two people compare."""
    return hashlib.sha256(public).hexdigest()


def public_of(seed: bytes) -> bytes:
    """The public key (32 bytes) of a private one (32 bytes)."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


class SignedLines:
    """The lines of an export, without their ends: each record, then the signature.

    Args:
        seed: the private key, 32 bytes.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._digest = hashlib.sha256()
        self._count = 0

    def line(self, stream: str, entry: Record) -> str:
        """The line of the next record."""
        line = line_of(stream, entry)
        self._digest.update(line.encode() + b"\n")
        self._count += 1
        return line

    def signature(self) -> str:
        """The last line, over all before it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signed = _signed(self._count, self._digest.digest())
        return json.dumps(
            {
                "format": FORMAT, "records": self._count, "sha256": self._digest.hexdigest(),
                "public_key": base64.b64encode(public_of(self._seed)).decode("ascii"),
                "signature": base64.b64encode(
                    Ed25519PrivateKey.from_private_bytes(self._seed).sign(signed)
                ).decode("ascii"),
            }
        )  # fmt: skip


def check(lines: Iterable[bytes]) -> tuple[str, int, list[tuple[str, Fault]]]:
    """Look through an export.

    Args:
        lines: of the file, with or without their ends.

    Returns:
        The fingerprint of the key that signed it, the number of its records, and every fault with its stream.

    Raises:
        BadExport: there is no signature at its end, or the signature is not over these lines.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    digest, count, faults = hashlib.sha256(), 0, list[tuple[str, Fault]]()
    seen: dict[str, int] = {}
    held: bytes | None = None
    for line in lines:
        if held is not None:
            digest.update(held + b"\n")
            count += 1
            faults += _faults(held, count, seen)
        held = line.rstrip(b"\r\n")
    end = _object(held or b"", count + 1)
    try:
        if end["format"] != FORMAT:
            raise KeyError
        public, signature = (base64.b64decode(end[k], validate=True) for k in ("public_key", "signature"))
        key = Ed25519PublicKey.from_public_bytes(public)
    except (KeyError, ValueError, TypeError):
        raise BadExport(
            "the file does not end with a signature: it was cut off, or is not a signed export"
        ) from None
    try:
        key.verify(signature, _signed(count, digest.digest()))
    except InvalidSignature:
        raise BadExport(
            f"the signature is not over these {count} records: a line was changed, added, removed or moved"
        ) from None
    return fingerprint(public), count, faults


def _signed(count: int, digest: bytes) -> bytes:
    # With the format's name, so that a signature over this can never pass for one over something else.
    return b"\x00".join((FORMAT.encode(), str(count).encode(), digest))


def line_of(stream: str, entry: Record) -> str:
    """A record as a line of an export; its payload in base64, since it may be no text."""
    return json.dumps(
        {
            "stream": stream, "seq": entry.seq, "run": entry.run, "type": entry.type, "at": entry.at,
            "digest": entry.digest, "mac": entry.mac,
            "body": None if entry.body is None else base64.b64encode(entry.body).decode("ascii"),
        }
    )  # fmt: skip


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadExport(
            f"line {number} is not a record: {clip(line[:2048].decode('utf-8', 'replace'), 0, 60)!r}"
        )
    return cast("dict[str, Any]", value)


def _faults(line: bytes, number: int, seen: dict[str, int]) -> Iterator[tuple[str, Fault]]:
    """What a record itself shows: a gap before it, or a payload that is not the one it names."""
    record = _object(line, number)
    try:
        stream, seq, digest, body = (
            str(record["stream"]),
            int(record["seq"]),
            record["digest"],
            record["body"],
        )
        payload = None if body is None else base64.b64decode(body, validate=True)
    except (KeyError, ValueError, TypeError):
        raise BadExport(
            f"line {number} is not a record: {clip(line[:2048].decode('utf-8', 'replace'), 0, 60)!r}"
        ) from None
    before = seen.get(stream, 0)
    if seq != before + 1:
        yield stream, Fault(seq=seq, problem=f"it follows record {before}")
    seen[stream] = seq
    if payload is not None and hashlib.sha256(payload).hexdigest() != digest:
        yield stream, Fault(seq=seq, problem="its payload was changed")
