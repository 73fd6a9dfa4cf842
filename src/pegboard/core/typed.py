"""Typed arguments: the validator and the JSON Schema of a Python function, by pydantic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pegboard.core import plain
from pegboard.core.annotations import MISSING, resolve_nested
from pegboard.core.errors import BuildError
from pegboard.core.schema import rewrite, types_of

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema, TypedDictField

    from pegboard.core.signature import Parameter


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
    from pegboard.core.exact import ForbidExtra

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
    from pegboard.core.parameters import Parameter

    return Parameter(_REST, annotation)


def _one(parameter: Parameter, handler: GetCoreSchemaHandler, owner: Any, label: str) -> CoreSchema:
    from pegboard.core.typeddicts import portable

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
                return _closed(super().model_schema(schema), schema)

            def dataclass_schema(self, schema: Any) -> Any:
                return _closed(super().dataclass_schema(schema), schema)

            def typed_dict_schema(self, schema: Any) -> Any:
                return _closed(super().typed_dict_schema(schema), schema)

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


def _closed(schema: dict[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """An object's JSON Schema that says that it takes no other keys, where its validator takes none."""
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
    """Each enum written where it is used: some providers show a model no `$defs` (case schema-05)."""
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
    text = documented.get(parameter.name)
    if not text and parameter.marker is not None and "description" not in out:
        text = parameter.marker.description
    if text:
        out["description"] = text
    if parameter.examples:
        out["examples"] = list(parameter.examples)
    return out
