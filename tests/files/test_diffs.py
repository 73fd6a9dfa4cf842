"""Diffs of file changes against patch's own, and what stands for links, modes and binary content."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.files.changes import unified
from tests.ledger import owes

TEXTS = st.lists(st.text("abcé ", max_size=3), max_size=12).map("\n".join).map(str.encode)


def patched(before: bytes, diff: str) -> bytes:
    """What patch(1) makes of the old content and our diff."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f").write_bytes(before)
        done = subprocess.run(
            ["patch", "-s", "--posix", "f"], input=diff.encode(), cwd=folder, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout
        return (Path(folder) / "f").read_bytes() if (Path(folder) / "f").exists() else b""


@owes("G-01")
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_a_diff_is_one_that_patch_applies(before: bytes, after: bytes) -> None:
    if before != after:
        assert patched(before, unified("f", before, after)) == after


def test_a_small_change_in_a_large_file_is_a_small_diff_with_true_numbers() -> None:
    lines = [b"line %d\n" % number for number in range(1, 200_001)]
    before = b"".join(lines)
    lines[149_999] = b"changed\n"

    diff = unified("f", before, b"".join(lines))

    assert diff == (
        "--- a/f\n+++ b/f\n@@ -149997,7 +149997,7 @@\n line 149997\n line 149998\n line 149999\n"
        "-line 150000\n+changed\n line 150001\n line 150002\n line 150003\n"
    )


def test_what_is_no_text_or_too_much_is_said_in_a_line() -> None:
    assert unified("f", b"\0\1", b"\0") == "Binary file f differs: 2 bytes -> 1 bytes\n"
    assert unified("f", None, b"") == "--- /dev/null\n+++ b/f\n(empty file)\n"
    huge = unified("f", None, b"".join(b"%d\n" % n for n in range(60_000)))
    assert len(huge) < 210_000
    assert huge.splitlines()[-1].startswith("[diff cut here: ")
    assert unified("l", b"x", b"y", mode=0o120777) == "Symbolic link l: x -> y\n"


def test_line_endings_show_only_where_they_differ() -> None:
    assert "␍" not in unified("f", b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nc\r\n")
    assert "-b␍\n+b\n" in unified("f", b"a\r\nb\r\nc\r\n", b"a\r\nb\nc\r\n")


def test_utf16_text_is_shown_as_text() -> None:
    diff = unified("f", "a\nb\n".encode("utf-16"), "a\nc\n".encode("utf-16"))

    assert "-b\n+c\n" in diff
