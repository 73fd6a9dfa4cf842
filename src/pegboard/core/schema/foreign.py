"""Foreign schemas: JSON Schemas written elsewhere, validated as they stand."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.core.errors import BuildError
from pegboard.core.schema.json_schema import Schema, fields_at, mended, modern, pointer, readable, types_of
from pegboard.core.schema.problems import (
    MAX_NEAREST,
    BranchError,
    Problem,
    chosen_from,
    closest_branch,
    closest_branch_note,
    format_json,
    unknown_name,
)
from pegboard.core.secrets.clip import clip

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_OPEN_WORDS: Final = ("additionalProperties", "patternProperties", "unevaluatedProperties")


class ForeignSchema:
    """One schema and its validator, compiled at the first use.

    The draft is read off `$schema`; without one it is 2020-12, or an older one where it is invalid as that. Words of
    no draft that has a validator are read as they are meant (`drafts.readable`). Nothing is ever fetched.

    Args:
        schema: the schema, kept unchanged.
        name: the tool's name for error texts.
        closed: refuse unknown names where the schema itself is silent about them.
        fill_defaults: whether `filled` adds the defaults of absent properties.

    Attributes:
        said: what is validated: the schema, once compiled in words that validators know.
    """

    __slots__ = ("_defaults", "_needed", "_validator", "closed", "name", "names", "root", "said", "schema")

    def __init__(
        self, schema: Schema, *, name: str = "", closed: bool = False, fill_defaults: bool = False
    ) -> None:
        self.schema = self.said = schema
        self.root: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        self.name = name
        top = pointer(schema, self.root)
        known: Mapping[str, Any] = {}
        required: Iterable[str] = ()
        if isinstance(top, Mapping):
            known = _mapping(top.get("properties"))
            listed = top.get("required")
            required = cast("list[str]", listed) if isinstance(listed, list) else ()
        self.names = tuple(known)
        silent = isinstance(top, Mapping) and not any(word in top for word in _OPEN_WORDS)
        self.closed = (closed and silent) or (
            isinstance(top, Mapping)
            and top.get("additionalProperties") is False
            and "patternProperties" not in top
        )
        self._defaults: dict[str, Any] = {}
        for key, item in known.items():
            node = _mapping(item)
            if fill_defaults and "default" in node:
                self._defaults[key] = node["default"]
        self._needed = frozenset(required).intersection(self._defaults)
        self._validator: Any = None

    def check(self) -> None:
        """Compile the validator.

        Raises:
            BuildError: the schema is invalid, or refers to something outside it.
        """
        if self._validator is not None:
            return
        first: Exception | None = None
        # Many a schema is of an older draft without a word about it, and some have slips.
        for read in (readable, modern, _mended):
            try:
                said = read(self.schema)
                self._validator, self.said = _compiled(said), said
                return
            except (ValueError, TypeError, RecursionError) as error:
                first = first or error
        raise BuildError(_invalid(self.name, cast("Exception", first))) from first

    def check_root(self) -> None:
        """Whether the arguments of a call can fit at all.

        Raises:
            BuildError: the schema takes no object.
        """
        self.check()
        kinds = types_of(self.said, self.root)
        if kinds is not None and "object" not in kinds:
            got = _kinds(sorted(kinds - {"integer"} if "number" in kinds else kinds)) or "nothing"
            raise BuildError(
                f"{self.name or 'the tool'}: its JSON Schema takes {got} at its root, but the arguments of a call are an "
                "object; make it a property: {'type': 'object', 'properties': {'value': …}, 'required': ['value']}"
            )

    def accepts(self, value: Any) -> bool:
        """Whether a JSON value fits."""
        self.check()
        return bool(self._validator.is_valid(value))

    def errors(self, value: Any) -> list[Problem]:
        """Everything that does not fit, each with its path."""
        self.check()
        out: list[Problem] = []
        try:
            for error in cast("Iterable[ValidationError]", self._validator.iter_errors(value)):
                out += self._problems(error)
        except ValueError as error:  # its error report has a lower limit of depth than its verdict
            out.append(Problem("", f"they are nested too deeply: {error}"))
        return out

    def _problems(self, error: ValidationError) -> list[Problem]:
        kind: Any = error.kind
        if kind.name in ("anyOf", "oneOf") and (branches := getattr(kind, "context", None)):
            return self._of_nearest_branch(error, cast("list[list[ValidationError]]", branches))
        if kind.name not in ("additionalProperties", "unevaluatedProperties"):
            return _problems(error)
        steps = list(error.instance_path)
        path = "".join(map(_step, steps))
        known = fields_at(self.schema, steps, self.root)
        return [
            Problem(
                f"{path}.{key}",
                unknown_name(key, known, {}) if known and place < MAX_NEAREST else "unknown argument",
            )
            for place, key in enumerate(kind.unexpected)
        ]

    def _of_nearest_branch(
        self, error: ValidationError, branches: list[list[ValidationError]]
    ) -> list[Problem]:
        """What is wrong with the form of a union that the value fits best, and how many there are."""
        if not all(branches):  # it fits several forms of which it must fit one
            return _problems(error)
        base = tuple(error.instance_path)
        path = "".join(map(_step, base))
        index = closest_branch(base, [[f for e in errors for f in _faults(e)] for errors in branches])
        if index is None:
            kinds = [cast("Any", e.kind) for errors in branches for e in errors]
            if any(kind.name != "type" for kind in kinds):
                return _problems(error)
            wanted = dict.fromkeys(t for kind in kinds for t in kind.types)
            return [Problem(path, f"must be {_kinds(wanted)}, got {format_json(error.instance)}")]
        out = [Problem(path, closest_branch_note(len(branches)))] if len(branches) > 1 else []
        everywhere = [e for errors in branches for e in errors]
        for one in branches[index]:
            same = [e for e in everywhere if e.instance_path == one.instance_path and e.kind.name == "const"]
            if one.kind.name == "const" and len(same) > 1:
                # The discriminator names no form at all: which there are is what helps.
                allowed = list(dict.fromkeys(json.dumps(cast("Any", e.kind).expected_value) for e in same))
                where = "".join(map(_step, one.instance_path))
                out.append(Problem(where, f"must be {' or '.join(allowed)}, got {format_json(one.instance)}"))
            else:
                out += self._problems(one)
        return out

    def with_required_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the defaults of absent properties that are required all the same."""
        absent = [k for k in self._needed if k not in arguments]
        return self._with(arguments, absent) if absent else arguments

    def with_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with every absent property's default, copied.

        Defaults that break their own schema (`null` for a string) are common, so they come after
        validation and are the author's to answer for.
        """
        absent = [k for k in self._defaults if k not in arguments]
        return self._with(arguments, absent) if absent else arguments

    def _with(self, arguments: dict[str, Any], absent: list[str]) -> dict[str, Any]:
        return {**arguments, **{k: copy.deepcopy(self._defaults[k]) for k in absent}}


def _mended(schema: Schema) -> Schema:
    return schema if isinstance(schema, bool) else modern(mended(schema))


def _compiled(schema: Schema) -> Any:
    import jsonschema_rs

    if isinstance(schema, bool) or schema.get("$schema") is None:
        return jsonschema_rs.Draft202012Validator(cast("Any", schema), offline=True)
    return jsonschema_rs.validator_for(cast("Any", schema), offline=True)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _invalid(name: str, error: Exception) -> str:
    first = str(error).splitlines()[0]
    where = "".join(_step(s) for s in getattr(error, "instance_path", ()) or ())
    return f"{name or 'the tool'}: its JSON Schema is invalid{' at ' + where if where else ''}: {first}"


def _step(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _faults(error: ValidationError) -> list[BranchError]:
    kind: Any = error.kind
    steps = tuple(error.instance_path)
    match kind.name:
        case "required":
            return [BranchError((*steps, kind.property))]
        case "additionalProperties" | "unevaluatedProperties":
            return [BranchError((*steps, key)) for key in kind.unexpected]
        case name:
            return [BranchError(steps, choice=name in ("const", "enum"))]


def _problems(error: ValidationError) -> list[Problem]:
    path = "".join(_step(s) for s in error.instance_path)
    kind: Any = error.kind
    value = error.instance
    match kind.name:
        case "required":
            return [Problem(f"{path}.{kind.property}", "is required but missing")]
        case "type":
            if value is None:
                return [Problem(path, f"may not be null; it must be {_kinds(kind.types)}")]
            return [Problem(path, f"must be {_kinds(kind.types)}, got {format_json(value)}")]
        case "enum":
            listed = cast("list[Any]", kind.options)
            chosen = chosen_from(listed, value, f"one of {json.dumps(listed, ensure_ascii=False)}")
            return [Problem(path, f"must be {chosen}, got {format_json(value)}")]
        case "const":
            return [Problem(path, f"must be {format_json(kind.expected_value)}, got {format_json(value)}")]
        case _:
            return [Problem(path, _shortened(error.message, value))]


def _kinds(types: Iterable[str]) -> str:
    words = {"array": "an array", "object": "an object", "integer": "an integer", "null": "null"}
    return " or ".join(words.get(t, f"a {t}") for t in types)


def _shortened(message: str, value: Any) -> str:
    short = message.replace(json.dumps(value, ensure_ascii=False), format_json(value))
    return short if len(short) <= 200 else f"{clip(short, 0, 197)}…"


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """One parameter in ArtifactFlow's form.

    Attributes:
        name: its name.
        type: string, integer, number, boolean, array, object, or `array[string]` and the like.
        description: what the model reads.
        required: whether it must be given.
        default: the default of one that need not.
    """

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None


_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object"})


def from_parameters(parameters: Iterable[ToolParameter]) -> dict[str, Any]:
    """The JSON Schema that a list of ArtifactFlow's parameters means.

    Raises:
        BuildError: an unknown type.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        node = _type(parameter)
        node["description"] = parameter.description
        if parameter.required:
            required.append(parameter.name)
        elif parameter.default is not None:
            node["default"] = parameter.default
        properties[parameter.name] = node
    return {"type": "object", "properties": properties, "required": required}


def _type(parameter: ToolParameter) -> dict[str, Any]:
    outer, _, inner = parameter.type.partition("[")
    inner = inner.removesuffix("]")
    if outer not in _TYPES or (inner and (outer != "array" or inner not in _TYPES)):
        raise BuildError(
            f"parameter {parameter.name!r} has the type {parameter.type!r}; "
            "known are string, integer, number, boolean, array, object and array[TYPE]"
        )
    if outer == "array":
        return {"type": "array", "items": {"type": inner} if inner else {}}
    return {"type": outer}


def from_property_map(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema that Nanobot's bare property map means: one with `default` is optional."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [k for k, v in properties.items() if not (isinstance(v, Mapping) and "default" in v)],
    }


def is_property_map(parameters: Mapping[str, Any]) -> bool:
    """Whether `parameters` are Nanobot's bare property map and no JSON Schema."""
    return not (
        isinstance(parameters.get("type"), str | list)
        or any(word in parameters for word in ("$schema", "$ref", "anyOf", "oneOf", "allOf"))
        or not all(isinstance(v, Mapping) for v in parameters.values())
    )
