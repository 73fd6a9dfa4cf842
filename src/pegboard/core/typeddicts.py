"""TypedDicts of the standard library, which pydantic takes only from Python 3.12 on, in a form that it takes."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Final, NotRequired, Required, TypeAlias, get_args, get_origin

Seen: TypeAlias = "dict[Any, Any]"
NEEDED: Final = sys.version_info < (3, 12)


def portable(annotation: Any, seen: Seen | None = None) -> Any:
    """The annotation with every `typing.TypedDict` in it as one of `typing_extensions`."""
    if not NEEDED:  # pragma: no cover
        return annotation
    seen = {} if seen is None else seen
    if isinstance(annotation, type) and typing.is_typeddict(annotation):
        return _copied(annotation, seen)
    arguments = get_args(annotation)
    origin: Any = get_origin(annotation)
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        whole: Any = annotation
        inner = portable(whole.__origin__, seen)
        return whole if inner is whole.__origin__ else Annotated[(inner, *whole.__metadata__)]
    changed = tuple(portable(a, seen) for a in arguments)
    if all(a is b for a, b in zip(changed, arguments, strict=True)):
        return annotation
    return typing.Union[changed] if origin in (typing.Union, types.UnionType) else origin[changed]  # noqa: UP007


def _copied(original: Any, seen: Seen) -> Any:
    if original in seen:
        return seen[original]
    import typing_extensions

    # A TypedDict that holds itself keeps its inner reference, which pydantic then refuses by name.
    seen[original] = original
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(original, include_extras=True).items():
        # `__required_keys__` misses qualifiers in postponed annotations, so they are read off the hint.
        qualifier = get_origin(hint)
        if qualifier in (Required, NotRequired):
            (hint,) = get_args(hint)
        else:
            qualifier = Required if name in original.__required_keys__ else NotRequired
        fields[name] = qualifier[portable(hint, seen)]
    copy = typing_extensions.TypedDict(original.__name__, fields)  # pyright: ignore
    copy.__doc__, copy.__module__ = original.__doc__, original.__module__
    if (config := getattr(original, "__pydantic_config__", None)) is not None:
        copy.__pydantic_config__ = config  # pyright: ignore
    seen[original] = copy
    return copy
