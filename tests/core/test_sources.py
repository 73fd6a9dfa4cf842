"""Sources of tools are found wherever they stand, opened with the executor and ended with it."""

from __future__ import annotations

from pegboard import PURE, Executor, Tool, tool


class Host:
    """Two tools that are known once it runs."""

    revision = 0

    def __init__(self, *names: str) -> None:
        self.names = names
        self.closed = False

    async def tools(self) -> list[Tool]:
        return [
            Tool(lambda: name, name=name, description="Says its name.", effects=PURE) for name in self.names
        ]

    async def aclose(self) -> None:
        self.closed = True


@tool(effects=PURE)
def own() -> str:
    """Say so."""
    return "own"


async def test_sources_in_nested_lists_give_their_tools_behind_the_kits_own() -> None:
    first, second = Host("a"), Host("b")

    async with Executor([[first, [own]], (second,)]) as door:
        result = await door.call("b", {})
        assert result.ok
        assert door.toolkit.names == ("own", "a", "b")
    assert first.closed and second.closed


async def test_a_source_may_have_a_tool_left_out_whose_name_is_taken() -> None:
    class Modest(Host):
        def collided(self, name: str) -> bool:
            return name == "own"

    async with Executor([own, Modest("own", "more"), Host("more")]) as door:
        assert (await door.call("more", {})).ok
        first, second, third = door.toolkit.names

    assert (first, second) == ("own", "more")
    assert third.startswith("more_")
