"""Signatures that people write: each works as Python means it, or is refused when the tool is made."""

from __future__ import annotations

import enum
import functools
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict, Unpack

import pytest
from pydantic import BaseModel, Field

from pegboard.core.errors import BuildError
from pegboard.core.schema.signature import Signature


class Options(TypedDict, total=False):
    lang: Required[Annotated[str, "a language"]]
    count: int


class More(TypedDict):
    size: int
    depth: NotRequired[int]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Paint(BaseModel):
    color: Literal[Color.RED]
    levels: list[Literal[Level.LOW, "all"]] = []


def test_keywords_of_a_typed_dict_are_parameters() -> None:
    def find(q: str, **options: Unpack[Options]) -> None:
        """Find.

        Args:
            lang: which language.
        """

    signature = Signature.of(find)

    # PEP 692: the keys are keyword arguments; total=False makes those optional that are not Required.
    assert signature.schema["required"] == ["q", "lang"]
    assert signature.schema["additionalProperties"] is False
    assert signature.schema["properties"]["lang"] == {"type": "string", "description": "a language"}
    assert signature.decode({"q": "x", "lang": "de"}).arguments == {"q": "x", "lang": "de"}
    assert signature.decode({"q": "x", "lang": "de", "count": "3"}).arguments["count"] == 3
    assert signature.errors({"q": "x"}) == [".lang: is required but missing"]
    assert signature.errors({"q": "x", "lang": "de", "langs": 1}) == [
        ".langs: unknown argument; did you mean 'lang'?"
    ]


def test_a_total_typed_dict_requires_what_is_not_marked() -> None:
    def find(**options: Unpack[More]) -> None: ...

    assert Signature.of(find).schema["required"] == ["size"]
    assert Signature.of(functools.partial(find)).schema["required"] == ["size"]


def test_keywords_of_one_type_are_validated() -> None:
    def plot(name: str, **series: int) -> None: ...

    def paint(**parts: Paint) -> None: ...

    @functools.wraps(plot)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    for function in (plot, wrapped):
        signature = Signature.of(function)
        assert signature.schema["additionalProperties"] == {"type": "integer"}
        assert set(signature.schema["properties"]) == {"name"}
        assert signature.decode({"name": "n", "a": "5"}).arguments == {"name": "n", "a": 5}
        assert signature.errors({"name": "n", "a": "x"}) == ['.a: must be an integer, got "x"']
    door = Signature.of(paint).decode({"door": {"color": "red"}}).arguments["door"]
    assert door == Paint(color=Color.RED)


def test_keywords_of_any_type_are_passed_on() -> None:
    def call(**anything: Any) -> None: ...

    assert Signature.of(call).decode({"a": {"b": [1]}}).arguments == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("sent", "received"),
    [("red", Color.RED), ("x", "x"), (2, Level.HIGH), (5, 5)],
)
def test_a_listed_member_of_an_enum_is_told_by_its_value(sent: Any, received: Any) -> None:
    def one(value: Literal[Color.RED, Level.HIGH, "x", 5]) -> None: ...

    got = Signature.of(one).decode({"value": sent}).arguments["value"]

    assert got == received and type(got) is type(received)


def test_a_member_that_is_not_listed_is_refused_and_the_schema_lists_the_values() -> None:
    def one(value: Literal[Color.RED, Level.HIGH, "x"], paint: Paint | None = None) -> None: ...

    signature = Signature.of(one)

    assert signature.schema["properties"]["value"]["enum"] == ["red", 2, "x"]
    for wrong in ("blue", 1, "RED", True):
        assert signature.errors({"value": wrong})
    nested = {"value": "x", "paint": {"color": "red", "levels": [1, "all"]}}
    assert signature.decode(nested).arguments["paint"].levels == [Level.LOW, "all"]
    assert list(map(str, signature.errors({"value": "x", "paint": {"color": "blue"}}))) == [
        ".paint.color: must be 'red', got \"blue\""
    ]


def test_a_cached_function_is_a_tool_and_a_dispatching_one_says_why_it_is_none() -> None:
    @functools.lru_cache
    def find(q: str, n: int = 3) -> str:
        return q * n

    @functools.singledispatch
    def show(value: str) -> str:
        return value

    assert Signature.of(find).decode({"q": "x"}).arguments == {"q": "x", "n": 3}
    with pytest.raises(BuildError, match="singledispatch chooses by its first positional argument"):
        Signature.of(show)


def test_an_object_in_c_that_tells_nothing_is_refused() -> None:
    with pytest.raises(BuildError, match="Python cannot tell its parameters"):
        Signature.of(max, name="first")


def test_what_is_too_long_or_too_short_is_said_in_one_form() -> None:
    def one(
        pair: tuple[int, int],
        names: Annotated[set[str], Field(max_length=1)],
        word: Annotated[str, Field(min_length=3)],
    ) -> None: ...

    told = Signature.of(one).errors({"pair": [1, 2, 3], "names": ["a", "b"], "word": "x"})

    assert told == [
        ".pair: must have at most 2 items, not 3, got [1, 2, 3]",
        '.names: must have at most 1 item, not more, got ["a", "b"]',
        '.word: must have at least 3 characters, got "x"',
    ]
