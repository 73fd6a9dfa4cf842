from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pegboard.core.content import Text, ToolCall
from pegboard.core.errors import ConfigError, ModelError
from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.models import ScriptedModel
from pegboard.models.scripted import ModelRequest
from pegboard.ports.model import CallDelta, TextDelta, ThinkingDelta, TurnEnd
from tests.models.kit import SIX


async def play(model: ScriptedModel, **more: Any) -> AssistantMessage:
    talk = model.converse(instructions="i", tools=SIX)
    talk.append(UserMessage.of("go"))
    events = [event async for event in talk.reply(**more)]
    assert isinstance(events[-1], TurnEnd)
    return events[-1].message


async def test_turns_are_played_in_order_with_made_up_ids() -> None:
    model = ScriptedModel(
        [{"calls": [{"name": "a"}, {"id": "own", "name": "b", "arguments": {"x": 1}}]}, {"text": "done"}]
    )

    first, second = await play(model), await play(model)

    assert first.calls == (ToolCall("call_1_1", "a", {}), ToolCall("own", "b", {"x": 1}))
    assert (first.stop, second.text, second.stop) == ("tools", "done", "end")


async def test_what_was_sent_can_be_looked_at() -> None:
    model = ScriptedModel([{"text": "done"}])

    await play(model, allow_tools=False)

    (request,) = model.requests
    assert request.instructions == "i"
    assert request.messages == (UserMessage.of("go"),)
    assert request.tools is SIX
    assert not request.allow_tools


async def test_a_turn_may_be_a_function_a_message_or_an_error() -> None:
    def echo(request: ModelRequest) -> dict[str, Any]:
        return {"text": f"{len(request.messages)} messages"}

    whole = AssistantMessage(content=(Text("as it is"),))
    model = ScriptedModel([echo, whole, ModelError("down"), {"error": "overloaded"}])

    assert (await play(model)).text == "1 messages"
    assert await play(model) is whole
    with pytest.raises(ModelError, match="down"):
        await play(model)
    with pytest.raises(ModelError, match="overloaded") as caught:
        await play(model)
    assert caught.value.retryable


async def test_a_script_that_is_too_short_says_so() -> None:
    with pytest.raises(ModelError, match="has 1 turns and was asked for one more"):
        model = ScriptedModel([{"text": "a"}])
        await play(model)
        await play(model)


async def test_malformed_arguments_and_missing_ids_are_played_as_they_stand() -> None:
    model = ScriptedModel([{"calls": [{"id": None, "name": "a", "arguments": '{"x": '}], "stop": "length"}])

    message = await play(model)

    assert message.calls == (ToolCall(None, "a", '{"x": '),)
    assert message.stop == "length"


async def test_events_come_in_the_blocks_order_with_the_message_last() -> None:
    model = ScriptedModel(
        [{"thinking": "hm", "text": "hi", "calls": [{"name": "a", "arguments": {"x": "ü"}}]}]
    )
    talk = model.converse(instructions="", tools=SIX)

    events = [event async for event in talk.reply()]

    assert events[:-1] == [
        ThinkingDelta("hm"),
        TextDelta("hi"),
        CallDelta(index=0, id="call_1_1", name="a", arguments='{"x": "ü"}'),
    ]


async def test_a_script_can_be_read_from_json_lines(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text(
        '{"calls": [{"name": "read_file", "arguments": {"path": "a"}}]}\n\n'
        '{"text": "done", "usage": {"input_tokens": 7, "cost_usd": 0.5}}\n',
        encoding="utf-8",
    )
    model = ScriptedModel.from_file(script)

    first, second = await play(model), await play(model)

    assert first.calls[0].params == {"path": "a"}
    assert (second.usage.input_tokens, second.usage.cost_usd) == (7, 0.5)
    assert model.name == f"scripted:{script}"
    assert model.destination == "nowhere"
    await model.aclose()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: no JSON"),
        ("[]", "a turn is an object"),
        ('{"txt": "a"}', "unknown key 'txt'"),
        ('{"stop": "maybe"}', "stop is 'maybe'"),
        ('{"calls": "a"}', "not a list of calls"),
        ('{"calls": [1]}', "a call is"),
        ('{"calls": [{"name": "a", "args": {}}]}', "unknown key 'args' in a call"),
    ],
)
def test_a_bad_script_names_the_line(tmp_path: Path, line: str, said: str) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text(line, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"s\.jsonl") as caught:
        ScriptedModel.from_file(script)

    assert said in str(caught.value)


def test_a_missing_script_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the script"):
        ScriptedModel.from_file(tmp_path / "none")


def test_bad_turns_are_refused_when_the_model_is_made() -> None:
    with pytest.raises(ConfigError, match="turn 2: unknown key"):
        ScriptedModel([{"text": "a"}, {"tool_calls": []}])
