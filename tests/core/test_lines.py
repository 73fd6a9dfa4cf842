"""Lines: true numbers, whole lines, pages."""

from __future__ import annotations

import pytest

from pegboard.core.text import LineRange, page, slice_text
from tests.ledger import owes


@pytest.mark.parametrize(
    ("text", "offset", "limit", "expected"),
    [
        ("a\nb\nc\n", 1, None, LineRange("a\nb\nc\n", 1, 3, 3)),
        ("a\nb\nc", 2, None, LineRange("b\nc", 2, 3, 3)),
        ("a\nb\nc", 2, 1, LineRange("b\n", 2, 2, 3)),
        ("a\nb\nc", -1, None, LineRange("c", 3, 3, 3)),
        ("a\nb\nc", -9, 1, LineRange("a\n", 1, 1, 3)),
        ("a\r\nb\rc", 1, None, LineRange("a\nb\rc", 1, 3, 3)),
        ("a\x0cb\nc", 1, 1, LineRange("a\x0cb\n", 1, 1, 2)),
        ("", 1, None, LineRange("", 0, 0, 0)),
        ("a\n", 5, None, LineRange("", 0, 0, 1)),
    ],
)
def test_a_slice_has_the_lines_that_were_asked_for(
    text: str, offset: int, limit: int | None, expected: LineRange
) -> None:
    assert slice_text(text, offset, limit) == expected


@owes("M-03", "X-13")
def test_a_numbered_page_shows_true_numbers_and_how_to_go_on() -> None:
    shown = page(slice_text("one\ntwo\nthree\n", 2, None), numbered=True, most=12)

    assert shown.view == "     2→two\n[lines 2-2 of 3; offset=3 goes on]"
    assert (shown.text, shown.first, shown.last, shown.more) == ("two\n", 2, 2, True)


def test_a_whole_page_ends_without_a_note() -> None:
    assert page(slice_text("one\ntwo\n", 1, None), numbered=True, most=100).view == "     1→one\n     2→two"
    assert page(slice_text("one\ntwo\n", 1, None), numbered=False, most=100).view == "one\ntwo\n"


def test_a_page_has_one_line_at_least_and_names_lines_that_were_cut() -> None:
    shown = page(LineRange("x" * 50 + "\nb\n", 1, 2, None, cut=(1,)), numbered=False, most=5)

    assert shown.view.startswith(
        "x" * 50 + " [line cut: offset=1 column=51 goes on]\n[lines 1-1; offset=2 goes on]"
    )
    last = page(LineRange("abc", 7, 7, 9), numbered=False, most=5)
    assert last.view == "abc\n[lines 7-7 of 9; offset=8 goes on]"


def test_nothing_gives_an_empty_page() -> None:
    assert page(LineRange("", 0, 0, 0), numbered=True, most=5).view == ""
