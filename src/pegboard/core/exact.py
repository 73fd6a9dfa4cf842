"""exact: pydantic's validators made as exact as the root of a tool's arguments is (ledger X-08, K-04).

Out of the box a model, dataclass or TypedDict drops keys that it does not know, and takes infinity for a
number: what a model meant by a misspelt key would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pydantic_core.core_schema import CoreSchema

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
