"""Codec: every event and message survives being written as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import Effect, ToolCall, ToolError
from pegboard.core.codec import (
    error_from_dict,
    event_from_dict,
    event_to_dict,
    message_from_dict,
    message_to_dict,
    result_from_dict,
    result_to_dict,
)
from pegboard.core.content import Audio, File, Image, Text
from pegboard.core.effects import EFFECT_KINDS, Change
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    CallUpdate,
    ConversationRewound,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    RunStarted,
    TextPiece,
    ThinkingPiece,
    UserSaid,
    UserTold,
)
from pegboard.core.result import Notes, ToolResult
from pegboard.core.transcript import AssistantMessage, Opaque, ResultsMessage, Thinking, Usage, UserMessage
from tests.ledger import owes

words = st.text(max_size=12)
leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | words
values = st.recursive(
    leaves, lambda v: st.lists(v, max_size=3) | st.dictionaries(words, v, max_size=3), max_leaves=8
)
tables = st.dictionaries(words, values, max_size=3)
raw = st.binary(max_size=12)
blocks = st.one_of(
    st.builds(Text, words),
    st.builds(Image, data=raw, mime_type=words, label=words),
    st.builds(Audio, data=raw, mime_type=words),
    st.builds(File, name=words, mime_type=words, data=st.none() | raw, uri=words),
)
effects = st.builds(
    Effect,
    st.sampled_from(EFFECT_KINDS),
    words,
    st.none() | st.lists(words, max_size=3).map(tuple),
    st.booleans(),
    st.sampled_from([None, "allow", "ask", "deny"]),
    words,
    words,
)
# Contents are left out of records (decisions 17), so a change comes back without them.
changes = st.builds(
    Change,
    path=words,
    kind=st.sampled_from(["create", "modify", "delete", "move"]),
    before=st.none(),
    after=st.none(),
    moved_to=st.none() | words,
    mode=st.none() | st.integers(0, 0o777),
    diff=words,
)
counts = st.integers(0, 10**9)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    requests=counts,
    cost_usd=st.none() | st.floats(0, 100),
)
notes = st.builds(
    Notes,
    duration_s=st.integers(0, 9).map(float),
    truncated=st.booleans(),
    spill=st.none() | words,
    labels=st.lists(words, max_size=2).map(tuple),
    repairs=st.lists(words, max_size=2).map(tuple),
    extra=st.dictionaries(words.map("x_{}".format), values, max_size=2),
)
results = st.builds(
    ToolResult,
    content=st.lists(blocks, max_size=3).map(tuple),
    data=values,
    notes=notes,
    call_id=words,
    tool=words,
)
parts = st.one_of(
    st.builds(Text, words),
    st.builds(Thinking, words, words),
    st.builds(Opaque, words, values),
    st.builds(ToolCall, st.none() | words, words, st.none() | words | tables, words),
)
users = st.builds(UserMessage, st.lists(blocks, max_size=3).map(tuple))
assistants = st.builds(
    AssistantMessage,
    content=st.lists(parts, max_size=4).map(tuple),
    stop=st.sampled_from(["end", "tools", "length", "refusal", "filtered", "error"]),
    usage=usages,
    model=words,
)
messages = st.one_of(users, assistants, st.builds(ResultsMessage, st.lists(results, max_size=2).map(tuple)))
many_effects, many_changes = (
    st.lists(effects, max_size=2).map(tuple),
    st.lists(changes, max_size=2).map(tuple),
)
events = st.one_of(
    st.builds(RunStarted, run=words, session=words, agent=words, model=words, task=words, detail=tables),
    st.builds(UserSaid, users),
    st.builds(UserTold, users),
    st.builds(ModelReplied, assistants),
    st.builds(TextPiece, words),
    st.builds(ThinkingPiece, words),
    st.builds(
        CallStarted,
        call_id=words,
        tool=words,
        arguments=tables,
        effects=many_effects,
        changes=many_changes,
        decision=st.sampled_from(["allow", "ask", "deny"]),
        rule=words,
        reason=words,
        approver=words,
        digest=words,
    ),
    st.builds(
        PermissionRequested,
        approval=words,
        call_id=words,
        tool=words,
        effects=many_effects,
        changes=many_changes,
        reason=words,
    ),
    st.builds(CallUpdate, call_id=words, tool=words, update=values),
    st.builds(CallFinished, results),
    st.builds(Notice, text=words, detail=tables),
    st.builds(ConversationRewound, words),
    st.builds(
        RunFinished,
        run=words,
        status=words,
        answer=words,
        pending=st.lists(tables, max_size=2).map(tuple),
        usage=usages,
        error=words,
        output=values,
    ),
)


@owes("G-03", "G-05")
@given(events)
def test_every_event_comes_back_from_json_as_it_was(event: Any) -> None:
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@owes("G-03")
@given(messages)
def test_every_message_comes_back_from_json_as_it_was(message: Any) -> None:
    assert message_from_dict(json.loads(json.dumps(message_to_dict(message)))) == message


def test_a_turn_whose_usage_names_fewer_figures_has_the_others_at_nothing() -> None:
    row = message_to_dict(AssistantMessage(usage=Usage(input_tokens=3, output_tokens=4)))
    row["usage"] = {"input_tokens": 3, "output_tokens": 4}

    back = message_from_dict(row)

    assert isinstance(back, AssistantMessage)
    assert back.usage == Usage(input_tokens=3, output_tokens=4)


def test_an_error_comes_back_with_its_code_and_details() -> None:
    error = ToolError("m", hint="h", code="odd", retryable=True, details={"k": {1, 2}})
    result = ToolResult.failed(error)

    back = result_from_dict(json.loads(json.dumps(result_to_dict(result))))

    assert back.error is not None
    assert back.error.to_dict() == {
        "code": "odd",
        "message": "m",
        "hint": "h",
        "retryable": True,
        "details": {"k": [1, 2]},
    }
    assert back.text == result.text
    assert "details" not in error_from_dict(ToolError("m").to_dict()).to_dict()


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (event_from_dict, {"type": "run.exploded"}, "run.exploded"),
        (message_from_dict, {"role": "system"}, "system"),
        (message_from_dict, {"role": "user", "content": [{"type": "smell"}]}, "smell"),
    ],
)
def test_unknown_kinds_are_refused_by_name(read: Any, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(value)


def test_contents_of_files_are_not_written() -> None:
    change = Change(path="a", kind="modify", before=b"secret before", after=b"secret after", diff="d")

    told = json.dumps(event_to_dict(CallStarted(call_id="c", tool="t", arguments={}, changes=(change,))))

    assert "secret" not in told


@pytest.mark.parametrize(
    "event",
    [
        TextPiece("a"),
        ThinkingPiece("b"),
        CallUpdate(call_id="c", tool="t", update={"n": 1}),
        Notice(text="n", detail={"k": 1}),
        RunFinished(run="r", status="done", answer="a", error="e", output={"o": 1}),
        RunFinished(run="r", status="done", answer="a"),
        ModelReplied(
            AssistantMessage(
                content=(Text("a"), Thinking("t", "s"), Opaque("x", {"y": 1}), ToolCall("1", "n", {"a": 1}))
            )
        ),
        PermissionRequested(
            approval="a",
            call_id="c",
            tool="t",
            effects=(
                Effect("exec", "x", ("x",), True, "ask", "why"),
                Effect("read", "a"),
                Effect("exec", "sh a", ("sh", "a"), bound="a sha256:00"),
                Effect("exec", "man -P x", ("man", "-P", "x"), at_least="ask", decisive=("x",)),
            ),
            changes=(Change(path="a", kind="create", before=None, after=None, mode=0o600),),
        ),
        CallFinished(ToolResult(content=(File(name="f", mime_type="m"), Image(data=b"i", mime_type="m")))),
        UserSaid(UserMessage((Audio(data=b"s", mime_type="m"),))),
    ],
    ids=lambda e: e.type,
)
def test_an_event_of_each_kind_comes_back(event: Any) -> None:
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_a_message_of_results_comes_back() -> None:
    message = ResultsMessage((ToolResult.from_text("a", data=1),))

    assert message_from_dict(message_to_dict(message)) == message
