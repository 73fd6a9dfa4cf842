"""Putting a change into text that was seen a little differently."""

from __future__ import annotations

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
