"""Slices of text whose characters are more than one byte wide."""

from __future__ import annotations

import codecs
import hashlib
import os
from dataclasses import replace

from pegboard.files.access_rules import hard_link_note
from pegboard.files.slices import SLICE_BYTES, WHOLE_BYTES, Chunks, SliceRequest
from pegboard.ports.files import Slice
from pegboard.textedit.encoding import bom_length


def wide_slice(fd: int, facts: os.stat_result, encoding: str, wanted: SliceRequest) -> Slice:
    """A slice of UTF-16 or UTF-32: decoded from the start, since its line ends are no single bytes."""
    if wanted.offset < 0:
        total = wide_slice(fd, facts, encoding, SliceRequest(1 << 62, 1, 1, False)).total or 0
        wanted = replace(wanted, offset=max(1, total + wanted.offset + 1))
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    unit = bom_length(os.pread(fd, 4, 0))
    digest = hashlib.sha256()
    lines: list[str] = []
    cut: list[int] = []
    number, held, length, budget = 1, "", 0, SLICE_BYTES
    crlf = lf = 0
    chunks = Chunks(fd, 0, facts.st_size)
    skip = unit
    for chunk in chunks:
        digest.update(chunk)
        text = decoder.decode(chunk[skip:])
        skip = 0
        pieces = text.split("\n")
        for i, piece in enumerate(pieces):
            inside = wanted.offset <= number and len(lines) < wanted.limit and budget > 0
            if inside:
                held += piece[: max(0, wanted.max_line + 1 - len(held))]
                length += len(piece)
            if i == len(pieces) - 1:
                break
            ends_cr = piece.endswith("\r")
            crlf, lf = crlf + ends_cr, lf + (not ends_cr)
            if inside:
                if length - ends_cr > wanted.max_line:
                    cut.append(number)
                lines.append(held.removesuffix("\r")[: wanted.max_line] + "\n")
                budget -= len(held)
                held, length = "", 0
            number += 1
    if held:
        if length > wanted.max_line:
            cut.append(number)
        lines.append(held[: wanted.max_line])
    total = number if _unended(fd, facts.st_size, encoding) else number - 1
    newline = "mixed" if crlf and lf else "\r\n" if crlf else "\n"
    return Slice(
        text="".join(lines),
        first=wanted.offset if lines else 0,
        last=wanted.offset + len(lines) - 1 if lines else 0,
        total=total,
        encoding=encoding,
        newline=newline,
        sha256=digest.hexdigest() if facts.st_size <= WHOLE_BYTES else "",
        size=facts.st_size,
        cut=tuple(cut),
        notes=hard_link_note(facts.st_nlink),
    )


def _unended(fd: int, size: int, encoding: str) -> bool:
    """Whether the last line lacks its line end (and is not empty)."""
    end = "\n".encode(encoding)
    mark = bom_length(os.pread(fd, 4, 0))
    return size > mark and os.pread(fd, len(end), size - len(end)) != end
