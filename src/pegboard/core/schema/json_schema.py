"""Strict: a schema in the form of OpenAI's structured outputs."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast, overload
from urllib.parse import unquote

from pegboard.core.errors import BuildError

_LOOSE: Final = re.compile(
    r'"nullable": |"required": (?:true|false)|"any"|json-schema\.org/draft-03/|(?<!"default)(?<!"const)": null'
)
_OLD: Final = re.compile(
    _LOOSE.pattern + r'|json-schema\.org/(?:draft-0[4-7]|draft/2019-09)/|"definitions": |"items": \['
    r'|"exclusiveM(?:in|ax)imum": (?:true|false)|"\$recursive|"\$id": "#|[ \[](?:NaN|-?Infinity)[,\]}]'
)
_NAMED: Final = re.compile(r"json-schema\.org/(?:draft-0([3-7])|draft/(2019)-09)/")
_BY_ADDRESS: Final = re.compile(r'[^"]#/definitions/')
_PLACE: Final = re.compile(r"(?<!/properties)/items/(?=\d)")
_NEWEST: Final = 2020
_FLAG: Final = "\0required"
# Up to draft 07 everything beside a reference is ignored; what only informs may stay.
_BESIDE: Final = frozenset({"$ref", "$defs", "definitions", "title", "description", "default", "examples"})
_NOT_EMPTY: Final = frozenset(
    {"type", "enum", "properties", "patternProperties", "$defs", "definitions", "items", "anyOf", "oneOf", "allOf",
     "additionalProperties"}
)  # fmt: skip
"""Words that mean nothing with an empty list, or are invalid with one."""
_TYPE_NAMES: Final = {
    **{name: name for name in ("string", "number", "integer", "boolean", "array", "object", "null", "any")},
    "str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number", "double": "number",
    "bool": "boolean", "list": "array", "dict": "object", "map": "object", "none": "null",
}  # fmt: skip
_MAY_BE_NULL: Final = frozenset({"default", "const"})
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_VALUES: Final = frozenset(
    {"default", "const", "enum", "examples", "multipleOf", *(word for pair in _BOUNDS for word in pair)}
)


def readable(schema: Schema) -> Schema:
    """The schema in words that validators know: `type: any`, `required: true` on a property, `nullable`, null for absent.

    Their drafts have no validator any more, or are no JSON Schema, and programs write them all the same. A schema
    without such words stays the very same object.
    """
    return schema if isinstance(schema, bool) or not _LOOSE.search(_text(schema)) else mended(schema)


def mended(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """`readable` of any schema, also of one that is valid in no draft.

    What is plainly meant beside the words above: `[]` in the place of an object (an empty one in PHP), a type by its
    name in a programming language, one required name without its list, a property that is only its type or
    description.
    """
    root = {
        k: v for k, v in schema.items() if not (k == "nullable" or (k == "$schema" and _draft(schema) == 3))
    }
    flagged = rewrite(root, lambda node: _flagged(node, root))
    out = cast("Mapping[str, Any]", rewrite(rewrite(flagged, _needing), _unflagged))
    return schema if out == schema else out


@overload
def modern(schema: Mapping[str, Any]) -> Mapping[str, Any]: ...
@overload
def modern(schema: Schema) -> Schema: ...
def modern(schema: Schema) -> Schema:
    """The schema in 2020-12, which providers want, with the same meaning; one that is so stays the very same object.

    Values that JSON cannot write (NaN, infinities) are left out: no call could hold them.
    """
    if isinstance(schema, bool) or not _OLD.search(text := _text(schema)):
        return schema
    draft = _draft(schema)
    root = cast("Mapping[str, Any]", readable(schema))
    moved = _can_move(root) and not _BY_ADDRESS.search(text)

    def change(node: dict[str, Any]) -> dict[str, Any]:
        reference = node.get("$ref")
        if isinstance(reference, str):
            if draft <= 7:
                node = {k: v for k, v in node.items() if k in _BESIDE}
            node["$ref"] = _PLACE.sub("/prefixItems/", reference)
            if moved and reference.startswith("#/definitions/"):
                node["$ref"] = "#/$defs/" + node["$ref"].removeprefix("#/definitions/")
        _bounds(node)
        _tuples(node)
        _identity(node, draft)
        dependencies = node.pop("dependencies", None) if draft < _NEWEST else None
        if isinstance(dependencies, Mapping):
            _dependent(node, cast("Mapping[str, Any]", dependencies), change)
        return {k: v for k, v in node.items() if k not in _VALUES or _written(v)}

    out = cast("dict[str, Any]", rewrite(root, change))
    if moved:
        out["$defs"] = {**out.pop("definitions"), **out.get("$defs", {})}
    if draft < _NEWEST:
        out.pop("$schema", None)
    return schema if out == schema else out


def _can_move(root: Mapping[str, Any]) -> bool:
    """Whether `definitions` can be `$defs`: no definition of that name stands there already."""
    own: Any = root.get("$defs", {})
    older: Any = root.get("definitions")
    both = isinstance(older, Mapping) and isinstance(own, Mapping)
    return both and not cast("Any", own).keys() & cast("Any", older).keys()


def _flagged(node: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Types by their names, no `nullable`, no empty words; a flag `required` stands apart from the list of that name."""
    # Programs whose empty lists are null write `required: null`, and `items: null`.
    for word in [w for w, v in node.items() if v is None and w not in _MAY_BE_NULL]:
        del node[word]
    for word in [w for w, v in node.items() if v == [] and w in _NOT_EMPTY]:
        del node[word]
    for word in ("title", "description"):
        if not isinstance(node.get(word, ""), str):
            del node[word]
    if isinstance(node.get("properties"), dict):
        node["properties"] = {k: _property(v) for k, v in node["properties"].items()}
    kind: Any = node.get("type")
    if isinstance(kind, str):
        node["type"] = kind = _TYPE_NAMES.get(kind.lower(), kind)
    if kind == "any" or (isinstance(kind, list) and "any" in kind):
        del node["type"]
    match node.get("required"):
        case bool():
            node[_FLAG] = node.pop("required")
        case str(one):
            node["required"] = [one]
        case {}:
            del node["required"]
        case _:
            pass
    if isinstance(node.get("nullable"), bool) and node.pop("nullable"):
        flag = {_FLAG: node.pop(_FLAG)} if _FLAG in node else {}
        return {**nullable(node, root), **flag}
    return node


