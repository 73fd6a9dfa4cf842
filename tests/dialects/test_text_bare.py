"""Calls that no mark announces: the whole answer or its last fence is read, what else looks like one is told."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard.dialects import dialect
from pegboard.dialects.protocol import CallChunk, CallStartChunk, TextChunk
from tests.dialects.kit import FakeKit, tool
from tests.ledger import owes

KIT = FakeKit(
    tool("read_file", ("path",), path="string", limit="integer"),
    tool("search", ("query",), query="string"),
    tool("mode", level={"type": "string", "enum": ["low", "high"]}),
    tool("write_file", path="string", content="string"),
    tool("now", ()),
)
TEXT = dialect("text")
FILE = [("read_file", {"path": "a.txt"})]
CALL = '{"name": "read_file", "arguments": {"path": "a.txt"}}'


def called(reply: str, kit: Any = KIT) -> list[tuple[str, Any]]:
    return [(c.name, c.params) for c in TEXT.decode(reply, kit)]


FENCED: list[tuple[str, list[tuple[str, Any]]]] = [
    (f"```tool_use\n{CALL}\n```", FILE),
    (f"Ok.\n```tool\n{CALL}\n```", FILE),
    (f"```tool_calls\n[{CALL}]\n```", FILE),
    (f"```function_call\n{CALL}\n```", FILE),
    ('```tool_code\nprint(read_file(path="a.txt"))\n```', FILE),
    (f"[{CALL}]", FILE),
]  # fmt: skip
TOLD = [
    '<read_file>\n<path>a.txt</path>\n</read_file>',
    "I'll look.\n\n<read_file>\n<path>a.txt</path>\n<limit>5</limit>\n</read_file>\n",
    '<read_file><params><path>a.txt</path></params></read_file>',
    '<write_file>\n<path>a.html</path>\n<content>\n<b>1</b> <name>x</name>\n</content>\n</write_file>',
    '<read_file><path>a.txt</path></read_file>\n<search><query>x y</query></search>',
    'Tool: read_file\nInput: {"path": "a.txt"}',
    'Tool Name: read_file\nTool Input: {"path": "a.txt"}',
    'Function: `read_file`\nArguments: {"path": "a.txt"}',
    '**Tool:** `read_file`\n**Input:**\n```json\n{"path": "a.txt"}\n```',
    'Thought: I need it\n**Action:** read_file\n**Parameters:** {"path": "a.txt"}',
    'Tool: read_file\nInput: {"path": "a.txt"}\n\nTool: search\nInput: {"query": "x"}',
    'Thought: look\nAction: read_file[{"path": "a.txt"}]',
    'Thought: look\nAction: search[Rome, in winter]',
    'Action: read_file({"path": "a.txt"})',
    'Action: `read_file(path="a.txt")`',
    'Tool call: read_file(path="a.txt", limit=3)',
    '<tools>[{"name": "read_file", "arguments": {"path": "a.txt"}}]</tools>',
    '<tools>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tools>',
    '<tools>[{"name": "read_file", "arguments": {"path": "a.txt"}}, {"name": "now", "arguments": {}}]</tools>',
    'Ok.\n<tool name="read_file">{"path": "a.txt"}</tool>',
    '<mode><level>low</level></mode>',
    '<search query="x"/>',
]  # fmt: skip


@owes("N-111")
@pytest.mark.parametrize(("reply", "calls"), FENCED)
def test_a_fence_that_an_answer_ends_in_is_read(reply: str, calls: list[tuple[str, Any]]) -> None:
    assert called(reply) == calls


@owes("xml-10")
@pytest.mark.parametrize("reply", TOLD)
def test_an_answer_that_ends_as_a_call_in_another_form_is_told(reply: str) -> None:
    assert called(reply) == []
    assert TEXT.decode_message(reply, KIT).stop == "malformed"
    assert "could not be read and was not run" in TEXT.feedback(reply, KIT)
    # Without such a tool the very same text is an answer.
    other = FakeKit(tool("other", ("x",), x="string"))
    assert TEXT.decode_message(reply, other).stop == "end"


NEGATIVE = [
    # the words of prose
    "Tool: read_file", "Tool: the hammer\nInput: none", "Action: read_file is what I would do",
    'Tool: unknown_tool\nInput: {"path": "a.txt"}', 'Tool: read_file\nInput: {"file": "a.txt"}',
    "Tool: read_file\nInput: {}", 'Tool: read_file\nInput: {"path": 5}', 'Tool: read_file\nInput: ["a.txt"]',
    'Tool: read_file\nInput: {"path": "a.txt"', 'Tool: read_file\nInput: {"path": "a.txt"}\nThat is all.',
    'Tool: read_file\n\n\nThe file was read.\nInput: {"path": "a.txt"}',
    'My tool: read_file\nInput: {"path": "a.txt"}', "Action: wait[5]", "Action: search[]", "Action: search[ ]",
    "Action: search[x] and then stop", "Action: mode[{}]", "Action: read_file[{]", "Action: write_file[a.txt]",
    'Action: read_file[{"path": "a.txt"}', 'Action: read_file[{"path": "a.txt"}, 1]',
    "Action: read_file(", "Action: read_file(path)", "Action: now() or never", "Tool call: unheard(path=1)",
    'Action: read_file(path="a.txt")\nsearch(query="x")', "Action: mode[medium]", "Function: f(x) = x + 1", "Function: search(x) is a function",
    'An example:\nTool: read_file\nInput: {"path": "a.txt"}',
    'The format is:\nAction: read_file[{"path": "a.txt"}]', "A call looks like\nAction: search[Rome]",
    'Write it like this:\n<read_file><path>a.txt</path></read_file>',
    f"For instance:\n<tools>[{CALL}]</tools>", 'The syntax:\n<tool name="read_file">{"path": "a.txt"}</tool>',
    '```\nTool: read_file\nInput: {"path": "a.txt"}', '```text\nAction: search[Rome]',
    # tags
    "<read_file>", "<read_file/>", "<read_file></read_file>", "<read_file>a.txt</read_file>", "<now></now>",
    "<read_file><path>a.txt</path>", "<read_file><path>a.txt</read_file>",
    "<read_file><path>a.txt</path></read_file> reads a file.", "`<read_file><path>a.txt</path></read_file>`",
    "```xml\n<read_file><path>a.txt</path></read_file>\n```", "<read_file><file>a.txt</file></read_file>",
    "<read_file><limit>5</limit></read_file>", "<read_file><path>a.txt</path><limit>many</limit></read_file>",
    "<read_file><path>a.txt</path><more>1</more></read_file>", "<mode><level>medium</level></mode>",
    "<Read_File><path>a.txt</path></Read_File>", "<search>\n<b>query</b>\n</search>",
    "<readfile><path>a.txt</path></readfile>", "<p>Use <search> to find it</p>",
    '<tools>[{"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}]</tools>',
    '<tools>[{"name": "hammer", "arguments": {"weight": 3}}]</tools>', "<tools>[]</tools>", "<tools>hammer, saw</tools>",
    "<tools>[1, 2]</tools>", "<tools><tool>hammer</tool></tools>", f"<tools>{CALL}",
    # fences
    "```tool_use\nread_file\n```", '```tool_use\n{"name": "hammer", "arguments": {}}\n```',
    "```tool\nhammer\n```", "```python\nprint(1)\n```", "```python\ndef search(query): ...\n```",
    "```toolbox\n" + CALL + "\n```", "```tool_code\nx = 1\n```",
    # closing tags that close something
    "The list is in <params>x</params>", "Write <name>bob</name>", "as in <function=f>x</function>",
]  # fmt: skip


@pytest.mark.parametrize("reply", NEGATIVE)
def test_prose_is_no_call_and_is_shown_as_it_is(reply: str) -> None:
    assert called(reply) == []
    message = TEXT.decode_message(reply, KIT)
    assert message.text == reply or message.stop in ("length", "malformed")


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("reply", [p for p, _ in FENCED] + TOLD + NEGATIVE)
def test_in_pieces_the_same_is_said_and_no_markup_of_a_call_is_shown(reply: str, size: int) -> None:
    whole = TEXT.decode_message(reply, KIT)
    stream = TEXT.stream(KIT)
    deltas = [d for at in range(0, len(reply), size) for d in stream.feed(reply[at : at + size])]
    is_interactive = "".join(d.text for d in deltas if isinstance(d, TextChunk))
    deltas += stream.flush()
    shown = "".join(d.text for d in deltas if isinstance(d, TextChunk))

    assert stream.finish() == whole
    assert whole.text.startswith(is_interactive)
    assert shown.strip() == whole.text.strip()
    assert [d.name for d in deltas if isinstance(d, CallStartChunk)] == [c.name for c in whole.calls]
    assert sum(isinstance(d, CallChunk) for d in deltas) == len(whole.calls)


@pytest.mark.parametrize(
    "reply",
    ["Here it is:\n```python\nx = 1\nprint(x)\n```\nThat was it, and more text.", "The Tool works. **Bold** text goes on and on."],
)  # fmt: skip
def test_an_answer_with_code_goes_on_as_it_comes(reply: str) -> None:
    stream = TEXT.stream(KIT)

    is_interactive = "".join(d.text for c in reply for d in stream.feed(c) if isinstance(d, TextChunk))

    assert len(is_interactive) > len(reply) - 12


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("Done.</params></tool_call>", "Done."), ("a <name>x</name></name>", "a <name>x</name>"),
        ("<params>x</params></params></tool_call>", "<params>x</params>"),
        ("Done.\n</parameter>\n</invoke>", "Done."),
    ],
)  # fmt: skip
def test_closing_tags_that_close_nothing_are_dropped_and_no_others(reply: str, shown: str) -> None:
    assert TEXT.decode_message(reply, KIT).text.rstrip() == shown


def test_many_marks_of_steps_cost_no_more_than_their_length() -> None:
    for unit in (
        "Action: search[x\n",
        "Tool: read_file\nInput: {",
        "<read_file><path>",
        "Action: search(",
        "<tools>[",
    ):
        assert called(unit * 3000 + ">") == []
