"""Putting a change into text that was seen a little differently."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pegboard.textedit import merge, view

_CHARS = st.text(alphabet="ab\"'“”-– \u00a0\u200b\n", max_size=24)


@given(_CHARS, _CHARS, st.data())
def test_a_transfer_says_what_the_new_text_says(plain: str, new: str, data: st.DataObject) -> None:
    old = view.loose(plain).text
    found = "".join(
        data.draw(st.sampled_from(["", "\u200b"]))
        + data.draw(st.sampled_from({"'": "'’", '"': '"“'}.get(c, c)))
        for c in old
    )

    done = merge.transfer(found, old, new, view.loose)

    assert view.loose(done).text == view.loose(new).text


def test_a_transfer_of_nothing_keeps_the_found_text() -> None:
    assert merge.transfer("“a”", '"a"', '"a"', view.loose) == "“a”"
    assert merge.transfer("“a”", '"a"', "“a”", view.loose) == "“a”"


def test_long_changes_are_put_in_whole_instead_of_compared_token_by_token() -> None:
    old, new = " ".join(f"a{n}" for n in range(2500)), " ".join(f"b{n}" for n in range(2500))

    assert merge.transfer(old, old, new, view.loose) == new


def test_a_transfer_across_a_piece_that_folds_as_one_falls_back_to_its_folded_form() -> None:
    done = merge.transfer("a\u0301\u0315 x", "a\u0301\u0315 x", "a\u0301 y", view.loose)

    assert view.loose(done).text == view.loose("a\u0301 y").text


def test_lines_that_both_sides_changed_alike_are_no_conflict() -> None:
    found, old, new = "a\nB\nc", "a\nb\nc", "a\nB\nc"

    assert merge.merge_lines(found, old, new, view.trimmed_keys, view.loose) == found


def test_lines_that_both_sides_changed_differently_are_a_conflict() -> None:
    assert merge.merge_lines("a\nX\nc", "a\nb\nc", "a\nY\nc", view.trimmed_keys, view.loose) is None
    assert merge.merge_lines("a\nX\nX2\nc", "a\nb\nc", "a\nY\nc", view.trimmed_keys, view.loose) is None


def test_neighbouring_lines_changed_on_each_side_merge_line_by_line() -> None:
    assert merge.merge_lines("X\nb", "a\nb", "a\nY", view.trimmed_keys, view.loose) == "X\nY"
    assert merge.merge_lines("a\nX\nb", "a\nq\nb", "Z\nX\nW", view.trimmed_keys, view.loose) == "Z\nX\nW"


def test_everything_may_go() -> None:
    assert merge.merge_lines("a", "a", "", view.trimmed_keys, view.loose) == ""


_LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d e"]), min_size=1, max_size=7)


@given(_LINES, _LINES)
def test_where_the_file_is_as_believed_the_merge_is_the_new_text(old: list[str], new: list[str]) -> None:
    text = "\n".join(old)

    assert merge.merge_lines(text, text, "\n".join(new), view.trimmed_keys, view.loose) == "\n".join(new)
