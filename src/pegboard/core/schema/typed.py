"""Typed arguments: the validator and the JSON Schema of a Python function, by pydantic."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pegboard.core.errors import BuildError
from pegboard.core.schema import plain
from pegboard.core.schema.annotations import MISSING, resolve_nested, text_in, texts_of_fields
from pegboard.core.schema.json_schema import fields_at, rewrite, types_of
from pegboard.core.schema.problems import (
    BranchError,
    Problem,
    chosen_from,
    closest_branch,
    closest_branch_note,
    format_json,
    unknown_name,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import ErrorDetails, SchemaValidator
    from pydantic_core.core_schema import CoreSchema, TypedDictField

    from pegboard.core.schema.annotations import Parameter

_INNER: Final = (
    "schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "extras_keys_schema",
    "arguments_schema", "json_schema", "python_schema", "lax_schema", "strict_schema", "var_args_schema",
    "var_kwargs_schema", "choices", "steps", "definitions", "fields", "arguments",
)  # fmt: skip
"""The keys of a core schema under which further ones stand."""

_RECORDS: Final = frozenset({"model", "dataclass", "typed-dict"})


@dataclass(slots=True)
class ForbidExtra:
    """One pass over a core schema.

    Attributes:
        records: how many kinds of objects with named fields it holds, itself included.
        infinite: somewhere it is declared that infinity and NaN are welcome.
        ordered: some union's choices stand in another order than their author's.
        decimals: some value is a Decimal.
        members: some list of values holds members of an Enum.
    """

    records: int = 0
    infinite: bool = False
    ordered: bool = False
    decimals: bool = False
    members: bool = False

    def of(self, schema: CoreSchema) -> CoreSchema:
        """A copy in which every object refuses unknown keys and infinities, unless its author said otherwise."""
        return cast("CoreSchema", self._node(schema))

    def _node(self, node: Any) -> Any:
        if isinstance(node, list | tuple):
            items = [self._node(item) for item in cast("list[Any]", node)]
            return items if isinstance(node, list) else tuple(items)
        if not isinstance(node, dict):
            return node
        old = cast("dict[str, Any]", node)
        kind = old.get("type")
        if not isinstance(kind, str):  # fields and choices by their names
            return {key: self._node(item) for key, item in old.items()}
        out = {key: self._node(item) if key in _INNER else item for key, item in old.items()}
        self.infinite = self.infinite or out.get("allow_inf_nan") is True
        self.decimals = self.decimals or kind == "decimal"
        if kind == "literal" and any(isinstance(value, Enum) for value in out["expected"]):
            self.members = True
            return _with_members(out["expected"])
        if kind == "union":
            # Python's True equals 1: a listed 1 that stands before the booleans would take it.
            ordered = sorted(out["choices"], key=lambda choice: not _is_bool(choice))
            self.ordered = self.ordered or ordered != out["choices"]
            out["choices"] = ordered
        return self._record(kind, out) if kind in _RECORDS and not out.get("root_model") else out

    def _record(self, kind: str, out: dict[str, Any]) -> dict[str, Any]:
        self.records += 1
        config: dict[str, Any] = {"allow_inf_nan": False, **(out.get("config") or {})}
        self.infinite = self.infinite or config["allow_inf_nan"]
        if _says_nothing_of_others(kind, out, config):
            config["extra_fields_behavior"] = "forbid"
            if kind == "typed-dict":
                out["extra_behavior"] = "forbid"
        out["config"] = config
        return out


def _with_members(expected: list[Any]) -> dict[str, Any]:
    """`Literal[Color.RED, "x"]`: members are told by their values, as those of an Enum are."""
    by_value: dict[Any, Any] = {value.value: value for value in expected if isinstance(value, Enum)}

    def member(value: Any) -> Any:
        return by_value.get(value, value)

    values = [value.value if isinstance(value, Enum) else value for value in expected]
    return {
        "type": "function-after",
        "function": {"type": "no-info", "function": member},
        "schema": {"type": "literal", "expected": values},
    }


def _is_bool(choice: Any) -> bool:
    """Whether a union's choice, which may stand in a pair with its name, is the booleans."""
    node = cast("Any", choice[0] if isinstance(choice, tuple) else choice)
    return bool(node["type"] == "bool")


