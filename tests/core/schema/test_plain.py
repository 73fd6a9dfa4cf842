"""Plain types are answered as pydantic answers them; the others are left to pydantic."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import Field, ValidationError
from pydantic_core import SchemaValidator

from pegboard.core.schema import plain, typed
from pegboard.core.schema.annotations import MISSING, Alias, Example, Parameter, ReadPath, Url
from pegboard.core.schema.signature import Signature
from pegboard.core.schema.typed import ForbidExtra


class Colour(enum.Enum):
    RED = "red"


PLAIN: list[Any] = [
    str, int, float, bool, None, type(None), Any, object, list, dict, list[int], list[Any], list[list[str]],
    dict[str, Any], dict[str, int], dict[str, object], dict[Any, str], dict[str, list[dict[str, float]]],
    Literal["a"], Literal["a", "b"], Literal[3], Literal[1, 2], Optional[str], int | None, list[int] | None,  # noqa: UP045
    list[str | None], dict[str, bool] | None, Literal["x", "y"] | None, ReadPath, Url, ReadPath | None,
    list[ReadPath], Annotated[int, Alias("n"), Example(4)],
]  # fmt: skip

NOT_PLAIN: list[Any] = [
    bytes, tuple, tuple[int, ...], set[str], int | str, Union[int, str, None], Literal["a", 1], Literal[True],  # noqa: UP007
    Literal["a", None], Colour, Literal[Colour.RED], Annotated[int, Field(ge=1)], list[bytes], dict[int, str],
    Optional[Any], dict[str, bytes], list[int | str] | None, type[int],  # noqa: UP045
]  # fmt: skip

VALUES = (
    "1", "1.0", "1.5", '"a"', '"1"', '"x"', "null", "true", "[]", "[1, 2]", '["a", null]', '[["a"]]', "{}",
    '{"a": 1}', '{"a": "b"}', '{"a": [{"b": 1.5}]}', '{"a": true}', "3", "12345678901234567890", "NaN",
)  # fmt: skip

DEFAULTS: tuple[Any, ...] = (MISSING, None, "x", 3, True, 1.5)


def _given(annotation: Any, default: Any = MISSING) -> tuple[Parameter, ...]:
    return (Parameter("p", type(None) if annotation is None else annotation, default),)


def _by_pydantic(parameters: tuple[Parameter, ...], *, open_: bool) -> tuple[Callable[..., Any], Any]:
    adapter = typed._adapter(parameters, open_=open_, owner=None, label="t")
    exact = ForbidExtra().of(adapter.core_schema)
    return SchemaValidator(exact).validate_json, typed._json_schema(exact, "t", "validation")["properties"]


def _outcome(validate: Callable[..., Any], text: str) -> Any:
    try:
        return repr(validate(text, strict=True))
    except ValidationError as error:
        return [(e["type"], e["loc"], e["msg"]) for e in error.errors(include_url=False)]


@pytest.mark.parametrize("annotation", PLAIN, ids=repr)
@pytest.mark.parametrize("default", DEFAULTS, ids=repr)
def test_a_plain_type_has_the_schema_and_the_judgements_of_pydantic(annotation: Any, default: Any) -> None:
    parameters = _given(annotation, default)
    ours = plain.build(parameters, open_=False)
    theirs, schema = _by_pydantic(parameters, open_=False)

    assert ours is not None
    validate = SchemaValidator(ours[0]).validate_json
    assert repr(ours[1]) == repr(schema)
    for value in VALUES:
        text = f'{{"p": {value}}}'
        assert _outcome(validate, text) == _outcome(theirs, text), value
    for text in ("{}", '{"q": 1}', "[]"):
        assert _outcome(validate, text) == _outcome(theirs, text)


def test_other_names_are_kept_where_the_function_takes_them() -> None:
    made = plain.build(_given(int), open_=True)

    assert made is not None
    assert SchemaValidator(made[0]).validate_json('{"p": 1, "q": [2]}', strict=True) == {"p": 1, "q": [2]}


@pytest.mark.parametrize("annotation", NOT_PLAIN, ids=repr)
def test_what_is_not_plain_is_left_to_pydantic(annotation: Any) -> None:
    assert plain.build(_given(annotation), open_=False) is None


@pytest.mark.parametrize("default", [math.inf, math.nan, [], {}, "half \ud800", Colour.RED], ids=repr)
def test_a_default_that_json_cannot_say_as_it_stands_is_left_to_pydantic(default: Any) -> None:
    assert plain.build(_given(Any, default), open_=False) is None


def test_one_parameter_that_is_not_plain_leaves_the_function_to_pydantic() -> None:
    def f(a: int, b: Colour) -> None: ...

    signature = Signature.of(f)

    assert signature.decode('{"a": 1, "b": "red"}').arguments == {"a": 1, "b": Colour.RED}
