"""Shaping: what a tool returns becomes readable, cut, and kept whole for programs."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
from dataclasses import replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pegboard import PURE, Executor, ToolError, tool
from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.result import EMPTY, Notes, Shaper, ToolResult, to_jsonable, to_result, truncate
from tests.ledger import owes


class ArtifactRef:
    """Spills in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def save(self, text: str, *, call_id: str, labels: frozenset[str]) -> str:
        self.texts.append(text)
        return f"spill:{len(self.texts)}"

    def read(self, name: str) -> str:
        return self.texts[int(name.partition(":")[2]) - 1]


class Secrets:
    """Takes out one word."""

    def redact(self, text: str) -> tuple[str, bool]:
        return text.replace("hunter2", "[secret]"), "hunter2" in text


def shape(value: Any, shaper: Shaper | None = None, **options: Any) -> ToolResult:
    return (shaper or Shaper()).shape(value, call_id="c", tool="t", **options)


@owes("N-67", "X-19", "K-48")
def test_ten_thousand_characters_are_whole_and_one_more_is_half_head_half_tail() -> None:
    kept = ArtifactRef()
    whole = "a" * 5000 + "b" * 5000

    assert shape(whole, Shaper(spills=kept)).text == whole
    result = shape("a" * 5000 + "X" + "b" * 5000, Shaper(spills=kept))

    assert result.text == (
        "a" * 5000 + "\n\n… [1 characters left out; full text: read_file path=spill:1] …\n\n" + "b" * 5000
    )
    assert (result.notes.truncated, result.notes.spill) == (True, "spill:1")
    assert kept.texts == ["a" * 5000 + "X" + "b" * 5000]


def test_without_a_place_for_spills_the_result_says_that_the_rest_is_gone() -> None:
    result = shape("x" * 30, max_chars=10)

    assert "the rest was not saved" in result.text
    assert result.notes.spill is None
    assert result.notes.truncated


