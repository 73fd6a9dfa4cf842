"""Output: the declared result of a tool, as schema and as check."""

from __future__ import annotations

import collections.abc as abc
import types
from typing import Any, Final, Union, get_args, get_origin

from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.errors import BuildError
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import (
    MISSING,
    FunctionParameters,
    portable,
    resolve,
    resolve_nested,
    unwrap,
)

_UNTYPED: Final = (str, bytes, bytearray, type(None), object, ToolResult, Text, Image, Audio, File)
_LATER: Final = (abc.Awaitable, abc.Coroutine)
_STREAMS: Final = (abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator, abc.Iterator, abc.Generator)


class ToolOutput:
    """What a tool gives.

    Attributes:
        schema: JSON Schema 2020-12 of the value as JSON, None where it is text, blocks or unknown.
    """

    __slots__ = ("_adapter", "schema")

    def __init__(self, schema: dict[str, Any] | None, adapter: Any = None) -> None:
        self.schema = schema
        self._adapter = adapter

    @classmethod
    def of(cls, raw: FunctionParameters | None, *, label: str) -> ToolOutput:
        """The output of a function's return annotation.

        A return annotation that only a type checker can resolve declares nothing: unlike a parameter's,
        it does not decide how the tool is called.

        Raises:
            BuildError: a type that JSON cannot say inside a declared model.
        """
        if raw is None or raw.returns is MISSING:
            return NOTHING
        try:
            annotation = resolve(raw.returns, MISSING, raw.owner, label=label, name="return")
            annotation = resolve_nested(annotation, raw.owner)
        except (BuildError, NameError):
            return NOTHING
        if get_origin(annotation) in _LATER:
            annotation = get_args(annotation)[-1]
        if not _typed(annotation):
            return NOTHING
        return cls._build(annotation, label)

    @classmethod
    def _build(cls, annotation: Any, label: str) -> ToolOutput:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        from pegboard.core.schema.typed import json_schema

        try:
            adapter: Any = TypeAdapter(portable(annotation))
        except PydanticUserError:
            return NOTHING  # a library's own class: it will be shown by its text
        try:
            return cls(json_schema(adapter, label, "serialization"), adapter)
        except BuildError:
            return NOTHING

    def dump(self, value: Any) -> Any:
        """The value as JSON-able value that fits `schema`.

        Raises:
            ValueError: the value is not what the tool declared.
        """
        if self._adapter is None:
            raise ValueError("the tool declares no result type")
        checked = self._adapter.validate_python(value)
        return self._adapter.dump_python(checked, mode="json")


NOTHING: Final = ToolOutput(None)


def _typed(annotation: Any) -> bool:
    core, _, _ = unwrap(annotation)
    if core is Any or core in _UNTYPED or get_origin(core) in _STREAMS or core in _STREAMS:
        return False
    if get_origin(core) in (Union, types.UnionType):
        return all(m is type(None) or _typed(m) for m in get_args(core))
    if get_origin(core) in (list, tuple):
        return all(m is Ellipsis or _typed(m) or m is str for m in get_args(core))
    return True