def _says_nothing_of_others(kind: str, record: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    if kind != "typed-dict":
        return "extra_fields_behavior" not in config
    # What pydantic writes for a TypedDict that says nothing is the same as for one that says "ignore".
    declared = cast("Mapping[str, Any]", getattr(record.get("cls"), "__pydantic_config__", None) or {})
    return "extra" not in declared and record.get("extra_behavior", "ignore") == "ignore"


_Steps = tuple[int | str, ...]


class _Item(NamedTuple):
    """One error of pydantic.

    Attributes:
        kind: its type, as pydantic calls it.
        steps: where it is, in the value.
        labels: what pydantic puts between, a union's branches above all: (how many steps lead there, name).
        text: what it says.
        received: the value there.
    """

    kind: str
    steps: _Steps
    labels: tuple[tuple[int, str], ...]
    text: str
    received: Any


def problems_of(error: ValidationError, value: Any, schema: Mapping[str, Any]) -> list[Problem]:
    """What a failed validation says, one problem a path; of a union's branches the nearest alone.

    Args:
        error: of pydantic.
        value: what was validated.
        schema: its JSON Schema, for the names that an unknown one may have meant.
    """
    counts: dict[_Steps, int] = {}
    items = [_item(e, value) for e in error.errors(include_url=False)]
    by_path: dict[str, list[str]] = {}
    received: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for item in _of_nearest_branches(items, counts, 0):
        path = _path(item.steps)
        if item.kind in _UNKNOWN:
            unknown[path] = _unknown(str(item.steps[-1]), fields_at(schema, item.steps[:-1]))
            continue
        words = by_path.setdefault(path, [])
        if item.text not in words:
            words.append(item.text)
        received[path] = item.received
    return [
        *(Problem(_path(steps), closest_branch_note(count)) for steps, count in counts.items()),
        *(Problem(path, _message(words, received[path])) for path, words in by_path.items()),
        *(Problem(path, text) for path, text in unknown.items()),
    ]


_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument")
_CHOICES: Final = ("literal_error", "enum")
_QUOTED: Final = re.compile(r"'(.*?)'(?=, | or |\Z)")


def _item(detail: ErrorDetails, value: Any) -> _Item:
    kind = detail["type"]
    steps, labels = _steps(detail["loc"], value, absent=kind == "missing")
    received = detail["input"]
    context = detail.get("ctx") or {}
    tag = str(context.get("discriminator", "")).strip("'")
    if (
        kind in ("union_tag_invalid", "union_tag_not_found")
        and isinstance(received, dict)
        and tag.isidentifier()
    ):
        if kind == "union_tag_not_found":
            return _Item("missing", (*steps, tag), labels, _WORDS["missing"], None)
        # pydantic tells it of the whole object; the fault is that of one field.
        allowed = f"must be {str(context['expected_tags']).replace(', ', ' or ')}"
        return _Item(
            "literal_error", (*steps, tag), labels, allowed, cast("dict[str, Any]", received).get(tag)
        )
    text = _WORDS.get(kind) or _own_words(detail["msg"]).replace(" or None", " or null")
    if kind in _CHOICES:
        bare = text.removeprefix("must be ")
        text = f"must be {chosen_from(_QUOTED.findall(bare) or bare.split(', '), received, bare)}"
    return _Item(kind, steps, labels, text, received)


def _of_nearest_branches(items: Iterable[_Item], counts: dict[_Steps, int], level: int) -> list[_Item]:
    """The errors without those of a union's other branches; `counts` receives how many branches there were."""
    out: list[_Item] = []
    unions: dict[_Steps, dict[str, list[_Item]]] = {}
    for item in items:
        if len(item.labels) <= level:
            out.append(item)
            continue
        length, label = item.labels[level]
        unions.setdefault(item.steps[:length], {}).setdefault(label, []).append(item)
    for base, branches in unions.items():
        groups = list(branches.values())
        index = closest_branch(
            base, [[BranchError(i.steps, i.kind in _CHOICES) for i in group] for group in groups]
        )
        kept = [i for group in groups for i in group] if index is None else groups[index]
        if index is not None and len(groups) > 1:
            counts[base] = len(groups)
            missed = {i.steps for i in kept if i.kind in _CHOICES}
            # What the other branches list there is what may be chosen.
            kept = [*kept, *(i for g in groups for i in g if i.steps in missed and i.kind in _CHOICES)]
        out += _of_nearest_branches(kept, counts, level + 1)
    return out


def _path(steps: Iterable[int | str]) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)


