"""Docstrings in the Google, NumPy and Sphinx styles, and texts in Annotated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from pegboard import Tool
from pegboard.core.schema.annotations import NOTHING, read_docstring

GOOGLE = """Look rows up.

    Use it before writing.

    Args:
        query: What to look for,
            in words.
        *rest: More.

    Returns:
        Rows.

    Raises:
        NotFound: no row.
    """
NUMPY = """Look rows up.

    Use it before writing.

    Parameters
    ----------
    query : str
        What to look for,
        in words.
    rest
        More.

    Returns
    -------
    str
        Rows.
    """
SPHINX = """Look rows up.

    Use it before writing.

    :param str query: What to look for,
        in words.
    :param rest: More.
    :returns: Rows.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_description_parameters_and_result(text: str) -> None:
    read = read_docstring(text)

    assert read.description == "Look rows up.\n\nUse it before writing."
    assert read.parameters == {"query": "What to look for, in words.", "rest": "More."}
    assert read.returns == "Rows."


def test_numpy_names_may_share_a_line() -> None:
    read = read_docstring("Add.\n\nParameters\n----------\nx, y : int\n    A number.\n")

    assert read.parameters == {"x": "A number.", "y": "A number."}


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) is NOTHING


def test_text_after_the_first_section_is_not_for_the_model() -> None:
    read = read_docstring("Do it.\n\nArgs:\n    a: A.\n\nInternal notes.\n\nNote:\n    Nothing.\n")

    assert read.description == "Do it."


class Place(TypedDict):
    street: Annotated[str, "the street"]
    number: NotRequired[Annotated[int, "the house"]]


@dataclass
class Point:
    x: Annotated[int, "from the left"]


class Guest(BaseModel):
    surname: Annotated[str, "the surname"]
    age: Annotated[int, "in years", Field(description="in full years")] = 1


def test_a_text_in_annotated_describes_a_parameter_and_stands_before_the_docstring() -> None:
    def book(
        city: Annotated[str, "the city"],
        nights: Annotated[Annotated[int, "a number"], "how many"] = 1,
        hotel: Annotated[str, "which hotel"] | None = None,
        note: str = "",
    ) -> str:
        """Book.

        Args:
            city: A town.
            note: For the hotel.
        """
        return ""

    class Book(Tool):
        """Book."""

        effects = ()

        async def run(self, city: Annotated[str, "the city"]) -> str:
            return ""

    shown = Tool(book, effects=()).schema["properties"]

    assert {name: one.get("description") for name, one in shown.items()} == {
        "city": "the city", "nights": "how many", "hotel": "which hotel", "note": "For the hotel.",
    }  # fmt: skip
    assert Book().schema["properties"]["city"]["description"] == "the city"


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Place, {"street": "the street", "number": "the house"}),
        (Point, {"x": "from the left"}),
        (Guest, {"surname": "the surname", "age": "in full years"}),
    ],
)
def test_a_text_in_annotated_describes_a_field(kind: Any, texts: dict[str, str]) -> None:
    def go(one: Any, many: Any) -> str:
        return ""

    go.__annotations__.update(one=kind, many=list[kind])
    schema = Tool(go, effects=(), name="go").schema

    record = next(iter(schema["$defs"].values()))
    assert {name: one["description"] for name, one in record["properties"].items()} == texts
