"""Adapters: tools written in another system's class style, as Tools.

Known styles, found by their shape:

* `execute(**arguments)` or `run(**arguments)` beside `name` and `description` (000, 001);
* `parameters` as a JSON Schema, as Nanobot's bare property map, or absent: then the function's own types;
* `get_parameters()` that lists ArtifactFlow's parameters;
* `execute(tool_call_id, params, signal, on_update)`, as an object or a dict, whatever it calls the four (003).

What such a tool does cannot be seen from outside, so it has the effect `call python/NAME` unless it
declares `effects`; in mode `workspace` that asks.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pegboard.core.content import Audio, Block, Image, Text
from pegboard.core.context import AbortSignal, current_context
from pegboard.core.effects import Effect
from pegboard.core.errors import BuildError, ToolError
from pegboard.core.result import Notes, ToolResult, render_error
from pegboard.core.schema.coerce import Coercion
from pegboard.core.schema.foreign import ToolParameter, from_parameters, from_property_map, is_property_map
from pegboard.core.schema.problems import Problem, format_json, raise_invalid
from pegboard.core.schema.signature import Signature
from pegboard.core.tool import Level, Tool


def read_string_param(params: Mapping[str, Any], name: str, *, required: bool = False) -> str | None:
    """A string without the spaces around it; None where it is absent or empty.

    Raises:
        InvalidArguments: it is required and absent, or it is no string.
    """
    value = params.get(name)
    if isinstance(value, str):
        value = value.strip() or None
    if value is None:
        return _absent(name, required)
    if not isinstance(value, str):
        raise_invalid([Problem(f".{name}", f"must be a string, got {format_json(value)}")], name="")
    return value


def read_number_param(
    params: Mapping[str, Any], name: str, *, required: bool = False, integer: bool = False
) -> float | int | None:
    """A number, also from text; None where it is absent.

    Args:
        integer: only a whole number will do.

    Raises:
        InvalidArguments: it is required and absent, or no such number.
    """
    kind = "integer" if integer else "number"
    value = Coercion({}).coerce(params.get(name), {"type": kind}, f".{name}")
    if value is None or value == "":
        return _absent(name, required)
    if isinstance(value, bool) or not isinstance(value, int if integer else (int, float)):
        raise_invalid(
            [Problem(f".{name}", f"must be {'an' if integer else 'a'} {kind}, got {format_json(value)}")],
            name="",
        )
    return value


def read_string_array_param(
    params: Mapping[str, Any], name: str, *, required: bool = False
) -> list[str] | None:
    """A list of strings, also from JSON text or a single string; None where it is absent or empty.

    Raises:
        InvalidArguments: it is required and absent, or holds something else.
    """
    value: Any = params.get(name)
    if isinstance(value, str):
        value = Coercion({}).coerce(value, {"type": "array"}, f".{name}")
    if isinstance(value, str):
        value = [value]
    if value is None or value == []:
        return _absent(name, required)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
        raise_invalid(
            [Problem(f".{name}", f"must be an array of strings, got {format_json(value)}")], name=""
        )
    return [item.strip() for item in items if item.strip()]


def _absent(name: str, required: bool) -> None:
    if required:
        raise_invalid([Problem(f".{name}", "is required but missing")], name="")


_LEVELS: Final[dict[str, Level]] = {
    "auto": "auto",
    "confirm": "confirm",
    "ask": "confirm",
    "deny": "deny",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterOptions:
    """What a document promises about its tools, beside their shape.

    Attributes:
        at_least: how the opaque call is judged; `allow` where the developer has said by a base class
            that it may run in mode `workspace`, None = it asks.
        by_position: whether the function takes `(tool_call_id, params, signal, on_update)`, by position, and not the
            arguments by keyword; None = as its shape says, see `takes_call`.
        map_error: the ToolError for what a tool raised; None = as everywhere.
        map_result: the result that a returned value means; None = as everywhere.
        render: words results; see Tool.render.
    """

    at_least: Any = None
    by_position: bool | None = None
    map_error: Callable[[str, Exception], ToolError] | None = None
    map_result: Callable[[Any], Any] | None = None
    render: Callable[[ToolResult, Mapping[str, Any]], ToolResult] | None = None


OPAQUE: Final = AdapterOptions()


def looks_like_tool(thing: Any) -> bool:
    """Whether something has a name and a function in one of the known styles."""
    return isinstance(_get(thing, "name"), str) and _function(thing) is not None


def adapt(thing: Any, style: AdapterOptions = OPAQUE) -> Tool:
    """The Tool that an object or dict in another system's style means.

    Raises:
        BuildError: it is none, or its parameters cannot be read.
    """
    function = _function(thing)
    name = _get(thing, "name")
    if function is None or not isinstance(name, str):
        raise BuildError(f"{thing!r} has no name with an execute or run method, so it is not a tool")
    description = str(_get(thing, "description") or inspect.getdoc(function) or "")
    schema = schema_of(thing, name)
    four = takes_call(function, schema) if style.by_position is None else style.by_position
    call = _Call(name=name, function=function, four=four, style=style)
    runner = call.asynchronous if _is_async(function) else call.blocking
    declared = _get(thing, "effects")
    made = Tool(
        runner,
        name=name,
        description=description,
        effects=opaque(name, style) if declared is None else declared,
        level=level_of(_get(thing, "permission")),
        parameters=schema if schema is not None else {"type": "object", "properties": {}},
        aliases=cast("Iterable[str]", _get(thing, "aliases") or ()),
        hints=cast("Iterable[str]", _get(thing, "hints") or ()),
        timeout_s=cast("float | None", _get(thing, "timeout_s")),
        example=cast("Mapping[str, Any] | None", _get(thing, "example")),
        touches=("call",) if declared is None else (),
    )
    if schema is None and not four:
        made.signature = Signature.of(function, name=name)
        made.markers = tuple(p for p in made.signature.parameters if p.marker is not None)
    else:
        made.signature = Signature.foreign(
            cast("Mapping[str, Any]", made.parameters), description=description, name=name, closed=True
        )
    made.render = style.render
    return made


def opaque(name: str, style: AdapterOptions = OPAQUE) -> tuple[Effect, ...]:
    """The effect of a tool that cannot be seen into."""
    return (
        Effect(
            "call",
            f"python/{name}",
            at_least=style.at_least,
            reason="what it does cannot be seen from outside",
        ),
    )


def level_of(permission: Any) -> Level:
    """The level that a document's permission means: an enum member or a word."""
    if permission is None:
        return "auto"
    word = str(getattr(permission, "value", permission)).lower()
    if word not in _LEVELS:
        raise BuildError(f"permission {permission!r} is none of {', '.join(_LEVELS)}")
    return _LEVELS[word]


