"""search_tools: its page; what it finds is tested with the kit that needs it."""

from __future__ import annotations

from pegboard import Executor, Toolkit, builtin
from pegboard.ports.tool_search import FoundTool
from tests.ledger import owes


class OneTool:
    """A catalogue of one."""

    def search(self, query: str, *, limit: int = 5) -> list[FoundTool]:
        return [FoundTool(name="a", description="Do a.", parameters={"type": "object"}, score=1.5)][:limit]

    def select(self, names: list[str]) -> list[FoundTool]:
        return self.search("")

    def nearest(self, name: str) -> list[str]:
        return []


@owes("K-84")
async def test_search_tools_shows_name_description_and_parameters() -> None:
    door = Executor(builtin("search_tools"), provide=[OneTool()])

    result = await door.call("search_tools", {"query": "a thing"})

    assert str(result) == 'a: Do a.\nparameters: {"type":"object"}'
    assert result.data["tools"][0]["score"] == 1.5


async def test_search_tools_over_its_own_kit_needs_no_folder() -> None:
    door = Executor(Toolkit([*builtin("search_tools")]))

    assert not (await door.call("search_tools", {"query": "anything"})).ok
    assert door.wiring.workspace is None
