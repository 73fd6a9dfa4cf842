"""Registry: both families of method names over one table."""

from __future__ import annotations

import pytest

from pegboard import PURE, BuildError, Registry, Tool, Toolkit
from pegboard.core.errors import ToolNotFoundError
from tests.ledger import owes


def made(name: str, text: str = "") -> Tool:
    def one() -> str:
        """Say."""
        return text

    return Tool(one, name=name, effects=PURE)


@owes("N-15", "N-16", "N-17", "N-18", "N-19", "N-22", "N-23", "D-04")
def test_tools_are_registered_replaced_found_and_taken_out() -> None:
    registry = Registry([made("a")])
    second = registry.register(made("a", "new"))
    registry.register(made("b"))

    assert registry.get("a") is second
    assert registry.get("x") is None
    assert registry.has("b")
    assert not registry.has("x")
    assert "b" in registry
    assert (len(registry), registry.tool_names, [t.name for t in registry]) == (2, ["a", "b"], ["a", "b"])
    assert registry.unregister("a")
    assert not registry.unregister("a")
    assert registry.tool_names == ["b"]


@owes("N-22", "N-20", "K-08")
def test_names_and_schemas_stand_in_the_order_of_registration_also_behind_a_replacement() -> None:
    registry = Registry([made("zebra"), made("ant"), made("mole")])
    registry.register(made("ant", "new"))

    assert registry.tool_names == ["zebra", "ant", "mole"]
    assert [d["function"]["name"] for d in registry.get_definitions()] == ["zebra", "ant", "mole"]


@owes("D-03", "X-02")
def test_each_registry_has_tools_of_its_own() -> None:
    one, two = Registry(), Registry(Toolkit([made("z")]))
    one.register(made("a"))

    assert (one.tool_names, two.tool_names) == (["a"], ["z"])


@owes("D-05", "X-03")
def test_require_and_index_raise_where_get_gives_none() -> None:
    registry = Registry([made("search")])

    assert registry.require("search") is registry["search"]
    with pytest.raises(ToolNotFoundError, match="Tool 'serch' not registered"):
        registry.require("serch")
    with pytest.raises(LookupError):
        registry["x"]


@owes("N-20", "D-06", "A-26", "X-03")
def test_every_family_of_lists_gives_the_same_tools() -> None:
    registry = Registry([made("a"), made("b")])

    assert registry.get_definitions() == registry.list_schemas() == registry.schemas()
    assert [d["function"]["name"] for d in registry.schemas()] == ["a", "b"]
    assert [t.name for t in registry.list_tools()] == ["a", "b"]


@owes("X-61")
def test_a_kit_of_some_names_is_strict_unless_told_otherwise() -> None:
    registry = Registry([made("a"), made("b"), made("c")])

    assert registry.toolkit().names == ("a", "b", "c")
    assert registry.toolkit("c", "a").names == ("c", "a")
    with pytest.raises(ToolNotFoundError):
        registry.toolkit("a", "zz")
    assert registry.toolkit("a", "zz", strict=False).names == ("a",)


def test_a_kit_is_added_whole_and_never_replaces() -> None:
    registry = Registry([made("a")])
    registry.add(Toolkit([made("b")]))

    assert registry.tool_names == ["a", "b"]
    with pytest.raises(BuildError, match="'b' is registered already"):
        registry.add(Toolkit([made("b")]))
