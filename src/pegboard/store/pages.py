"""pages: the rows of an SQLite file read page by page, past whatever is damaged (sqlite.org/fileformat2.html).

SQLite itself gives up a table at the first bad page. Here each page that still looks like one is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

MAGIC: Final = b"SQLite format 3\x00"
_SIZE: Final = 4096
_HEADER: Final = 100
_TABLE_LEAF: Final = 0x0D
_INDEX_LEAF: Final = 0x0A
_INDEX_INTERIOR: Final = 0x02
_WAL_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_WHOLE: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Bytes of the integers by serial type."""


@dataclass(frozen=True, slots=True)
class PageRow:
    """One row as it stands in a page.

    Attributes:
        in_table: of a table with row ids; else of an index or a table without.
        values: None, int, float, str or bytes.
    """

    in_table: bool
    values: tuple[Any, ...]


def rows_in(raw: bytes, wal: bytes = b"") -> Iterator[PageRow]:
    """Every row of every page that can be read, the log's newest pages first; free pages are left out.

    Args:
        raw: the file.
        wal: its write-ahead log.
    """
    size = _page_size(raw)
    logged = _logged(wal, size)
    for page in reversed(logged):
        yield from _rows(page, 0, raw, size)
    free = _free(raw, size)
    for number in range(1, len(raw) // size + 1):
        if number not in free:
            start = (number - 1) * size
            yield from _rows(raw[start : start + size], _HEADER if number == 1 else 0, raw, size)


def _page_size(raw: bytes) -> int:
    told = int.from_bytes(raw[16:18], "big") if raw[:16] == MAGIC else 0
    told = 65536 if told == 1 else told
    return told if told >= 512 and told & (told - 1) == 0 else _SIZE


def _logged(wal: bytes, size: int) -> list[bytes]:
    """The pages in a log that belong to its present generation (same salts)."""
    out: list[bytes] = []
    salts = wal[16:24]
    for start in range(_WAL_HEADER, len(wal) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        if wal[start + 8 : start + 16] != salts:
            break
        out.append(wal[start + _FRAME_HEADER : start + _FRAME_HEADER + size])
    return out


def _free(raw: bytes, size: int) -> frozenset[int]:
    """Numbers of the pages that hold nothing any more: what was deleted must not come back."""
    out: set[int] = set()
    trunk = int.from_bytes(raw[32:36], "big") if raw[:16] == MAGIC else 0
    while trunk and trunk not in out and trunk <= len(raw) // size:
        out.add(trunk)
        page = raw[(trunk - 1) * size : trunk * size]
        count = min(int.from_bytes(page[4:8], "big"), size // 4 - 2)
        out.update(int.from_bytes(page[8 + 4 * n : 12 + 4 * n], "big") for n in range(count))
        trunk = int.from_bytes(page[:4], "big")
    return frozenset(out)


def _rows(page: bytes, at: int, raw: bytes, size: int) -> Iterator[PageRow]:
    kind = page[at]
    if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        return
    first = at + (12 if kind == _INDEX_INTERIOR else 8)
    for number in range(int.from_bytes(page[at + 3 : at + 5], "big")):
        place = first + 2 * number
        cell = int.from_bytes(page[place : place + 2], "big")
        if place + 2 > size or not first <= cell < size:
            return
        try:
            yield _cell(page, cell, kind, raw, size)
        except (ValueError, IndexError):
            # This row is damaged; its neighbours may not be.
            continue


def _cell(page: bytes, at: int, kind: int, raw: bytes, size: int) -> PageRow:
    if kind == _INDEX_INTERIOR:
        at += 4
    length, at = _varint(page, at)
    if kind == _TABLE_LEAF:
        _, at = _varint(page, at)
    return PageRow(kind == _TABLE_LEAF, _record(_payload(page, at, length, kind, raw, size)))


def _payload(page: bytes, at: int, length: int, kind: int, raw: bytes, size: int) -> bytes:
    """The row's bytes, those on overflow pages with them.

    Raises:
        ValueError: a part of them is not there.
    """
    most = size - 35 if kind == _TABLE_LEAF else (size - 12) * 64 // 255 - 23
    if length > len(raw) + size:
        raise ValueError("longer than the file")
    here = length
    if length > most:
        least = (size - 12) * 32 // 255 - 23
        here = least + (length - least) % (size - 4)
        here = here if here <= most else least
    out = bytearray(page[at : at + here])
    following = int.from_bytes(page[at + here : at + here + 4], "big") if here < length else 0
    seen: set[int] = set()
    while len(out) < length:
        if not 0 < following <= len(raw) // size or following in seen:
            raise ValueError("its overflow is lost")
        seen.add(following)
        start = (following - 1) * size
        out += raw[start + 4 : start + size]
        following = int.from_bytes(raw[start : start + 4], "big")
    return bytes(out[:length])


def _record(payload: bytes) -> tuple[Any, ...]:
    """The values of a row.

    Raises:
        ValueError: it is none, or holds text that is no UTF-8.
    """
    head, at = _varint(payload, 0)
    if head > len(payload):
        raise ValueError("no row")
    kinds: list[int] = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    out: list[Any] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        out.append(value)
    if at != len(payload):
        raise ValueError("no row")
    return tuple(out)


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind == 7:
        import struct

        return struct.unpack(">d", payload[at : at + 8])[0], at + 8
    if kind in _WHOLE:
        end = at + _WHOLE[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind < 12:
        raise ValueError("no type of a value")
    end = at + (kind - 12) // 2
    part = payload[at:end]
    if len(part) != end - at:
        raise ValueError("cut off")
    return (part.decode("utf-8") if kind % 2 else part), end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(8):
        byte = data[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value << 8 | data[at + 8], at + 9
