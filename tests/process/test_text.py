"""Command output as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.process.output import decode_output, joined, plain_text, trim_to_characters
from tests.ledger import owes


@owes("exec-10")
def test_bytes_that_are_no_utf8_are_replaced_and_the_rest_stays() -> None:
    text = decode_output(b"a\xff\xfe\x80b\n")

    assert text.startswith("a")
    assert text.endswith("b\n")
    assert "\ufffd" in text


@owes("exec-13")
def test_a_code_page_is_tried_after_strict_utf8() -> None:
    data = bytes.fromhex("d5d2b2bbb5bdcec4bcfe")

    assert decode_output(data, fallbacks=("cp936",)) == "找不到文件"
    assert decode_output("找不到文件".encode(), fallbacks=("cp936",)) == "找不到文件"


def test_an_unknown_code_page_is_passed_over() -> None:
    assert decode_output(b"caf\xe9", fallbacks=("no-such", "latin-1")) == "café"


def test_longer_text_in_another_charset_is_recognised() -> None:
    text = "Привет, мир. Это обычный русский текст, довольно длинный, чтобы его узнать. " * 3

    assert decode_output(text.encode("cp1251")) == text


def test_one_broken_byte_does_not_turn_utf8_into_another_charset() -> None:
    text = decode_output("größer äöü ".encode() + b"\xff" + b" ende", fallbacks=("latin-1",))

    assert text == "größer äöü \ufffd ende"


@owes("exec-12")
@pytest.mark.parametrize(
    "data", [b"h\x00i\x00\n\x00", b"\xff\xfeh\x00i\x00\n\x00", b"\xfe\xff\x00h\x00i\x00\n"]
)
def test_utf16_is_read_and_no_zero_byte_is_left(data: bytes) -> None:
    assert plain_text(decode_output(data)) == "hi\n"


@owes("exec-14")
def test_colours_go_and_a_progress_bar_leaves_its_last_state() -> None:
    assert plain_text("\x1b[31mred\x1b[0m\n10%\r50%\r100%\n") == "red\n100%\n"


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("abcdef\rxy", "xycdef"),
        ("abcdef\r\x1b[Kxy", "xy"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("typo\bs", "typs"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("\x1b(Bx\x1b=y", "xy"),
        ("bell\x07 nul\x00", "bell nul"),
        ("a\tb\n", "a\tb\n"),
        ("é\x9b31mx", "éx"),
    ],
)
def test_what_a_terminal_would_show(raw: str, seen: str) -> None:
    assert plain_text(raw) == seen


@given(st.text())
def test_plain_text_holds_no_control_characters(text: str) -> None:
    assert not any(ord(c) < 32 and c not in "\n\t" for c in plain_text(text))


@given(st.text(min_size=1), st.integers(min_value=0, max_value=8))
def test_a_cut_inside_a_character_loses_that_character_only(text: str, cut: int) -> None:
    data = text.encode("utf-8", "ignore")
    cut = min(cut, len(data))

    before = trim_to_characters(data[:cut], end=True)
    after = trim_to_characters(data[cut:], start=True)

    assert data.startswith(before)
    assert data.endswith(after)
    assert cut - len(before) + len(data) - cut - len(after) <= 4
    before.decode()
    after.decode()


def test_a_shortened_capture_says_how_much_is_missing() -> None:
    assert joined(b"a\xe2\x82", b"\xacz", 1234) == "a\n[… 1,234 bytes of output not kept …]\nz"


def test_a_word_that_was_cut_through_is_left_out_where_it_may_be_an_address_with_a_password() -> None:
    head, tail = b"fetching https://maria:Qx7v", b"R2mKp9@host.example/a done\n"

    assert joined(head, tail, 100) == "fetching \n[… 139 bytes of output not kept …]\n done\n"
    assert joined(b"1\n2\n3", b"77\n78\n", 9) == "1\n2\n3\n[… 9 bytes of output not kept …]\n77\n78\n"
