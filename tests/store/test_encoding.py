"""What is kept of events: no secret, and what cannot be written takes no other with it."""

from __future__ import annotations

from typing import Any

from pegboard import Effect, ToolCall
from pegboard.core.content import Text
from pegboard.core.effects import Change
from pegboard.core.events import (
    CallStarted,
    Event,
    ModelReplied,
    Notice,
    PermissionRequested,
    RunFinished,
    RunStarted,
    UserSaid,
)
from pegboard.core.secrets.redact import Redactor
from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.store.chain import Chain
from pegboard.store.encoding import encode, encode_all
from pegboard.store.log import Log, decode_events
from pegboard.store.memory import MemoryStore
from tests.ledger import owes

CHAIN = Chain(key=b"k" * 32)


@owes("G-11")
async def test_what_is_kept_of_calls_questions_and_words_holds_no_secret() -> None:
    value, token = "kn0wn-secret-Value", "gh" + "p_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAaB3d"
    store = MemoryStore()
    log = await Log.open(store, "s", chain=CHAIN, redact=Redactor({"k": value}).redact)
    effect = Effect("exec", f"echo {value}", ("echo", value))
    change = Change(path=f"a/{value}", kind="create", before=None, after=None, diff=f"+{token}")
    events: list[Event] = [
        RunStarted(run="r", session="s", agent="a", model="m", task=f"use {token}"),
        UserSaid(UserMessage.of(f"my key is {token}")),
        ModelReplied(
            AssistantMessage(
                content=(Text(value), ToolCall("c", "exec", {"command": f"echo {value}", token: 1}))
            )
        ),
        PermissionRequested(
            approval="ap",
            call_id="c",
            tool="exec",
            effects=(effect,),
            changes=(change,),
            reason=f"why {value}",
        ),
        CallStarted(
            call_id="c",
            tool="exec",
            arguments={"command": f"echo {value}"},
            effects=(effect,),
            changes=(change,),
        ),
        Notice(text=f"a\n{value}", detail={"x": [token]}),
        RunFinished(run="r", status="done", answer=token),
    ]
    for event in events:
        log.record(event)
    await log.close()

    records = await store.read("s")
    bodies = [r.body or b"" for r in records]
    assert len(bodies) == len(events)
    assert not [b for b in bodies if value.encode() in b or token.encode() in b]
    assert [type(e) for e in decode_events(records)] == [type(e) for e in events]
    assert all(b"[redacted:" in b for b in bodies)


def test_an_event_without_a_secret_is_kept_as_it_is() -> None:
    event = CallStarted(call_id="c", tool="t", arguments={"path": "a.py", "n": [1, None, 2.5, True]})

    assert encode(event, Redactor({"k": "kn0wn-secret-Value"}).redact) == encode(event)


@owes("G-11")
def test_a_secret_anywhere_in_a_batch_is_found_and_changes_no_other_record() -> None:
    value = "kn0wn-secret-Value"
    held: dict[str, Any] = {}
    held["itself"] = held
    events: list[Event] = [Notice(text=f"n{n}") for n in range(200)]
    events[0] = Notice(text="first", detail={value: 1})
    events[70] = UserSaid(UserMessage.of(f"a {value} b"))
    events[130] = Notice(text=f"\ud800 {value}", detail=held)
    events[140] = Notice(text="\ud800")
    events[199] = Notice(text=value[:9] + value[9:])

    bodies = encode_all(events, Redactor({"k": value}).redact)

    for n in set(range(200)) - {0, 70, 130, 140, 199}:
        assert bodies[n] == b'{"type":"notice","text":"n%d","detail":{}}' % n
    assert not [b for b in bodies if value.encode() in b]
    for n in (0, 70, 199):
        assert b"[redacted:" in bodies[n]
    assert b"not kept: RecursionError" in bodies[130]
    assert bodies[140] == '{"type":"notice","text":"\ufffd","detail":{}}'.encode()