def _property(schema: Any) -> Any:
    if isinstance(schema, str):
        kind = _TYPE_NAMES.get(schema.lower())
        return {"description": schema} if kind is None else {} if kind == "any" else {"type": kind}
    return {} if schema is None or schema == [] else schema


def _needing(node: dict[str, Any]) -> dict[str, Any]:
    """The properties that are flagged stand in the list `required`."""
    properties = node.get("properties")
    if isinstance(properties, dict):
        table = cast("dict[str, Any]", properties)
        needed = [k for k, v in table.items() if isinstance(v, dict) and cast("dict[str, Any]", v).get(_FLAG)]
        if needed:
            node["required"] = list(dict.fromkeys([*node.get("required", ()), *needed]))
    return node


def _unflagged(node: dict[str, Any]) -> dict[str, Any]:
    node.pop(_FLAG, None)
    return node


def _bounds(node: dict[str, Any]) -> None:
    """Draft 04's flags beside a bound as bounds of their own."""
    for flag, bound in _BOUNDS:
        if isinstance(node.get(flag), bool) and node.pop(flag) and bound in node:
            node[flag] = node.pop(bound)


def _tuples(node: dict[str, Any]) -> None:
    """`items` as a list was the first items, `additionalItems` the others; it means nothing without such a list."""
    others = node.pop("additionalItems", None)
    if isinstance(node.get("items"), list):
        first = node.pop("items")
        if first:
            node["prefixItems"] = first
        if others is not None:
            node["items"] = others


def _identity(node: dict[str, Any], draft: int) -> None:
    """The names by which a schema is referred to; a whole address names no place that is looked up here."""
    word = "id" if draft <= 4 else "$id"
    name = node.get(word)
    if draft <= 4 or (isinstance(name, str) and name.startswith("#")):
        node.pop(word, None)
    if isinstance(name, str) and len(name) > 1 and name.startswith("#"):
        node["$anchor"] = name[1:]
    node.pop("$recursiveAnchor", None)
    if "$recursiveRef" in node:
        node["$ref"] = node.pop("$recursiveRef")


