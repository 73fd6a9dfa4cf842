"""Text behind a mark: found by what stands around it, in bounded work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pegboard.textedit.redaction_marks import around_line, find_around
from tests.ledger import owes


def test_hidden_text_is_what_stands_between_the_parts() -> None:
    (place,) = find_around('a\nkey = "sk" # x\nb', 'key = "[redacted:1]" #')

    assert (place.start, place.end, place.hidden) == (2, 14, ("sk",))


def test_a_mark_at_an_end_hides_at_least_one_character() -> None:
    assert find_around("xyz = 1", "[redacted:1] = 1")[0].hidden == ("z",)
    assert find_around("key=abc", "key=[redacted:1]")[0].hidden == ("a",)
    assert find_around("key=", "key=[redacted:1]") == []
    assert find_around(" = 1", "[redacted:1] = 1") == []


def test_hidden_text_over_lines_is_found_only_for_one_mark() -> None:
    assert find_around("a\nx\ny\nb", "a\n[redacted:1]\nb")[0].hidden == ("x\ny",)
    assert find_around("a\nx\ny\nb c", "a\n[redacted:1]\nb[redacted:2]c") == []


def test_marks_side_by_side_or_too_many_are_not_looked_for() -> None:
    assert find_around("a12b", "a[redacted:1][redacted:2]b") == []
    assert find_around("abcdefghij", "[redacted:1]".join("abcdef")) == []
    assert around_line("a12b", "a[redacted:1][redacted:2]b") is None


def test_a_line_is_compared_whole() -> None:
    assert around_line("k = one, two;", "k = [redacted:1], [redacted:2];") == ("one", "two")
    assert around_line("k = one", "k = [redacted:1], [redacted:2];") is None
    assert around_line("k = one;", "k = [redacted:1], [redacted:2];") is None
    assert around_line("k = ;", "k = [redacted:1];") is None
    assert around_line("same", "same") == ()


@owes("N-40")
def test_a_line_that_fits_nowhere_is_given_up_in_linear_work() -> None:
    # A backtracking pattern needs the cube of the length here.
    text = "a" * 20_000

    assert find_around(text, "a[redacted:1]a[redacted:2]a[redacted:3]b") == []
    assert around_line(text, "a[redacted:1]a[redacted:2]a[redacted:3]b") is None


_PART = st.text(alphabet="ab=", min_size=1, max_size=4)


@given(_PART, st.text(alphabet="xyz", min_size=1, max_size=6), _PART)
def test_what_was_hidden_is_found_again(left: str, secret: str, right: str) -> None:
    places = find_around(f"{left}{secret}{right}", f"{left}[redacted:k]{right}")

    assert [place.hidden for place in places] == [(secret,)]
    assert around_line(f"{left}{secret}{right}", f"{left}[redacted:k]{right}") == (secret,)
