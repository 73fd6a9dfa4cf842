"""Coercion: values brought to the type that a JSON Schema asks for, and only there.

A value whose JSON type the schema admits is never touched; a string is never made from anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pegboard.core.schema.json_schema import Schema, matches_enum, pointer, same, type_name, types_of
from pegboard.core.schema.json_text import NotFinite, loads
from pegboard.core.schema.numerals import Numeral, exact
from pegboard.core.schema.problems import Problem, by_folded_name, fold, format_json

_INTEGER: Final = re.compile(r"[+-]?[0-9]+(?:\.0+)?\Z")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?\Z")
_MAX_DIGITS: Final = 4000
_BOOLEANS: Final[dict[str, bool]] = {"true": True, "false": False, "1": True, "0": False}
_MAX_DEPTH: Final = 100
_MAX_BRANCHES: Final = 2000


@dataclass(slots=True)
class Coercion:
    """One pass over some arguments.

    Attributes:
        root: the whole schema, for `$ref`.
        notes: what was changed, one sentence each.
        floats: what the schema calls a number becomes a float.
        budget: how many union branches may still be tried, shared by nested passes.
    """

    root: Mapping[str, Any]
    notes: list[str] = field(default_factory=list[str])
    floats: bool = False
    budget: list[int] = field(default_factory=lambda: [_MAX_BRANCHES])

    def coerce(self, value: Any, schema: Schema, path: str, depth: int = 0) -> Any:
        """The value in the type that the schema asks for, or as it is where that cannot be done."""
        if depth > _MAX_DEPTH:
            return value
        schema = pointer(schema, self.root)
        if isinstance(schema, bool):
            return value
        kinds = types_of(schema, self.root)
        if kinds is not None and type_name(value) not in kinds:
            value = self._convert(value, kinds, schema, path)
        if self.floats and type(value) is int and schema.get("type") == "number" and not _in_a_float(value):
            self.notes.append(_nearest(path, value))
        for branch in cast("list[Schema]", schema.get("allOf", ())):
            value = self.coerce(value, branch, path, depth + 1)
        for word in ("anyOf", "oneOf"):
            branches = cast("list[Schema]", schema.get(word, ()))
            if branches:
                value = self._in_branches(value, branches, path, depth)
        if isinstance(value, dict):
            return self._in_object(cast("dict[str, Any]", value), schema, path, depth)
        if isinstance(value, list):
            return self._in_array(cast("list[Any]", value), schema, path, depth)
        return value

    def bits(self, value: Any, schema: Schema, path: str, depth: int = 0) -> list[Problem]:
        """Where true or false stands for 1 or 0 among listed values, which pydantic would let pass."""
        schema = pointer(schema, self.root)
        if isinstance(schema, bool) or depth > _MAX_DEPTH:
            return []
        if isinstance(value, bool):
            listed = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
            if listed and not any(same(value, v) for v in cast("list[Any]", listed)):
                return [Problem(path, f"must be one of {format_json(listed, 120)}, got {format_json(value)}")]
        out: list[Problem] = []
        for word in ("anyOf", "oneOf"):
            branches = cast("list[Schema]", schema.get(word, ()))
            fitting = [b for b in branches if _admits(value, b, self.root)]
            # No branch takes it: then a number's may still have taken true for its 1.
            tries = [self.bits(value, b, path, depth + 1) for b in fitting or branches]
            out += min([found for found in tries if found or fitting] or [[]], key=len)
        if isinstance(value, dict):
            properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
            rest = cast("Schema", schema.get("additionalProperties", True))
            for key, item in cast("dict[str, Any]", value).items():
                out += self.bits(item, properties.get(key, rest), f"{path}.{key}", depth + 1)
        elif isinstance(value, list):
            first = cast("list[Schema]", schema.get("prefixItems", ()))
            rest = cast("Schema", schema.get("items", True))
            for i, item in enumerate(cast("list[Any]", value)):
                out += self.bits(item, first[i] if i < len(first) else rest, f"{path}[{i}]", depth + 1)
        return out

    def _in_branches(self, value: Any, branches: list[Schema], path: str, depth: int) -> Any:
        """Coerce inside the branch that fits best; with several, the one that needs the fewest changes."""
        if self.budget[0] <= 0:  # unions within unions: trying every way through them grows without bound
            return value
        self.budget[0] -= len(branches)
        fitting = [b for b in branches if _admits(value, b, self.root)]
        if isinstance(value, Numeral) and any(_is_decimal(b, self.root) for b in branches):
            return value.text
        best: tuple[int, int] | None = None
        chosen: tuple[Any, list[str]] = (value, [])
        for branch in fitting:
            trial = Coercion(self.root, floats=self.floats, budget=self.budget)
            result = trial.coerce(value, branch, path, depth + 1)
            score = (count_mismatches(result, branch, self.root), len(trial.notes))
            if best is None or score < best:
                best, chosen = score, (result, trial.notes)
        self.notes += chosen[1]
        return chosen[0]

    def _in_object(
        self, value: dict[str, Any], schema: Mapping[str, Any], path: str, depth: int
    ) -> dict[str, Any]:
        properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
        required = cast("list[str]", schema.get("required", ()))
        patterned = "patternProperties" in schema
        rest = cast("Schema", schema.get("additionalProperties", True))
        closed = rest is False and not patterned and not value.keys() <= properties.keys()
        words = by_folded_name(properties) if closed else {}
        out: dict[str, Any] = {}
        for key, item in value.items():
            where = f"{path}.{key}"
            if key in properties:
                if item is None and key not in required and not _admits(None, properties[key], self.root):
                    self.notes.append(f"{where}: null was taken as absent.")
                    continue
                out[key] = self.coerce(item, properties[key], where, depth + 1)
                continue
            meant = words.get(fold(key))
            if meant is not None and meant not in value and meant not in out:
                self.notes.append(f"{where}: taken as {meant!r}.")
                out[meant] = self.coerce(item, properties[meant], f"{path}.{meant}", depth + 1)
                continue
            # Patterns are left to the validator: a stranger's expression may take for ever in Python's engine.
            out[key] = item if patterned else self.coerce(item, rest, where, depth + 1)
        return out

    def _in_array(self, value: list[Any], schema: Mapping[str, Any], path: str, depth: int) -> list[Any]:
        first = cast("list[Schema]", schema.get("prefixItems", ()))
        rest = cast("Schema | list[Schema]", schema.get("items", True))
        if isinstance(rest, list):  # before 2020-12 a list under `items` meant what prefixItems means
            first, rest = rest, cast("Schema", schema.get("additionalItems", True))
        return [
            self.coerce(item, first[i] if i < len(first) else rest, f"{path}[{i}]", depth + 1)
            for i, item in enumerate(value)
        ]

    def _convert(self, value: Any, kinds: frozenset[str], schema: Mapping[str, Any], path: str) -> Any:
        """The value as one of some JSON types that it does not have; itself where none fits."""
        if isinstance(value, str):
            return self._convert_text(value, kinds, schema, path)
        if isinstance(value, float) and "integer" in kinds:
            whole = value.whole if isinstance(value, Numeral) else int(value) if value.is_integer() else None
            if whole is not None:
                return self._note(path, value, whole, "integer")
            if isinstance(value, Numeral) and value.lost and "string" not in kinds:
                return value.text  # the float might be whole, and then be taken
        if "boolean" in kinds and isinstance(value, int | float) and value in (0, 1):
            return (
                value
                if isinstance(value, Numeral) and value.lost
                else self._note(path, value, bool(value), "boolean")
            )
        return value

    def _convert_text(self, text: str, kinds: frozenset[str], schema: Mapping[str, Any], path: str) -> Any:
        bare = text.strip()
        if "integer" in kinds and len(bare) < _MAX_DIGITS and _INTEGER.match(bare):
            return self._note(path, text, int(bare.partition(".")[0]), "integer")
        if "number" in kinds and len(bare) < _MAX_DIGITS and _NUMBER.match(bare):
            number = int(bare) if bare.lstrip("+-").isdigit() else exact(bare)
            if number not in (float("inf"), float("-inf")):
                return self._note(path, text, number, "number")
        if "boolean" in kinds and bare.lower() in _BOOLEANS:
            return self._note(path, text, _BOOLEANS[bare.lower()], "boolean")
        if "null" in kinds and bare.lower() in ("null", "none"):
            return self._note(path, text, None, "null")
        if kinds & {"object", "array"}:
            return self._convert_json(text, kinds, path)
        return text

    def _convert_json(self, text: str, kinds: frozenset[str], path: str) -> Any:
        try:
            value, how = loads(text, numerals=True), ""
        except NotFinite:
            return text
        except (ValueError, RecursionError):
            # Most processes never see malformed JSON, so its parser is loaded by the first that does.
            from pegboard.core.schema.repair import Malformed, repair_json

            try:
                value, how = repair_json(text).value, " after repair"
            except Malformed:
                return text
        if type_name(value) not in kinds or not isinstance(value, dict | list):
            return text
        self.notes.append(f"{path}: the {type_name(value)} came as JSON text and was decoded{how}.")
        return cast("Any", value)

    def _note(self, path: str, before: Any, after: Any, kind: str) -> Any:
        what = kind if after is None else f"{kind} {format_json(after)}"
        self.notes.append(f"{path}: {format_json(before)} was read as {what}.")
        return after


def rounded(value: Any, notes: list[str], path: str = "") -> Any:
    """The value with a float for each Numeral; `notes` receives a sentence for each that lost a digit by it."""
    if isinstance(value, Numeral):
        if value.lost:
            notes.append(_nearest(path, value))
        return float(value)
    if isinstance(value, dict):
        rows = cast("dict[str, Any]", value).items()
        return {key: rounded(item, notes, f"{path}.{key}") for key, item in rows}
    if isinstance(value, list):
        return [rounded(item, notes, f"{path}[{i}]") for i, item in enumerate(cast("list[Any]", value))]
    return value


def _nearest(path: str, value: float) -> str:
    return (
        f"{path}: {format_json(value)} was read as {float(value)!r}, the nearest number that a float holds."
    )


def _in_a_float(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:  # the validator refuses it
        return True


def _is_decimal(schema: Schema, root: Mapping[str, Any]) -> bool:
    """Whether a schema takes a number as text, to keep its digits."""
    schema = pointer(schema, root)
    return (
        not isinstance(schema, bool) and schema.get("format") == "decimal" and schema.get("type") == "string"
    )


def count_mismatches(value: Any, schema: Schema, root: Mapping[str, Any], depth: int = 0) -> int:
    """How many things of a value visibly break a schema: types, enum, required, unknown keys."""
    schema = pointer(schema, root)
    if isinstance(schema, bool) or depth > _MAX_DEPTH:
        return 0 if schema else 1
    if not _admits(value, schema, root):
        return 1
    count = 0
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
        count += sum(key not in given for key in cast("list[str]", schema.get("required", ())))
        for key, item in given.items():
            if key in properties:
                count += count_mismatches(item, properties[key], root, depth + 1)
            elif "patternProperties" not in schema:
                count += count_mismatches(
                    item, cast("Schema", schema.get("additionalProperties", True)), root, depth + 1
                )
    elif isinstance(value, list) and not isinstance(schema.get("items", True), list):
        items = cast("Schema", schema.get("items", True))
        count += sum(count_mismatches(item, items, root, depth + 1) for item in cast("list[Any]", value))
    return count


def _admits(value: Any, schema: Schema, root: Mapping[str, Any]) -> bool:
    """Whether type, enum and const admit a value."""
    schema = pointer(schema, root)
    if isinstance(schema, bool):
        return schema
    kinds = types_of(schema, root)
    return (kinds is None or type_name(value) in kinds) and matches_enum(value, schema)
