"""Provide: which object fills which `Inject[T]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pegboard.core.errors import check_sequence

_MISSING: Final = object()


class Provided(dict[Any, Any]):
    """Objects by port type.

    Args:
        ports: the runtime's own, by port type.
        objects: what the developer gave: an object fills every class that it is an instance of,
            and every Protocol whose methods it has. They win over the runtime's own.
    """

    def __init__(self, ports: Mapping[Any, Any] | None = None, objects: Iterable[Any] = ()) -> None:
        super().__init__(ports or {})
        self.objects = check_sequence(objects, "provide=…", "objects; each is found by its type")
        for one in self.objects:
            for kind in type(one).__mro__[:-1]:
                self[kind] = one

    def find(self, port: Any) -> Any | None:
        """The object for a port type, or None."""
        for one in self.objects:
            if _has_shape(one, port):
                return one
        found = self.get(port, _MISSING)
        return None if found is _MISSING else found


def _has_shape(one: Any, port: Any) -> bool:
    """Whether an object has every method and attribute of a Protocol."""
    if not getattr(port, "_is_protocol", False):
        return False
    members = cast("set[str]", getattr(port, "__protocol_attrs__", None) or _members(port))
    return bool(members) and all(hasattr(one, m) for m in members)


def _members(port: Any) -> set[str]:
    """The public names that a Protocol declares (Python 3.11 does not list them)."""
    names: set[str] = set()
    for kind in cast("tuple[type, ...]", port.__mro__[:-1]):
        if getattr(kind, "_is_protocol", False) and kind.__name__ != "Protocol":
            names.update(vars(kind))
            names.update(cast("dict[str, Any]", getattr(kind, "__annotations__", {})))
    return {n for n in names if not n.startswith("_")}