def _dependent(node: dict[str, Any], dependencies: Mapping[str, Any], change: Any) -> None:
    names: dict[str, Any] = {k: v for k, v in dependencies.items() if isinstance(v, list)}
    schemas = {k: rewrite(v, change) for k, v in dependencies.items() if k not in names}
    node.update({"dependentRequired": names} if names else {})
    node.update({"dependentSchemas": schemas} if schemas else {})


def _draft(schema: Mapping[str, Any]) -> int:
    """The draft that a schema says it is of: 3, 4, 6, 7, 2019 or 2020, the newest where it says nothing."""
    found = _NAMED.search(str(schema.get("$schema", "")))
    return _NEWEST if found is None else int(found[1] or found[2])


def _written(value: Any) -> bool:
    """Whether JSON can write a value."""
    try:
        json.dumps(value, allow_nan=False, default=str)
    except (ValueError, TypeError):
        return False
    return True


def _text(schema: Mapping[str, Any]) -> str:
    """The schema as text to look words up in, which is much faster than walking it; empty where it has none."""
    try:
        return json.dumps(schema, default=_plain, skipkeys=True)
    except (ValueError, RecursionError):
        return ""


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else str(value)


Schema: TypeAlias = "Mapping[str, Any] | bool"
"""A JSON Schema: an object, or true and false."""

