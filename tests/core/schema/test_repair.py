"""Repair: what malformed JSON text was meant to say."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.core.schema.repair import Malformed, guess_json, repair_json
from tests.ledger import DATA, owes


@owes("K-05")
def test_what_of_the_corpus_may_run_is_what_was_meant() -> None:
    with (DATA / "json_repair" / "cases.jsonl").open(encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["schema"] is None and not row["partial"]]
    same = {}
    for row in rows:
        try:
            read = repair_json(row["raw"]).value
        except Malformed:
            continue
        same[row["raw"]] = json.dumps(read, sort_keys=True) == json.dumps(row["expect"], sort_keys=True)

    assert [raw for raw, right in same.items() if not right] == []
    assert len(same) >= 70


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ("{'a': 'b', c: None, 'd': undefined}", {"a": "b", "c": None, "d": None}),
        ('{"a": [1 2 3]}', {"a": [1, 2, 3]}),
        ('{"a" = 1, "b" = 2}', {"a": 1, "b": 2}),
        ('Sure!\n```json\n{"a": "```"}\n```\nBye', {"a": "```"}),
        ('{"a": "line\nbreak\ttab"}', {"a": "line\nbreak\ttab"}),
        ('{"re": "^\\s+\\d"}', {"re": "^\\s+\\d"}),
        ("{'it\\'s': 'ok'}", {"it's": "ok"}),
        ('{"a": 1 # note\n, "b": 2 // note\n}', {"a": 1, "b": 2}),
        ('{"a": (1, (2,))}', {"a": [1, [2]]}),
        ('{"pair": "\\ud83d\\ude00",}', {"pair": "😀"}),
        ('[{"a": 1}, {"a": 2},]', [{"a": 1}, {"a": 2}]),
        ("{‘a’: ‘b’}", {"a": "b"}),
        ('{"\\\\u000a": null,}', {"\\u000a": None}),
    ],
)  # fmt: skip
def test_one_meaning_is_read_without_a_guess(text: str, value: Any) -> None:
    repaired = repair_json(text)

    assert repaired.value == value
    assert bool(repaired.notes) == (text != '{"a": 1}')


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "say "hi" now", "b": 1}',
        '{"a": "x, "b": "y"}',
        '{"a: 1, "b": 2}',
        '{"a: 1}',
        '{a": 1}',
        '{"a": 1}, "b": 2}',
        '{"a": [1, 2}',
        '{"a": [1, 2}, "b": 3}',
        '{"a": (1, 2]}',
        "[1, 2}]",
        "[[1, 2)]",
        "[(1, 2]]",
        '{"a": 1, {"b": 2}}',
        '{"a": 1, ["b", 2]}',
        '{"t": [[1, 2], [3, 4], 5, 6], [7, 8]}',
        '{"t": [[1, 2], [3, 4]], [7, 8]}',
        '{"t": [], [7]}',
        '{"t": [[1, 2]], [7]}',
        '{"t": [[1, 2]], [7, 8, 9]}',
        '{"a": [/usr/bin *, 1]}',
        '{"a": 1 b}',
        '{"a" "b"}',
        '{"c" {"d": 1}}',
        '{"a": x y, "b": 1/2}',
        '{"a": f{x}g}',
        '{"a": f{x,y}g}',
        '{"a": 5"}',
        '{"a": b", "c": 1}',
        "[1, ..., 9]",
        '["a":1, "b":2]',
        '{"a": "```json\n{"b": 1}\n```"}',
        '{"a": "```json\n{"b": }\n```"}',
        '{""a"": ""b""}',
        '{"a": "{\\\\"b\\\\": \\\\"c\\\\"}"}',
        "[1, @, 2]",
        "[[1], [2]][[3], [4]]",
        "[1][[2]]",
        '[1]["x"]',
        '{"a": :}',
        "{(: 1}",
        '{"a": "x" // it is "y"\n}',
        '{"a": 1, )',
        '{"a": 1 /* never closed',
        '{"a": "b", [c]"}',
        '["say "hi" now"]',
        '["say " hi " now"]',
        '["a" "b"]',
        '{"a": 1}, "b": 2',
        '"a": 1, "b": {"c": 2}',
        '{"a": "x "": 1}',
        '{"a": 1, "a": 2,}',
        'read_file({"path": "a"})',
        '{"a": "use "} to close"}',
        "[1,,2]",
        '{"a": 007}',
        '{"a": NaN}',
        "{'a': 'it's'}",
        '{"p": "C:\\dir\\new"}',
        '{"msg": "x" // done }',
        '{"n": ' + "9" * 5000 + ', "m": 1}',
    ],
)
def test_what_has_a_second_meaning_is_never_run(text: str) -> None:
    with pytest.raises(Malformed):
        repair_json(text)


@owes("K-05")
def test_the_likeliest_meaning_of_a_guess_is_the_librarys() -> None:
    # Its documentation reads these two so.
    assert guess_json('{"a": "say "hi" now", "b": 1}') == {"a": 'say "hi" now', "b": 1}
    assert guess_json('{"a": 1, "b": }') == {"a": 1, "b": ""}


@owes("args-14")
@pytest.mark.parametrize("cut", range(1, 66))
def test_every_prefix_of_an_object_is_marked_as_truncated(cut: int) -> None:
    whole = '{"path": "a.txt", "n": [1, {"b": "c \\" d"}], "deep": {"e": null}}'
    assert len(whole) == 65
    if cut == 65:
        assert repair_json(whole).notes == ()
    else:
        with pytest.raises(Malformed) as caught:
            repair_json(whole[:cut])
        assert caught.value.truncated


@pytest.mark.parametrize("text", ["", "words", "True", "}", "/", '"', "'\"'", "9" * 5000, "[" * 500, "NaN"])
def test_text_without_an_object_or_array_has_no_value(text: str) -> None:
    with pytest.raises(Malformed):
        repair_json(text)


HARD = {
    "open brackets": "[" * 100_000, "open objects": '{"a":' * 50_000, "inner quotes": '{"a":"x' + '"b ' * 60_000,
    "keys without end": '{"a:1,' * 30_000, "quotes": '"' * 200_000, "backslashes": '{"a": "' + "\\" * 200_000,
    "keys": "{" + '"a" ' * 60_000, "half keys": '{"a": "' + ', "k' * 40_000, "half items": "[" + '"a, ' * 40_000,
    "backticks": "`" * 100_000 + "{", "hashes": "[#" * 50_000, "words": "{a " * 30_000, "ends": '{"n":b"' * 20_000,
    "objects": '{"a": "x"}, ' * 20_000, "comments": "/*" * 100_000, "slashes": "[/" * 40_000,
    "spaces": "[1," + " " * 100_000 + '"' * 1000, "lines": '{"a": ' + "\n" * 100_000 + "x",
    "braces": "{" * 50_000 + "}" * 50_000, "bare": '{"a": ' + "x" * 200_000, "stars": "[" + "*" * 100_000,
    "fences": "```json\n{" * 20_000, "digits": "[" + "1_" * 100_000, "colons": "{" + ":" * 100_000,
    "closers": '{"a": "' + "}" * 100_000 + "x",
    "spaced quotes": '{"a": "' + '" ' * 50_000, "commas": '{"a": "' + '" , ' * 30_000,
}  # fmt: skip


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_time_grows_with_the_length_and_no_faster(name: str) -> None:
    text = HARD[name]

    def seconds(part: str) -> float:
        start = time.process_time()
        with suppress(Malformed):
            repair_json(part)
        return time.process_time() - start

    small = max(min(seconds(text[: len(text) // 8]) for _ in range(3)), 0.002)
    # Eight times the text: linear is 8, quadratic 64.
    # Any of three: what else the machine does may only add.
    assert any(seconds(text) < 28 * small for _ in range(3))


PIECES = st.sampled_from(
    ["{", "}", "[", "]", "(", ")", '"', "'", "“", "”", "„", ":", ",", "\\", "\n", " ", "a", "key", "1", "-", ".5", "1e",
     "true", "None", "//", "/*", "*/", "#", "```", "```json", "...", "\\u00e9", "\\ud83d", '": "', '", "', "{}", "=", ";"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_makes_it_fail_otherwise_than_by_its_own_error(text: str) -> None:
    try:
        repaired = repair_json(text)
    except Malformed:
        return
    json.dumps(repaired.value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    st.dictionaries(st.text(max_size=6), json_values, max_size=4),
    st.sampled_from(["{}\n``", "```json\n{}\n```", "Here:\n{} ok"]),
)
def test_well_formed_json_is_read_exactly_whatever_stands_around_it(
    value: dict[str, Any], around: str
) -> None:
    text = around.replace("{}", json.dumps(value))

    repaired = repair_json(text)

    assert repaired.value == value


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.dictionaries(st.text(max_size=6), json_values, max_size=4))
def test_a_value_with_a_trailing_comma_is_read_exactly(value: dict[str, Any]) -> None:
    text = json.dumps(value)[:-1] + ",}"

    try:
        repaired = repair_json(text)
    except Malformed:
        assert not value or "\\n" in text  # `{,}`, or a name with a line break in it
    else:
        assert repaired.value == value


@pytest.mark.parametrize("text", [r"\\srv\share\x", r"C:\dir\\sub", r"\\d+\s", r"a\/b\q", r"C:\u00e9\q"])
def test_a_text_with_backslashes_of_both_kinds_is_refused_and_loses_none(text: str) -> None:
    with pytest.raises(Malformed):
        repair_json(f'{{"city": "{text}"}}')


@pytest.mark.parametrize("text", [r"C:\dir\sub", r"\d+\s", r"C:\Users\me"])
def test_backslashes_that_are_no_escapes_are_taken_letter_by_letter(text: str) -> None:
    assert repair_json(f'{{"city": "{text}"}}').value == {"city": text}
