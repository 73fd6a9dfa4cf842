"""An executor of plain functions shapes as any other, and nothing that they do raises or hangs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pegboard import PURE, Executor, Image, Text, ToolCall, ToolResult, tool

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3d"


@tool(effects=PURE)
def say(what: str) -> str:
    """Say it."""
    return what


async def test_a_kit_that_needs_nothing_has_its_results_cleaned_and_redacted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOUSE_API_KEY", "correct-horse-battery")
    door = Executor([say])

    for sent, seen in (
        ("a\x1b[31mred\x1b[0m b", "ared b"),
        ("pay\u200bload\u202e", "payload"),
        ("half a pair: \ud800.", "half a pair: \ufffd."),
        (f"token {TOKEN} ends", None),
        ("it is correct-horse-battery", None),
        ("plain", "plain"),
    ):
        text = str(await door.call("say", {"what": sent}))
        text.encode()
        if seen is None:
            assert "[redacted:" in text and TOKEN not in text and "battery" not in text
        else:
            assert text == seen


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SystemExit(3), "end the whole program with sys.exit(3)"),
        (StopIteration(), "StopIteration"),
    ],
)
async def test_what_a_function_must_not_raise_is_its_failure(
    raised: BaseException, told: str, awaited: bool
) -> None:
    if awaited:

        @tool(effects=PURE, timeout_s=5)
        async def falls() -> str:
            """Fall."""
            raise raised
    else:

        @tool(effects=PURE, timeout_s=5)
        def falls() -> str:
            """Fall."""
            raise raised

    result = await Executor([falls]).call("falls", {})

    assert result.error is not None and result.error.code == "internal_error"
    assert told in str(result)


def lines() -> Iterator[str]:
    yield "a"


@pytest.mark.parametrize("value", [lines(), map(str, [1]), lines, ToolResult(content=(7,))])  # type: ignore[arg-type]
async def test_a_value_that_nobody_can_read_is_an_error_and_no_address_in_memory(value: Any) -> None:
    @tool(effects=PURE)
    def odd() -> object:
        """Return it."""
        return value

    result = await Executor([odd]).call("odd", {})

    assert result.error is not None and result.error.code == "internal_error"
    assert "return a list" in str(result) or "takes Text" in str(result)


async def test_texts_in_the_place_of_blocks_are_text_blocks() -> None:
    picture = Image(data=b"\x89PNG", mime_type="image/png")

    @tool(effects=PURE)
    def mixed(whole: bool) -> ToolResult:
        """Return it."""
        content: Any = "one text" if whole else ("a picture", picture)
        return ToolResult(content=content)

    door = Executor([mixed])

    assert (await door.call("mixed", {"whole": True})).content == (Text("one text"),)
    assert (await door.call("mixed", {"whole": False})).content == (Text("a picture"), picture)


async def test_very_long_and_very_many_wrong_names_are_not_compared_with_all_there_are() -> None:
    door = Executor([say])

    for calls in (
        ToolCall("1", "sayy" * 500_000, {}),
        ToolCall("2", "say", {"what": "x", "whatt" * 500_000: 1}),
        ToolCall("3", "say", {"what": "x", **{f"what{n}": 1 for n in range(20_000)}}),
    ):
        compared = 0

        def watch(frame: Any, event: str, _: Any) -> None:
            nonlocal compared
            compared += event == "call" and frame.f_code.co_name == "nearest"

        sys.setprofile(watch)
        try:
            (result,) = await door.turn([calls])
        finally:
            sys.setprofile(None)
        assert not result.ok and compared <= 50
        assert len(str(result)) < 20_000
