"""Calls in tags that are no mark are taken where nothing else can be meant, and nowhere else."""

from __future__ import annotations

import pytest

from pegboard import PURE, ReadPath, Toolkit, tool
from pegboard.dialects import dialect


@tool
def read_file(path: ReadPath, limit: int | None = None) -> str:
    """Read a file."""
    return path


@tool(effects=PURE)
def now() -> str:
    """Say the time."""
    return "noon"


@tool(effects=PURE)
def to_result(input: str) -> str:
    """A tool with a parameter of that name."""
    return input


KIT = Toolkit([read_file, now, to_result])
TEXT = dialect("text")
WORDS = (
    "tool",
    "call",
    "action",
    "tool_invocation",
    "tool_request",
    "use_tool",
    "invocation",
    "Action",
    "CALL",
)
INPUTS = ("input", "tool_input", "args", "arguments", "parameters", "action_input")


def called(text: str) -> list[tuple[str, object]]:
    return [(c.name, c.arguments) for c in TEXT.decode(text, toolkit=KIT)]


ONE = [("read_file", {"path": "a.txt"})]


@pytest.mark.parametrize(
    "before", ["", "I will look at it.\n\n", "The <b>file</b>: <call me> <action>soon</action>\n"]
)
@pytest.mark.parametrize("word", WORDS)
def test_a_block_with_the_call_or_the_arguments_as_json_is_a_call(word: str, before: str) -> None:
    for body in (
        f'<{word}>{{"name": "read_file", "arguments": {{"path": "a.txt"}}}}</{word}>',
        f'<{word}>\n{{"tool": "read_file", "input": {{"path": "a.txt"}}}}\n</{word}>\n',
        f'<{word} name="read_file">{{"path": "a.txt"}}</{word}>',
        f'<{word} tool=\'read_file\' > {{"path": "a.txt"}} </{word}>',
        f'<{word}><name>read_file</name><input>{{"path": "a.txt"}}</input></{word}>',
    ):
        assert called(before + body) == ONE, body
        message = TEXT.decode_message(before + body, KIT)
        assert message.text.strip() == before.strip()


@pytest.mark.parametrize("input_word", INPUTS)
@pytest.mark.parametrize("word", ["tool", "tool_name", "action", "function", "name"])
def test_a_name_in_one_element_and_json_in_the_next_is_a_call(word: str, input_word: str) -> None:
    assert called(f'<{word}>read_file</{word}>\n<{input_word}>{{"path": "a.txt"}}</{input_word}>') == ONE


def test_several_blocks_and_the_form_with_a_server_are_read_in_order() -> None:
    block = '<call>{"name": "read_file", "arguments": {"path": "a.txt"}}</call>'
    server = (
        "<use_mcp_tool>\n<server_name>files</server_name>\n<tool_name>read_file</tool_name>\n"
        '<arguments>\n{"path": "a.txt"}\n</arguments>\n</use_mcp_tool>'
    )

    assert called(f'{block}\n{server}\n<tool name="now">{{}}</tool>') == [*ONE, *ONE, ("now", {})]


@pytest.mark.parametrize(
    "text",
    [
        '<call>{"name": "remove_file", "arguments": {"path": "a.txt"}}</call>',  # no such tool
        '<call>{"name": "read_file", "arguments": {"file": "a.txt"}}</call>',  # no such parameter
        '<call>{"name": "read_file", "arguments": {}}</call>',  # a required one is missing
        '<tool name="hammer">{"weight": 3}</tool>',
        '<action>{"type": "click"}</action>',
        "<action>click</action>",
        "<action>[1, 2]</action>",
        '<call>[{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}]</call>',
        '<tool name="read_file">["a.txt"]</tool>',
        '<tool name="read_file">{"path": "a.txt"}</call>',
        '<tool name="read_file">{"path": "a.txt"',
        '<tool name="read_file"><b>{"path": "a.txt"}</b></tool>',
        '<tool name="read_file">{"path": "a.txt"}</tool> is how it is done.',
        '`<tool name="read_file">{"path": "a.txt"}</tool>`',
        '```xml\n<tool name="read_file">{"path": "a.txt"}</tool>\n```',
        '<tool name="read_file">{"path": "a.txt"}</tool> and <b>',
        '<tool name="read_file">{"path": "a.txt", "path": "b.txt"}</tool>',
        "<call>" * 5000,
        '<call>{"name": "now", ' * 3000 + ">",
    ],
)
def test_what_may_be_something_else_is_none(text: str) -> None:
    assert called(text) == []


def test_without_a_toolkit_such_tags_are_text() -> None:
    assert TEXT.decode('<call>{"name": "read_file", "arguments": {"path": "a.txt"}}</call>') == []


def test_json_in_an_element_around_the_arguments_is_taken_out_unless_it_is_a_parameter() -> None:
    block = '<tool_use><name>{}</name><input>{{"path": "a.txt"}}</input></tool_use>'

    assert called(block.format("read_file")) == ONE
    assert called(block.format("wrap")) == [("wrap", {"input": '{"path": "a.txt"}'})]
    assert called(block.format("strange")) != ONE
    assert called('<tool_use><name>read_file</name><input>{"path": "a.txt"} more</input></tool_use>') != ONE
    assert called("<tool_use><name>read_file</name><input>a.txt</input></tool_use>") != ONE
