"""Functions with every kind of parameter, for the tests of Signature."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Required, TypedDict

from pydantic import BaseModel, Field
from typing_extensions import TypedDict as ExtendedDict

from pegboard.core.context import Context
from pegboard.core.schema.annotations import Alias, Example, Inject, ReadPath, Verbatim, WritePath

if TYPE_CHECKING:
    from decimal import Decimal


class Files:
    """A port."""


class Where(BaseModel):
    field: str
    op: Literal["eq", "lt", "gt"]
    value: float


class Fruit(str, enum.Enum):  # noqa: UP042  as users write it
    APPLE = "apple"
    PEAR = "pear"


class Node(BaseModel):
    name: str
    kids: list[Node] = []


class Point(BaseModel):
    lat: float


class Line(BaseModel):
    start: Point
    end: Point


class Box(BaseModel):
    label: str
    width: int | None = None


class Page(TypedDict):
    title: str
    size: int


class Book(TypedDict, total=False):
    pages: Required[list[Page]]
    note: NotRequired[Literal["a"]]
    next: Book


class Modern(ExtendedDict):
    pages: int


@dataclass
class Row:
    id: int
    tags: list[str] = field(default_factory=list)


class Opaque:
    """No type that JSON knows."""


async def lookup(query: str, limit: int, threshold: float, tags: list[str], where: Where) -> str:
    """Look rows up.

    Nothing is changed.

    Args:
        query: What to look for,
            in words.
        limit: How many rows.

    Returns:
        The rows as text.
    """
    return query


def search(q: str, lang: str | None = None) -> str:
    return q


def search_604(q: str, lang: str | None = None) -> str:
    return q


def top(n: int = 5) -> str:
    return str(n)


def pay(x: Decimal) -> str:
    return str(x)


def fruit(c: Fruit) -> str:
    return c.name


def level(n: Literal[1, 2, 3]) -> int:
    return n


def tree(n: Node) -> Node:
    return n


def draw(c: Line) -> str:
    return ""


def tally(m: dict[str, int]) -> int:
    return sum(m.values())


def ping() -> str:
    """Answer."""
    return "pong"


def loose(xs: list, m: dict) -> int:
    return 0


def pick(slot: int | str = 9) -> str:
    return repr(slot)


def pick_swapped(slot: str | int = 9) -> str:
    return repr(slot)


def either(v: str | dict[str, Any]) -> str:
    return type(v).__name__


def boxed(box: Box, page: Page | None = None, row: Row | None = None) -> Row:
    return Row(1)


def when(at: datetime.datetime, day: datetime.date | None = None) -> datetime.datetime:
    return at


def injected(q: str, *, ctx: Context, files: Inject[Files], more: Inject[Files] | None = None) -> str:
    return q


def injected_open(q: str, ctx: Context, **rest: Any) -> str:
    return q


def optional_port(files: Inject[Files | None], other: Inject[Files] = Files()) -> str:
    return ""


def copy(src: ReadPath, dst: WritePath) -> str:
    return src


def read(path: ReadPath, pages: Annotated[list[int], Alias("page_numbers"), Example([1, 2])] = []) -> str:
    """Read a file."""
    return path


def move(file: ReadPath, to: str = "") -> str:
    return file


def maybe_context(q: str, ctx: Context | None = None) -> str:
    return q


def read_many(paths: list[ReadPath], base: ReadPath | None = None) -> str:
    return ""


def bounded(
    n: int = Field(5, ge=1, le=9, description="Between one and nine."), m: Annotated[int, Field(ge=0)] = 0
) -> str:
    return str(n)


def needed(n: int = Field(ge=1)) -> str:
    return str(n)


def flags(recursive: bool, zip: str = "", flag: str = "") -> str:
    return ""


def anything(a, b=3, c=None) -> Any:
    return a


def opened(a: int, **rest: Any) -> dict[str, int]:
    return {"a": a}


def opaque(x: Opaque) -> Opaque:
    return x


def none_default(limit: int = None, name: str = "n") -> None:  # type: ignore[assignment]  # noqa: RUF013
    return None


class Kit:
    def m(self, a: int) -> int:
        """A method."""
        return a

    async def n(self, a: int) -> int:
        return a

    def __call__(self, a: int) -> int:
        """Call it."""
        return a

    def variadic(self, *a: int) -> int:
        return 0


def kept(
    text: Annotated[str, Alias("body"), Verbatim()],
    other: str = "",
    more: Annotated[list[dict[str, str]] | None, Verbatim()] = None,
) -> None:
    """Keep a text as it stands."""
