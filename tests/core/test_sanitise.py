from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.core.text import sanitise
from tests.ledger import DATA, owes

ROWS = [
    row
    for row in map(json.loads, (DATA / "security" / "injection.jsonl").read_text().splitlines())
    if row["cls"] in ("unicode", "ansi")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["id"])
def test_rows_about_characters_lose_what_acts_and_keep_what_is_read(row: dict[str, object]) -> None:
    shown, expect = sanitise(str(row["input"])), row["expect"]
    assert isinstance(expect, dict)

    assert not [s for s in expect.get("strip", []) if s in shown]
    assert not [k for k in expect.get("keep", []) if k not in shown]
    if expect.get("warn"):
        assert shown != str(row["input"])


@owes("exec-14")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m\n", "red\n"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
        ("\x1bPq#0\x1b\\x\x1b_a\x1b\\y\x1b^b\x1b\\z", "xyz"),
        ("\x9d8;;u\x9cx", "x"),
        ("\x1b(Ba\x1b7b\x1bc", "ab"),
        ("a\x1b", "a"),
        ("a\x1b[", "a"),
        ("\x1b]unfinished text", "unfinished text"),
        ("a\r\nb\r\r\nc", "a\nb\nc"),
        ("shown\rcovered", "shown\ncovered"),
        ("a\x00b\x07c\x7fd", "abcd"),
        ("a\x85b", "ab"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("x\u202egpj.exe", "xgpj.exe"),
        ("a\u200bb\ufeffc\u2060d\u00ade", "abcde"),
        ("a\u200db", "ab"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("\u0915\u200d\u200d\u0937", "\u0915\u0937"),
        ("\u200d", ""),
        ("\U0001f468\u200d\U0001f4bb", "\U0001f468\u200d\U0001f4bb"),
        ("\U0001f44d\U0001f3fd\u200d\U0001f4bb", "\U0001f44d\U0001f3fd\u200d\U0001f4bb"),
        ("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"),
        ("a\ufe00\ufe01\ufe02b", "a\ufe00b"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"),
        ("a\U000e0067\U000e007f", "a"),
        ("bad \ud800 half", "bad  half"),
    ],
)  # fmt: skip
def test_text_is_shown_without_what_acts_on_a_terminal_or_hides(text: str, shown: str) -> None:
    assert sanitise(text) == shown


@pytest.mark.parametrize("text", ["plain\n\ttext", "日本語 naïve ✓", ""])
def test_clean_text_is_the_same_object(text: str) -> None:
    assert sanitise(text) is text


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = sanitise(text)

    assert sanitise(once) == once
    assert not any(c in once for c in "\x00\x07\x08\x1b\x7f\x9b\r\u200b\u202e")
