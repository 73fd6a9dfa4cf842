"""What a model saw, and the way back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pegboard.textedit import style
from tests.ledger import owes


def test_crlf_is_one_newline_and_invisible_characters_are_gone() -> None:
    folded = style.shown("a\r\nb\x0cc\u200bd\x1be")

    assert folded.text == "a\nbcde"
    assert folded.start(1) == 1
    assert folded.start(2) == 3
    assert folded.end(3) == 4
    assert folded.start(3) == 5
    assert folded.end(6) == 10


def test_an_offset_inside_a_replaced_piece_leads_nowhere() -> None:
    folded = style.loose("\u1112\u1161\u11ab x")

    assert folded.text == "한 x"
    assert folded.start(0) == 0
    assert folded.end(1) == 3

    longer = style.loose("a\u0301\u0315\u0315")
    assert longer.start(1) is None


def test_terminal_sequences_go_whole_in_the_plain_view() -> None:
    assert style.shown("\x1b[31mred\x1b[0m").text == "[31mred[0m"
    assert style.shown_plain("\x1b[31mred\x1b[0m \x1b]0;title\x07x").text == "red x"


def test_quotes_dashes_spaces_and_accents_are_plain_in_the_loose_view() -> None:
    assert style.loose("“a” – ‘b’\u00a0e\u0301").text == "\"a\" - 'b' é"


def test_keys_ignore_what_no_one_sees_at_the_ends() -> None:
    assert style.trimmed_keys("  a \r\n\tb\u200b") == ["a", "b"]
    assert style.loose_keys(" a\t\tb \n“c”") == ["a b", '"c"']


_NOISE = st.sampled_from(["\x0c", "\x1b", "\u200d", "\u200b", "\u00ad", "\ufeff", "\u202e"])
_PLAIN = st.text(alphabet="ab \n", max_size=30)


@owes("edit-01")
@given(_PLAIN, st.data())
def test_every_offset_of_the_view_leads_back_to_its_character(plain: str, data: st.DataObject) -> None:
    pieces: list[str] = []
    for char in plain:
        pieces += [
            *data.draw(st.lists(_NOISE, max_size=2)),
            "\r\n" if char == "\n" and data.draw(st.booleans()) else char,
        ]
    source = "".join(pieces)

    folded = style.shown(source)

    assert folded.text == plain
    for offset, char in enumerate(plain):
        start, end = folded.start(offset), folded.end(offset + 1)
        assert start is not None
        assert end is not None
        assert source[start:end].replace("\r\n", "\n") == char
