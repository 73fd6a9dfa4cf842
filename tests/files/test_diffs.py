"""Diffs of file changes against patch's own, and what stands for links, modes and binary content."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.core.effects import Change
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


def change(before: bytes | None, after: bytes | None, *, mode: int | None = None) -> Change:
    kind = "create" if before is None else "delete" if after is None else "modify"
    return Change(
        path="f", kind=kind, before=before, after=after, diff=unified("f", before, after, mode=mode)
    )


@pytest.mark.parametrize(
    ("before", "after", "summary"),
    [
        (b"1\n2\n", b"1\nx\ny\n", "M f (+2 -1)"),
        (None, b"1\n2", "A f (+2 -0)"),
        (b"-- x\n", b"++ y\n", "M f (+1 -1)"),
        (b"1\n", None, "D f (+0 -1)"),
        (None, b"", "A f (empty file)"),
        (b"\0\1", b"\0", "M f (binary, 2 bytes -> 1 bytes)"),
        (b"a\n", b"\xef\xbb\xbfa\n", "M f (same text; encoding utf-8 -> utf-8-sig)"),
    ],
)
def test_a_summary_says_how_much_changes(before: bytes | None, after: bytes | None, summary: str) -> None:
    assert change(before, after).summary() == summary


def test_a_summary_of_a_new_mode_a_link_and_a_move_says_what_they_are() -> None:
    moved = Change(path="f", kind="move", before=b"x", after=b"x", moved_to="g", diff=unified("f", b"x", b"x", moved_to="g"))  # fmt: skip

    assert change(b"x", b"x", mode=0o100755).summary() == "M f (mode 755)"
    assert change(b"x", b"y", mode=0o120777).summary() == "M f"
    assert moved.summary() == "R f -> g"


def test_a_summary_counts_what_a_cut_diff_leaves_out() -> None:
    assert change(None, b"".join(b"%d\n" % n for n in range(60_000))).summary() == "A f (+60000 -0)"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS)
def test_a_summary_counts_as_git_counts_in_the_same_diff(before: bytes, after: bytes) -> None:
    if before == after:
        return
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["git", "apply", "--numstat"], input=unified("f", before, after).encode(), cwd=folder,
            capture_output=True, check=True,
        )  # fmt: skip
    added, removed, _ = done.stdout.split()

    assert change(before, after).summary() == f"M f (+{int(added)} -{int(removed)})"


def test_line_endings_show_only_where_they_differ() -> None:
    assert "␍" not in unified("f", b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nc\r\n")
    assert "-b␍\n+b\n" in unified("f", b"a\r\nb\r\nc\r\n", b"a\r\nb\nc\r\n")


def test_utf16_text_is_shown_as_text() -> None:
    diff = unified("f", "a\nb\n".encode("utf-16"), "a\nc\n".encode("utf-16"))

    assert "-b\n+c\n" in diff
