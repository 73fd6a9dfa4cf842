"""pathtext: a path that holds control characters was most likely meant to hold backslashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pegboard.core.annotations import unwrap
from pegboard.core.parameters import Parameter
from pegboard.core.placing import PATH_KINDS
from pegboard.core.problems import Problem, format_json

_PATH_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def holds_paths(parameter: Parameter) -> bool:
    """Whether a parameter's values are paths, by its marker or its type."""
    if parameter.marker is not None:
        return parameter.marker.kind in PATH_KINDS
    kind = unwrap(parameter.annotation)[0]
    if not isinstance(kind, type) or kind.__module__ == "builtins":
        return False
    # Here and not above: most tools know no path type, and the module is slow to load.
    from pathlib import PurePath

    return issubclass(kind, PurePath)


def control_characters(values: Mapping[str, Any], names: Iterable[str]) -> list[Problem]:
    """The paths that hold control characters.

    In JSON `"C:\\new"` is a drive, a colon, a line break and `ew`: valid, and not what was meant. A path
    with a line break in it is rare enough to be asked for again.

    Args:
        values: decoded arguments.
        names: the parameters that hold paths, or lists or maps of them.
    """
    return [p for name in names if name in values for p in _in(values[name], f".{name}")]


def _in(value: Any, path: str) -> list[Problem]:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return [p for key, item in items for p in _in(item, f"{path}.{key}")]
    if isinstance(value, list | tuple | set | frozenset):
        several = cast("Iterable[Any]", value)
        return [p for index, item in enumerate(several) for p in _in(item, f"{path}[{index}]")]
    return [] if value is None else _in_text(str(value), path)


def _in_text(text: str, path: str) -> list[Problem]:
    found = _PATH_CONTROL.search(text)
    if found is None:
        return []
    meant = _PATH_CONTROL.sub(lambda m: _ESCAPES.get(m[0], m[0]), text)
    words = f"holds the control character U+{ord(found[0]):04X}"
    if not _PATH_CONTROL.search(meant):
        words += f"; a backslash is written twice in JSON: {format_json(meant, 200)}"
    return [Problem(path, f"{words}, got {format_json(text)}")]
