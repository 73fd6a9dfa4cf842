"""`record` and `value`: dataclasses that cost little to define and to make.

A process that makes one call defines about seventy classes. `dataclass` writes, compiles and runs source
for up to eight methods of each, which was a quarter of the time of such a process; here `__init__` is compiled
when the first object is made, and the other methods are shared by all classes. What they do is what
`dataclass(slots=True)` does: `fields`, `replace`, `asdict`, `match`, `copy` and `pickle` take them as dataclasses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A keyword-only record on the path of every call: frozen to a type checker and not at run time.

    A frozen class sets every field through its slot instead of by assignment, which was a third of the
    time of a call; nothing may set them.
    """
    return _made(cls, guarded=False, kw_only=True)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def sparse(cls: type[T]) -> type[T]:
    """A `value` whose fields stand in the class while they have their defaults.

    Most of its objects are made by `blank` and a few assignments; what is not assigned costs nothing to set and
    nothing to collect.
    """
    return _made(cls, guarded=False, kw_only=True, slots=False)


blank: Final[Callable[[type[Any]], Any]] = object.__new__
"""A `value` without its fields, for the few places on every call's path: all must be set (a test looks), of a
`sparse` one those that have no default.

Setting twelve fields is half the price of calling the class with twelve keywords.
"""


def setter(cls: type[Any], field: str) -> Callable[[Any, Any], None]:
    """What sets a field of a `record` that `blank` has made: for the few records that every call makes."""
    return cast("Callable[[Any, Any], None]", cls.__dict__[field].__set__)


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T] | None = None, /, *, kw_only: bool = False) -> Any:
    """`dataclass(frozen=True, slots=True)`, cheaper to define.

    Args:
        cls: the class.
        kw_only: fields are given by name only.
    """
    if cls is None:
        return partial(_made, guarded=True, kw_only=kw_only)
    return _made(cls, guarded=True, kw_only=kw_only)


def _made(cls: type[T], /, *, guarded: bool, kw_only: bool, slots: bool = True) -> type[T]:
    """The class again, with slots for its fields, or their defaults, and the methods of a dataclass."""
    namespace = dict(cls.__dict__)
    inherited: dict[str, Field[Any]] = getattr(cls, "__dataclass_fields__", {})
    fields = dict(inherited)
    for name, annotation in namespace.get("__annotations__", {}).items():
        if not annotation.startswith("ClassVar["):
            fields[name] = _field(name, annotation, namespace.pop(name, MISSING), kw_only)
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    if slots:
        namespace["__slots__"] = tuple(name for name in fields if name not in inherited)
    else:
        namespace.update({name: f.default for name, f in fields.items() if f.default is not MISSING})
    namespace["__dataclass_fields__"] = fields
    namespace["__dataclass_params__"] = _PARAMS[guarded]
    namespace["__match_args__"] = tuple(f.name for f in fields.values() if f.init and not f.kw_only)
    # A class without fields compares by what it is.
    compared = [f.name for f in fields.values() if f.compare] or ["__class__"]
    # One name twice, since attrgetter gives a tuple only for several.
    namespace["_compared"] = attrgetter(*compared, *compared[: 2 - len(compared)])
    made: Any = type(cls)(cls.__name__, cls.__bases__, {**(_GUARDED if guarded else _SHARED), **namespace})
    made.__qualname__ = cls.__qualname__
    if "__init__" not in namespace:
        made.__init__ = _late(made)
        made.__signature__ = _Shown()
    return cast("type[T]", made)


def _field(name: str, annotation: str, default: Any, kw_only: bool) -> Field[Any]:
    made = cast("Any", default if isinstance(default, Field) else field(default=default))
    made.name, made.type, made.kw_only, made._field_type = name, annotation, kw_only, _KIND
    return made


def _late(cls: Any) -> Callable[..., None]:
    """An `__init__` that puts the real one in its place when the first object is made."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _compiled(cls)
        cls.__init__(self, *args, **kwargs)

    return __init__


def _compiled(cls: Any) -> Callable[..., None]:
    """The `__init__` of a record, as one would write it by hand."""
    scope: dict[str, Any] = {"ABSENT": MISSING}
    positional: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for f in cast("dict[str, Field[Any]]", cls.__dataclass_fields__).values():
        factory = f.default_factory is not MISSING
        given = f.name
        if f.init:
            taken = f.name
            if factory or f.default is not MISSING:
                scope[f"default_{f.name}"] = MISSING if factory else f.default
                taken = f"{f.name}=default_{f.name}"
            (named if f.kw_only else positional).append(taken)
        elif not factory:
            scope[f"default_{f.name}"] = f.default
            given = f"default_{f.name}"
        if factory:
            # `dict[str, Any]()` is a detour to `dict()`.
            scope[f"make_{f.name}"] = getattr(f.default_factory, "__origin__", f.default_factory)
            given = f"make_{f.name}()"
            if f.init:
                given += f" if {f.name} is ABSENT else {f.name}"
        if cls.__dataclass_params__.frozen:
            # Straight into the slot: assignment is what a frozen class refuses.
            scope[f"put_{f.name}"] = getattr(cls, f.name).__set__
            lines.append(f"    put_{f.name}(self, {given})")
        else:
            lines.append(f"    self.{f.name} = {given}")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    taken = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec(f"def __init__({taken}):\n" + "\n".join(lines or ["    pass"]), scope)
    made = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {f.name: f.type for f in cls.__dataclass_fields__.values() if f.init} | {
        "return": None
    }
    return made


class _Shown:
    """The signature of a record, for `inspect` and `help`: `__init__` may not be compiled yet."""

    def __get__(self, _: Any, cls: Any) -> Any:
        import inspect

        whole = inspect.signature(_compiled(cls))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


@recursive_repr()
def _repr(self: Any) -> str:
    cls = cast("Any", type(self))
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in cls.__dataclass_fields__.values() if f.repr)
    return f"{cls.__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self is other or self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _refuse_set(self: Any, name: str, _: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _restore(self: Any, state: list[Any]) -> None:
    for name, one in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, one)


@dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)
class _Sample:
    """What `dataclasses` marks its own fields with."""

    one: int


_KIND: Final = cast("Any", dataclasses.fields(_Sample)[0])._field_type
_PARAMS: Final = {
    guarded: SimpleNamespace(
        init=True, repr=True, eq=True, order=False, unsafe_hash=not guarded, frozen=guarded
    )
    for guarded in (True, False)
}
_SHARED: Final[dict[str, Any]] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__getstate__": _state,
    "__setstate__": _restore,
}
_GUARDED: Final[dict[str, Any]] = {**_SHARED, "__setattr__": _refuse_set, "__delattr__": _refuse_delete}
