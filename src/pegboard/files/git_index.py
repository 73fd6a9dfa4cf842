"""Git's index by what it says: its entries, without the times and numbers by which git finds changed files."""

from __future__ import annotations

import hashlib
import struct
from typing import Final

INDEX: Final = b"DIRC"
"""The first bytes of an index."""
_HEAD: Final = struct.Struct(">4sII")
_STAT_BYTES: Final = 40
"""Two times, device, inode, mode (the bytes 24 to 28), owner, group and size of an entry."""
_EXTENDED: Final = 0x4000


def same_index(one: bytes, other: bytes) -> bool:
    """Whether both are an index and name the same files, contents and flags (gitformat-index(5))."""
    try:
        entries = _entries(one)
        return entries is not None and entries == _entries(other)
    except (struct.error, ValueError, StopIteration):  # Damaged, with a right checksum.
        return False


def _entries(data: bytes) -> list[bytes] | None:
    """Mode, object, flags and name of each entry; None for what this cannot read with certainty."""
    digest = next(
        (n for n, new in ((20, hashlib.sha1), (32, hashlib.sha256)) if data[-n:] == new(data[:-n]).digest()),
        None,
    )
    if digest is None:
        return None
    magic, version, count = _HEAD.unpack_from(data)
    if magic != INDEX or version not in (2, 3, 4):
        return None
    found: list[bytes] = []
    at = _HEAD.size
    for _ in range(count):
        flags = at + _STAT_BYTES + digest
        (bits,) = struct.unpack_from(">H", data, flags)
        name = flags + (4 if bits & _EXTENDED else 2)
        if version == 4:  # How many bytes of the name before fall away; the last of that number is below 128.
            name = next(i for i in range(name, len(data)) if data[i] < 128) + 1
        end = data.index(b"\0", name)
        found.append(data[at + 24 : at + 28] + data[at + _STAT_BYTES : end])
        # One to eight zeros fill an entry up.
        at = end + 1 if version == 4 else at + (end - at) // 8 * 8 + 8
    while at < len(data) - digest:
        extension, size = struct.unpack_from(">4sI", data, at)
        if not extension[:1].isupper():  # It changes what the entries mean, as a split index does.
            return None
        at += 8 + size
    return found
