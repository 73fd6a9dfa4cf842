"""A call in text is a call or is told: marks in another case, doubled keys, blocks that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pegboard.core.content import ToolCall
from pegboard.core.errors import InvalidArguments
from pegboard.core.schema.signature import Signature
from pegboard.dialects import dialect
from pegboard.dialects.literals import LiteralError, read_call, read_json
from pegboard.dialects.protocol import CallChunk, TextChunk
from tests.dialects.kit import FakeKit, tool
from tests.ledger import owes

KIT = FakeKit(
    tool("get_weather", ("city",), city="string", days="integer"),
    tool("add", a="integer", b="integer"),
)
ROME = [("get_weather", {"city": "Rome"})]
CALL = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
text = dialect("text")


def read(reply: str) -> list[tuple[str, Any]]:
    return [(c.name, c.params) for c in text.decode(reply, KIT)]


@pytest.mark.parametrize(
    "reply",
    [
        "<FUNCTION=get_weather><PARAMETER=city>Rome</PARAMETER></FUNCTION>",
        "<Function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</Function>",
        '<INVOKE NAME="get_weather"><PARAMETER NAME="city">Rome</PARAMETER></INVOKE>',
        '<FUNCTION=get_weather>{"city": "Rome"}</FUNCTION>',
        f"[tool_calls][{CALL}]",
        f"[Tool_Calls] [{CALL}]",
        '[tool_calls]get_weather[args]{"city": "Rome"}',
        f"<|TOOL_CALL|>{CALL}<|/TOOL_CALL|>",
        f"<|Python_Tag|>{CALL}",
        f"[TOOL_CALL]{CALL}[/TOOL_CALL]",
        f"[tool_call]{CALL}[/tool_call]",
        f"[TOOL_REQUEST]\n{CALL}\n[END_TOOL_REQUEST]",
        f"[tool_request]{CALL}[end_tool_request]",
        f"<TOOLCALL>[{CALL}]</TOOLCALL>",
        f"<Tool_Call>{CALL}</Tool_Call>",
    ],
)
def test_a_mark_is_known_in_capitals_and_in_small_letters(reply: str) -> None:
    assert read(reply) == ROME


@pytest.mark.parametrize(
    "reply",
    [
        '```tool_code\nprint(get_weather(city="Rome"))\n```',
        '<tool_code>print(default_api.get_weather(city="Rome"))</tool_code>',
        '<tool_code>get_weather(city="Rome")</tool_code>',
        'get_weather({"city": "Rome"})',
        '<tool_code>functions.get_weather({"city": "Rome"} )</tool_code>',
        'I look it up.\nAction: get_weather\nAction Input: {"city": "Rome"}',
        '**Action:** get_weather\n**Action Input:** {"city": "Rome"}\n',
    ],
)
def test_calls_as_program_text_and_as_steps_are_read(reply: str) -> None:
    assert read(reply) == ROME


@pytest.mark.parametrize(
    "reply",
    [
        f"<TOOL_RESPONSE><tool_call>{CALL}</tool_call></TOOL_RESPONSE>",
        f"<Tool_Result><tool_call>{CALL}</tool_call></Tool_Result>",
        f"<function_results><tool_call>{CALL}</tool_call></function_results>",
        f"[TOOL_RESULTS][TOOL_CALLS][{CALL}][/TOOL_RESULTS]",
        f"<THINK><tool_call>{CALL}</tool_call></THINK>done",
        f"<Think><tool_call>{CALL}</tool_call></Think>done",
    ],
)
def test_results_and_reasoning_hold_no_calls_however_their_marks_are_written(reply: str) -> None:
    assert read(reply) == []


@owes("N-10")
@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name": "add", "arguments": {"a": 1, "a": 2, "b": 3}}</tool_call>',
        "<tool_call>{'name': 'add', 'arguments': {'a': 1, 'a': 2, 'b': 3}}</tool_call>",
        '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1, \\"a\\": 2, \\"b\\": 3}"}</tool_call>',
        '{"name": "add", "arguments": {"a": 1, "a": 2, "b": 3}}',
        "<function=add><parameter=a>1</parameter><parameter=a>2</parameter><parameter=b>3</parameter></function>",
        "[add(a=1, a=2, b=3)]",
        "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value>"
        "<arg_key>a</arg_key><arg_value>2</arg_value></tool_call>",
        '<|start|>assistant<|channel|>commentary to=functions.add<|message|>{"a": 1, "a": 2, "b": 3}<|call|>',
    ],
)
def test_a_key_given_twice_is_refused_in_the_words_of_the_providers_path(reply: str) -> None:
    (call,) = text.decode(reply, KIT)
    native = '{"a": 1, "a": 2, "b": 3}'

    def add(a: int, b: int) -> int: ...

    said: list[str] = []
    for arguments in (call.arguments, native):
        with pytest.raises(InvalidArguments) as caught:
            Signature.of(add).decode(arguments)
        said.append(str(caught.value))
    assert call.name == "add"
    assert said[0] == said[1]
    assert "given twice" in said[0]


def test_a_key_given_twice_deep_inside_is_found_and_streamed_as_it_was_written() -> None:
    reply = '<tool_call>{"name": "add", "arguments": {"a": [{"x": 1, "x": 2}, 5], "b": {"c": {"y": 1}}}}</tool_call>'
    stream = text.stream(KIT)

    deltas = [*stream.feed(reply), *stream.flush()]

    (written,) = [d.arguments for d in deltas if isinstance(d, CallChunk)]
    assert written == '{"a":[{"x":1,"x":2},5],"b":{"c":{"y":1}}}'
    assert [c.arguments for c in stream.finish().calls] == [written]


def test_a_key_given_twice_with_one_value_is_one_key() -> None:
    assert read('<tool_call>{"name": "add", "arguments": {"a": 1, "a": 1, "b": 3}}</tool_call>') == [
        ("add", {"a": 1, "b": 3})
    ]


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name": "add", "name": "get_weather", "arguments": {"a": 1, "b": 3}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": 1}, "arguments": {"a": 2}}</tool_call>',
        '[TOOL_CALLS]{"name": 5}',
        '<|tool_call|>{"nome": "add"}<|/tool_call|>',
        '<tool_call>{"nome": "add"}</tool_call>',
        "<function=add>a=1,b=2</function>",
        '<function_call>{"name": }</function_call>',
        "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{a b c}<|tool_call_end|>",
        'functools[{"name": "add" "arguments": {}}]',
        '<invoke name="add">{"a":1 "b"}</invoke>',
        "<|start|>assistant<|channel|>commentary to=functions.add<|message|>no json<|call|>",
        "<|start|>assistant<|channel|>commentary to=functions.add<|message|>[1]",
        f"TOOL_CALL: {CALL}",
        f"**Tool call:** {CALL}",
        f"I will use a tool. <act>{CALL}</act>",
        f'For example {{"name": "get_weather", 5}} or {CALL}',
        '<tool_code>print(add(a=1, b=2) + {"x": 1})</tool_code>\n{"name": "add", "arguments": {}}',
    ],
)
def test_what_looks_like_a_call_and_cannot_be_read_is_told(reply: str) -> None:
    message = text.decode_message(reply, KIT)
    feedback = text.feedback(reply, KIT)

    assert message.calls == ()
    assert message.stop == "malformed"
    assert "could not be read and was not run" in feedback
    assert feedback.count(" was not run: ") == 1


@pytest.mark.parametrize(
    "reply",
    [
        "I would write `<tool_call>` for it.",
        "Use [tool_calls] in the template.",
        "The tag <FUNCTION=name> opens a call.",
        "functools[TypeVar] is no call",
        '{"name": "get_weather"} is its name.',
        f"{CALL} is what a call looks like, and I need none.",
        '{"name": "unheard_of", "arguments": {}}',
        'It ends in {"name": "get_weather", "size": 3}',
        "print(1)",
        "Action: wait\nand see",
    ],
)
def test_words_about_calls_are_an_answer(reply: str) -> None:
    message = text.decode_message(reply, KIT)

    assert message.stop == "end"
    assert message.text == reply
    assert text.feedback(reply, KIT) == ""


def test_a_call_that_is_found_inside_what_could_not_be_read_is_enough() -> None:
    reply = f"<tool_calls>\n<tool_call>{CALL}</tool_call>\n</tool_calls>"

    assert read(reply) == ROME
    assert text.feedback(reply, KIT) == ""


@pytest.mark.parametrize("source", ['{"a": 1', '{"a": 1} x', '{"a": 1}'])
def test_one_object_in_brackets_ends_with_the_bracket(source: str) -> None:
    with pytest.raises(LiteralError):
        read_call(source, 0)


@pytest.mark.parametrize("reply", ["[print(add(a=1, b=2)", "<tool_code>print(add(a=1, b=2) x)</tool_code>"])
def test_a_printed_call_ends_with_its_bracket(reply: str) -> None:
    assert read(reply) == []


def test_json_that_is_nested_too_deeply_is_no_json() -> None:
    with pytest.raises(ValueError, match="deep"):
        read_json("[" * 100_000 + "]" * 100_000)


def test_doubled_arguments_are_one_text_in_history() -> None:
    (call,) = dialect("xml").decode(
        '<tool_call>{"name": "add", "arguments": {"a": 1, "a": 2}}</tool_call>', KIT
    )

    assert call == ToolCall(None, "add", '{"a":1,"a":2}', call.raw)
    assert json.loads(call.arguments) == {"a": 2}  # type: ignore[arg-type]


QUOTED = [
    (f"Write `<tool_call>{CALL}</tool_call>` to call it.", "malformed"),
    ('`<tool_call>{"name": "x", "arguments": {}}</tool_call>` is the form', "end"),
    ("The form `<tool_call><name>x</name></tool_call>` is old.\nMore.", "end"),
    ("<get_weather> is the name of a tag", "end"),
    ("Use <add> or <get_weather>, not <sub>.", "end"),
    ("<tool_call>\nname: add\na: 1\n</tool_call>", "malformed"),
    ("Let me see.\n<tool_call>\nadd 1 to 2\n</tool_call>\n", "malformed"),
    ("The tag `<tool_call>` starts a call and `</tool_call>` ends it.", "end"),
    ("Use <tool_call> here\nand </tool_call>\nthere.", "end"),
]


@owes("xml-10", "xml-12")
@pytest.mark.parametrize("name", ["text", "xml"])
@pytest.mark.parametrize(("reply", "stop"), QUOTED)
def test_a_quoted_call_is_none_and_a_block_that_is_none_is_told(reply: str, stop: str, name: str) -> None:
    message = dialect(name).decode_message(reply, KIT)

    assert message.calls == () and message.text == reply and message.stop == stop
    for size in (1, 5, 1000):
        stream = dialect(name).stream(KIT)
        is_interactive = [d for at in range(0, len(reply), size) for d in stream.feed(reply[at : at + size])]
        shown = "".join(d.text for d in [*is_interactive, *stream.flush()] if isinstance(d, TextChunk))
        assert shown.strip() == reply.strip()


@pytest.mark.parametrize(
    "reply", [f"`<tool_call>{CALL}</tool_call>`", f"```<tool_call>{CALL}</tool_call>```"]
)
def test_backticks_alone_are_no_quotation(reply: str) -> None:
    assert read(reply) == ROME


@owes("xml-10")
@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ('<get_weather city="Rome"/>', ROME),
        ("<get_weather city='Rome' days='3' />", [("get_weather", {"city": "Rome", "days": 3})]),
        ('<get_weather city="R&amp;D"></get_weather>', [("get_weather", {"city": "R&D"})]),
        ('<get_weather class="x"/>', []), ('<get_weather city="Rome">Rome</get_weather>', []),
    ],
)  # fmt: skip
def test_arguments_may_stand_in_the_tag_itself(reply: str, calls: list[tuple[str, Any]]) -> None:
    assert [(c.name, c.params) for c in dialect("xml").decode(reply, KIT)] == calls
    assert read(reply) == []
    assert "was not run" in text.feedback(reply, KIT)