_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = (
    "items", "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains",
    "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_HOLDING: Final = frozenset((*_MAPS, *_LISTS, *_SINGLE))
UNIONS: Final = ("anyOf", "oneOf")
_MAX_REFS: Final = 50
_MAX_STEPS: Final = 120
_MAX_BRANCHES_DEEP: Final = 5
_MAX_INLINED: Final = 20_000


def type_name(value: Any) -> str:
    """The JSON type of a Python value; a whole float is a number, a bool is no integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def pointer(schema: Schema, root: Mapping[str, Any]) -> Schema:
    """What a local `$ref` leads to, its siblings laid over it; the schema itself without one.

    A reference that leads nowhere, outside the document or round in a circle gives `true`: the
    validator reports it, the questions of this module do not.
    """
    for _ in range(_MAX_REFS):
        if isinstance(schema, bool) or "$ref" not in schema:
            return schema
        target = _lookup(str(schema["$ref"]), root)
        if target is None or isinstance(target, bool):
            return True if target is None else target
        siblings = {k: v for k, v in schema.items() if k != "$ref"}
        schema = {**target, **siblings} if siblings else target
    return True


def _lookup(reference: str, root: Mapping[str, Any]) -> Schema | None:
    if not reference.startswith("#"):
        return None
    fragment = unquote(reference[1:])  # RFC 6901 §6: a pointer in a URI is percent-encoded
    if fragment and not fragment.startswith("/"):
        return _anchored(fragment, root)
    node: Any = root
    for part in fragment.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and key in node:
            node = cast("Mapping[str, Any]", node)[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[int(key)]
        else:
            return None
    return cast("Schema", node) if isinstance(node, Mapping | bool) else None


def _anchored(name: str, root: Mapping[str, Any]) -> Schema | None:
    """The schema that calls itself `name` (JSON Schema 2020-12, core §8.2.2)."""
    level: list[Any] = [root]
    while level:
        node = level.pop()
        if isinstance(node, Mapping):
            table = cast("Mapping[str, Any]", node)
            if name in (table.get("$anchor"), table.get("$dynamicAnchor")):
                return table
            level += table.values()
        elif isinstance(node, list):
            level += cast("list[Any]", node)
    return None


def types_of(
    schema: Schema, root: Mapping[str, Any], budget: list[int] | None = None
) -> frozenset[str] | None:
    """The JSON types that a schema admits; None where it says nothing about types.

    `number` admits integers too, and so `integer` stands beside it. A schema whose unions refer to each
    other without end says nothing either.
    """
    budget = [_MAX_STEPS] if budget is None else budget
    budget[0] -= 1
    schema = pointer(schema, root)
    if isinstance(schema, bool):
        return None if schema else frozenset()
    kinds: frozenset[str] | None = None
    named = schema.get("type")
    if isinstance(named, str):
        kinds = frozenset((named,))
    elif isinstance(named, list):
        kinds = frozenset(cast("list[str]", named))
    elif "const" in schema:
        kinds = frozenset((type_name(schema["const"]),))
    elif isinstance(schema.get("enum"), list):
        kinds = frozenset(type_name(v) for v in schema["enum"])
    if kinds is not None and "number" in kinds:
        kinds |= {"integer"}
    if budget[0] < 0:
        return kinds
    for word in UNIONS:
        branches = schema.get(word)
        if isinstance(branches, list) and branches:
            admitted = [types_of(b, root, budget) for b in cast("list[Schema]", branches)]
            if None not in admitted:
                union = frozenset[str]().union(*cast("list[frozenset[str]]", admitted))
                kinds = union if kinds is None else kinds & union
    for branch in cast("list[Schema]", schema.get("allOf") or ()):
        admitted_here = types_of(branch, root, budget)
        if admitted_here is not None:
            kinds = admitted_here if kinds is None else kinds & admitted_here
    return kinds


def fields_at(schema: Schema, steps: Iterable[int | str], root: Mapping[str, Any] | None = None) -> list[str]:
    """The names that the objects may have which stand at a place, over all branches of unions.

    Args:
        schema: of the whole value.
        steps: the keys and indexes that lead from the whole to the object.
        root: what `$ref` refers to, else the schema.
    """
    whole: Mapping[str, Any] = {} if isinstance(schema, bool) else schema
    whole = whole if root is None else root
    here = _alternatives(schema, whole)
    for step in steps:
        inner: list[Mapping[str, Any]] = []
        for node in here:
            found: Any
            if isinstance(step, int):
                first = cast("list[Any]", node.get("prefixItems") or ())
                found = first[step] if step < len(first) else node.get("items", True)
            else:
                rest = node.get("additionalProperties", True)
                found = cast("Mapping[str, Any]", node.get("properties") or {}).get(step, rest)
            if isinstance(found, Mapping):
                inner += _alternatives(cast("Mapping[str, Any]", found), whole)
        here = inner[:_MAX_STEPS]
    return list(dict.fromkeys(name for node in here for name in node.get("properties") or ()))


def _alternatives(schema: Schema, root: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """A schema and the branches of its unions, references followed."""
    schema = pointer(schema, root)
    if isinstance(schema, bool) or depth > _MAX_BRANCHES_DEEP:
        return []
    out = [schema]
    for word in (*UNIONS, "allOf"):
        for branch in cast("list[Schema]", schema.get(word) or ()):
            out += _alternatives(branch, root, depth + 1)
    return out


def matches_enum(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether `enum` and `const` admit a value; true is not 1."""
    if "const" in schema and not same(value, schema["const"]):
        return False
    allowed = schema.get("enum")
    return not isinstance(allowed, list) or any(same(value, v) for v in cast("list[Any]", allowed))


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0, true does not equal 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        return left.keys() == right.keys() and all(same(v, right[k]) for k, v in left.items())
    if isinstance(a, list) and isinstance(b, list):
        first, second = cast("list[Any]", a), cast("list[Any]", b)
        return len(first) == len(second) and all(map(same, first, second))
    return a == b


def rewrite(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any] | bool]) -> Any:
    """A copy with `change` applied to every schema in it, innermost first.

    Only schemas are visited: a property that is called `default`, or an example, is data.
    """
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = dict(cast("Mapping[str, Any]", schema))
    for word, inner in out.items():
        # By the words that are there: most schemas have two or three of them.
        if word not in _HOLDING:
            continue
        if isinstance(inner, list) and word not in _MAPS:
            out[word] = [rewrite(v, change) for v in cast("list[Any]", inner)]
        elif isinstance(inner, Mapping) and word in _MAPS:
            out[word] = {k: rewrite(v, change) for k, v in cast("Mapping[str, Any]", inner).items()}
        elif isinstance(inner, Mapping) and word in _SINGLE:
            out[word] = rewrite(inner, change)
    return change(out)