@owes("context-02")
@pytest.mark.parametrize(
    "unit",
    ["e\u0301", "👨‍👩‍👧", "🇩🇪", "👍🏽", "\r\n", "☎\ufe0f"],
    ids=["accent", "family", "flag", "skin", "crlf", "selector"],
)
def test_nothing_that_a_person_sees_as_one_is_split(unit: str) -> None:
    text = unit * 60

    for limit in range(1, 100):
        head, _, tail = truncate(text, limit, None).partition("\n\n… [")
        end = tail.partition("] …\n\n")[2]
        assert head == unit * (len(head) // len(unit))
        assert end == unit * (len(end) // len(unit))
        assert f"[{len(text) - len(head) - len(end)} characters" in truncate(text, limit, None)


def test_a_text_of_nothing_but_marks_is_cut_all_the_same() -> None:
    assert len(truncate("a" + "\u0301" * 5000, 100, None)) < 300
    assert len(truncate("🇩" * 5001, 100, None)) < 300


@given(st.text(max_size=80), st.integers(0, 90))
def test_a_cut_keeps_a_head_and_a_tail_of_the_text_and_counts_the_rest(text: str, limit: int) -> None:
    if len(text) <= limit:
        return
    shown = truncate(text, limit, None)
    head, _, rest = shown.partition("\n\n… [") if limit else ("", "", shown.removeprefix("… ["))
    number = int(rest.partition(" ")[0]) if rest else 0

    assert text.startswith(head)
    assert 0 < number <= len(text)
    assert shown.encode("utf-8", "surrogatepass")


def test_the_limit_counts_over_all_text_blocks_and_leaves_pictures_alone() -> None:
    picture = Image(data=b"p", mime_type="image/png")
    kept = ArtifactRef()

    result = shape([Text("a" * 8), picture, Text("b" * 8), Text("c")], Shaper(spills=kept, max_chars=10))

    assert result.content[0] == Text("a" * 8)
    assert result.content[1] is picture
    assert isinstance(result.content[2], Text)
    assert result.content[2].text.startswith("b\n")
    assert result.content[3] == Text("… [1 characters left out; full text: read_file path=spill:2] …")
    assert kept.texts == ["b" * 8, "c"]


@owes("context-04", "X-04")
@pytest.mark.parametrize("size", [1_000, 1_000_000])
async def test_data_is_whole_and_a_dict_however_large(size: int) -> None:
    @tool(effects=PURE)
    def big() -> dict[str, str]:
        """Give much."""
        return {"text": "x" * size}

    result = await Executor([big]).call("big")

    assert result.data == {"text": "x" * size}
    assert len(result.text) <= 10_200


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


class Model(BaseModel):
    """A pydantic model."""

    name: str
    tags: set[int] = {1}


@owes("X-04", "G-13")
@pytest.mark.parametrize(
    ("value", "text", "data"),
    [
        ("hi", "hi", None),
        ("", EMPTY, None),
        (None, EMPTY, None),
        (5, "5", 5),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        ({"a": [1, None]}, '{"a": [1, null]}', {"a": [1, None]}),
        ([], "[]", []),
        ((1, "ä"), '[1, "ä"]', [1, "ä"]),
        ({3, 1, 2}, "[1, 2, 3]", [1, 2, 3]),
        (frozenset({"b", "a"}), '["a", "b"]', ["a", "b"]),
        ({1: Colour.RED}, '{"1": "red"}', {"1": "red"}),
        (Colour.RED, "red", "red"),
        (Level.HIGH, "3", 3),
        (
            Point(1, datetime.date(2026, 1, 2)),
            '{"x": 1, "when": "2026-01-02"}',
            {"x": 1, "when": "2026-01-02"},
        ),
        (Model(name="n"), '{"name": "n", "tags": [1]}', {"name": "n", "tags": [1]}),
        ([Model(name="n")], '[{"name": "n", "tags": [1]}]', [{"name": "n", "tags": [1]}]),
        (PurePosixPath("a/b"), "a/b", "a/b"),
        (datetime.time(1, 2), "01:02:00", "01:02:00"),
        ({"raw": b"a\xff"}, '{"raw": "a\ufffd"}', {"raw": "a\ufffd"}),
        (Model, str(Model), str(Model)),
        (Point, str(Point), str(Point)),
        (Text("b"), "b", None),
        ([Text("a"), Text("b")], "a\nb", None),
    ],
)
def test_every_kind_of_value_is_wrapped(value: Any, text: str, data: Any) -> None:
    result = to_result(value)

    assert (result.text, result.data) == (text, data)
    json.dumps(result.data)


@pytest.mark.parametrize("value", [b"\x00raw", bytearray(b"\x00raw"), memoryview(b"\x00raw")])
def test_bytes_become_a_file_and_stay_bytes_for_programs(value: Any) -> None:
    result = to_result(value)

    assert result.data == b"\x00raw"
    assert result.text == "[file result application/octet-stream, 4 bytes]"


def test_a_result_of_data_alone_is_read_as_its_data() -> None:
    assert to_result(ToolResult(data={"a": 1})).text == '{"a": 1}'
    assert to_result(ToolResult()).text == EMPTY
    whole = ToolResult.from_text("t", data=1)
    assert to_result(whole) is whole


@pytest.mark.parametrize("value", [object(), math.nan, 10**400, "\ud800"])
async def test_values_that_no_json_knows_still_give_one_result(value: Any) -> None:
    @tool(effects=PURE)
    def odd() -> Any:
        """Give something odd."""
        return value

    result = await Executor([odd]).call("odd")

    assert result.ok
    assert result.text


async def test_a_value_that_holds_itself_or_cannot_be_told_fails_as_a_result() -> None:
    round_: list[Any] = []
    round_.append(round_)

    class Rude:
        def __str__(self) -> str:
            raise RuntimeError("no")

    @tool(effects=PURE)
    def odd(which: int) -> Any:
        """Give something odd."""
        return [round_, Rude()][which]

    door = Executor([odd])

    for which in (0, 1):
        result = await door.call("odd", {"which": which})
        assert result.error is not None
        assert result.error.code == "internal_error"


@owes("context-04")
async def test_secrets_are_taken_out_of_text_data_and_errors() -> None:
    shaper = Shaper(redactor=Secrets())

    result = shape({"a": ["hunter2", 5], "b": {"c": "hunter2"}}, shaper)
    failed = shape(
        ToolResult.failed(ToolError("bad hunter2", hint="not hunter2", details={"k": "hunter2"})), shaper
    )

    assert result.text == '{"a": ["[secret]", 5], "b": {"c": "[secret]"}}'
    assert result.data == {"a": ["[secret]", 5], "b": {"c": "[secret]"}}
    assert failed.error is not None
    assert "hunter2" not in json.dumps(failed.error.to_dict()) + failed.text
    assert shape("plain", shaper).data is None


def test_a_secret_with_an_invisible_character_inside_is_found() -> None:
    shaper = Shaper(redactor=Secrets(), clean=lambda text: text.replace("\u200b", ""))

    assert shape("hun\u200bter2", shaper).text == "[secret]"
    assert shape("a\u200bb", Shaper(clean=lambda text: text.replace("\u200b", ""))).text == "ab"


def test_what_is_spilled_is_redacted_too() -> None:
    kept = ArtifactRef()

    shape("hunter2 " * 10, Shaper(redactor=Secrets(), spills=kept, max_chars=20))

    assert "hunter2" not in kept.texts[0]


def test_notes_and_labels_of_a_result_are_kept_and_joined() -> None:
    given = ToolResult.from_text("x")
    given = dataclasses.replace(
        given, notes=Notes(truncated=True, spill="spill:z", labels=("private",), extra={"k": 1})
    )

    result = shape(given, labels=frozenset({"untrusted"}), repairs=("r",), duration_s=0.5)

    assert result.metadata == {
        "k": 1,
        "duration_s": 0.5,
        "truncated": True,
        "spill": "spill:z",
        "labels": ["private", "untrusted"],
        "repairs": ["r"],
    }
    assert (result.call_id, result.tool) == ("c", "t")


def test_to_data_of_a_sound_is_its_fields() -> None:
    assert to_jsonable(Audio(data=b"s", mime_type="audio/wav")) == {"data": "s", "mime_type": "audio/wav"}
    assert to_jsonable(File(name="f", mime_type="m"))["name"] == "f"


def test_kinds_of_mappings_and_lists_are_objects_and_arrays() -> None:
    class Rows(list[int]):
        """A list of one's own."""

    class Pair(NamedTuple):
        x: int
        y: set[int]

    assert to_jsonable(MappingProxyType({1: Rows([2])})) == {"1": [2]}
    assert to_jsonable(Pair(1, {3})) == [1, [3]]


def test_the_quick_result_of_a_short_text_has_every_field() -> None:
    quick = Shaper().shape("seen", call_id="c", tool="t")

    # `replace` reads all of them: one that is not set is an AttributeError far from here.
    assert replace(quick, call_id="c") == quick
    assert replace(quick.notes, spill=None) == quick.notes


async def test_a_result_that_is_made_field_by_field_has_every_field() -> None:
    from dataclasses import fields

    from pegboard import PURE, Executor, tool

    @tool(effects=PURE)
    def hello() -> str:
        """Say hello."""
        return "hello"

    result = await Executor([hello]).call("hello", {})

    for whole in (result, result.notes):
        assert all(hasattr(whole, f.name) for f in fields(whole))
