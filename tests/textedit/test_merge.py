"""Putting a change into text that was seen a little differently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.textedit import style

_CHARS = st.text(alphabet="ab\"'“”-– \u00a0\u200b\n", max_size=24)


@given(_CHARS, _CHARS, st.data())
def test_a_transfer_says_what_the_new_text_says(plain: str, new: str, data: st.DataObject) -> None:
    old = style.loose(plain).text
    found = "".join(
        data.draw(st.sampled_from(["", "\u200b"]))
        + data.draw(st.sampled_from({"'": "'’", '"': '"“'}.get(c, c)))
        for c in old
    )

    done = style.transfer(found, old, new, style.loose)

    assert style.loose(done).text == style.loose(new).text


def test_a_transfer_of_nothing_keeps_the_found_text() -> None:
    assert style.transfer("“a”", '"a"', '"a"', style.loose) == "“a”"
    assert style.transfer("“a”", '"a"', "“a”", style.loose) == "“a”"


def test_long_changes_are_put_in_whole_instead_of_compared_token_by_token() -> None:
    old, new = " ".join(f"a{n}" for n in range(2500)), " ".join(f"b{n}" for n in range(2500))

    assert style.transfer(old, old, new, style.loose) == new


def test_a_transfer_across_a_piece_that_folds_as_one_falls_back_to_its_folded_form() -> None:
    done = style.transfer("a\u0301\u0315 x", "a\u0301\u0315 x", "a\u0301 y", style.loose)

    assert style.loose(done).text == style.loose("a\u0301 y").text


def test_lines_that_both_sides_changed_alike_are_no_conflict() -> None:
    found, old, new = "a\nB\nc", "a\nb\nc", "a\nB\nc"

    assert style.merge_lines(found, old, new, style.trimmed_keys, style.loose) == found


def test_lines_that_both_sides_changed_differently_are_a_conflict() -> None:
    assert style.merge_lines("a\nX\nc", "a\nb\nc", "a\nY\nc", style.trimmed_keys, style.loose) is None
    assert style.merge_lines("a\nX\nX2\nc", "a\nb\nc", "a\nY\nc", style.trimmed_keys, style.loose) is None


def test_neighbouring_lines_changed_on_each_side_merge_line_by_line() -> None:
    assert style.merge_lines("X\nb", "a\nb", "a\nY", style.trimmed_keys, style.loose) == "X\nY"
    assert style.merge_lines("a\nX\nb", "a\nq\nb", "Z\nX\nW", style.trimmed_keys, style.loose) == "Z\nX\nW"


def test_everything_may_go() -> None:
    assert style.merge_lines("a", "a", "", style.trimmed_keys, style.loose) == ""


_LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d e"]), min_size=1, max_size=7)


@given(_LINES, _LINES)
def test_where_the_file_is_as_believed_the_merge_is_the_new_text(old: list[str], new: list[str]) -> None:
    text = "\n".join(old)

    assert style.merge_lines(text, text, "\n".join(new), style.trimmed_keys, style.loose) == "\n".join(new)


def _merged(found: str, old: str, new: str) -> str | None:
    return style.merge_lines(found, old, new, style.loose_keys, style.loose)


@pytest.mark.parametrize(
    ("found", "old", "new", "wanted"),
    [
        # Shallower than the old block: moved by the same four columns.
        ("        x = 1\n        return x", "    x = 1\n    return x", "    x = 1\n\ndef g(self):\n    return 2", "        x = 1\n\n    def g(self):\n        return 2"),
        ("\t\tx = 1", "\tx = 1", "\tx = 1\nfi", "\t\tx = 1\n\tfi"),
        # Nothing is left of column 0.
        ("x = 1\nif y:\n    z()", "    x = 1\n    if y:\n        z()", "    x = 1\nelse:\n    z()", None),
        # Lines that lie flat in the old text say nothing of the depth of a new one.
        ("if a:\n    if b:\n        c()", "if a:\nif b:\nc()", "if a:\nif b:\nd()\nc()", None),
        ("if a:\n    if b:\n        c()", "if a:\nif b:\nc()", "if a:\nif b:\nd()", "if a:\n    if b:\n        d()"),
        # Copied from its first letter on, the first line has no part in the rule.
        ("    def f():\n        a()", "def f():\n        a()", "def f():\n        a()\n        b()", "    def f():\n        a()\n        b()"),
        # Two spaces for four, four for a tab; a continuation keeps what is over.
        ("if a:\n    b(1,\n      2)", "if a:\n  b(1,\n    2)", "if a:\n  b(1,\n    2)\n  c()", "if a:\n    b(1,\n      2)\n    c()"),
        ("if a:\n\tb()", "if a:\n    b()", "if a:\n    b()\n    if c:\n        d()", "if a:\n\tb()\n\tif c:\n\t\td()"),
    ],
)  # fmt: skip
def test_every_line_moves_as_the_old_block_does_or_the_edit_is_refused(
    found: str, old: str, new: str, wanted: str | None
) -> None:
    assert _merged(found, old, new) == wanted


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("    a = 1\n    bravo = two(x)\n    c = 3", "    if z:\n        a = 1\n        bravo = two(x)\n        c = 3"),
        ("    a = 1\n    bravO = two(x)\n    more()\n    c = 3", "    if z:\n        a = 1\n        bravO = two(x)\n        more()\n        c = 3"),
        ("    a = 1\n\n    bravO = two(x)\n    c = 3", "    if z:\n        a = 1\n\n        bravO = two(x)\n        c = 3"),
    ],
)  # fmt: skip
def test_what_the_model_moves_in_takes_the_lines_along_that_the_file_has_otherwise(
    found: str, wanted: str
) -> None:
    old = "    a = 1\n    bravO = two(x)\n    c = 3"
    new = "    if z:\n        a = 1\n        bravO = two(x)\n        c = 3"

    assert _merged(found, old, new) == wanted


def test_a_line_of_the_file_between_one_that_moves_and_one_that_does_not_is_refused() -> None:
    assert _merged("a()\nmore()\nb()", "a()\nb()", "if z:\n    a()\nb()") is None


@pytest.mark.parametrize(
    ("found", "old", "new", "wanted"),
    [
        ("It's 'so'.", "It’s ‘so’.", "It’s ‘so’.\nHe said ‘no’ and “yes”.", "It's 'so'.\nHe said 'no' and \"yes\"."),
        ("a\nb", "a  \nb  ", "a  \nnew  \n  \nb  ", "a\nnew\n\nb"),
        ("a - b", "a – b", "a – b\nc – d", "a - b\nc - d"),
        ("a b", "a\u00a0b", "a\u00a0b\nc\u00a0d", "a b\nc d"),
        ("“So it’s.”", '"So it\'s."', '"So it\'s."\n"It isn\'t," he said.', "“So it’s.”\n“It isn’t,” he said."),
        # Without such a habit in the old text quotes are meant; blanks are not, where the file has none.
        ("a\nb", " a\n b", " a\n ‘c’  \n b", "a\n‘c’\nb"),
        # The file writes blanks there itself.
        ("a  \nb", "a  \nb ", "c\nd\nb ", "c\nd\nb"),
    ],
)  # fmt: skip
def test_what_the_writer_has_everywhere_and_the_file_has_not_is_not_written(
    found: str, old: str, new: str, wanted: str
) -> None:
    assert _merged(found, old, new) == wanted


def test_a_changed_line_keeps_the_blanks_that_the_file_has_at_its_end() -> None:
    assert _merged("a  \nb", "a\nb", "c\nb") == "c  \nb"
