"""Marks and tags that are nearly right: read, or told to the model; never silently text."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard.dialects import dialect
from pegboard.dialects.protocol import TextChunk
from tests.dialects.corpora import pieces
from tests.dialects.kit import FakeKit, tool
from tests.ledger import owes

KIT = FakeKit(
    tool("read", ("path",), path="string", limit="integer"), tool("write", path="string", content="string")
)
BODY = "<name>read</name><params><path>a</path></params>"
FORMS = [dialect("xml"), dialect("text")]


def read(form: Any, text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(c.name, c.params) for c in form.decode(text, KIT)]


@owes("U-11", "X-45")
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call id="7">{BODY}</tool_call>',
        f"<tool_call id=7>{BODY}</tool_call>",
        f'<tool_call\n  xmlns="u"\n>{BODY}</tool_call>',
        f"<tool_call >{BODY}</tool_call >",
        f"<toolcall>{BODY}</toolcall>",
        f"<tool-call>{BODY}</tool-call>",
        f"<tool_use>{BODY}</tool_use>",
        f"<x:tool_call>{BODY}</x:tool_call>",
        "<x:tool_call><x:name>read</x:name><x:params><x:path>a</x:path></x:params></x:tool_call>",
        "<TOOL_CALL><NAME>read</NAME><PARAMS><PATH>a</PATH></PARAMS></TOOL_CALL>",
        "<Tool_Call><Name>read</Name><Params><Path>a</Path></Params></Tool_Call>",
        "<tool_call><name >read</name ><params ><path >a</path ></params ></tool_call>",
        '<tool_call><name type="x">read</name><params type="object"><path>a</path></params></tool_call>',
        "<tool_call><name>read</name><params><path lang=en>a</path></params></tool_call>",
        "<tool_call><tool>read</tool><params><path>a</path></params></tool_call>",
        '<tool_call name="read"><params><path>a</path></params></tool_call>',
        "<tool_call tool='read'><path>a</path></tool_call>",
        '<function_call name="read"><path>a</path></function_call>',
        '<tool_call name="read">{"path": "a"}</tool_call>',
        '<tool_call id="7">{"name": "read", "arguments": {"path": "a"}}</tool_call>',
        '<TOOL_CALL>\n```json\n{"name": "read", "arguments": {"path": "a"}}\n```\n</TOOL_CALL>',
        '<tool_call id="7"><name>read</name><params><path><![CDATA[a]]></path></params></tool_call>',
    ],
)
def test_a_block_that_is_nearly_a_call_is_read_as_one_and_the_model_is_told(form: Any, text: str) -> None:
    assert read(form, f"Reading.\n{text}") == [("read", {"path": "a"})]
    if "type=" not in text or "lang" in text or 'name type="x"' in text:
        assert "had to be repaired" in form.feedback(text, KIT)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_what_stands_in_a_value_stays_as_it_is(form: Any) -> None:
    content = '<Name id=1>x</Name> <p class="b" >y</p > </TOOL_CALL >'
    text = f'<tool_call id="1"><name>write</name><params><path>a</path><content><![CDATA[{content}]]></content></params></tool_call>'
    bare = "<TOOL_CALL><name>write</name><params><path>a</path><Content><P class=b>y</P></Content></params></TOOL_CALL>"

    assert read(form, text) == [("write", {"path": "a", "content": content})]
    assert read(form, bare) == [("write", {"path": "a", "content": "<P class=b>y</P>"})]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call name="read" path="a"/>',
        "<tool_call><name>read</name><params><path>a <![CDATA[b</path> and ]]> c</params></tool_call>",
        "<tool_call><nobody><q>1</q></nobody></tool_call>",
        '<tool_call id="1">{"path": "a"} and more</tool_call>',
        '<tool_call name="read">{"path": "a"} and more</tool_call>',
        "<TOOL_CALL>{}</TOOL_CALL>",
        "<TOOL_CALL>[]</TOOL_CALL>",
        '<TOOL_CALL>[{"name": "read", "arguments": {"path": "a"}}] x</TOOL_CALL>',
    ],
)
def test_a_block_that_promises_a_call_and_holds_none_is_told_to_the_model(form: Any, text: str) -> None:
    assert read(form, text) == []
    assert "could not be read and was not run" in form.feedback(text, KIT)
    assert form.decode_message(text, KIT).stop == "malformed"


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_a_call_inside_a_block_that_is_none_is_read_and_nothing_else_is_said(form: Any) -> None:
    text = '<tool_call id="1"><step>one</step><invoke name="read"><parameter name="path">a</parameter></invoke></tool_call>'

    assert read(form, text) == [("read", {"path": "a"})]
    assert "could not be read" not in form.feedback(text, KIT)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call id="3">{"name": "read", "arguments": {"path": "a"}',
        '<tool_call name="read"><path>a',
        "<TOOL_CALL><name>read</name><params>",
        '<tool_call id="1"><name>read</name><params><path><![CDATA[a</tool_call>',
    ],
)
def test_a_block_that_is_nearly_a_call_and_ends_too_soon_is_cut_off(form: Any, text: str) -> None:
    message = form.decode_message(text, KIT)

    assert (message.calls, message.stop) == ((), "length")
    assert "cut off" in form.feedback(text, KIT)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "text",
    [
        'Use <tool_call id="7"> to call.',
        "The tag <TOOL_CALL> is used.",
        "A <tool_use/> element.",
        "<tool_call id='x'> is one",
    ],
)
def test_prose_about_the_marks_is_prose(form: Any, text: str) -> None:
    message = form.decode_message(text, KIT)

    assert (message.text, message.calls, message.stop) == (text, (), "end")


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_any_split_gives_the_same(form: Any) -> None:
    text = f'Now.\n<Tool_Call id="7">{BODY}</Tool_Call>\nand <TOOL_CALL> in prose, then <tool_call name="read">{{"path": "b"}}</tool_call>'
    whole = form.decode_message(text, KIT)
    assert [c.params["path"] for c in whole.calls] == ["a", "b"]

    for seed in range(20):
        stream = form.stream(KIT)
        for piece in pieces(text, seed):
            stream.feed(piece)
        stream.flush()
        assert stream.finish() == whole


def test_a_number_that_is_none_reaches_the_executor_which_says_where_it_stands() -> None:
    (call,) = dialect("text").decode(
        '<tool_call>{"name": "read", "arguments": {"limit": -Infinity}}</tool_call>', KIT
    )

    assert call.params["limit"] == float("-inf")


def test_a_parameter_that_is_never_closed_is_told() -> None:
    form = dialect("xml")
    text = '<tool_call id="1"><name>read</name><params><path>a</params></tool_call>'

    assert read(form, text) == []
    assert "could not be read" in form.feedback(text, KIT)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("a <![CDATA[<b>]]> c <![CDATA[<d>]]> e", "a <b> c <d> e"),
        ("a <![CDATA[b", "a <![CDATA[b"),
        ("a <![CDATA[b]]> <![CDATA[c", "a <![CDATA[b]]> <![CDATA[c"),
    ],
)
def test_sections_inside_a_text_are_joined_and_an_open_one_is_text(value: str, meant: str) -> None:
    """XML 1.0 section 2.7."""
    text = f"<tool_call><name>read</name><params><path>{value}</path></params></tool_call>"

    assert read(dialect("xml"), text) == [("read", {"path": meant})]


def test_a_comment_that_never_ends_is_cut_off() -> None:
    message = dialect("xml").decode_message(
        "<tool_call><name>read</name><!-- and so <params></params></tool_call>", KIT
    )

    assert (message.calls, message.stop) == ((), "length")


NEARLY = {
    "spaced": "< tool_call >< name > read < / name ><params><path>a.txt</path></params>< / tool_call >",
    "hyphens": "<tool-call><tool-name>read</tool-name><params><path>a.txt</path></params></tool-call>",
    "invisible": "<tool_call>\u200b<name>read</name>\ufeff<params><path>a.txt</path></params>\u2060</tool_call>",
    "tool-params": "<tool_call><tool_name>read</tool_name><tool_params><path>a.txt</path></tool_params></tool_call>",
    "args": "<tool_call><name>read</name><args><path>a.txt</path></args></tool_call>",
    "tool-input": '<tool_call><name>read</name><tool_input>{"path": "a.txt"}</tool_input></tool_call>',
}


@pytest.mark.parametrize("spoken", ["xml", "text"])
@pytest.mark.parametrize("kind", list(NEARLY))
def test_a_call_that_is_nearly_right_is_read_streamed_in_pieces_too(kind: str, spoken: str) -> None:
    form, kit = dialect(spoken), FakeKit(tool("read", path="string"))

    message = form.decode_message(NEARLY[kind], kit)

    assert [(c.name, c.arguments) for c in message.calls] == [("read", {"path": "a.txt"})]
    assert message.text == ""
    for size in (1, 3, 1000):
        stream = form.stream(kit)
        deltas = [
            d for n in range(0, len(NEARLY[kind]), size) for d in stream.feed(NEARLY[kind][n : n + size])
        ]
        deltas += stream.flush()
        assert stream.finish() == message
        assert not [d for d in deltas if isinstance(d, TextChunk)]


def test_a_parameter_that_is_called_like_a_container_stays_one() -> None:
    kit = FakeKit(tool("run", args="string"))

    (call,) = dialect("xml").decode("<tool_call><name>run</name><args>-v</args></tool_call>", kit)
    (unknown,) = dialect("xml").decode("<tool_call><name>other</name><args><x>1</x></args></tool_call>", kit)

    assert call.arguments == {"args": "-v"}
    assert list(unknown.arguments) == ["args"]


@pytest.mark.parametrize("spoken", ["xml", "text"])
@pytest.mark.parametrize(
    "reply",
    ['<tool_call>read path="a.txt"</tool_call>', "<tool_call>read\n<path>a.txt</path></tool_call>",
     "<tool_call> read: a.txt </tool_call>"],
)  # fmt: skip
def test_a_call_by_a_tools_name_that_cannot_be_read_is_told_and_not_lost(reply: str, spoken: str) -> None:
    form, kit = dialect(spoken), FakeKit(tool("read", path="string"))

    message = form.decode_message(reply, kit)

    assert message.calls == () and message.stop == "malformed"
    assert "could not be read" in form.feedback(reply, kit)


@pytest.mark.parametrize(
    "reply", ["The mark <tool_call>read begins a call.", "Use `<tool_call>` to read.", "a < tool_call > b"]
)
def test_a_mark_in_prose_is_no_lost_call(reply: str) -> None:
    form, kit = dialect("xml"), FakeKit(tool("read", path="string"))

    assert form.decode_message(reply, kit).stop == "end"
    assert form.decode_message(reply, kit).text == reply and form.feedback(reply, kit) == ""
