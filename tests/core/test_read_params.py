"""Reading single parameters in the four-argument form."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard.core.adapters import read_number_param, read_string_array_param, read_string_param
from pegboard.core.errors import InvalidArguments
from tests.ledger import owes


@owes("M-45")
def test_a_string_is_read_without_its_outer_spaces() -> None:
    assert read_string_param({"k": " v "}, "k") == "v"
    assert read_string_param({"k": "  "}, "k") is None
    assert read_string_param({}, "k") is None


@owes("M-46")
def test_a_number_is_read_from_text_too() -> None:
    assert read_number_param({"n": 1.5}, "n") == 1.5
    assert read_number_param({"n": "2"}, "n", integer=True) == 2
    assert read_number_param({"n": ""}, "n") is None
    assert read_number_param({}, "n") is None


@owes("M-47")
def test_a_list_of_strings_is_read_from_a_list_a_string_or_json_text() -> None:
    assert read_string_array_param({"k": ["a ", ""]}, "k") == ["a"]
    assert read_string_array_param({"k": "a"}, "k") == ["a"]
    assert read_string_array_param({"k": '["a", "b"]'}, "k") == ["a", "b"]
    assert read_string_array_param({"k": []}, "k") is None
    assert read_string_array_param({}, "k") is None


@owes("M-45", "M-46", "M-47")
@pytest.mark.parametrize(
    ("read", "params", "options", "words"),
    [
        (read_string_param, {}, {"required": True}, ".k: is required but missing"),
        (read_string_param, {"k": {1}}, {}, ".k: must be a string, got a Python set"),
        (read_string_param, {"k": 5}, {}, ".k: must be a string, got 5"),
        (read_number_param, {}, {"required": True}, ".k: is required but missing"),
        (read_number_param, {"k": 1.5}, {"integer": True}, ".k: must be an integer, got 1.5"),
        (read_number_param, {"k": True}, {}, ".k: must be a number, got true"),
        (read_number_param, {"k": "x"}, {}, '.k: must be a number, got "x"'),
        (read_string_array_param, {}, {"required": True}, ".k: is required but missing"),
        (read_string_array_param, {"k": ["a", 5]}, {}, '.k: must be an array of strings, got ["a", 5]'),
        (read_string_array_param, {"k": 5}, {}, ".k: must be an array of strings, got 5"),
    ],
)
def test_what_is_missing_or_of_another_type_is_told(read: Any, params: Any, options: Any, words: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        read(params, "k", **options)

    assert words in caught.value.message
