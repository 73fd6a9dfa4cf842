"""Literals as models write them."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import raises

from pegboard.dialects.literals import LiteralError, TruncatedLiteral, read_call, read_literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, -3e2, true, null]}', {"a": [1, 2.5, -300.0, True, None]}),
        ("{'a': (True, None, False,), b: 'x'}", {"a": [True, None, False], "b": "x"}),
        ('{a:<|"|>it\'s "x"<|"|>}', {"a": 'it\'s "x"'}),
        ("{a:<escape>x<escape>}", {"a": "x"}),
        ("{'a': '''x\n'y' ''', 'b': \"\"\"q\"r\"\"\"}", {"a": "x\n'y' ", "b": 'q"r'}),
        (r"{'a': 'n\n t\t q\' b\\ u\u00fc x\x41 U\U0001F600 \/'}",
         {"a": "n\n t\t q' b\\ uü xA U😀 /"}),
        (r"{'a': 'o\q \d+'}", {"a": r"o\q \d+"}),
        ("{'a': '\\\nx\\U99999999'}", {"a": "x\ufffd"}),
        ("{a=1,}", {"a": 1}),
        ("{'a': 9007199254740993.0, b: 1e3}", {"a": 9007199254740993, "b": 1000.0}),
        ('{"a": 9007199254740993.0}', {"a": 9007199254740993}),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}),
        ("{'a': '\\ud83d'}", {"a": "\ufffd"}),
    ],
)  # fmt: skip
def test_json_python_and_template_literals_are_one_language(text: str, value: Any) -> None:
    assert read_literal(text, 0) == (value, len(text))


@pytest.mark.parametrize(
    "text", ["", "{", "{a", "{a:", "{a:1", "{a:1,", "[", "[tr", "['x", '["x', "{a:<escape>x", '{a:<|"', "[1"]
)
def test_text_that_ends_inside_is_cut_off(text: str) -> None:
    with raises(TruncatedLiteral):
        read_literal(text, 0)


@pytest.mark.parametrize(
    "text",
    [
        "x y",
        "{1:2} ",
        "{a 1}",
        "[1 2]",
        "[x, ",
        "{'a': @}",
        "[" * 200 + "x",
        "[<x>]",
        "['a', " + "1" * 5000 + ",x]",
    ],
)
def test_what_is_no_literal_is_unreadable(text: str) -> None:
    with raises(LiteralError) as caught:
        read_literal(text, 0)

    assert not isinstance(caught.value, TruncatedLiteral)


def test_keyword_arguments() -> None:
    assert read_call("a=1, b='x')", 0) == ({"a": 1, "b": "x"}, 11)
    with raises(LiteralError):
        read_call("1)", 0)


plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(plain, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=10)


@pytest.mark.slow
@settings(deadline=None)
@given(values)
def test_whatever_python_writes_is_read_as_python_reads_it(value: Any) -> None:
    text = repr([value])

    assert read_literal(text, 0)[0] == ast.literal_eval(text)


@pytest.mark.parametrize("text", [r"\\srv\share", r"C:\dir\new", r"\\d+\s"])
def test_a_literal_with_backslashes_of_both_kinds_is_refused_and_loses_none(text: str) -> None:
    with raises(LiteralError):
        read_literal(f'{{"city": "{text}"}}', 0)
