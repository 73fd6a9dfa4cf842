"""`value`: dataclasses on the path of every call.

To a type checker they are frozen. At run time they are not, because a frozen dataclass sets every
field through `object.__setattr__`, which was a third of the time of a call; nothing may set them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A keyword-only, slotted, hashable dataclass that is treated as immutable."""
    made: Any = dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
    return made
