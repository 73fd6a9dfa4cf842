"""What people see before they say yes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.textedit.diff import unified
from tests.ledger import owes


def test_a_created_and_a_deleted_file_name_dev_null() -> None:
    assert unified("a.py", None, b"x\n") == "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n"
    assert unified("a.py", b"x\n", None) == "--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def test_an_empty_file_that_comes_or_goes_is_said() -> None:
    assert unified("e", None, b"") == "--- /dev/null\n+++ b/e\n(empty file)\n"
    assert unified("e", b"", None) == "--- a/e\n+++ /dev/null\n(empty file)\n"


def test_an_unchanged_file_has_no_diff_and_a_pure_move_only_names() -> None:
    assert unified("a", b"x\n", b"x\n") == ""
    assert unified("a", b"x\n", b"x\n", moved_to="b") == "rename from a\nrename to b\n"


def test_binary_content_is_one_line_with_sizes() -> None:
    assert unified("a.png", b"\x89PNG\0", None) == "Binary file a.png differs: 5 bytes -> absent\n"
    assert unified("a.png", None, b"\0\0") == "Binary file a.png differs: absent -> 2 bytes\n"


def test_a_change_that_no_character_shows_is_said() -> None:
    text = unified("a", b"x\n", b"\xef\xbb\xbfx\n")

    assert text.endswith("(same text; encoding utf-8 -> utf-8-sig)\n")


def test_line_numbers_stay_true_far_down_a_file() -> None:
    before = b"".join(b"line %d\n" % n for n in range(1, 2001))
    after = before.replace(b"line 1500\n", b"LINE\n")

    assert "@@ -1497,7 +1497,7 @@\n line 1497\n" in unified("a", before, after)


def test_a_missing_final_newline_is_marked_as_git_marks_it() -> None:
    assert unified("a", b"x\n", b"x").endswith("-x\n+x\n\\ No newline at end of file\n")


def test_utf16_is_compared_as_text() -> None:
    before, after = ("\ufeff" + t for t in ("key=old\n", "key=new\n"))

    assert "-key=old\n+key=new\n" in unified("a", before.encode("utf-16-le"), after.encode("utf-16-le"))


def test_a_marked_file_shows_its_first_line_without_the_mark() -> None:
    assert "-a\n+b\n" in unified("a", b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n")


def test_a_long_diff_is_cut_on_a_line_and_says_how_much_is_missing() -> None:
    after = b"".join(b"%d\n" % n for n in range(1000))

    text = unified("a", None, after, max_chars=200)

    assert len(text) < 300
    assert text.splitlines()[-1].startswith("[diff cut here: ")
    shown = sum(line.startswith("+") and not line.startswith("+++") for line in text.splitlines())
    assert f"{1000 - shown} more lines" in text


def test_an_overlong_line_is_shortened_with_its_length() -> None:
    assert "… (5000 characters)\n" in unified("a", None, b"x" * 5000 + b"\n")


def test_two_long_files_that_share_little_are_shown_as_blocks_not_compared_line_by_line() -> None:
    before = b"".join(b"a%d\n" % n for n in range(15000))
    after = b"".join(b"b%d\n" % n for n in range(15000))

    text = unified("a", b"h\n" * 9 + before, b"h\n" * 9 + after, max_chars=10**9)

    assert "@@ -7,15003 +7,15003 @@\n h\n h\n h\n-a0\n" in text


_LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "é\n", "x\r\n"]), max_size=30)


@owes("N-41")
@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(before=_LINES, after=_LINES, tails=st.tuples(st.booleans(), st.booleans()))
def test_git_applies_the_diff_and_gets_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str], tails: tuple[bool, bool]
) -> None:
    old = ("".join(before) + ("z" if tails[0] else "q\n")).encode()
    new = ("".join(after) + ("z" if tails[1] else "q\n")).encode()
    folder: Path = tmp_path_factory.mktemp("diff")
    (folder / "f").write_bytes(old)
    diff = unified("f", old, new)

    if diff:
        subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=folder, check=True)

    assert (folder / "f").read_bytes() == new