def takes_call(function: Callable[..., Any], schema: Mapping[str, Any] | None) -> bool:
    """Whether it has Moltbot's form `(tool_call_id, params, signal, on_update)`, or the start of it.

    That is a function of two or more positional parameters, whatever their names, of which the first is no parameter of
    the tool: the arguments could not reach it by keyword. A wrapper `(*args, **kwargs)` takes them by keyword.
    """
    kinds = {p.kind for p in _parameters(function)}
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
        return False
    names = _positional(function)
    return schema is not None and len(names) >= 2 and names[0] not in (schema.get("properties") or {})


def schema_of(thing: Any, name: str) -> Mapping[str, Any] | None:
    """The JSON Schema that a tool in another style declares, None where it declares none.

    Raises:
        BuildError: parameters that are neither a schema, a property map nor a parameter list.
    """
    listed = _get(thing, "get_parameters")
    given = listed() if callable(listed) else _get(thing, "parameters")
    if given is None:
        return None
    if isinstance(given, type) and hasattr(given, "model_json_schema"):
        return cast("Any", given).model_json_schema()
    if isinstance(given, Mapping):
        parameters = cast("Mapping[str, Any]", given)
        return from_property_map(parameters) if is_property_map(parameters) else parameters
    if isinstance(given, (list, tuple)):
        return from_parameters([_parameter(p, name) for p in cast("Iterable[Any]", given)])
    raise BuildError(
        f"tool {name!r}: parameters are a {type(given).__name__}; give a JSON Schema, a map of properties, "
        "or a list of parameters"
    )