def _unknown(key: str, known: list[str]) -> str:
    if not known:
        return "is not a field of this object"
    return "does not go with the others" if key in known else unknown_name(key, known, {})


_WORDS: Final[dict[str, str]] = {
    "missing": "is required but missing",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "set_type": "must be an array",
    "frozen_set_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "none_required": "must be null",
}


def _own_words(message: str) -> str:
    for before, after in (
        ("Input should be ", "must be "),
        ("Value error, ", ""),
        ("Assertion failed, ", ""),
    ):
        if message.startswith(before):
            return after + message[len(before) :]
    # `String should have at most …`, `Tuple should …`: the thing is named by its path already.
    return re.sub(r"^[A-Z][a-z]+ should ", "must ", message).replace(" after validation, not", ", not")


def _message(words: list[str], value: Any) -> str:
    if words == ["is required but missing"]:
        return words[0]
    text = words[0] + "".join(f" or {w.removeprefix('must be ')}" for w in words[1:])
    if value is None:
        return f"is required and may not be null; it {text}"
    return f"{text}, got {format_json(value)}"


def _steps(
    location: tuple[int | str, ...], value: Any, *, absent: bool
) -> tuple[_Steps, tuple[tuple[int, str], ...]]:
    """Where an error is in the value, and the names of union branches and functions that pydantic puts in between."""
    steps: list[int | str] = []
    labels: list[tuple[int, str]] = []
    here = value
    for index, step in enumerate(location):
        if isinstance(here, dict) and step in here:
            here = cast("dict[Any, Any]", here)[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(cast("list[Any]", here)):
            here = cast("list[Any]", here)[step]
        elif not (absent and index == len(location) - 1):
            labels.append((len(steps), str(step)))
            continue
        steps.append(step)
    return tuple(steps), tuple(labels)


class TypedSchema(NamedTuple):
    """What a function's types amount to.

    Attributes:
        schema: the JSON Schema 2020-12 of its arguments.
        infinite: whether some parameter declares that it takes infinity or NaN.
        core: the core schema, where the validator is still to be made of it.
        made: the validator, where there is one.
        decimals: whether some value is a Decimal, and `schema` says where (format `decimal`).
    """

    schema: dict[str, Any]
    infinite: bool
    core: CoreSchema
    made: SchemaValidator | None
    decimals: bool = False

    @property
    def fewest(self) -> int:
        """How many members the objects of any fitting arguments have at least."""
        return _fewest(cast("Mapping[str, Any]", self.core))

    @property
    def shown(self) -> dict[str, Any]:
        """The schema without what only decoding needs."""
        return cast("dict[str, Any]", rewrite(self.schema, _without_format)) if self.decimals else self.schema

    def validator(self) -> SchemaValidator:
        """The validator of the arguments as a whole; made by the first call, as showing a tool needs none."""
        if self.made is not None:
            return self.made
        from pydantic_core import SchemaValidator

        # A model's own validator, made before, would drop what it does not know.
        return SchemaValidator(self.core, _use_prebuilt=False)


def build(
    parameters: tuple[Parameter, ...], *, open_: bool, owner: Any, label: str, rest: Any = MISSING
) -> TypedSchema:
    """The JSON Schema of a function's arguments, and what their validator is made of.

    Args:
        parameters: the parameters that a model fills.
        open_: the function takes `**kwargs`.
        owner: the function, for names in nested annotations.
        label: the tool's name for error texts.
        rest: the type of each of `**kwargs`, MISSING = any.

    Raises:
        BuildError: a type that JSON cannot say; function, parameter and type are told.
    """
    out: dict[str, Any] = {
        "type": "object",
        "properties": {},
        "required": [p.name for p in parameters if p.required],
        "additionalProperties": open_,
    }
    ready = plain.build(parameters, open_=open_) if rest is MISSING else None
    if ready is not None:
        core, out["properties"] = ready
        return TypedSchema(out, infinite=False, core=core, made=None)
    adapter = _adapter(parameters, open_=open_, rest=rest, owner=owner, label=label)
    from pegboard.core.schema.typed import ForbidExtra

    exact = ForbidExtra()
    core = exact.of(adapter.core_schema)
    schema = _json_schema(core, label, "validation")
    out["properties"] = dict(schema.get("properties", {}))
    if rest is not MISSING:
        out["additionalProperties"] = out["properties"].pop(_REST)
    if "$defs" in schema:
        out["$defs"] = schema["$defs"]
    unchanged = exact.records == 1 and not (exact.ordered or exact.members)
    made = cast("SchemaValidator", adapter.validator) if unchanged else None
    return TypedSchema(out, exact.infinite, core, made, exact.decimals)


def _fewest(core: Mapping[str, Any]) -> int:
    """See Built: the required members, and those of objects that are required; 0 of all that may be something else."""
    if core["type"] == "model":
        return _fewest(core["schema"])
    if core["type"] not in ("typed-dict", "model-fields"):
        return 0
    fields = cast("Mapping[str, Mapping[str, Any]]", core["fields"]).values()
    needed = [f["schema"] for f in fields if f.get("required", f["schema"]["type"] != "default")]
    return sum(1 + _fewest(one) for one in needed)


def described(
    shape: Mapping[str, Any], parameters: tuple[Parameter, ...], documented: Mapping[str, str]
) -> dict[str, Any]:
    """The schema with a description and examples for each parameter that is shown; `shape` stays as it is."""
    hidden = {p.name for p in parameters if p.unadvertised}
    properties = {name: schema for name, schema in shape["properties"].items() if name not in hidden}
    for parameter in parameters:
        if parameter.name in hidden:
            continue
        properties[parameter.name] = _described(properties[parameter.name], parameter, documented)
    return {**shape, "properties": properties}


_REST: Final = "**"
"""Stands for `**kwargs` among the parameters, whose names have no stars."""


def _adapter(
    parameters: tuple[Parameter, ...], *, open_: bool, owner: Any, label: str, rest: Any = MISSING
) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaError, core_schema

    class Arguments:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
            fields: dict[str, TypedDictField] = {}
            for parameter in parameters:
                inner = _one(parameter, handler, owner, label)
                if parameter.default is not MISSING:  # pydantic-core copies a mutable default
                    inner = core_schema.with_default_schema(inner, default=parameter.default)
                fields[parameter.name] = core_schema.typed_dict_field(inner, required=parameter.required)
            others = None
            if rest is not MISSING:
                others = _one(_rest_parameter(rest), handler, owner, label)
                # For the JSON Schema, which pydantic writes for named fields only.
                fields[_REST] = core_schema.typed_dict_field(others, required=False)
            return core_schema.typed_dict_schema(
                fields,
                extras_schema=others,
                extra_behavior="allow" if open_ else "forbid",
                config=core_schema.CoreConfig(allow_inf_nan=False),
            )

    try:
        return TypeAdapter(Arguments)
    except SchemaError as error:  # a pattern that its engine cannot run, above all
        lines = [line.strip().removeprefix("SchemaError: ") for line in str(error).splitlines()]
        told = " ".join(line for line in lines if line.strip("^") and not line.startswith("Error building"))
        raise BuildError(f"{label}: a type cannot be validated: {told}") from error


def _rest_parameter(annotation: Any) -> Parameter:
    from pegboard.core.schema.annotations import Parameter

    return Parameter(_REST, annotation)


def _one(parameter: Parameter, handler: GetCoreSchemaHandler, owner: Any, label: str) -> CoreSchema:
    from pegboard.core.schema.annotations import portable

    annotation = parameter.annotation
    try:
        annotation = resolve_nested(annotation, owner)
        return handler.generate_schema(portable(annotation))
    except Exception as error:  # pydantic and user hooks raise anything; the developer must learn where
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BuildError(
            f"{label}: parameter {parameter.name!r} has a type that cannot be said in JSON: {first}"
        ) from error


DECIMAL: Final = "decimal"
"""The format of a number as text, as the OpenAPI registry calls it: its digits are kept. Not shown to a model."""

_generator: type[GenerateJsonSchema] | None = None


def generator() -> type[GenerateJsonSchema]:
    """The JSON Schema generator: no titles, no warnings for defaults that JSON cannot say."""
    global _generator
    if _generator is None:
        from pydantic.json_schema import GenerateJsonSchema

        class Quiet(GenerateJsonSchema):
            def decimal_schema(self, schema: Any) -> Any:
                out = super().decimal_schema(schema)
                for branch in cast("list[dict[str, Any]]", out.get("anyOf", ())):
                    if branch.get("type") == "string":
                        branch["format"] = DECIMAL
                return out

            def field_title_should_be_set(self, schema: Any) -> bool:
                return False

            def model_schema(self, schema: Any) -> Any:
                return _object(super().model_schema(schema), schema)

            def dataclass_schema(self, schema: Any) -> Any:
                return _object(super().dataclass_schema(schema), schema)

            def typed_dict_schema(self, schema: Any) -> Any:
                return _object(super().typed_dict_schema(schema), schema)

            def emit_warning(self, kind: Any, detail: str) -> None:
                return None

        _generator = Quiet
    return _generator


def json_schema(adapter: TypeAdapter[Any], label: str, mode: Any) -> dict[str, Any]:
    """The JSON Schema of a type, without titles.

    Raises:
        BuildError: a type that JSON cannot say.
    """
    return _json_schema(adapter.core_schema, label, mode)


def _object(schema: dict[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """An object's JSON Schema: closed where its validator takes no other keys, its fields described."""
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties") or {})
    texts = texts_of_fields(record["cls"]) if properties and record.get("cls") else {}
    for name in texts.keys() & properties.keys():
        properties[name].setdefault("description", texts[name])
    config = cast("Mapping[str, Any]", record.get("config") or {})
    if config.get("extra_fields_behavior") == "forbid":
        schema.setdefault("additionalProperties", False)
    return schema


def _json_schema(core: CoreSchema, label: str, mode: Any) -> dict[str, Any]:
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        schema = generator()().generate(core, mode=mode)
    except PydanticInvalidForJsonSchema as error:
        raise BuildError(f"{label}: a type cannot be said in JSON: {str(error).splitlines()[0]}") from error
    return _choices_in_place(cast("dict[str, Any]", rewrite(schema, _tidy)))


def _choices_in_place(schema: dict[str, Any]) -> dict[str, Any]:
    """Each enum written where it is used: some providers show a model no `$defs`."""
    definitions = cast("dict[str, dict[str, Any]]", schema.get("$defs", {}))
    choices = {f"#/$defs/{name}": d for name, d in definitions.items() if "enum" in d or "const" in d}
    if not choices:
        return schema

    def placed(node: dict[str, Any]) -> dict[str, Any]:
        found = choices.get(str(node.get("$ref")))
        return node if found is None else {**found, **{k: v for k, v in node.items() if k != "$ref"}}

    out = cast("dict[str, Any]", rewrite(schema, placed))
    out["$defs"] = {k: v for k, v in out["$defs"].items() if f"#/$defs/{k}" not in choices}
    if not out["$defs"]:
        del out["$defs"]
    return out


def _tidy(node: dict[str, Any]) -> dict[str, Any]:
    node.pop("title", None)
    default = node.get("default")
    if isinstance(default, float) and not math.isfinite(default):
        del node["default"]  # JSON has no infinity: providers refuse the whole request for it
    # A default of None for a type without None means "may be left out", which `required` says already.
    if node.get("default", 0) is None:
        kinds = types_of(node, {})
        if kinds is not None and "null" not in kinds:
            del node["default"]
    return node


def _without_format(node: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in node.items() if (k, v) != ("format", DECIMAL)}


def _described(node: Any, parameter: Parameter, documented: Mapping[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = dict(node)
    text = text_in(parameter.annotation) or documented.get(parameter.name)
    if not text and parameter.marker is not None and "description" not in out:
        text = parameter.marker.description
    if text:
        out["description"] = text
    if parameter.examples:
        out["examples"] = list(parameter.examples)
    return out
