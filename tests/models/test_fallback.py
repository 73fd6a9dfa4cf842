from __future__ import annotations

from typing import Any

import pytest

from pegboard.core.errors import ModelError
from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.models import ScriptedModel
from pegboard.models.fallback import FallbackModel
from pegboard.ports.model import TurnEnd
from tests.models.kit import EXEC, READ, Kit

DOWN = ModelError("down", retryable=True)


async def turn(talk: Any) -> AssistantMessage:
    events = [event async for event in talk.reply()]
    assert isinstance(events[-1], TurnEnd)
    return events[-1].message


def opened(model: FallbackModel, kit: Any = None) -> Any:
    talk = model.converse(instructions="i", tools=kit or Kit())
    talk.append(UserMessage.of("hi"))
    return talk


async def test_when_the_first_model_fails_the_next_one_gets_the_whole_conversation() -> None:
    first, second = (
        ScriptedModel([{"text": "one"}, DOWN], name="a"),
        ScriptedModel([{"text": "two"}], name="b"),
    )
    model = FallbackModel([first, second])
    talk = opened(model)
    talk.append(await turn(talk))
    talk.append(UserMessage.of("more"))

    message = await turn(talk)

    assert message.text == "two"
    assert [m.text for m in second.requests[0].messages] == ["hi", "one", "more"]
    assert (model.name, model.destination) == ("a", "nowhere")


async def test_the_one_that_answered_is_kept() -> None:
    first, second = ScriptedModel([DOWN, {"text": "back"}]), ScriptedModel([{"text": "x"}, {"text": "y"}])
    talk = opened(FallbackModel([first, second]))
    await turn(talk)

    assert (await turn(talk)).text == "y"


async def test_when_all_fail_the_error_names_each() -> None:
    other = ModelError("wrong key")
    model = FallbackModel([ScriptedModel([DOWN], name="a"), ScriptedModel([other], name="b")])

    with pytest.raises(ModelError) as caught:
        await turn(opened(model))

    assert "a: down" in str(caught.value)
    assert "b: wrong key" in str(caught.value)
    assert caught.value.retryable
    await model.aclose()


async def test_a_broken_answer_is_not_continued_by_another_model() -> None:
    class Breaking(ScriptedModel):
        def converse(self, **more: Any) -> Any:
            talk = super().converse(**more)
            reply = talk.reply

            async def broken(*, allow_tools: bool = True) -> Any:
                async for event in reply(allow_tools=allow_tools):
                    yield event
                    raise DOWN

            talk.reply = broken  # type: ignore[method-assign]
            return talk

    second = ScriptedModel([{"text": "never"}])
    with pytest.raises(ModelError, match="down"):
        await turn(opened(FallbackModel([Breaking([{"text": "half"}]), second])))

    assert second.requests == []


async def test_a_model_gets_only_the_tools_that_it_may_have() -> None:
    model = ScriptedModel([{"text": "a"}], name="small")
    asked: list[str] = []

    def tools_for(name: str, tools: Any) -> Any:
        asked.append(name)
        return Kit(tuple(tool for tool in tools if tool.name != "exec"))

    await turn(opened(FallbackModel([model], tools_for=tools_for), Kit((READ, EXEC))))

    assert asked == ["small"]
    assert [tool.name for tool in model.requests[0].tools] == ["read_file"]


def test_without_any_model_it_does_not_build() -> None:
    with pytest.raises(ValueError, match="at least one"):
        FallbackModel([])
