"""One file searched line by line, in bounded memory and time."""

from __future__ import annotations

import os
from pathlib import Path

from pegboard.files.regex import parse_expression
from pegboard.files.scan import BINARY_BYTES, Scanner
from tests.ledger import owes


@owes("K-42")
def test_a_binary_file_is_not_read_to_its_end_for_its_name(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    disk.write_bytes(b"\0needle")
    # A terabyte: whoever reads it whole is still reading tomorrow.
    os.truncate(disk, 1 << 40)
    late = tmp_path / "late"
    late.write_bytes(b"text\n" * (BINARY_BYTES // 4) + b"needle\n")
    scanner = Scanner(parse_expression("needle"))

    found: list[int] = []
    for path in (disk, late):
        file = os.open(path, os.O_RDONLY)
        found.append(len(scanner.raw(file, 0)))
        os.close(file)

    assert found == [1, 1]
