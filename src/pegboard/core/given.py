"""Given: what a developer handed over, checked where it was handed over.

A wrong type that is taken without a word ends far away as an AttributeError of ours, in the worst case
in a model's sight. Told here, the message names the argument and what it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, cast

from pegboard.core.errors import BuildError


def format_value(value: object) -> str:
    """A value for an error text: short, and with its type where that is not plain."""
    return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"


def check_text(value: object, what: str, *, meant: str = "text") -> str:
    """The value where it is text.

    Raises:
        BuildError: it is not; `what` takes `meant`.
    """
    if not isinstance(value, str):
        raise BuildError(f"{what} takes {meant}, got {format_value(value)}")
    return value


def check_sequence(value: object, what: str, things: str) -> tuple[Any, ...]:
    """The things of a list; None = none.

    Raises:
        BuildError: one thing, a text or a mapping was given, whose parts would be taken for the things.
    """
    if value is None:
        return ()
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise BuildError(f"{what} takes a list of {things}, got {format_value(cast(object, value))}")
    return tuple(cast("Iterable[Any]", value))


def check_callables(value: object, what: str, things: str) -> tuple[Any, ...]:
    """The functions of a list; None = none.

    Raises:
        BuildError: it is no list, or one of them cannot be called.
    """
    found = check_sequence(value, what, things)
    for one in found:
        if not callable(one) or isinstance(one, type):
            raise BuildError(f"{what} takes a list of {things}, and {format_value(one)} is not one")
    return found


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a whole or floating number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
