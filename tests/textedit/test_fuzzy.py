"""Approximate matching: right by a slow reference, bounded in work."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.textedit import closest
from tests.ledger import owes


@owes("U-02", "U-03")
def test_a_near_text_is_found_with_its_similarity() -> None:
    near = closest.find_near("first line\nthe quick brown fox\nlast line\n", "the quikc brown fox")

    assert near is not None
    assert "first line\nthe quick brown fox\nlast line\n"[near.start : near.end] == "the quick brown fox"
    assert near.distance == 2
    assert near.similarity == pytest.approx(1 - 2 / 19)
    assert near.rivals == 0


@owes("U-03")
def test_more_than_three_tenths_of_the_old_text_apart_is_too_far() -> None:
    assert closest.find_near("abcdefghij", "abcdefgxyz") is not None
    assert closest.find_near("abcdefghij", "abcdefwxyz") is None
    assert closest.find_near("abcdefghij", "abcdefgxyz", threshold=0.75) is None


def test_two_equally_near_places_are_counted() -> None:
    near = closest.find_near("alpha beta one. " + "-" * 30 + " alpha beta two.", "alpha beta six.")

    assert near is not None
    assert near.rivals == 1


def test_a_large_text_is_searched_around_the_likeliest_places_only() -> None:
    lines = [f"row {n} of the table holds {n * 7}" for n in range(40_000)]
    text = "\n".join(lines)

    near = closest.find_near(text, "row 31234 of the tabel holds 218638")

    assert near is not None
    assert text[near.start : near.end] == lines[31234]


def test_an_old_text_over_the_work_limit_is_not_searched() -> None:
    assert closest.find_near("x" * 100_000, "y" * 100_000) is None
    assert closest.find_near("", "abc") is None


def source(count: int) -> str:
    return "\n".join(f"def handler_{n}(request):  # case {n}" for n in range(count))


@owes("N-41")
def test_the_work_of_the_hint_grows_in_step_with_the_file() -> None:
    old = "def handlr_977(request): # cas 977\ndef handler_978(reqest):"

    work = [closest.rank(source(count), old).work / count for count in (5_000, 10_000, 20_000)]

    assert max(work) < 1.2 * min(work)


@owes("N-41")
def test_the_hint_in_twenty_thousand_lines_names_the_right_line() -> None:
    lines = source(20_000).split("\n")
    old = "\n".join(
        line.replace("e", "ee", 1) if n % 2 else line for n, line in enumerate(lines[15_000:15_200])
    )

    found = closest.closest("\n".join(lines), old, "f")

    assert found is not None
    assert found.line == 15_001


@pytest.mark.slow
@owes("N-41")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([f"line number {n}" for n in range(12)]), min_size=3, max_size=25),
    st.integers(0, 20),
    st.integers(1, 6),
    st.lists(st.sampled_from(["line number 3", "something else", "line numbre 5"]), max_size=2),
)
def test_wherever_the_documented_window_finds_a_fragment_so_do_we(
    lines: list[str], start: int, size: int, extra: list[str]
) -> None:
    wanted = [*lines[start : start + size], *extra] or ["line number 1"]
    windows = [lines[i : i + len(wanted)] for i in range(max(1, len(lines) - len(wanted) + 1))]
    best = max(difflib.SequenceMatcher(None, wanted, window, autojunk=False).ratio() for window in windows)

    found = closest.closest("\n".join(lines), "\n".join(wanted), "f")

    if best > closest.THRESHOLD:
        assert found is not None
        assert found.similarity > closest.THRESHOLD


def test_nothing_alike_is_no_hint() -> None:
    assert closest.closest("alpha\nbeta\n", "0123456789", "f") is None
    assert closest.closest("alpha beta gamma\n" * 3, "alpha 1 2 3 4 5 6 7 8 9 10 11 12", "f") is None
    assert closest.closest("abc", "\n\n", "f") is None


@owes("N-41")
@pytest.mark.parametrize(
    ("there", "old"),
    [
        ("helo", "hello"),
        ("MAX_SIZE = 10", "max_size = 10"),
        ("Hello World", "hello world"),
        ("值 = 3", "值 = 4"),
        ("x=1", "x=2"),
    ],
)
def test_a_short_or_differently_written_line_has_its_closest_too(there: str, old: str) -> None:
    found = closest.closest(f"first\n{there}\nlast\n", old, "f")

    assert found is not None
    assert (found.line, found.text) == (2, there)


def test_a_word_with_a_slip_is_found_by_its_pieces() -> None:
    found = closest.closest("one\nreturnvalue\nthree", "retrunvalue", "f")

    assert found is not None
    assert found.line == 2


def test_a_long_diff_is_cut() -> None:
    lines = [f"row {n}" for n in range(300)]
    found = closest.closest("\n".join(lines), "\n".join(f"{line} x{n}" for n, line in enumerate(lines)), "f")

    assert found is not None
    assert "more lines]" in found.diff


def test_a_difference_in_spaces_is_said() -> None:
    found = closest.closest("alpha  beta gamma", "alpha beta gamma", "f")

    assert found is not None
    assert found.note == "Line 1 differs only in the number of spaces."


def test_a_hint_at_the_end_of_a_file_is_whole() -> None:
    found = closest.closest("a\nb\nvalue one", "value one\nvalue two", "f")

    assert found is not None
    assert found.text == "value one"
