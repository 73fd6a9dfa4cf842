"""`record` and `value` behave as the dataclasses that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, ClassVar

import pytest

from pegboard.core.values import blank, record, sparse, value


@record
class Point:
    """A place."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    marks: list[str] = dataclasses.field(default_factory=list[str])

    @property
    def far(self) -> bool:
        return self.x > 100


@record(kw_only=True)
class Named(Point):
    name: str
    secret: str = dataclasses.field(default="", repr=False, compare=False)


@record(kw_only=True)
class Counted:
    start: int
    total: int = dataclasses.field(init=False, default=0)
    seen: list[int] = dataclasses.field(init=False, default_factory=list[int])

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.start + 1)


@record
class Nothing:
    """No fields."""


@record
class Spread:
    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@value
class Fast:
    one: int = 1
    two: str = "b"


@sparse
class Rare:
    """Mostly defaults."""

    kind: ClassVar[str] = "rare"
    one: int
    two: str = "b"
    three: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """The dataclass that Point is meant to be like."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    marks: list[str] = dataclasses.field(default_factory=list[str])


def test_it_is_made_by_position_and_name_with_defaults_as_a_dataclass_is() -> None:
    assert repr(Point(1)) == repr(Model(1)).replace("Model", "Point")
    assert repr(Point(1, y=2, marks=["a"])) == "Point(x=1, y=2, marks=['a'])"
    assert Point(1).marks is not Point(1).marks
    for arguments in ((), (1, 2, [], 4)):
        with pytest.raises(TypeError):
            Point(*arguments)
    with pytest.raises(TypeError, match="z"):
        Point(1, z=2)  # pyright: ignore[reportCallIssue]


def test_it_refuses_to_be_changed_and_has_no_other_attributes() -> None:
    point: Any = Point(1)

    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'y'"):
        del point.y
    assert not hasattr(point, "__dict__")
    assert not point.far


def test_equality_hash_and_repr_go_by_the_compared_fields_of_one_class() -> None:
    one = Named(1, name="n", secret="a")

    assert one == Named(1, name="n", secret="b") == one
    assert one != Named(2, name="n")
    assert one != Point(1)
    assert repr(one) == "Named(x=1, y=0, marks=[], name='n')"
    assert hash(Fast(one=3)) == hash(Fast(one=3))
    assert {Nothing(), Nothing()} == {Nothing()}
    assert hash(Spread("a")) == hash(Spread("a"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_a_record_that_holds_itself_can_be_shown() -> None:
    marks: Any = []
    point = Point(1, 2, marks)
    marks.append(point)

    assert repr(point) == "Point(x=1, y=2, marks=[...])"


def test_dataclasses_takes_it_for_one_of_its_own() -> None:
    one = Named(1, name="n")

    assert [f.name for f in dataclasses.fields(Named)] == ["x", "y", "marks", "name", "secret"]
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 0, "marks": []}
    assert dataclasses.replace(one, y=5) == Named(1, 5, name="n")
    assert dataclasses.is_dataclass(Fast)


def test_it_is_copied_and_pickled() -> None:
    for made in (Named(1, name="n", secret="s"), Counted(start=1), Fast(two="x"), Nothing()):
        for twin in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert twin == made
            assert twin is not made


def test_it_matches_by_position_what_is_given_by_position() -> None:
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
    assert Point.__match_args__ == Model.__match_args__
    assert Named.__match_args__ == ("x", "y", "marks")
    assert Fast.__match_args__ == ()


def test_fields_outside_the_signature_are_set_by_the_class_itself() -> None:
    one = Counted(start=4)

    assert (one.start, one.total, one.seen) == (4, 5, [])
    with pytest.raises(TypeError):
        Counted(start=1, total=3)  # pyright: ignore[reportCallIssue]


def test_an_init_of_its_own_is_kept() -> None:
    assert Spread("a", "b").names == ("a", "b")


def test_inspect_shows_the_signature_before_and_after_the_first_object() -> None:
    @record
    class Late:
        a: int
        b: str = "x"

    before = str(inspect.signature(Late))
    Late(1)

    assert before == str(inspect.signature(Late)) == "(a: 'int', b: 'str' = 'x') -> None"


def test_a_value_can_be_set_for_speed_but_compares_and_hashes_as_a_frozen_one() -> None:
    assert Fast() == Fast(one=1, two="b")
    assert repr(Fast()) == "Fast(one=1, two='b')"
    with pytest.raises(TypeError):
        Fast(1)  # pyright: ignore[reportCallIssue]


def test_what_a_sparse_record_was_not_given_is_its_default_everywhere() -> None:
    made = blank(Rare)
    made.one = 1

    assert made == Rare(one=1)
    assert hash(made) == hash(Rare(one=1))
    assert made != Rare(one=1, two="c")
    assert [(f.name, getattr(made, f.name)) for f in dataclasses.fields(made)] == [
        ("one", 1),
        ("two", "b"),
        ("three", ()),
    ]
    assert dataclasses.asdict(made) == {"one": 1, "two": "b", "three": ()}
    assert repr(made) == "Rare(one=1, two='b', three=())"
    assert dataclasses.replace(made, three=("x",)) == Rare(one=1, three=("x",))
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == copy.deepcopy(made) == made
    with pytest.raises(TypeError, match="one"):
        Rare()  # pyright: ignore[reportCallIssue]
