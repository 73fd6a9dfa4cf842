"""What a row of a profile may say beside names: words for results, and parameters that go nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pegboard import PURE, Executor, Tool
from pegboard.core.content import Text
from pegboard.core.profiles import ProfileParameter, ToolProfile, apply_profile
from pegboard.core.result import ToolResult


def saying(word: str) -> Any:
    def render(result: ToolResult, arguments: Mapping[str, Any]) -> ToolResult:
        return replace(result, content=(Text(f"{word}({result.text})"),))

    return render


async def test_the_tools_own_words_come_first_and_the_rows_around_them() -> None:
    tool = Tool(lambda: "x", name="own", description="Own.", effects=PURE).copy(render=saying("tool"))
    dressed = apply_profile(tool, ToolProfile(name="theirs", tool="own"), render=saying("row"))

    assert (await Executor([dressed]).call("theirs", {})).text == "row(tool(x))"


async def test_a_parameter_that_goes_nowhere_may_still_be_required() -> None:
    tool = Tool(lambda a: a, name="own", description="Own.", effects=PURE,
                parameters={"type": "object", "properties": {"a": {"type": "string"}}})  # fmt: skip
    given = (
        ProfileParameter(name="a", schema={"type": "string"}),
        ProfileParameter(name="why", schema={"type": "string"}, canonical=None, required=True),
    )
    door = Executor([apply_profile(tool, ToolProfile(name="theirs", tool="own", parameters=given))])

    refused = await door.call("theirs", {"a": "x"})

    assert refused.error is not None and ".why: is required but missing" in refused.error.message
    assert str(await door.call("theirs", {"a": "x", "why": "because"})) == "x"
