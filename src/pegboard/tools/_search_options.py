"""What glob and grep take alike: places, and what to leave out."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias, cast

from pydantic import BeforeValidator, Field, WithJsonSchema

from pegboard.core.schema.annotations import Alias, Unadvertised


def _several(given: Any) -> Any:
    """A list of globs as one text, divided by commas."""
    if not isinstance(given, list):
        return given
    globs = cast("list[Any]", given)
    return ",".join(globs) if all(isinstance(one, str) for one in globs) else globs


def _listed(given: Any) -> Any:
    """A list of texts that came as JSON text; any other text is a name."""
    if not isinstance(given, str) or not given.strip().startswith("["):
        return given
    try:
        value: object = json.loads(given)
    except (ValueError, RecursionError):
        return given
    items = cast("list[object]", value) if isinstance(value, list) else []
    return items if items and all(isinstance(one, str) for one in items) else given


Globs: TypeAlias = Annotated[str | None, BeforeValidator(_several)]
"""One or more globs, divided by commas."""

Exclude: TypeAlias = Annotated[
    Globs,
    Unadvertised(),
    Alias("exclude_pattern", "excludes", "exclude_glob", "exclude_globs", "exclude_patterns", "exclude_dir", "exclude_dirs", "ignore", "ignore_patterns"),
]  # fmt: skip
"""Globs of what is to be left out."""

Places: TypeAlias = Annotated[
    str | Annotated[list[str], Field(min_length=1)],
    BeforeValidator(_listed),
    WithJsonSchema({"type": "string"}),
    Alias("paths"),
]
"""One place or a list of them, of which no model is told; an effect's mark is put around it."""