def result_of(value: Any) -> Any:
    """A returned value, with Moltbot's content dict and ArtifactFlow's result object read into a ToolResult."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, Mapping):
        content = cast("Mapping[str, Any]", value).get("content")
        if isinstance(content, (list, tuple)) and all(_is_block(b) for b in cast("Iterable[Any]", content)):
            return _from_content(cast("Mapping[str, Any]", value), cast("Iterable[Any]", content))
        return cast("Any", value)
    if all(hasattr(value, a) for a in ("success", "data", "error")):
        return _from_outcome(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Calls a foreign function and reads what it returns or raises."""

    name: str
    function: Callable[..., Any]
    four: bool
    style: AdapterOptions

    async def asynchronous(self, **arguments: Any) -> Any:
        signal = self._signal()
        try:
            return self._read(await self._call(arguments, signal))
        except asyncio.CancelledError:
            if signal is not None:
                signal.abort()
            raise
        except Exception as error:  # The boundary to foreign code: its document words the failure.
            raise self._error(error) from error

    def blocking(self, **arguments: Any) -> Any:
        try:
            value = self._call(arguments, self._signal())
            return self._later(value) if inspect.isawaitable(value) else self._read(value)
        except Exception as error:  # As above.
            raise self._error(error) from error

    async def _later(self, value: Awaitable[Any]) -> Any:
        try:
            return self._read(await value)
        except Exception as error:  # As above.
            raise self._error(error) from error

    def _signal(self) -> AbortSignal | None:
        return AbortSignal(current_context()) if self.four else None

    def _call(self, arguments: dict[str, Any], signal: AbortSignal | None) -> Any:
        if not self.four:
            return self.function(**arguments)
        context = current_context()
        given = (context.call_id, arguments, signal, context.emit)
        return self.function(*given[: len(_positional(self.function))])

    def _read(self, value: Any) -> Any:
        value = result_of(value)
        return value if self.style.map_result is None else self.style.map_result(value)

    def _error(self, error: Exception) -> Exception:
        if isinstance(error, ToolError) or self.style.map_error is None:
            return error
        return self.style.map_error(self.name, error)


def _get(thing: Any, key: str) -> Any:
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing).get(key)
    return getattr(thing, key, None)


def _function(thing: Any) -> Callable[..., Any] | None:
    for key in ("execute", "run"):
        found = _get(thing, key)
        if callable(found):
            return cast("Callable[..., Any]", found)
    return None


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (a callable object with an async __call__)
    )


def _positional(function: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters, at most four; `*args` stands for as many as are wanted."""
    parameters = _parameters(function)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names += ["*"] * 4
    return names[:4]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _parameter(given: Any, name: str) -> ToolParameter:
    if isinstance(given, ToolParameter):
        return given
    fields = {k: _get(given, k) for k in ("name", "type", "description", "required", "default")}
    if not isinstance(fields["name"], str) or not isinstance(fields["type"], str):
        raise BuildError(f"tool {name!r}: {given!r} is not a parameter; it needs a name and a type")
    return ToolParameter(
        name=fields["name"],
        type=fields["type"],
        description=str(fields["description"] or ""),
        required=True if fields["required"] is None else bool(fields["required"]),
        default=fields["default"],
    )


def _is_block(value: Any) -> bool:
    return isinstance(value, Block) or (isinstance(value, Mapping) and "type" in value)


def _from_content(value: Mapping[str, Any], content: Iterable[Any]) -> ToolResult:
    blocks = tuple(_block(b) for b in content)
    data = value.get("details", value.get("structuredContent"))
    if value.get("isError") or value.get("is_error"):
        text = "\n".join(b.text for b in blocks if isinstance(b, Text))
        return ToolResult(content=blocks, data=data, error=ToolError(text or "the tool reported an error"))
    return ToolResult(content=blocks, data=data)


def _block(value: Any) -> Block:
    if isinstance(value, Block):
        return value
    kind = value.get("type")
    mime = str(value.get("mimeType") or value.get("mime_type") or "")
    try:
        if kind == "image":
            data = base64.b64decode(value["data"], validate=True)
            return Image(data=data, mime_type=mime or "image/png", label=str(value.get("label") or ""))
        if kind == "audio":
            return Audio(data=base64.b64decode(value["data"], validate=True), mime_type=mime or "audio/wav")
    except (KeyError, ValueError):
        return Text(f"[{kind} that could not be read]")
    return Text(str(value.get("text", "")) if kind == "text" else str(value))


def _from_outcome(value: Any) -> ToolResult:
    """ArtifactFlow's `success, data, error, metadata`."""
    extra = getattr(value, "metadata", None)
    notes = Notes(extra=dict(cast("Mapping[str, Any]", extra))) if isinstance(extra, Mapping) else Notes()
    if value.success:
        data = value.data
        content = (Text(data),) if isinstance(data, str) and data else ()
        return ToolResult(content=content, data=data, notes=notes)
    error = ToolError(str(value.error or "the tool reported no reason"))
    return ToolResult(content=(Text(render_error(error)),), data=value.data, error=error, notes=notes)