def inline_refs(schema: Mapping[str, Any], *, max_depth: int | None = None) -> dict[str, Any]:
    """A copy without `$ref` and `$defs`: every local reference replaced by what it names.

    A definition that is used twice is written twice.

    Args:
        schema: the schema with local references.
        max_depth: how often a definition may stand inside itself before it is cut to
            `{"type": …, "description": …}`; None refuses recursion.

    Raises:
        BuildError: a recursive definition and no `max_depth`, a reference that leads nowhere, or a
            result of more than 20,000 nodes.
    """

    left = _MAX_INLINED

    def walk(node: Any, path: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [walk(item, path) for item in cast("list[Any]", node)]
        if not isinstance(node, Mapping):
            return node
        return schema_of(cast("Mapping[str, Any]", node), path)

    def schema_of(node: Mapping[str, Any], path: tuple[str, ...]) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise BuildError(
                f"the schema has more than {_MAX_INLINED} nodes when its references are written out"
            )
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = _lookup(reference, schema)
            if target is None:
                raise BuildError(f"the schema refers to {reference!r}, which is not in it")
            siblings = {k: v for k, v in node.items() if k != "$ref"}
            seen = path.count(reference)
            if seen and max_depth is None:
                raise BuildError(
                    f"the schema's {reference!r} contains itself; this dialect cannot say that. "
                    "Use a bounded depth, or take the nested part as JSON text."
                )
            if isinstance(target, bool):
                return target
            if seen > (max_depth or 0):
                cut = {k: target[k] for k in ("type", "description") if k in target}
                return {**cut, **siblings}
            return schema_of({**target, **siblings}, (*path, reference))
        out: dict[str, Any] = {}
        for word, value in node.items():
            if word in ("$defs", "definitions"):
                continue
            if word in _MAPS and isinstance(value, Mapping):
                out[word] = {k: walk(v, path) for k, v in cast("Mapping[str, Any]", value).items()}
            elif word in _LISTS or word in _SINGLE:
                out[word] = walk(value, path)
            else:
                out[word] = copy.deepcopy(value)
        return out

    return cast("dict[str, Any]", schema_of(schema, ()))


def _listed(node: Mapping[str, Any]) -> list[Any]:
    return [*(node.get("enum") or ()), *([node["const"]] if "const" in node else ())]


def lists_bits(schema: Mapping[str, Any]) -> bool:
    """Whether a schema lists 0 or 1 among other values than true and false (JSON libraries in Python
    take true for 1 there)."""
    return _anywhere(schema, lambda node: any(type(v) in (int, float) and v in (0, 1) for v in _listed(node)))


def holds_numbers(schema: Mapping[str, Any]) -> bool:
    """Whether a schema takes numbers that need not be whole, or lists numbers, anywhere."""
    return _anywhere(schema, _takes_number)


def is_open_ended(schema: Mapping[str, Any]) -> bool:
    """Whether a schema lets values pass of which it says nothing."""
    return _anywhere(schema, _says_nothing)


def _takes_number(node: Mapping[str, Any]) -> bool:
    kinds = node.get("type")
    if kinds == "number" or (isinstance(kinds, list) and "number" in kinds):
        return True
    return any(type(v) in (int, float) for v in _listed(node))


def _says_nothing(node: Mapping[str, Any]) -> bool:
    kinds = node.get("type")
    return (
        not any(word in node for word in ("type", "enum", "const", "$ref", *UNIONS, "allOf"))
        or (kinds == "array" and not ("items" in node or "prefixItems" in node))
        or (kinds == "object" and node.get("additionalProperties", True) is True)
    )


def _anywhere(schema: Mapping[str, Any], is_one: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether some schema in a schema is one."""
    found: list[bool] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        found.append(is_one(node))
        return node

    rewrite(schema, look)
    return any(found)


def names_in(schema: Mapping[str, Any]) -> list[str]:
    """The names of all properties anywhere in a schema."""
    found: dict[str, None] = {}

    def look(node: dict[str, Any]) -> dict[str, Any]:
        found.update(dict.fromkeys(cast("Mapping[str, Any]", node.get("properties") or {})))
        return node

    rewrite(schema, look)
    return list(found)


_STRICT_WORDS: Final = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref",
        "$defs", "description", "title", "pattern", "format", "multipleOf", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
    }
)  # fmt: skip
"""The keywords of OpenAI's structured outputs."""


def strict_problem(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be said in openai-strict without losing something, or None.

    A map with free keys would become a closed empty object, and an open value has no type: such a tool is
    to be sent non-strict.
    """
    return _strict_problem(schema, "", schema)


def _strict_problem(node: Any, path: str, root: Mapping[str, Any]) -> str | None:
    where = path or "the root"
    if not isinstance(node, Mapping):
        return f"{where} takes any value"
    schema = cast("Mapping[str, Any]", node)
    for word in (
        "allOf",
        "not",
        "if",
        "patternProperties",
        "prefixItems",
        "dependentSchemas",
        "unevaluatedProperties",
    ):
        if word in schema:
            return f"{where} uses {word}"
    for name, definition in cast("Mapping[str, Any]", schema.get("$defs", {})).items():
        problem = _strict_problem(definition, f"{path}#{name}", root)
        if problem:
            return problem
    if "$ref" in schema:
        return None if str(schema["$ref"]).startswith("#") else f"{where} refers outside"
    for word in UNIONS:
        for branch in cast("list[Any]", schema.get(word, ())):
            problem = _strict_problem(branch, path, root)
            if problem:
                return problem
    kinds = types_of(schema, root)
    if kinds is None:
        return f"{where} takes any value"
    if any(word in schema for word in UNIONS):
        return None
    if "object" in kinds:
        if schema.get("additionalProperties", False) is not False or (path and "properties" not in schema):
            return f"{where} is a map with free keys"
        for name, inner in cast("Mapping[str, Any]", schema.get("properties", {})).items():
            problem = _strict_problem(inner, f"{path}.{name}", root)
            if problem:
                return problem
    if "array" in kinds:
        return _strict_problem(schema.get("items", True), f"{path}[]", root)
    return None


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The openai-strict form: every key required, optional ones nullable, objects closed, no `default`,
    unsupported keywords dropped, `oneOf` as `anyOf`.

    Ask `strict_problem` first: a map with free keys is closed here like any object.
    """

    def change(node: dict[str, Any]) -> dict[str, Any] | bool:
        if "oneOf" in node:
            node["anyOf"] = [*node.get("anyOf", ()), *node["oneOf"]]
        if isinstance(node.get("properties"), dict) or node.get("type") == "object":
            properties = cast("dict[str, Any]", node.get("properties", {}))
            required = cast("list[str]", node.get("required", ()))
            node["properties"] = {
                k: v if k in required else nullable(v, schema) for k, v in properties.items()
            }
            node["required"] = list(properties)
            node["additionalProperties"] = False
        out = {k: v for k, v in node.items() if k in _STRICT_WORDS}
        if "$ref" in out and len(out) > 1:  # strict admits no sibling of $ref
            rest = {k: v for k, v in out.items() if k not in ("$ref", "$defs")}
            return {"anyOf": [{"$ref": out["$ref"]}], **rest} if rest else {"$ref": out["$ref"]}
        return out

    return cast("dict[str, Any]", rewrite(schema, change))


def nullable(schema: Any, root: Mapping[str, Any]) -> Any:
    """A copy that admits null too."""
    if not isinstance(schema, Mapping):
        return schema
    node: dict[str, Any] = dict(cast("Mapping[str, Any]", schema))
    kinds = types_of(node, root)
    if kinds is None or "null" in kinds:
        return node
    if isinstance(node.get("anyOf"), list):
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    named = node.get("type")
    if "const" in node or "$ref" in node or "oneOf" in node or named is None:
        outer = {k: node.pop(k) for k in ("description",) if k in node}
        return {"anyOf": [node, {"type": "null"}], **outer}
    node["type"] = [*named, "null"] if isinstance(named, list) else [named, "null"]
    if isinstance(node.get("enum"), list):
        node["enum"] = [*node["enum"], None]
    return node
